//! Reading what is staged.
//!
//! Staging answers for the bytes of a block: they are those that were staged under its key. What the block *is*, its expiry
//! and fingerprint among it, may have changed since; [`Core::believed`] decides who is believed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{BlockBuf, BlockKey, BlockWriter, MissReason, ObjectInfo, Tier};
use blockgate_staging::{Entry, ReadError, Staged, Staging};
use blockgate_upstream::Conditions;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::conditions::{is_expired, judge_read, resolve_range};
use crate::core::Core;
use crate::deadline::Deadline;
use crate::fill::FillError;
use crate::keys::Reading;
use crate::read::no_answer;
use crate::{Body, BucketPolicy, ReadRequest, Result, Served, StoreError};

/// Since when a disk does not answer.
#[derive(Default)]
pub(crate) struct Silence(Mutex<Option<Instant>>);

impl Silence {
    fn begin(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    fn lasts(&self, longest: Duration) -> bool {
        self.0.lock().is_some_and(|since| since.elapsed() < longest)
    }
}

/// What staging answers to a fill.
pub(crate) enum FromStaging {
    /// All bytes, sound.
    Block(Arc<ObjectInfo>, BlockBuf),
    /// The block is there, and no room for it.
    NoRoom(Arc<ObjectInfo>),
    /// The upstream must be asked.
    Nothing,
}

impl Core {
    /// Where an object that is not in memory is.
    pub(crate) fn tier_of(&self, key: &BlockKey) -> Tier {
        if self.tiers().staged(key).is_some() { Tier::Staging } else { Tier::Upstream }
    }

    /// What a staged block is, unless the upstream must be asked.
    pub(crate) async fn describe_staged(&self, key: &BlockKey) -> Option<Arc<ObjectInfo>> {
        let staging = self.staging_of(key)?;
        let begun = Instant::now();
        let entry = self.sound(key, staging.describe(key)).await.ok()??;
        self.speeds.staging_answered(begun.elapsed());
        self.believed(key, &entry)
    }

    /// Brings a staged block to a slot of the arena.
    pub(crate) async fn fill_staged(
        &self,
        key: &BlockKey,
        len_bytes_max: u64,
        allocate: impl FnOnce(u64) -> Option<BlockWriter> + Send,
    ) -> std::result::Result<FromStaging, FillError> {
        let staged = self.tiers().staged(key).filter(|staged| staged.len_bytes <= len_bytes_max);
        let Some(staging) = self.staging_of(key).filter(|_| staged.is_some()) else {
            return Ok(FromStaging::Nothing);
        };
        let (begun, reading) = (Instant::now(), self.speeds.reading());
        let (entry, block) = match self.sound(key, staging.read(key, allocate)).await {
            Ok(Some(found)) => found,
            Err(ReadError::NoRoom) => {
                let info = self.describe_staged(key).await;
                return Ok(info.map_or(FromStaging::Nothing, FromStaging::NoRoom));
            }
            Ok(None) | Err(_) => return Ok(FromStaging::Nothing),
        };
        reading.whole(block.len(), begun.elapsed());
        let info = match self.believed(key, &entry) {
            Some(info) => Some(info),
            None => self.ask_about(key, &entry).await?,
        };
        Ok(info.map_or(FromStaging::Nothing, |info| FromStaging::Block(info, block)))
    }

    /// Reads what is asked of a staged block past the arena; none where the upstream must be asked, or where the request must
    /// be judged by what the whole block is.
    pub(crate) async fn get_staged(
        &self,
        key: &BlockKey,
        policy: &BucketPolicy,
        request: &ReadRequest,
        deadline: Deadline,
    ) -> Option<Result<Served>> {
        let staging = self.staging_of(key)?;
        let staged = self.tiers().staged(key).filter(|staged| staged.len_bytes <= policy.max_block_bytes)?;
        let range = resolve_range(request.range, staged.len_bytes).ok()?;
        let reading = async {
            let room = self.heap.room_for(range.end - range.start, self.limits.heap_wait).await.ok()?;
            let (entry, bytes) = self.sound(key, staging.read_range(key, range.clone())).await.ok()??;
            // Another version may have come in between.
            (entry.staged.len_bytes == staged.len_bytes).then_some((entry, room.keep(bytes)))
        };
        let Some(read) = deadline.bound(reading).await else {
            return Some(Err(StoreError::Miss(MissReason::Deadline)));
        };
        let (entry, bytes) = read?;
        let info = self.believed(key, &entry)?;
        let served = judge_read(&info, request, self.upstream.now());
        Some(served.map(|()| Served { info, tier: Tier::Staging, range, body: Body::Bytes(bytes) }))
    }

