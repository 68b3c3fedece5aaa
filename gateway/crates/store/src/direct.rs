//! Reads past the tiers: objects too large for them, or no room. Streamed with the upstream's range, without single flight.
//!
//! A block is verified on this way too: the whole of it is read, the bytes asked for are passed on, and the last of them
//! wait for the checksum. Only a range of an object above the bucket's `max_block_bytes` is passed on unverified.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{BlockKey, Crc64, Crc64Hasher, MissReason, ObjectInfo, Tier};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{BodyError, ByteStream, Conditions, GetReply, UpstreamError};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::Fuse;
use tokio::time::timeout;

use crate::conditions::{is_version, judge_read, resolve_range};
use crate::core::Core;
use crate::deadline::Deadline;
use crate::read::{no_answer, read_error};
use crate::{Body, BucketPolicy, ReadRequest, Result, Served, StoreError};

/// How often a read starts over because another gateway overwrote the object meanwhile.
const VERSIONS_TRIED_MAX: u32 = 4;

impl Core {
    /// Reads an object that was `info` when it was last seen.
    pub(crate) async fn get_directly(
        &self,
        key: &BlockKey,
        policy: &BucketPolicy,
        mut info: Arc<ObjectInfo>,
        request: &ReadRequest,
        deadline: Deadline,
    ) -> Result<Served> {
        self.refuse_older(key).map_err(|error| read_error(policy, error.into()))?;
        for _ in 0..VERSIONS_TRIED_MAX {
            match self.get_version(key, policy, &info, request, deadline).await? {
                Ok(served) => return Ok(served),
                Err(newer) => info = newer,
            }
        }
        Err(read_error(policy, UpstreamError::Unavailable("the object changes faster than it is read".into()).into()))
    }

    /// Reads one version, or says what is there instead.
    async fn get_version(
        &self,
        key: &BlockKey,
        policy: &BucketPolicy,
        seen: &Arc<ObjectInfo>,
        request: &ReadRequest,
        deadline: Deadline,
    ) -> Result<std::result::Result<Served, Arc<ObjectInfo>>> {
        judge_read(seen, request, self.upstream.now())?;
        let mut range = resolve_range(request.range, seen.size_bytes)?;
        if range.is_empty() {
            let body = Body::Bytes(Bytes::new());
            return Ok(Ok(Served { info: Arc::clone(seen), tier: Tier::Upstream, range, body }));
        }
        let is_block = seen.record.is_some() && seen.size_bytes <= policy.max_block_bytes;
        let asked = if is_block || range == (0..seen.size_bytes) { None } else { Some(range.clone()) };
        let reply = match self.open(key, asked.clone(), &Conditions::default(), deadline).await? {
            Ok(reply) => reply,
            Err(error) => {
                // An outage says nothing of the object. Anything else: what was known of it is out of date.
                if !error.is_outage() {
                    self.tiers().forget(key);
                }
                return Err(read_error(policy, error.into()));
            }
        };
        let info = Arc::new(reply.info);
        if !is_version(&info, seen) {
            self.tiers().forget(key);
            if asked.is_some() {
                return Ok(Err(info));
            }
            judge_read(&info, request, self.upstream.now())?;
            range = resolve_range(request.range, info.size_bytes)?;
        }
        let expected = info.crc64().filter(|_| asked.is_none());
        let passing = Passing {
            at: reply.range.start,
            ends_at: reply.range.end,
            wanted: range.clone(),
            check: expected.map(|crc64| Check { crc64, hasher: Crc64Hasher::default(), held: None }),
            ..self.passing(key, reply.body, deadline)
        };
        Ok(Ok(Served { info, tier: Tier::Upstream, range, body: Body::Stream(passing.stream()) }))
    }

    /// Opens an object for reading, within the deadline and the limit on silence.
    pub(crate) async fn open(
        &self,
        key: &BlockKey,
        range: Option<Range<u64>>,
        conditions: &Conditions,
        deadline: Deadline,
    ) -> Result<std::result::Result<GetReply, UpstreamError>> {
        let get = timeout(self.limits.first_byte, self.upstream.get(key.bucket(), key.key(), range, conditions));
        let reply = deadline.bound(get).await.ok_or(StoreError::Miss(MissReason::Deadline))?;
        Ok(reply.unwrap_or_else(|_| Err(no_answer())))
    }

