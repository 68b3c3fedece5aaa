//! An S3 store as upstream: AWS, FlashBlade, MinIO, Ceph, SeaweedFS …
//!
//! Keys go to the store as they are; stores that fold or refuse some need [`Mapped`](crate::Mapped) around this.

mod body;
mod bucket;
mod client;
mod clock;
mod copy;
mod error;
mod list;
mod meta;
mod multipart;
mod object;
mod probe;
mod seen;
mod settings;

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use blockgate_block::{Attributes, BlockRecord, ObjectInfo};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use crate::{
    BucketInfo, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListPage, ListRequest, MultipartRequest,
    PartCopyRequest, PartList, PartRef, Payload, PutRequest, Result, Stored, UploadList, UploadListRequest, Upstream,
    UpstreamError,
};
use clock::StoreClock;
use error::{Subject, mapped};
use probe::Abilities;
use seen::BucketsSeen;
pub use settings::S3Settings;

/// An S3 store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct S3Upstream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: aws_sdk_s3::Client,
    settings: S3Settings,
    clock: StoreClock,
    permits: Arc<Semaphore>,
    capabilities: OnceCell<Abilities>,
    seen: BucketsSeen,
}

impl S3Upstream {
    /// The SDK's client, for operations that need nothing of what is done here.
    #[must_use]
    pub fn client(&self) -> aws_sdk_s3::Client {
        self.inner.client.clone()
    }

    fn sdk(&self) -> &aws_sdk_s3::Client {
        &self.inner.client
    }

    /// Leave to send one request; held until it is answered.
    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let acquire = self.inner.permits.clone().acquire_owned();
        match tokio::time::timeout(self.inner.settings.operation_timeout, acquire).await {
            Ok(Ok(permit)) => Ok(permit),
            // Too many requests wait for the store, which is what a store that asks to slow down would have said.
            _ => Err(UpstreamError::SlowDown),
        }
    }

    /// Sends a request under a permit, and names what went wrong.
    async fn call<T, E>(
        &self,
        subject: Subject,
        send: impl Future<Output = std::result::Result<T, SdkError<E, HttpResponse>>> + Send,
    ) -> Result<T>
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let _permit = self.permit().await?;
        send.await.map_err(|error| mapped(&error, subject))
    }

    fn saw(&self, bucket: &str) {
        self.inner.seen.saw(bucket, self.local_now());
    }
}

#[async_trait]
impl Upstream for S3Upstream {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities.get().copied().unwrap_or_default().into()
    }

    fn now(&self) -> SystemTime {
        self.inner.clock.now()
    }

    async fn ping(&self) -> Result<()> {
        self.ping_store().await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.all_buckets().await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        self.make_bucket(bucket).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.remove_bucket(bucket).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.describe_bucket(bucket).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        self.head_object(bucket, key, conditions).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        self.get_object(bucket, key, range, conditions).await
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        self.put_object(bucket, key, request, payload).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.delete_object(bucket, key).await
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        self.delete_objects(bucket, keys).await
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        self.copy_object(request).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        self.list_objects(bucket, request).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        self.object_tags(bucket, key).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        self.set_object_tags(bucket, key, tags).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        self.begin_upload(bucket, key, request).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        self.put_part(bucket, key, upload_id, number, payload).await
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        self.copy_part(request).await
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
        self.complete_upload(bucket, key, upload_id, parts, conditions, record).await
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        self.abort_upload(bucket, key, upload_id).await
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        self.stored_parts(bucket, key, upload_id, after, limit).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        self.unfinished_uploads(bucket, request).await
    }
}
