//! An upstream whose every call is timed and counted, and that is left alone while it does not answer.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use blockgate_block::{Attributes, BlockRecord, ObjectInfo};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{
    Breaker, BreakerLimits, BucketInfo, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListPage,
    ListRequest, MultipartRequest, PartCopyRequest, PartList, PartRef, Payload, PutRequest, Result, Stored, UploadList,
    UploadListRequest, Upstream, UpstreamError,
};
use tokio::time::Instant;

pub(crate) struct Observed {
    inner: Arc<dyn Upstream>,
    breaker: Breaker,
    metrics: Metrics,
}

/// Calls that are answered soon whatever the objects' size: what is silent for long on them is out.
const BRIEF: [&str; 5] = ["head", "get", "head_bucket", "tags", "delete"];
/// Calls whose failure nobody else tells the operator of.
const WRITES: [&str; 6] = ["put", "delete", "delete_many", "copy", "upload_part", "complete_multipart"];

impl Observed {
    pub(crate) fn new(inner: Arc<dyn Upstream>, metrics: Metrics) -> Self {
        let breaker = Breaker::new(Arc::clone(&inner), BreakerLimits::default());
        let shown = breaker.clone();
        metrics.observe("blockgate_upstream_breaker_open", "1 while calls to the upstream fail at once.", move || {
            f64::from(u8::from(shown.is_open()))
        });
        Self { inner, breaker, metrics }
    }

    /// The answer, unless the upstream turns out to be silent.
    async fn answer_or_silence<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        tokio::select! {
            biased;
            result = call => result,
            () = self.breaker.opened() => Err(UpstreamError::Unavailable("it does not answer".into())),
        }
    }

    /// The time of a read is that until its body begins.
    async fn timed<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let begun = Instant::now();
        let is_brief = BRIEF.contains(&operation);
        let result = match self.breaker.admit(is_brief) {
            Ok(admitted) => {
                let result = if is_brief { self.answer_or_silence(call).await } else { call.await };
                admitted.ended(result.as_ref().map(|_| ()));
                result
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &result
            && error.is_outage()
            && WRITES.contains(&operation)
        {
            tracing::warn!(operation, %error, "a write failed at the upstream");
        }
        let outcome = match &result {
            Ok(_) => "ok",
            Err(UpstreamError::NoSuchKey) => "absent",
            Err(error) if error.is_outage() => "outage",
            Err(_) => "refused",
        };
        self.metrics.upstream_call(operation, outcome, begun.elapsed());
        result
    }
}

#[async_trait]
impl Upstream for Observed {
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
        self.timed("ping", self.inner.ping()).await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.timed("list_buckets", self.inner.list_buckets()).await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        self.timed("create_bucket", self.inner.create_bucket(bucket)).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.timed("delete_bucket", self.inner.delete_bucket(bucket)).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.timed("head_bucket", self.inner.head_bucket(bucket)).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        self.timed("head", self.inner.head(bucket, key, conditions)).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        self.timed("get", self.inner.get(bucket, key, range, conditions)).await
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        self.timed("put", self.inner.put(bucket, key, request, payload)).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.timed("delete", self.inner.delete(bucket, key)).await
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        self.timed("delete_many", self.inner.delete_many(bucket, keys)).await
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        self.timed("copy", self.inner.copy(request)).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        self.timed("list", self.inner.list(bucket, request)).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        self.timed("tags", self.inner.tags(bucket, key)).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        self.timed("set_tags", self.inner.set_tags(bucket, key, tags)).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        self.timed("create_multipart", self.inner.create_multipart(bucket, key, request)).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        self.timed("upload_part", self.inner.upload_part(bucket, key, upload_id, number, payload)).await
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        self.timed("upload_part_copy", self.inner.upload_part_copy(request)).await
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
        let call = self.inner.complete_multipart(bucket, key, upload_id, parts, conditions, record);
        self.timed("complete_multipart", call).await
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        self.timed("abort_multipart", self.inner.abort_multipart(bucket, key, upload_id)).await
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        self.timed("list_parts", self.inner.list_parts(bucket, key, upload_id, after, limit)).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        self.timed("list_uploads", self.inner.list_uploads(bucket, request)).await
    }
}
