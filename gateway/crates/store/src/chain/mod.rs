//! Chains: many keys asked about at once.

mod estimate;
mod whole;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use blockgate_api::types::TierCounts;
use blockgate_block::{KeyList, MissReason, Tier};
use blockgate_upstream::UpstreamError;

pub(crate) use estimate::Speeds;
pub use estimate::TierSpeed;
pub use whole::Whole;

use crate::core::Core;
use crate::{ReadRequest, Result, StoreError};

/// What is asked of a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainRequest {
    /// The fingerprint that blocks must have been stored for; any when `None`.
    pub fingerprint: Option<String>,
    /// Time in which the match must be delivered, the answer to this included; the bucket's default when `None`.
    pub deadline: Option<Duration>,
    /// How long what is in memory of the match must stay there.
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
    /// Until when the match stays in memory, by the upstream's clock; `None` where not all of it that is there is leased.
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
    /// The upstream, up to memory.
    pub upstream: TierSpeed,
}

impl Core {
    pub(crate) async fn lookup(self: &Arc<Self>, keys: &Arc<KeyList>, request: &ChainRequest) -> Result<ChainMatch> {
        if !self.policy(keys.bucket()).is_kv() {
            return Err(StoreError::Upstream(UpstreamError::NotSupported("lookups in a passthrough bucket")));
        }
        let mut found = ChainMatch {
            matched: 0,
            bytes: 0,
            tiers: TierCounts::default(),
            miss: None,
            estimate: Duration::ZERO,
            lease_expires_at: None,
        };
        for index in 0..keys.len() {
            let read = ReadRequest {
                fingerprint: request.fingerprint.clone(),
                deadline: request.deadline,
                ..ReadRequest::default()
            };
            match self.head(&keys.get(index), &read).await {
                Ok(block) => {
                    found.matched += 1;
                    found.bytes += block.info.size_bytes;
                    match block.tier {
                        Tier::Memory => found.tiers.memory += 1,
                        Tier::Staging => found.tiers.staging += 1,
                        Tier::Upstream => found.tiers.upstream += 1,
                    }
                }
                Err(StoreError::Miss(reason)) => {
                    found.miss = Some((index, reason));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    pub(crate) async fn exists(
        self: &Arc<Self>,
        keys: &Arc<KeyList>,
        fingerprint: Option<&str>,
        deadline: Option<Duration>,
    ) -> Result<Vec<bool>> {
        let mut present = Vec::with_capacity(keys.len());
        for index in 0..keys.len() {
            let read = ReadRequest { fingerprint: fingerprint.map(str::to_owned), deadline, ..ReadRequest::default() };
            match self.head(&keys.get(index), &read).await {
                Ok(_) => present.push(true),
                Err(StoreError::Miss(_)) => present.push(false),
                Err(error) => return Err(error),
            }
        }
        Ok(present)
    }

    pub(crate) fn chain_stats(&self) -> ChainStats {
        ChainStats::default()
    }
}
