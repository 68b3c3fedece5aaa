//! Decorators state what they change, and nothing else.

use std::future::Future;
use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;
use blockgate_block::{Attributes, BlockRecord, ObjectInfo};

use crate::{
    BucketInfo, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListPage, ListRequest, MultipartRequest,
    PartCopyRequest, PartList, PartRef, Payload, PutRequest, Result, Stored, UploadList, UploadListRequest, Upstream,
};

/// A call of [`Upstream`] that may fail.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Ping,
    ListBuckets,
    CreateBucket,
    DeleteBucket,
    HeadBucket,
    Head,
    Get,
    Put,
    Delete,
    DeleteMany,
    Copy,
    List,
    Tags,
    SetTags,
    CreateMultipart,
    UploadPart,
    UploadPartCopy,
    CompleteMultipart,
    AbortMultipart,
    ListParts,
    ListUploads,
}

impl Op {
    /// Its name for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::ListBuckets => "list_buckets",
            Self::CreateBucket => "create_bucket",
            Self::DeleteBucket => "delete_bucket",
            Self::HeadBucket => "head_bucket",
            Self::Head => "head",
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::DeleteMany => "delete_many",
            Self::Copy => "copy",
            Self::List => "list",
            Self::Tags => "tags",
            Self::SetTags => "set_tags",
            Self::CreateMultipart => "create_multipart",
            Self::UploadPart => "upload_part",
            Self::UploadPartCopy => "upload_part_copy",
            Self::CompleteMultipart => "complete_multipart",
            Self::AbortMultipart => "abort_multipart",
            Self::ListParts => "list_parts",
            Self::ListUploads => "list_uploads",
        }
    }
}

/// An [`Upstream`] that is another one, but for what it overrides: every call goes to [`Self::inner`], by [`Self::around`].
///
/// Not for one that gives objects other names: a call that it forgot to translate would be of another object.
#[async_trait]
#[allow(missing_docs)] // as in `Upstream`
pub trait Decorator: Send + Sync + 'static {
    /// What is decorated.
    fn inner(&self) -> &dyn Upstream;

    /// What becomes of a call that is not overridden; `call` has not begun, and does nothing where it is dropped.
    fn around<T: Send>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        let _ = op;
        call
    }

    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    fn now(&self) -> SystemTime {
        self.inner().now()
    }

    async fn ping(&self) -> Result<()> {
        self.around(Op::Ping, self.inner().ping()).await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.around(Op::ListBuckets, self.inner().list_buckets()).await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        self.around(Op::CreateBucket, self.inner().create_bucket(bucket)).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.around(Op::DeleteBucket, self.inner().delete_bucket(bucket)).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.around(Op::HeadBucket, self.inner().head_bucket(bucket)).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        self.around(Op::Head, self.inner().head(bucket, key, conditions)).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        self.around(Op::Get, self.inner().get(bucket, key, range, conditions)).await
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        self.around(Op::Put, self.inner().put(bucket, key, request, payload)).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.around(Op::Delete, self.inner().delete(bucket, key)).await
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        self.around(Op::DeleteMany, self.inner().delete_many(bucket, keys)).await
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        self.around(Op::Copy, self.inner().copy(request)).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        self.around(Op::List, self.inner().list(bucket, request)).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        self.around(Op::Tags, self.inner().tags(bucket, key)).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        self.around(Op::SetTags, self.inner().set_tags(bucket, key, tags)).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        self.around(Op::CreateMultipart, self.inner().create_multipart(bucket, key, request)).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        self.around(Op::UploadPart, self.inner().upload_part(bucket, key, upload_id, number, payload)).await
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        self.around(Op::UploadPartCopy, self.inner().upload_part_copy(request)).await
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
        self.around(
            Op::CompleteMultipart,
            self.inner().complete_multipart(bucket, key, upload_id, parts, conditions, record),
        )
        .await
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        self.around(Op::AbortMultipart, self.inner().abort_multipart(bucket, key, upload_id)).await
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        self.around(Op::ListParts, self.inner().list_parts(bucket, key, upload_id, after, limit)).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        self.around(Op::ListUploads, self.inner().list_uploads(bucket, request)).await
    }
}

#[async_trait]
impl<D: Decorator> Upstream for D {
    fn name(&self) -> &'static str {
        Decorator::name(self)
    }

    fn capabilities(&self) -> Capabilities {
        Decorator::capabilities(self)
    }

    fn now(&self) -> SystemTime {
        Decorator::now(self)
    }

    async fn ping(&self) -> Result<()> {
        Decorator::ping(self).await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        Decorator::list_buckets(self).await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        Decorator::create_bucket(self, bucket).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        Decorator::delete_bucket(self, bucket).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        Decorator::head_bucket(self, bucket).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        Decorator::head(self, bucket, key, conditions).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        Decorator::get(self, bucket, key, range, conditions).await
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        Decorator::put(self, bucket, key, request, payload).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        Decorator::delete(self, bucket, key).await
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        Decorator::delete_many(self, bucket, keys).await
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        Decorator::copy(self, request).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        Decorator::list(self, bucket, request).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        Decorator::tags(self, bucket, key).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        Decorator::set_tags(self, bucket, key, tags).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        Decorator::create_multipart(self, bucket, key, request).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        Decorator::upload_part(self, bucket, key, upload_id, number, payload).await
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        Decorator::upload_part_copy(self, request).await
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
        Decorator::complete_multipart(self, bucket, key, upload_id, parts, conditions, record).await
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        Decorator::abort_multipart(self, bucket, key, upload_id).await
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        Decorator::list_parts(self, bucket, key, upload_id, after, limit).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        Decorator::list_uploads(self, bucket, request).await
    }
}
