//! Chains: many keys asked about at once.

mod estimate;
mod exists;
mod prefetch;
mod search;
mod view;
mod whole;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use blockgate_api::limits;
use blockgate_api::types::TierCounts;
use blockgate_block::{KeyList, MissReason, Tier};
use blockgate_upstream::UpstreamError;
use tokio::time::Instant;

use self::estimate::Delivery;
pub(crate) use self::estimate::Speeds;
pub use self::estimate::TierSpeed;
pub(crate) use self::prefetch::Prefetches;
use self::search::{Search, suppose};
use self::view::{Sight, View};
pub use self::whole::Whole;
use crate::core::Core;
use crate::deadline::Deadline;
use crate::{Result, StoreError};

/// The longest lease.
const LEASE_MAX: Duration = Duration::from_millis(limits::LEASE_MS_MAX);

/// Of a deadline, what is kept free between the end of a search and the delivery of what was known before it.
const RESERVE: Duration = Duration::from_millis(3);

/// What of a chain can be delivered whatever a search finds, and until when it may go on.
struct Promised {
    blocks: usize,
    search_by: Deadline,
}

/// What is asked of a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainRequest {
    /// The fingerprint that blocks must have been stored for; any when `None`.
    pub fingerprint: Option<String>,
    /// Time in which the match must be delivered, the answer to this included; the bucket's default when `None`.
    pub deadline: Option<Duration>,
    /// How long what is in memory of the match must stay there; also what a prefetch brings, once it is there. Ten minutes
    /// at most.
    pub lease: Option<Duration>,
    /// Whether to begin bringing the match to memory.
    pub prefetch: bool,
}

/// The longest usable prefix of a chain.
#[derive(Clone, Debug)]
pub struct ChainMatch {
    /// How many blocks, from the first.
    pub matched: usize,
    /// Their bytes together; a block whose length is not known counts like the nearest known one.
    pub bytes: u64,
    /// Where they are.
    pub tiers: TierCounts,
    /// The first block that does not match, and why; `None` when all do.
    pub miss: Option<(usize, MissReason)>,
    /// What delivering the match would take.
    pub estimate: Duration,
    /// Until when the blocks of the match that are in memory stay there, by the upstream's clock. `None` where no lease was
    /// asked for, where none of them is in memory, and where one of them could not be leased: more than a quarter of memory
    /// would be, or the block is acknowledged and not yet uploaded. Those before it are leased nevertheless.
    pub lease_expires_at: Option<SystemTime>,
}

/// What operators look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChainStats {
    /// Blocks under a lease.
    pub leases: u64,
    /// What they take of memory.
    pub lease_bytes: u64,
    /// Memory, up to a client's socket.
    pub memory: TierSpeed,
    /// Staging, up to memory; none where there is none.
    pub staging: Option<TierSpeed>,
    /// The upstream, up to memory.
    pub upstream: TierSpeed,
}

impl Core {
    pub(crate) async fn lookup(self: &Arc<Self>, keys: &Arc<KeyList>, request: &ChainRequest) -> Result<ChainMatch> {
        self.check_kv(keys)?;
        let begun = Instant::now();
        let deadline = Deadline::after(request.deadline.or(self.policy(keys.bucket()).deadline));
        let view = View::new(self, keys, request.fingerprint.as_deref());
        let mut search = Search::begin(&view);
        let promised = self.promised(&mut search, deadline);
        search.resolve(promised.search_by).await?;
        let Search { mut seen, end, rounds, .. } = search;
        suppose(&mut seen);
        let mut found = self.deliverable(&seen, end, promised.blocks, deadline);
        if let Some((at, MissReason::Deadline)) = found.miss
            && matches!(seen.get(at), Some(Sight::Good { tier: Tier::Staging | Tier::Upstream, .. }))
        {
            self.try_again(keys.get(at));
        }
        seen.truncate(found.matched);
        self.keep(keys, request, &seen, &mut found);
        self.metrics.lookup(keys.bucket(), keys.len(), found.matched, rounds, begun.elapsed());
        Ok(found)
    }

