//! An upstream on which a block of a group is there only once its group was committed.
//!
//! Each block of a group carries the group's id in its record. The group is committed by one object of its own, written
//! after all of them: until that is there, none of them is. Every path by which a gateway learns what an object is leads
//! through here, so that none can forget to ask.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use blockgate_block::{Attributes, BlockKey, BlockRecord, GroupId, ObjectInfo};
use blockgate_upstream::{
    BucketInfo, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListPage, ListRequest, MultipartRequest,
    PartCopyRequest, PartList, PartRef, Payload, PutRequest, Result, Stored, UploadList, UploadListRequest, Upstream,
    UpstreamError,
};

use crate::commits::Commits;

/// An upstream that shows no block of a group that was not committed.
pub(crate) struct Grouped {
    inner: Arc<dyn Upstream>,
    commits: Arc<Commits>,
}

/// What lies at a key.
pub(crate) enum Lying {
    /// Nothing.
    Nothing,
    /// A block of a group that was not committed: nothing, to clients.
    Uncommitted(ObjectInfo),
    /// An object.
    Object(ObjectInfo),
}

impl Grouped {
    pub(crate) fn new(inner: Arc<dyn Upstream>, commits: Arc<Commits>) -> Self {
        Self { inner, commits }
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// What lies at a key now, by no memory of what is not there.
    pub(crate) async fn lies_at(&self, key: &BlockKey) -> Result<Lying> {
        let info = match self.inner.head(key.bucket(), key.key(), &Conditions::default()).await {
            Err(UpstreamError::NoSuchKey) => return Ok(Lying::Nothing),
            info => info?,
        };
        let is_there = match group_of(&info) {
            Some(group) => self.commits.ask(key.bucket(), group).await?,
            None => true,
        };
        Ok(if is_there { Lying::Object(info) } else { Lying::Uncommitted(info) })
    }

    /// [`UpstreamError::NoSuchKey`] for an object that is not there to clients.
    async fn judged(&self, bucket: &str, info: ObjectInfo) -> Result<ObjectInfo> {
        match group_of(&info) {
            Some(group) if !self.commits.is_committed(bucket, group).await? => Err(UpstreamError::NoSuchKey),
            _ => Ok(info),
        }
    }
}

fn group_of(info: &ObjectInfo) -> Option<GroupId> {
    info.record.and_then(|record| record.group)
}

#[async_trait]
impl Upstream for Grouped {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn now(&self) -> SystemTime {
        self.inner.now()
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.inner.list_buckets().await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        self.inner.create_bucket(bucket).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.inner.delete_bucket(bucket).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.inner.head_bucket(bucket).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        let info = self.inner.head(bucket, key, conditions).await?;
        self.judged(bucket, info).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        let reply = self.inner.get(bucket, key, range, conditions).await?;
        let info = self.judged(bucket, reply.info).await?;
        Ok(GetReply { info, ..reply })
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        self.inner.put(bucket, key, request, payload).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.inner.delete(bucket, key).await
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        self.inner.delete_many(bucket, keys).await
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        self.inner.copy(request).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        self.inner.list(bucket, request).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        self.inner.tags(bucket, key).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        self.inner.set_tags(bucket, key, tags).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        self.inner.create_multipart(bucket, key, request).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        self.inner.upload_part(bucket, key, upload_id, number, payload).await
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        self.inner.upload_part_copy(request).await
    }

    async fn complete_multipart(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        parts: &[PartRef],
        conditions: &Conditions,
        record: Option<(&Attributes, BlockRecord)>,
    ) -> Result<Stored> {
        self.inner.complete_multipart(bucket, key, upload_id, parts, conditions, record).await
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        self.inner.abort_multipart(bucket, key, upload_id).await
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        self.inner.list_parts(bucket, key, upload_id, after, limit).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        self.inner.list_uploads(bucket, request).await
    }
}
