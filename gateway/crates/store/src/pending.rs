//! `write = "async"`: a PUT is acknowledged once memory has the block, and uploaded afterwards.
//!
//! Until then reads take it from here, listings do not show it, and it is lost if the gateway dies.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{BlockBuf, BlockKey, ObjectInfo};
use blockgate_tier::memory::MemoryBlock;
use blockgate_upstream::{Conditions, Payload, PutRequest, UpstreamError};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use crate::body::TakenIn;
use crate::core::Core;
use crate::keys::Writing;
use crate::ttl::{record_of, with_record};
use crate::write::{block_info, written};
use crate::{Result, WriteRequest, Written};

/// Longest pause between two attempts to upload a block.
const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Bytes that were acknowledged and are not yet at the upstream: bounded.
pub(crate) struct Backlog {
    bytes: Arc<watch::Sender<u64>>,
    bytes_max: u64,
    uploads: Semaphore,
}

/// A place in the backlog; free again when dropped.
pub(crate) struct BacklogRoom {
    bytes: Arc<watch::Sender<u64>>,
    taken: u64,
}

impl Backlog {
    pub(crate) fn new(bytes_max: u64, uploads_at_once: usize) -> Self {
        Self { bytes: Arc::new(watch::Sender::new(0)), bytes_max, uploads: Semaphore::new(uploads_at_once) }
    }

    /// Room for one more block, if there is any.
    pub(crate) fn room_for(&self, len_bytes: u64) -> Option<BacklogRoom> {
        // An empty block counts too: drain waits for it.
        let taken = len_bytes.max(1);
        let fits = self.bytes.send_if_modified(|bytes| {
            let fits = bytes.saturating_add(taken) <= self.bytes_max;
            if fits {
                *bytes += taken;
            }
            fits
        });
        fits.then(|| BacklogRoom { bytes: Arc::clone(&self.bytes), taken })
    }

    /// Waits until nothing is left.
    pub(crate) async fn drained(&self) {
        // Never an error: `self` holds a sender.
        let _ = self.bytes.subscribe().wait_for(|bytes| *bytes == 0).await;
    }

    pub(crate) fn bytes(&self) -> u64 {
        *self.bytes.borrow()
    }
}

impl Drop for BacklogRoom {
    fn drop(&mut self) {
        self.bytes.send_modify(|bytes| *bytes -= self.taken);
    }
}

impl Core {
    /// Acknowledges a block and uploads it afterwards.
    pub(crate) async fn put_later(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        body: &TakenIn,
        block: BlockBuf,
        room: BacklogRoom,
        ttl: Option<Duration>,
    ) -> Result<Written> {
        if !self.buckets.contains_key(key.bucket()) {
            self.upstream.head_bucket(key.bucket()).await?;
            self.buckets.insert(key.bucket().to_owned(), ());
        }
        let mut write = self.keys.write(key).await;
        // From when the bucket was written back, if anything.
        self.settle(key).await?;
        self.unstage(key).await?.done(self).await?;
        let record = record_of(body.crc64, body.len_bytes, self.upstream.now(), ttl);
        let put = PutRequest {
            attributes: with_record(&request.attributes, &record),
            tags: request.tags,
            conditions: Conditions::default(),
            crc64: Some(body.crc64),
        };
        let info = block_info(record, String::new(), request.attributes, put.tags.len());
        let written = written(&info);
        write.publish(MemoryBlock { info: Arc::new(info.clone()), bytes: block.clone() });
        let core = Arc::clone(self);
        tokio::spawn(async move { core.upload(write, put, info, block, room).await }.in_current_span());
        Ok(written)
    }

    async fn upload(&self, write: Writing, put: PutRequest, info: ObjectInfo, block: BlockBuf, room: BacklogRoom) {
        let key = write.key().clone();
        // Never an error: nobody closes it.
        let _turn = self.backlog.uploads.acquire().await;
        let begun = Instant::now();
        match self.upload_tried(&key, put, &block).await {
            Ok(upstream_etag) => {
                let info = Arc::new(ObjectInfo { upstream_etag, ..info });
                write.stored(&info, Some(block));
            }
            Err(error) => {
                self.metrics.upstream_call("upload", "lost", begun.elapsed());
                tracing::error!(%key, %error, "an acknowledged block could not be uploaded and is lost");
                drop(write);
            }
        }
        // Only now: what waits for the backlog must find the tiers settled.
        drop(room);
    }

    async fn upload_tried(
        &self,
        key: &BlockKey,
        put: PutRequest,
        block: &BlockBuf,
    ) -> std::result::Result<String, UpstreamError> {
        let begun = Instant::now();
        let mut pause = self.limits.upload_pause;
        loop {
            let payload = Payload::Bytes(block.to_bytes());
            match self.upstream.put(key.bucket(), key.key(), put.clone(), payload).await {
                Ok(stored) => return Ok(stored.upstream_etag),
                // It was acknowledged: an outage is waited for, and what it holds up is bounded by the backlog.
                Err(error) if error.is_outage() && begun.elapsed() < self.limits.upload_patience => {
                    tracing::debug!(%key, %error, "an upload failed and will be tried again");
                    sleep(pause).await;
                    pause = pause.saturating_mul(2).min(UPLOAD_PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