    /// A body on its way through, without checks other than for silence.
    pub(crate) fn passing(&self, key: &BlockKey, body: ByteStream, deadline: Deadline) -> Passing {
        Passing {
            key: key.clone(),
            body: body.fuse(),
            at: 0,
            ends_at: u64::MAX,
            wanted: 0..u64::MAX,
            check: None,
            silence_max: self.limits.between_chunks,
            deadline,
            metrics: self.metrics.clone(),
        }
    }

    /// Reads a whole object only to learn its checksum.
    pub(crate) async fn checksum_of(&self, key: &BlockKey, info: &ObjectInfo) -> Result<Crc64> {
        let same = Conditions { if_match: Some(info.upstream_etag.clone()), ..Conditions::default() };
        let reply = self.open(key, None, &same, Deadline::after(None)).await??;
        let mut body = self.passing(key, reply.body, Deadline::after(None)).stream();
        let mut hasher = Crc64Hasher::default();
        while let Some(bytes) = body.next().await {
            hasher.update(&bytes.map_err(|error| UpstreamError::Unavailable(error.to_string()))?);
        }
        if hasher.len_bytes() == info.size_bytes {
            Ok(hasher.finish())
        } else {
            Err(StoreError::Upstream(UpstreamError::Unavailable("the body was shorter than announced".into())))
        }
    }
}

/// A body on its way from the upstream to a client.
pub(crate) struct Passing {
    key: BlockKey,
    body: Fuse<ByteStream>,
    /// Where in the object the next byte lies.
    at: u64,
    /// Where the body must end; `u64::MAX` where that is not known.
    ends_at: u64,
    /// The bytes that are passed on.
    wanted: Range<u64>,
    check: Option<Check>,
    silence_max: Duration,
    deadline: Deadline,
    metrics: Metrics,
}

struct Check {
    crc64: Crc64,
    hasher: Crc64Hasher,
    /// The latest piece to pass on, which may be the last.
    held: Option<Bytes>,
}

impl Passing {
    pub(crate) fn stream(self) -> ByteStream {
        Box::pin(futures::stream::try_unfold(self, |mut passing| async move {
            let bytes = passing.next().await?;
            Ok(bytes.map(|bytes| (bytes, passing)))
        }))
    }

    async fn next(&mut self) -> std::result::Result<Option<Bytes>, BodyError> {
        loop {
            let chunk = self.deadline.bound(timeout(self.silence_max, self.body.next())).await;
            let Some(Ok(chunk)) = chunk else { return Err(BodyError::Stalled) };
            let Some(bytes) = chunk.transpose()? else { return self.end() };
            let wanted = self.cut_out(&bytes);
            self.at += bytes.len() as u64;
            let ready = match &mut self.check {
                Some(check) => {
                    check.hasher.update(&bytes);
                    if wanted.is_empty() { None } else { check.held.replace(wanted) }
                }
                None => Some(wanted).filter(|bytes| !bytes.is_empty()),
            };
            if ready.is_some() {
                return Ok(ready);
            }
        }
    }

    /// The wanted bytes of the next chunk.
    fn cut_out(&self, bytes: &Bytes) -> Bytes {
        let len = bytes.len() as u64;
        let begin = self.wanted.start.saturating_sub(self.at).min(len);
        let end = self.wanted.end.saturating_sub(self.at).min(len).max(begin);
        #[allow(clippy::cast_possible_truncation)] // both are at most the chunk's length
        bytes.slice(begin as usize..end as usize)
    }

    /// The body is over: passes on what was held back, if all is sound.
    fn end(&mut self) -> std::result::Result<Option<Bytes>, BodyError> {
        if self.ends_at != u64::MAX && self.at != self.ends_at {
            return Err(BodyError::Length { announced: self.ends_at, got: self.at });
        }
        let Some(check) = self.check.take() else { return Ok(None) };
        if check.hasher.finish() == check.crc64 {
            return Ok(check.held);
        }
        self.metrics.corrupt(Tier::Upstream.as_str());
        tracing::error!(key = %self.key, "the upstream's bytes are not those that were stored");
        Err(BodyError::Corrupt)
    }
}