    /// The log, if it has something under this key's digest and answers.
    fn staging_of(&self, key: &BlockKey) -> Option<&Arc<Staging>> {
        self.tiers().staged(key)?;
        self.staging().filter(|_| !self.silence.lasts(self.limits.staging_silence))
    }

    /// What the log answers in time. A disk that fails fails no read: whatever is wrong is counted, and the upstream is asked.
    async fn sound<T>(
        &self,
        key: &BlockKey,
        reading: impl Future<Output = std::result::Result<Option<T>, ReadError>> + Send,
    ) -> std::result::Result<Option<T>, ReadError> {
        let Ok(answer) = timeout(self.limits.staging_answer, reading).await else {
            self.metrics.limit_hit("staging.answer");
            let pause = self.limits.staging_silence;
            tracing::warn!(?pause, "the staging disk does not answer and is left alone for a while");
            self.silence.begin();
            return Ok(None);
        };
        match &answer {
            Err(ReadError::Corrupt) => {
                self.metrics.corrupt(Tier::Staging.as_str());
                tracing::error!(%key, "staged bytes are not those that were stored; the upstream is asked");
            }
            Err(ReadError::Io(error)) => tracing::debug!(%key, error, "a staged block can't be read"),
            Err(ReadError::NoRoom) | Ok(_) => {}
        }
        answer
    }

    /// What a staged block is by what this gateway knows; none where only the upstream can say.
    ///
    /// Of a block that waits for its upload nobody else knows. Else a description that came from a write or from the upstream is
    /// newer than the log's, and one whose time is over may have been renewed through another gateway.
    fn believed(&self, key: &BlockKey, entry: &Entry) -> Option<Arc<ObjectInfo>> {
        if entry.staged.pending && !entry.staged.amended {
            return Some(Arc::clone(&entry.info));
        }
        let known = match self.tiers().info(key) {
            Some(known) if !is_of_bytes(&known.info, entry) => {
                self.drop_staged(key, entry.staged);
                return None;
            }
            known => known.map(|known| known.info),
        };
        let info = known.or_else(|| (!entry.staged.amended).then(|| Arc::clone(&entry.info)))?;
        (!is_expired(&info, self.upstream.now())).then_some(info)
    }

    /// Asks the upstream what a staged block is. None where it has other bytes.
    async fn ask_about(
        &self,
        key: &BlockKey,
        entry: &Entry,
    ) -> std::result::Result<Option<Arc<ObjectInfo>>, FillError> {
        let any = Conditions::default();
        let head = timeout(self.limits.first_byte, self.upstream.head(key.bucket(), key.key(), &any)).await;
        match head.unwrap_or_else(|_| Err(no_answer())) {
            Ok(info) if is_of_bytes(&info, entry) => Ok(Some(Arc::new(info))),
            // Whether it was uploaded is not known, but nobody has stored a newer one.
            Ok(there) if entry.staged.pending && there.last_modified < entry.info.last_modified => {
                Ok(Some(Arc::clone(&entry.info)))
            }
            Ok(_) => {
                self.drop_staged(key, entry.staged);
                Ok(None)
            }
            // Of an absence the fill learns.
            Err(error) => Err(error.into()),
        }
    }

    /// The upstream says that there is no such object: so nothing is staged either, but for a block on its way there.
    pub(crate) fn learn_absent(&self, reading: &Reading) {
        let key = reading.key();
        match self.tiers().staged(key) {
            Some(staged) if staged.pending => return,
            Some(staged) => self.drop_staged(key, staged),
            None => {}
        }
        reading.remember(|tiers| tiers.note_absent(key, self.upstream.now()));
    }

    /// Takes a block out that the upstream no longer has so, in the background, unless a write comes first.
    fn drop_staged(&self, key: &BlockKey, staged: Staged) {
        let Some(staging) = self.staging().cloned() else { return };
        let (keys, key, version) = (Arc::clone(&self.keys), key.clone(), staged.version);
        tokio::spawn(async move {
            let _turn = keys.turn(&key).await;
            let is_there = staging.find(key.digest()).is_some_and(|now| now.version == version && !now.pending);
            if is_there && let Err(error) = staging.remove(&key).await {
                tracing::warn!(%key, %error, "a staged block is out of date");
            }
        });
    }
}

/// Whether an object has the bytes that are staged.
fn is_of_bytes(info: &ObjectInfo, entry: &Entry) -> bool {
    info.size_bytes == entry.info.size_bytes && info.crc64().is_some() && info.crc64() == entry.info.crc64()
}
