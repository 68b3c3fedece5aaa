//! The one place that orchestrates: index → memory → staging → upstream.
//!
//! Knows no HTTP. Both faces speak to [`Store`].

mod error;
mod policy;
mod request;

use std::sync::Arc;

use blockgate_block::{Arena, BlockKey, ObjectInfo};
use blockgate_index::Index;
use blockgate_telemetry::Metrics;
use blockgate_tier::memory::MemoryTier;
use blockgate_upstream::{
    BucketInfo, ListPage, ListRequest, PartList, Payload, UploadList, UploadListRequest, Upstream,
};

pub use error::{Result, StoreError};
pub use policy::{BucketPolicies, BucketPolicy, Mode, OnUpstreamError, WriteMode};
pub use request::{
    Body, CompletePart, CopyObject, Found, PartCopy, RangeSpec, ReadRequest, Served, WriteRequest, Written,
};

/// What a store is made of.
pub struct StoreParts {
    /// The shared store.
    pub upstream: Arc<dyn Upstream>,
    /// Where memory blocks lie.
    pub arena: Arena,
    /// Most entries of the index.
    pub index_entries: u64,
    /// How long an absence is remembered.
    pub negative_ttl: std::time::Duration,
    /// Settings by bucket name.
    pub policies: BucketPolicies,
    /// Where outcomes are counted.
    pub metrics: Metrics,
}

/// Blocks, wherever they are.
pub struct Store;

#[allow(clippy::todo, unused, missing_docs)]
impl Store {
    /// Must be called within a tokio runtime.
    pub fn new(parts: StoreParts) -> Arc<Self> {
        todo!()
    }
    pub fn upstream(&self) -> &Arc<dyn Upstream> {
        todo!()
    }
    pub fn policy(&self, bucket: &str) -> &BucketPolicy {
        todo!()
    }
    /// Waits for uploads that were acknowledged before they were made (`write = "async"`).
    pub async fn drain(&self) {
        todo!()
    }

    pub async fn get(&self, key: &BlockKey, request: ReadRequest) -> Result<Served> {
        todo!()
    }
    pub async fn head(&self, key: &BlockKey, request: ReadRequest) -> Result<Found> {
        todo!()
    }
    pub async fn put(&self, key: &BlockKey, request: WriteRequest, payload: Payload) -> Result<Written> {
        todo!()
    }
    pub async fn delete(&self, key: &BlockKey) -> Result<()> {
        todo!()
    }
    /// Outcomes in the order asked.
    pub async fn delete_many(&self, keys: &[BlockKey]) -> Result<Vec<Result<()>>> {
        todo!()
    }
    pub async fn copy(&self, request: CopyObject) -> Result<Written> {
        todo!()
    }
    /// As the upstream lists, block ETags where known.
    pub async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        todo!()
    }
    pub async fn tags(&self, key: &BlockKey) -> Result<Vec<(String, String)>> {
        todo!()
    }
    pub async fn set_tags(&self, key: &BlockKey, tags: Vec<(String, String)>) -> Result<()> {
        todo!()
    }

    pub async fn create_multipart(&self, key: &BlockKey, request: WriteRequest) -> Result<String> {
        todo!()
    }
    /// The part's ETag without quotes.
    pub async fn upload_part(&self, key: &BlockKey, upload_id: &str, number: u32, payload: Payload) -> Result<String> {
        todo!()
    }
    pub async fn upload_part_copy(&self, request: PartCopy) -> Result<Written> {
        todo!()
    }
    pub async fn complete_multipart(
        &self,
        key: &BlockKey,
        upload_id: &str,
        parts: Vec<CompletePart>,
        request: WriteRequest,
    ) -> Result<Written> {
        todo!()
    }
    pub async fn abort_multipart(&self, key: &BlockKey, upload_id: &str) -> Result<()> {
        todo!()
    }
    pub async fn list_parts(&self, key: &BlockKey, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        todo!()
    }
    pub async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        todo!()
    }

    pub async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        todo!()
    }
    pub async fn create_bucket(&self, bucket: &str) -> Result<()> {
        todo!()
    }
    pub async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        todo!()
    }
    pub async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        todo!()
    }
}
