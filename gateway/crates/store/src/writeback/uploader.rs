//! Uploads of what waits.
//!
//! A few tasks take blocks in turn. While the upstream is out each of them waits and tries one block again and again, without
//! end: the log keeps what was acknowledged.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use blockgate_block::{BlockKey, ObjectInfo, Tier};
use blockgate_staging::ReadError;
use blockgate_upstream::{Conditions, MultipartRequest, PartRef, Payload, PutRequest, UpstreamError};
use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use super::queue::{Job, Next, Pending, Queue};
use crate::conditions::is_expired;
use crate::core::Core;
use crate::read::no_answer;
use crate::ttl::with_record;

/// Longest pause of an uploader while the upstream is out.
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(2);

type Outcome = std::result::Result<Done, Failure>;

/// How a block is done with.
enum Done {
    /// The upstream has it, under this ETag.
    Uploaded(String),
    /// The upstream has a newer one.
    Superseded,
    /// Its time is over.
    Expired,
    /// It can't be uploaded, ever.
    Lost(String),
}

/// Why it is not done with.
enum Failure {
    /// Any other block would fail as well.
    Outage(UpstreamError),
    /// The upstream does not take this one.
    Refused(UpstreamError),
    /// Its bytes can't be had now.
    Unreadable(String),
    /// It was overwritten.
    Overtaken,
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        let is_everywhere = error.is_outage() || matches!(error, UpstreamError::Full);
        if is_everywhere { Self::Outage(error) } else { Self::Refused(error) }
    }
}

/// The gateway's own doing, and over soon.
fn no_room() -> Failure {
    Failure::Outage(UpstreamError::Unavailable(ReadError::NoRoom.to_string()))
}

fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Ok(Done::Uploaded(_)) => "ok",
        Ok(Done::Superseded) => "superseded",
        Ok(Done::Expired) => "expired",
        Ok(Done::Lost(_)) => "lost",
        Err(Failure::Outage(_)) => "outage",
        Err(Failure::Refused(_)) => "refused",
        Err(Failure::Unreadable(_)) => "unreadable",
        Err(Failure::Overtaken) => "overtaken",
    }
}

async fn work(core: Weak<Core>, queue: Arc<Queue>, number: usize) {
    let mut pause = Duration::ZERO;
    let mut failures = (number as u64) << 32;
    while let Some(job) = queue.next().await {
        let Some(core) = core.upgrade() else { return };
        let first_pause = core.limits.upload_pause;
        let outcome = core.bring_up(job).await;
        drop(core);
        if outcome.is_ok() {
            pause = Duration::ZERO;
        } else {
            pause = pause.saturating_mul(2).clamp(first_pause, OUTAGE_PAUSE_MAX);
            failures = failures.wrapping_add(1);
            sleep(jittered(pause, failures)).await;
        }
    }
}

