//! The way of a block into the log.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::BlockKey;
use blockgate_staging::{NewBlock, PutError, Staging, Version};
use blockgate_upstream::UpstreamError;
use tokio::time::Instant;

use super::queue::Pending;
use crate::body::TakenIn;
use crate::core::Core;
use crate::ttl::record_of;
use crate::write::{block_info, written};
use crate::{Result, StoreError, WriteMode, WriteRequest, Written};

/// How long one who waits for room waits for news before it looks again: reclaiming frees room without any.
const ROOM_LOOK_PAUSE: Duration = Duration::from_millis(100);

impl Core {
    /// Stages a block and acknowledges it, where its bucket is written back; none where it must go through: one with
    /// conditions, which only the upstream can judge, or which staging does not take.
    pub(crate) async fn put_back(
        &self,
        key: &BlockKey,
        request: &WriteRequest,
        body: &TakenIn,
        ttl: Option<Duration>,
    ) -> Result<Option<Written>> {
        let is_written_back = self.policy(key.bucket()).write == WriteMode::Back && request.conditions.is_empty();
        let Some(staging) = self.staging().filter(|_| is_written_back) else { return Ok(None) };
        self.expect_bucket(key.bucket()).await?;
        let write = self.keys.write(key).await;
        let record = record_of(body.crc64, body.len_bytes, self.upstream.now(), ttl);
        let info = Arc::new(block_info(record, String::new(), request.attributes.clone(), request.tags.len()));
        let tags = request.tags.clone();
        let block = NewBlock {
            key: key.clone(),
            info: Arc::clone(&info),
            tags: tags.clone(),
            bytes: body.bytes4k(),
            pending: true,
        };
        let Some(version) = self.find_room(staging, block).await? else {
            // Nothing has changed.
            write.end(|_| {});
            return Ok(None);
        };
        // Before the write ends: an upload of what was there before, ending meanwhile, must see that it is out of date.
        self.writeback.add(Pending { key: key.clone(), info: Arc::clone(&info), tags, version }, false);
        write.end(|tiers| tiers.install(key, &info, body.block()));
        Ok(Some(written(&info)))
    }

    /// Puts a block into the log, and waits for room for a while; none where it must go through.
    async fn find_room(&self, staging: &Staging, block: NewBlock) -> Result<Option<Version>> {
        let until = Instant::now() + self.limits.heap_wait;
        loop {
            match staging.put(block.clone()).await {
                Ok(version) => {
                    self.writeback.found_room();
                    return Ok(Some(version));
                }
                Err(PutError::Full) => {}
                Err(error @ (PutError::Off(_) | PutError::Unfit(_) | PutError::Budget)) => {
                    tracing::debug!(key = %block.key, %error, "a block goes through");
                    return Ok(None);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.metrics.limit_hit("staging.pending");
                return Err(StoreError::Upstream(UpstreamError::SlowDown));
            }
            self.writeback.room(left.min(ROOM_LOOK_PAUSE)).await;
        }
    }

    /// Whether a bucket is there, as far as can be said: one that was there is believed while the upstream is out.
    async fn expect_bucket(&self, bucket: &str) -> Result<()> {
        if self.buckets.contains_key(bucket) {
            return Ok(());
        }
        match self.upstream.head_bucket(bucket).await {
            Ok(_) => {
                self.buckets.insert(bucket.to_owned(), ());
                if self.buckets_seen.insert(bucket) {
                    let seen = Arc::clone(&self.buckets_seen);
                    tokio::task::spawn_blocking(move || seen.keep());
                }
                Ok(())
            }
            Err(error) if error.is_outage() && self.buckets_seen.contains(bucket) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
