//! GET and HEAD of blocks: pending writes → memory → index and descriptions → single flight from staging or the upstream.

use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::{BlockKey, MissReason, ObjectInfo, Tier};
use blockgate_tier::memory::MemoryBlock;
use blockgate_upstream::{Conditions, UpstreamError};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::conditions::{is_expired, judge_read, resolve_range};
use crate::core::Core;
use crate::deadline::Deadline;
use crate::fill::{Arrival, Fill, FillError, FillState, FillTask};
use crate::keys::{HeadAnswer, Reading, Shared};
use crate::limits::WHOLE_ANSWER_BYTES_MAX;
use crate::{Body, BucketPolicy, Found, Mode, OnUpstreamError, ReadRequest, Result, Served, StoreError};

/// How a block is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A large one may be passed on while it arrives.
    Any,
    /// All of it, found sound, or a miss. Only one that finds no room in the arena is still a stream.
    Whole,
}

impl Core {
    pub(crate) async fn get(self: &Arc<Self>, key: &BlockKey, request: &ReadRequest) -> Result<Served> {
        let policy = self.policy(key.bucket());
        let deadline = Deadline::after(request.deadline.or(policy.deadline));
        let result = match policy.mode {
            Mode::Kv => self.get_block(key, policy, request, deadline, Answer::Any).await,
            Mode::Passthrough => self.get_past(key, request, deadline).await,
        };
        self.count(key, result.as_ref().map(|served| (served.tier, served.range.end - served.range.start)));
        result
    }

    pub(crate) async fn head(self: &Arc<Self>, key: &BlockKey, request: &ReadRequest) -> Result<Found> {
        let policy = self.policy(key.bucket());
        let deadline = Deadline::after(request.deadline.or(policy.deadline));
        let result = match policy.mode {
            Mode::Kv => self.head_block(key, policy, request, deadline).await,
            Mode::Passthrough => self.head_past(key, request, deadline).await,
        };
        self.count(key, result.as_ref().map(|found| (found.tier, 0)));
        result
    }

    /// What memory can answer by itself.
    pub(crate) fn get_held(&self, key: &BlockKey, request: &ReadRequest) -> Option<Served> {
        let now = self.upstream.now();
        let block = self.held_if_kv(key, now)?;
        let served = serve_held(block, request, now).ok()?;
        self.count(key, Ok((served.tier, served.range.end - served.range.start)));
        Some(served)
    }

    /// What memory can describe by itself.
    pub(crate) fn head_held(&self, key: &BlockKey, request: &ReadRequest) -> Option<Found> {
        let now = self.upstream.now();
        let block = self.held_if_kv(key, now)?;
        judge_read(&block.info, request, now).ok()?;
        self.count(key, Ok((Tier::Memory, 0)));
        Some(Found { info: block.info, tier: Tier::Memory })
    }

    fn held_if_kv(&self, key: &BlockKey, now: SystemTime) -> Option<MemoryBlock> {
        if self.policy(key.bucket()).is_kv() { self.held(key, now) } else { None }
    }

    pub(crate) fn count(&self, key: &BlockKey, outcome: std::result::Result<(Tier, u64), &StoreError>) {
        match outcome {
            Ok((tier, bytes)) => self.metrics.hit(key.bucket(), tier.as_str(), bytes),
            Err(StoreError::Miss(reason)) => self.metrics.miss(key.bucket(), reason.as_str()),
            Err(_) => {}
        }
    }

    pub(crate) async fn get_block(
        self: &Arc<Self>,
        key: &BlockKey,
        policy: &BucketPolicy,
        request: &ReadRequest,
        deadline: Deadline,
        answer: Answer,
    ) -> Result<Served> {
        let now = self.upstream.now();
        if let Some(block) = self.held(key, now) {
            return serve_held(block, request, now);
        }
        let known = self.known(key, request, now)?;
        if let Some(info) = &known
            && (info.size_bytes > policy.max_block_bytes || info.size_bytes == 0)
        {
            return self.get_directly(key, policy, Arc::clone(info), request, deadline).await;
        }
        // A part of a block is no reason to bring all of it.
        if request.range.is_some()
            && let Some(served) = self.get_staged(key, policy, request, deadline).await
        {
            return served;
        }
        let fill = match self.keys.share_fill(key, now) {
            Shared::There(block) => return serve_held(block, request, now),
            Shared::Joined(fill) => {
                self.metrics.single_flight_shared();
                fill
            }
            Shared::Begun(fill, state, reading) => {
                self.begin_fill(policy, known, state, reading);
                fill
            }
        };
        self.get_filling(key, policy, fill, request, deadline, answer).await
    }