/// From half of a pause to all of it, different for each `number`: so that those who failed together try again apart.
fn jittered(pause: Duration, number: u64) -> Duration {
    let mixed = (number ^ (number >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    #[allow(clippy::cast_possible_truncation)] // 32 bits
    let part = mixed as u32 % 512 + 512;
    pause.saturating_mul(part) / 1024
}

impl Core {
    pub(super) fn begin_uploads(self: &Arc<Self>) {
        for number in 0..self.limits.uploads_at_once {
            let (core, queue) = (Arc::downgrade(self), Arc::clone(&self.writeback));
            tokio::spawn(work(core, queue, number).in_current_span());
        }
    }

    /// Tries to upload a block. An error says why it is to be tried again.
    pub(super) async fn bring_up(self: &Arc<Self>, job: Job) -> std::result::Result<(), UpstreamError> {
        let begun = Instant::now();
        let block = Arc::clone(&job.block);
        let key = &block.key;
        let outcome = self.attempt(&job).await;
        self.metrics.upstream_call("upload", name_of(&outcome), begun.elapsed());
        match outcome {
            Ok(Done::Uploaded(upstream_etag)) => {
                self.landed(&block, upstream_etag);
                job.finish(Next::Uploaded);
                return Ok(());
            }
            Ok(Done::Superseded) => tracing::info!(%key, "the upstream has a newer block than the one that waited"),
            Ok(Done::Expired) => tracing::debug!(%key, "a block expired before it was uploaded"),
            Ok(Done::Lost(why)) => {
                self.writeback.lost.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%key, why, "an acknowledged block could not be uploaded and is lost");
            }
            Err(Failure::Outage(error)) => {
                tracing::debug!(%key, %error, "an upload failed and will be tried again");
                job.finish(Next::Again);
                return Err(error);
            }
            Err(Failure::Refused(error)) => {
                tracing::warn!(%key, %error, "the upstream refuses a block; it will be tried again");
                job.finish(Next::Later(self.limits.upload_retry));
                return Err(error);
            }
            Err(Failure::Unreadable(why)) => {
                tracing::warn!(%key, why, "a block can't be read for its upload; it will be tried again");
                job.finish(Next::Later(self.limits.upload_retry));
                return Err(UpstreamError::Unavailable(why));
            }
            Err(Failure::Overtaken) => {
                job.finish(Next::Later(self.limits.upload_pause));
                return Ok(());
            }
        }
        job.finish(Next::Over);
        let core = Arc::clone(self);
        tokio::spawn(async move { core.clear_away(&block).await }.in_current_span());
        Ok(())
    }

    /// Takes a block that is done with, and not at the upstream, out of staging.
    async fn clear_away(&self, block: &Pending) {
        let _turn = self.keys.turn(&block.key).await;
        if !self.writeback.is_over(block) {
            return;
        }
        if let Err(error) = self.take_out(block).await {
            tracing::warn!(key = %block.key, %error, "a block that is not to be uploaded stays in staging for now");
            self.writeback.put_off(block, self.limits.upload_retry);
        }
    }

    async fn attempt(&self, job: &Job) -> Outcome {
        let block = &job.block;
        let is_over = is_expired(&block.info, self.upstream.now());
        if (job.asks_first || is_over)
            && let Some(done) = self.done_already(block, is_over).await?
        {
            return Ok(done);
        }
        let bytes = match self.bytes_of(block).await? {
            Ok(bytes) => bytes,
            Err(why) => return Ok(Done::Lost(why)),
        };
        match self.send(block, bytes).await {
            Ok(upstream_etag) => Ok(Done::Uploaded(upstream_etag)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a block need not be uploaded, by what the upstream has. One whose time is over goes up only in place of
    /// another, which must not come back.
    async fn done_already(&self, block: &Pending, is_over: bool) -> std::result::Result<Option<Done>, Failure> {
        let (key, any) = (&block.key, Conditions::default());
        let head = self.upstream.head(key.bucket(), key.key(), &any);
        match timeout(self.limits.first_byte, head).await.unwrap_or_else(|_| Err(no_answer())) {
            Ok(there) if there.record == block.info.record => Ok(Some(Done::Uploaded(there.upstream_etag))),
            Ok(there) if there.last_modified > block.info.last_modified => Ok(Some(Done::Superseded)),
            Ok(_) | Err(UpstreamError::Damaged(_)) => Ok(None),
            Err(UpstreamError::NoSuchKey) => Ok(is_over.then_some(Done::Expired)),
            // Perhaps only because this gateway was given the wrong upstream: what has time left is kept.
            Err(UpstreamError::NoSuchBucket) if is_over => Ok(Some(Done::Expired)),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of a block, from memory or else from staging; or why there are none any more.
    async fn bytes_of(&self, block: &Pending) -> std::result::Result<std::result::Result<Bytes, String>, Failure> {
        let is_it = |info: &ObjectInfo| info.record == block.info.record;
        if let Some(held) = self.tiers().block(&block.key).filter(|held| is_it(&held.info)) {
            return Ok(Ok(held.bytes.to_bytes()));
        }
        let Some(staging) = self.staging() else { return Ok(Err("there is no staging".into())) };
        let read = match staging.read(&block.key, |len_bytes| self.tiers().allocate(len_bytes)).await {
            Err(ReadError::NoRoom) => {
                let len_bytes = block.info.size_bytes;
                let room = self.heap.room_for(len_bytes, self.limits.heap_wait).await.map_err(|_| no_room())?;
                let read = staging.read_range(&block.key, 0..len_bytes).await;
                read.map(|found| found.map(|(entry, bytes)| (entry, room.keep(bytes))))
            }
            read => read.map(|found| found.map(|(entry, bytes)| (entry, bytes.to_bytes()))),
        };
        match read {
            Ok(Some((entry, bytes))) if entry.staged.version == block.version => Ok(Ok(bytes)),
            Ok(Some(_)) => Err(Failure::Overtaken),
            Ok(None) => Ok(Err("staging does not have it any more".into())),
            Err(ReadError::Corrupt) => {
                self.metrics.corrupt(Tier::Staging.as_str());
                Ok(Err(ReadError::Corrupt.to_string()))
            }
            Err(ReadError::NoRoom) => Err(no_room()),
            Err(error @ ReadError::Io(_)) => Err(Failure::Unreadable(error.to_string())),
        }
    }

    /// Writes a block and its record to the upstream.
    async fn send(&self, block: &Pending, bytes: Bytes) -> std::result::Result<String, UpstreamError> {
        let (key, info) = (&block.key, &block.info);
        if bytes.len() as u64 > self.limits.upload_call_bytes {
            return self.send_parts(block, &bytes).await;
        }
        let put = PutRequest {
            attributes: info
                .record
                .map_or_else(|| info.attributes.clone(), |record| with_record(&info.attributes, &record)),
            tags: block.tags.clone(),
            conditions: Conditions::default(),
            crc64: info.crc64(),
        };
        Ok(self.upstream.put(key.bucket(), key.key(), put, Payload::Bytes(bytes)).await?.upstream_etag)
    }

    async fn send_parts(&self, block: &Pending, bytes: &Bytes) -> std::result::Result<String, UpstreamError> {
        let (bucket, key) = (block.key.bucket(), block.key.key());
        let attributes = &block.info.attributes;
        let create = MultipartRequest { attributes: attributes.clone(), tags: block.tags.clone(), part_md5: false };
        let upload_id = self.upstream.create_multipart(bucket, key, create).await?;
        let sent = self.send_parts_of(block, &upload_id, bytes).await;
        if sent.is_err()
            && let Err(error) = self.upstream.abort_multipart(bucket, key, &upload_id).await
        {
            tracing::debug!(key = %block.key, %error, "an unfinished multipart upload stays at the upstream");
        }
        sent
    }

    async fn send_parts_of(
        &self,
        block: &Pending,
        upload_id: &str,
        bytes: &Bytes,
    ) -> std::result::Result<String, UpstreamError> {
        let (bucket, key) = (block.key.bucket(), block.key.key());
        let part_bytes = usize::try_from(self.limits.upload_call_bytes / 4).unwrap_or(usize::MAX).max(1);
        let mut parts = Vec::new();
        for (number, begin) in (1..).zip((0..bytes.len()).step_by(part_bytes)) {
            let part = bytes.slice(begin..bytes.len().min(begin.saturating_add(part_bytes)));
            let etag = self.upstream.upload_part(bucket, key, upload_id, number, Payload::Bytes(part)).await?;
            parts.push(PartRef { number, etag });
        }
        let record = block.info.record.map(|record| (&block.info.attributes, record));
        let any = Conditions::default();
        let stored = self.upstream.complete_multipart(bucket, key, upload_id, &parts, &any, record).await?;
        Ok(stored.upstream_etag)
    }

    /// The upstream has a block now.
    fn landed(&self, block: &Pending, upstream_etag: String) {
        let key: &BlockKey = &block.key;
        if let Some(staging) = self.staging() {
            staging.uploaded(key, block.version);
        }
        let info = Arc::new(ObjectInfo { upstream_etag, ..(*block.info).clone() });
        self.keys.learn(key, |tiers| {
            // A write that has ended has put what it stored in the queue.
            if self.writeback.is_current(block) {
                tiers.renew(key, &info);
            }
        });
    }
}
