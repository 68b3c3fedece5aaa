//! Buckets: the upstream's.

use blockgate_upstream::{BucketInfo, UpstreamError};

use crate::{Result, Store, StoreError};

/// Every operation may fail with [`StoreError::Upstream`].
impl Store {
    /// All buckets in order of name.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        Ok(self.core.upstream.list_buckets().await?)
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn create_bucket(&self, bucket: &str) -> Result<()> {
        Ok(self.core.upstream.create_bucket(bucket).await?)
    }

    /// Removes an empty bucket.
    ///
    /// # Errors
    /// Only the upstream's. Blocks that wait for their upload count: staged ones make it
    /// [`blockgate_upstream::UpstreamError::BucketNotEmpty`], others are waited for.
    pub async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        if self.core.writeback.has_any_of(bucket) {
            return Err(StoreError::Upstream(UpstreamError::BucketNotEmpty));
        }
        if self.core.backlog.bytes() > 0 && self.core.policy(bucket).is_kv() {
            self.core.backlog.drained().await;
        }
        self.core.buckets.invalidate(bucket);
        self.core.buckets_seen.forget(bucket);
        Ok(self.core.upstream.delete_bucket(bucket).await?)
    }

    /// Whether a bucket is there.
    ///
    /// # Errors
    /// Only the upstream's.
    pub async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        Ok(self.core.upstream.head_bucket(bucket).await?)
    }
}