    pub(crate) fn begin_fill(
        self: &Arc<Self>,
        policy: &BucketPolicy,
        known: Option<Arc<ObjectInfo>>,
        state: watch::Sender<FillState>,
        reading: Reading,
    ) {
        let task = FillTask { core: Arc::clone(self), max_block_bytes: policy.max_block_bytes, known, reading, state };
        tokio::spawn(task.run().in_current_span());
    }

    async fn get_filling(
        self: &Arc<Self>,
        key: &BlockKey,
        policy: &BucketPolicy,
        mut fill: Fill,
        request: &ReadRequest,
        deadline: Deadline,
        answer: Answer,
    ) -> Result<Served> {
        let mut state = deadline.bound(fill.answered()).await.ok_or(StoreError::Miss(MissReason::Deadline))?;
        if let FillState::Arriving(arrival) = &state {
            // Judged before the bytes are there: a request that fails need not wait for them.
            judge_read(&arrival.info, request, self.upstream.now())?;
            resolve_range(request.range, arrival.info.size_bytes)?;
            // A deadline must not cut a reply that has begun: with one, the answer is the whole block or a miss.
            let is_small = arrival.info.size_bytes <= WHOLE_ANSWER_BYTES_MAX;
            if answer == Answer::Whole || deadline.is_set() || is_small {
                state = deadline.bound(fill.settled()).await.ok_or(StoreError::Miss(MissReason::Deadline))?;
            }
        }
        match state {
            FillState::Whole(arrival) => {
                let range = self.judged(&arrival, request)?;
                let bytes = arrival.slice(range.clone()).ok_or(StoreError::Miss(MissReason::Corrupt))?;
                Ok(Served { info: arrival.info, tier: arrival.tier, range, body: Body::Bytes(bytes) })
            }
            FillState::Arriving(arrival) => {
                let range = self.judged(&arrival, request)?;
                let (info, tier) = (Arc::clone(&arrival.info), arrival.tier);
                let body = Body::Stream(fill.stream(arrival, range.clone(), deadline));
                Ok(Served { info, tier, range, body })
            }
            FillState::Unfit(info) => match self.get_staged(key, policy, request, deadline).await {
                Some(served) => served,
                None => self.get_directly(key, policy, info, request, deadline).await,
            },
            FillState::Failed(error) => Err(read_error(policy, error)),
            FillState::Asking => Err(read_error(policy, FillError::Upstream(no_answer()))),
        }
    }

    fn judged(&self, arrival: &Arrival, request: &ReadRequest) -> Result<std::ops::Range<u64>> {
        judge_read(&arrival.info, request, self.upstream.now())?;
        resolve_range(request.range, arrival.info.size_bytes)
    }

    async fn head_block(
        self: &Arc<Self>,
        key: &BlockKey,
        policy: &BucketPolicy,
        request: &ReadRequest,
        deadline: Deadline,
    ) -> Result<Found> {
        let now = self.upstream.now();
        if let Some(block) = self.held(key, now) {
            judge_read(&block.info, request, now)?;
            return Ok(Found { info: block.info, tier: Tier::Memory });
        }
        if let Some(info) = self.known(key, request, now)? {
            return Ok(Found { info, tier: self.tier_of(key) });
        }
        let arriving = self.keys.fill(key).and_then(|fill| fill.info());
        let info = match arriving {
            Some(info) => info,
            None => deadline
                .bound(self.ask_head(key))
                .await
                .ok_or(StoreError::Miss(MissReason::Deadline))?
                .map_err(|error| read_error(policy, error.into()))?,
        };
        judge_read(&info, request, self.upstream.now())?;
        Ok(Found { info, tier: self.tier_of(key) })
    }

