//! What is known of the keys of a request, from one look at the index to asking the upstream.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use blockgate_block::{BlockKey, Digest, KeyList, MissReason, ObjectInfo, Tier, fingerprint_hash};
use blockgate_index::Presence;
use blockgate_upstream::UpstreamError;

use crate::conditions::judge_read;
use crate::core::Core;
use crate::{BucketPolicy, OnUpstreamError, ReadRequest, StoreError};

/// Keys that the index is asked about in one go, and in the first one.
const GLANCED_TOGETHER: usize = 1024;
const GLANCED_FIRST: usize = 64;

/// What is known of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// A block that can be served.
    Good { len_bytes: u64, tier: Tier },
    /// There is none.
    Bad(MissReason),
    /// By what this gateway last knew there is none: its time is over, or it was absent a while ago. Another gateway may have
    /// renewed or stored it, so only the upstream can say; it is never supposed to be there.
    Doubtful(MissReason),
    /// Nothing.
    Unknown,
}

impl Sight {
    pub(super) fn is_doubtful(self) -> bool {
        matches!(self, Self::Doubtful(_))
    }
}

/// Why the upstream gave no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// To the bucket that is a miss.
    Unavailable,
    /// The request fails with it.
    Error(StoreError),
}

/// The keys of a request, seen at one moment and for one fingerprint.
pub(super) struct View<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) keys: &'a KeyList,
    policy: &'a BucketPolicy,
    request: ReadRequest,
    /// 0 where any fingerprint will do.
    fingerprint: u64,
    now: SystemTime,
    now_ms: u64,
    /// Blocks that the index does not know yet.
    pending: HashMap<Digest, Arc<ObjectInfo>>,
    len_bytes_max: u64,
}

impl<'a> View<'a> {
    pub(super) fn new(core: &'a Arc<Core>, keys: &'a KeyList, fingerprint: Option<&str>) -> Self {
        let policy = core.policy(keys.bucket());
        // Before the index is looked at: an upload that ends meanwhile is known there.
        let mut pending = HashMap::new();
        core.keys.for_each_pending(&mut |key, info| {
            pending.insert(key.digest(), Arc::clone(info));
        });
        let now = core.upstream.now();
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            core,
            keys,
            policy,
            request: ReadRequest { fingerprint: fingerprint.map(str::to_owned), ..ReadRequest::default() },
            fingerprint: fingerprint_hash(fingerprint),
            now,
            now_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
            pending,
            len_bytes_max: core.whole_bytes_max(policy),
        }
    }

    /// Tells what the index knows of each key, in their order, until `tell` breaks off. No key is put together for it:
    /// thousands are asked about in a fraction of a millisecond.
    pub(super) fn glance(&self, mut tell: impl FnMut(Sight) -> ControlFlow<()>) {
        let mut digests = Vec::with_capacity(GLANCED_TOGETHER.min(self.keys.len()));
        let mut next = 0;
        while next < self.keys.len() {
            // Few at first: most chains that end soon end at once.
            let together = if next == 0 { GLANCED_FIRST } else { GLANCED_TOGETHER };
            let some = next..self.keys.len().min(next + together);
            next = some.end;
            digests.clear();
            digests.extend(some.map(|at| self.keys.digest(at)));
            let mut of = digests.iter();
            let told = self.core.tiers().index().get_many(&digests, self.now, |presence| {
                let pending = of.next().and_then(|digest| self.pending(digest));
                tell(pending.unwrap_or_else(|| self.sight(presence)))
            });
            if told.is_break() {
                return;
            }
        }
    }

    fn pending(&self, digest: &Digest) -> Option<Sight> {
        if self.pending.is_empty() {
            return None;
        }
        Some(self.judge(self.pending.get(digest)?, Tier::Memory))
    }

    fn sight(&self, presence: Presence) -> Sight {
        match presence {
            Presence::Unknown => Sight::Unknown,
            Presence::WasAbsent => Sight::Doubtful(MissReason::Absent),
            Presence::Absent => Sight::Bad(MissReason::Absent),
            Presence::Present(record) if record.expires_at_ms != 0 && record.expires_at_ms <= self.now_ms => {
                Sight::Doubtful(MissReason::Expired)
            }
            Presence::Present(record) if self.fingerprint != 0 && self.fingerprint != record.fingerprint => {
                Sight::Bad(MissReason::Fingerprint)
            }
            Presence::Present(record) if record.in_memory => self.sized(record.len_bytes, Tier::Memory),
            Presence::Present(record) if record.in_staging => self.sized(record.len_bytes, Tier::Staging),
            Presence::Present(record) if record.in_upstream => self.sized(record.len_bytes, Tier::Upstream),
            // It waited for its upload, and is not staged any more.
            Presence::Present(_) => Sight::Unknown,
        }
    }

    /// What this gateway knows beyond the index: blocks and descriptions of objects that have no record, or whose entry
    /// was lost for want of room.
    pub(super) fn look(&self, key: &BlockKey) -> Option<Sight> {
        if let Some(block) = self.core.held(key, self.now) {
            return Some(self.judge(&block.info, Tier::Memory));
        }
        match self.core.known(key, &self.request, self.now) {
            Ok(Some(info)) => Some(self.judge(&info, self.core.tier_of(key))),
            Ok(None) => {
                let arriving = self.core.keys.fill(key).and_then(|fill| fill.info());
                arriving.map(|info| self.judge(&info, self.core.tier_of(key)))
            }
            Err(StoreError::Miss(reason)) => Some(Sight::Bad(reason)),
            Err(_) => None,
        }
    }

    /// What staging or the upstream knows, if nothing nearer does.
    pub(super) async fn ask(&self, at: usize) -> Result<Sight, Failure> {
        let key = self.keys.get(at);
        if let Some(sight) = self.look(&key) {
            return Ok(sight);
        }
        match self.core.ask_head(&key).await {
            Ok(info) => Ok(self.judge(&info, self.core.tier_of(&key))),
            Err(UpstreamError::NoSuchKey) => Ok(Sight::Bad(MissReason::Absent)),
            Err(UpstreamError::Damaged(_)) => Ok(Sight::Bad(MissReason::Corrupt)),
            Err(error) if error.is_outage() && self.policy.on_upstream_error == OnUpstreamError::Miss => {
                tracing::debug!(%key, %error, "the upstream could not be asked about a block");
                Err(Failure::Unavailable)
            }
            Err(error) => Err(Failure::Error(error.into())),
        }
    }

    fn judge(&self, info: &Arc<ObjectInfo>, tier: Tier) -> Sight {
        match judge_read(info, &self.request, self.now) {
            Ok(()) => self.sized(info.size_bytes, tier),
            Err(StoreError::Miss(reason)) => Sight::Bad(reason),
            Err(_) => Sight::Unknown,
        }
    }

    fn sized(&self, len_bytes: u64, tier: Tier) -> Sight {
        if len_bytes > self.len_bytes_max {
            // An object that is no block: it could never be delivered as one.
            Sight::Bad(MissReason::Absent)
        } else {
            Sight::Good { len_bytes, tier }
        }
    }
}
