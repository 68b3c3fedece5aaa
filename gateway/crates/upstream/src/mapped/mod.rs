//! Keys that stores fold, merge or refuse, kept apart by giving them other names.
//!
//! The rule is in [`name`] and in `docs/adr/0002-key-mapping.md`. It is the same for every store, so that gateways in front of
//! different stores, and tools that copy from one to another, agree.

mod list;
mod name;
mod order64;
#[cfg(test)]
mod tests;
mod uploads;

use std::borrow::Cow;
use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blockgate_block::{Attributes, BlockRecord, ObjectInfo};

use crate::{
    BucketInfo, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListPage, ListRequest, MultipartRequest,
    PartCopyRequest, PartList, PartRef, Payload, PutRequest, Result, Stored, UploadList, UploadListRequest, Upstream,
    UpstreamError,
};
use name::{LONG, Name, SHORT, name_of};

/// User metadata that holds, in base64, the key of an object whose name can't.
const KEY_META: &str = "blockgate-key";

/// An upstream that keeps every key, on top of one that may not.
#[derive(Clone, Debug)]
pub struct Mapped<U> {
    inner: U,
}

impl<U: Upstream> Mapped<U> {
    /// Maps the keys of `inner`.
    pub const fn new(inner: U) -> Self {
        Self { inner }
    }

    /// The upstream below, which knows names instead of keys.
    pub const fn inner(&self) -> &U {
        &self.inner
    }

    /// Reads a description as that of `key`.
    fn described(key: &str, mut info: ObjectInfo) -> Result<ObjectInfo> {
        if matches!(name_of(key), Name::Long(_)) {
            let told = info.attributes.user.remove(KEY_META);
            if told != Some(BASE64.encode(key)) {
                return Err(UpstreamError::Damaged("an object does not say that it has the key asked for".to_owned()));
            }
        }
        Ok(info)
    }
}

/// The name under which a key's object is stored, for operations that are passed through to the store.
#[must_use]
pub fn stored_name(key: &str) -> String {
    name_of(key).as_str().to_owned()
}

/// The attributes that an object of this key is stored with.
fn with_key<'a>(key: &str, attributes: &'a Attributes) -> Cow<'a, Attributes> {
    let mut attributes = Cow::Borrowed(attributes);
    if matches!(name_of(key), Name::Long(_)) {
        attributes.to_mut().user.insert(KEY_META.to_owned(), BASE64.encode(key));
    }
    attributes
}

#[async_trait]
impl<U: Upstream> Upstream for Mapped<U> {
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
        for names in [SHORT, LONG] {
            let any = ListRequest { prefix: names.to_owned(), limit: 1, ..ListRequest::default() };
            if !self.inner.list(bucket, &any).await?.entries.is_empty() {
                return Err(UpstreamError::BucketNotEmpty);
            }
        }
        self.inner.delete_bucket(bucket).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.inner.head_bucket(bucket).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        Self::described(key, self.inner.head(bucket, name_of(key).as_str(), conditions).await?)
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        let reply = self.inner.get(bucket, name_of(key).as_str(), range, conditions).await?;
        Ok(GetReply { info: Self::described(key, reply.info)?, ..reply })
    }

    async fn put(&self, bucket: &str, key: &str, mut request: PutRequest, payload: Payload) -> Result<Stored> {
        request.attributes = with_key(key, &request.attributes).into_owned();
        self.inner.put(bucket, name_of(key).as_str(), request, payload).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.inner.delete(bucket, name_of(key).as_str()).await
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        let names: Vec<_> = keys.iter().map(|key| name_of(key).as_str().to_owned()).collect();
        self.inner.delete_many(bucket, &names).await
    }

    async fn copy(&self, mut request: CopyRequest) -> Result<Stored> {
        request.attributes = with_key(&request.key, &request.attributes).into_owned();
        request.source_key = name_of(&request.source_key).as_str().to_owned();
        request.key = name_of(&request.key).as_str().to_owned();
        self.inner.copy(request).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        self.merged(bucket, request).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        self.inner.tags(bucket, name_of(key).as_str()).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        self.inner.set_tags(bucket, name_of(key).as_str(), tags).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, mut request: MultipartRequest) -> Result<String> {
        request.attributes = with_key(key, &request.attributes).into_owned();
        self.note_upload(bucket, key).await?;
        self.inner.create_multipart(bucket, name_of(key).as_str(), request).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        self.inner.upload_part(bucket, name_of(key).as_str(), upload_id, number, payload).await
    }

    async fn upload_part_copy(&self, mut request: PartCopyRequest) -> Result<Stored> {
        request.source_key = name_of(&request.source_key).as_str().to_owned();
        request.key = name_of(&request.key).as_str().to_owned();
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
        let name = name_of(key);
        let attributes = record.map(|(attributes, _)| with_key(key, attributes));
        let record = record.zip(attributes.as_deref()).map(|((_, record), attributes)| (attributes, record));
        let stored = self.inner.complete_multipart(bucket, name.as_str(), upload_id, parts, conditions, record).await?;
        self.forget_upload(bucket, key).await;
        Ok(stored)
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        self.inner.abort_multipart(bucket, name_of(key).as_str(), upload_id).await?;
        self.forget_upload(bucket, key).await;
        Ok(())
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        self.inner.list_parts(bucket, name_of(key).as_str(), upload_id, after, limit).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        self.merged_uploads(bucket, request).await
    }
}