    /// The block, if its bytes are at hand. One that has expired is asked for again: another gateway may have renewed it.
    pub(crate) fn held(&self, key: &BlockKey, now: SystemTime) -> Option<MemoryBlock> {
        self.keys.pending(key).or_else(|| self.tiers().block(key).filter(|block| !is_expired(&block.info, now)))
    }

    /// The object's description, if it is known and the request may go on; `None` if the upstream must be asked.
    pub(crate) fn known(
        &self,
        key: &BlockKey,
        request: &ReadRequest,
        now: SystemTime,
    ) -> Result<Option<Arc<ObjectInfo>>> {
        if self.tiers().is_absent(key, now) {
            return Err(StoreError::Miss(MissReason::Absent));
        }
        let Some(known) = self.tiers().info(key) else { return Ok(None) };
        if is_expired(&known.info, now) && known.since.elapsed() >= self.negative_ttl {
            return Ok(None);
        }
        judge_read(&known.info, request, now)?;
        Ok(Some(known.info))
    }

    /// Asks staging, or else the upstream, what an object is, together with all who ask at the same time.
    pub(crate) async fn ask_head(
        self: &Arc<Self>,
        key: &BlockKey,
    ) -> std::result::Result<Arc<ObjectInfo>, UpstreamError> {
        let mut answer = match self.keys.share_head(key) {
            Shared::Begun(answer, sender, reading) => {
                let core = Arc::clone(self);
                tokio::spawn(async move { core.head_task(sender, reading).await }.in_current_span());
                answer
            }
            Shared::Joined(answer) => {
                self.metrics.single_flight_shared();
                answer
            }
            Shared::There(block) => return Ok(block.info),
        };
        match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or_else(|| Err(no_answer())),
            Err(_) => Err(no_answer()),
        }
    }

    async fn head_task(&self, sender: watch::Sender<HeadAnswer>, reading: Reading) {
        let key = reading.key();
        if let Some(info) = self.describe_staged(key).await {
            reading.remember(|tiers| tiers.note(key, &info));
            drop(reading);
            sender.send_replace(Some(Ok(info)));
            return;
        }
        let any = Conditions::default();
        let asked = Instant::now();
        let head = async {
            self.refuse_older(key)?;
            self.upstream.head(key.bucket(), key.key(), &any).await
        };
        let answer = timeout(self.limits.first_byte, head).await.unwrap_or_else(|_| Err(no_answer())).map(Arc::new);
        if matches!(answer, Ok(_) | Err(UpstreamError::NoSuchKey)) {
            self.speeds.answered(asked.elapsed());
        }
        match &answer {
            Ok(info) => reading.remember(|tiers| tiers.note(key, info)),
            Err(UpstreamError::NoSuchKey) => self.learn_absent(&reading),
            Err(_) => {}
        }
        drop(reading);
        sender.send_replace(Some(answer));
    }
}

fn serve_held(block: MemoryBlock, request: &ReadRequest, now: SystemTime) -> Result<Served> {
    judge_read(&block.info, request, now)?;
    let range = resolve_range(request.range, block.bytes.len())?;
    let bytes = block.bytes.slice(range.clone()).ok_or(StoreError::Miss(MissReason::Corrupt))?;
    Ok(Served { info: block.info, tier: Tier::Memory, range, body: Body::Bytes(bytes) })
}

pub(crate) fn no_answer() -> UpstreamError {
    UpstreamError::Unavailable("no answer in time".into())
}

/// How a read of a block that could not be had is answered.
pub(crate) fn read_error(policy: &BucketPolicy, error: FillError) -> StoreError {
    match error {
        FillError::Expired => StoreError::Miss(MissReason::Expired),
        FillError::Corrupt => StoreError::Miss(MissReason::Corrupt),
        FillError::Upstream(UpstreamError::NoSuchKey) => StoreError::Miss(MissReason::Absent),
        FillError::Upstream(error) if error.is_outage() && policy.on_upstream_error == OnUpstreamError::Miss => {
            tracing::warn!(%error, "a block could not be read from the upstream");
            StoreError::Miss(MissReason::UpstreamUnavailable)
        }
        FillError::Upstream(error) => error.into(),
    }
}