    /// Refuses what a passthrough bucket can't answer.
    fn check_kv(&self, keys: &KeyList) -> Result<()> {
        if self.policy(keys.bucket()).is_kv() {
            return Ok(());
        }
        Err(StoreError::Upstream(UpstreamError::NotSupported("questions about blocks of a passthrough bucket")))
    }

    /// What is known to be there and can be delivered by the deadline; the search may take what time is left then.
    fn promised(&self, search: &mut Search<'_>, deadline: Deadline) -> Promised {
        let Some(left) = deadline.left() else { return Promised { blocks: 0, search_by: deadline } };
        let known = search.known();
        let mut delivery = Delivery::by(&self.speeds);
        for (at, sight) in known.iter().enumerate() {
            let Sight::Good { len_bytes, tier } = *sight else { continue };
            delivery.add(len_bytes, tier);
            if delivery.takes() > left {
                // What comes after it is of no use.
                return Promised { blocks: at, search_by: Deadline::after(Some(Duration::ZERO)) };
            }
        }
        let reserve = if known.is_empty() { Duration::ZERO } else { delivery.takes() + RESERVE };
        Promised { blocks: known.len(), search_by: deadline.less(reserve) }
    }

    /// Sums up blocks that are there, as many as can be delivered by the deadline, and in any case those that were promised.
    fn deliverable(&self, seen: &[Sight], end: Option<MissReason>, promised: usize, deadline: Deadline) -> ChainMatch {
        let left = deadline.left();
        let mut delivery = Delivery::by(&self.speeds);
        let mut tiers = TierCounts::default();
        let mut miss = end.map(|reason| (seen.len(), reason));
        for (at, sight) in seen.iter().enumerate() {
            let Sight::Good { len_bytes, tier } = *sight else { continue };
            let mut more = delivery;
            more.add(len_bytes, tier);
            if at >= promised && left.is_some_and(|left| more.takes() > left) {
                miss = Some((at, MissReason::Deadline));
                break;
            }
            delivery = more;
            *match tier {
                Tier::Memory => &mut tiers.memory,
                Tier::Staging => &mut tiers.staging,
                Tier::Upstream => &mut tiers.upstream,
            } += 1;
        }
        ChainMatch {
            matched: miss.map_or(seen.len(), |(at, _)| at),
            bytes: delivery.bytes(),
            tiers,
            miss,
            estimate: delivery.takes(),
            lease_expires_at: None,
        }
    }

    /// Leases and prefetches a match as it was asked for.
    fn keep(self: &Arc<Self>, keys: &Arc<KeyList>, request: &ChainRequest, seen: &[Sight], found: &mut ChainMatch) {
        let until = request.lease.map(|lease| self.upstream.now() + lease.min(LEASE_MAX));
        if let Some(until) = until {
            let in_memory = |(at, sight): (usize, &Sight)| match sight {
                Sight::Good { tier: Tier::Memory, .. } => Some(at),
                _ => None,
            };
            let places: Vec<usize> = seen.iter().enumerate().filter_map(in_memory).collect();
            found.lease_expires_at = self.lease(keys, &places, until);
        }
        if request.prefetch {
            let elsewhere = |(at, sight): (usize, &Sight)| match *sight {
                Sight::Good { tier: Tier::Staging | Tier::Upstream, len_bytes } => Some((at, len_bytes)),
                _ => None,
            };
            self.prefetch(keys, seen.iter().enumerate().filter_map(elsewhere).collect(), until);
        }
    }

    pub(crate) fn chain_stats(&self) -> ChainStats {
        let memory = self.tiers().memory().stats();
        ChainStats {
            leases: memory.leases,
            lease_bytes: memory.leased_bytes,
            memory: self.speeds.memory(),
            staging: self.staging().map(|_| self.speeds.staging()),
            upstream: self.speeds.upstream(),
        }
    }
}
