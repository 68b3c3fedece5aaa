//! What a client counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{BreakerState, MissReason};

/// Counters of a client and its clones, since it was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalStats {
    /// Blocks loaded, whole and verified.
    pub blocks_loaded: u64,
    /// Their bytes.
    pub bytes_loaded: u64,
    /// Blocks stored.
    pub blocks_stored: u64,
    /// Their bytes.
    pub bytes_stored: u64,
    /// Misses by reason ([`MissReason::as_str`]). Every reason is there. A read that ends at its first miss counts one.
    pub misses: BTreeMap<&'static str, u64>,
    /// Requests sent to another gateway, or again, since one had failed.
    pub failovers: u64,
    /// Each gateway, in the order given to the builder.
    pub gateways: Vec<GatewayStats>,
}

/// Counters of one gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayStats {
    /// Where it is.
    pub endpoint: String,
    /// What its breaker lets through.
    pub breaker: BreakerState,
    /// Requests sent to it, without probes.
    pub calls: u64,
    /// Those that failed by its fault.
    pub failures: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    misses: [AtomicU64; MissReason::KINDS.len()],
    loaded: Volume,
    stored: Volume,
}

#[derive(Debug, Default)]
struct Volume {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl Volume {
    fn add(&self, blocks: usize, bytes: u64) {
        self.blocks.fetch_add(blocks as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn missed(&self, reason: MissReason) {
        self.misses[reason.kind()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn loaded(&self, blocks: usize, bytes: u64) {
        self.loaded.add(blocks, bytes);
    }

    pub(crate) fn stored(&self, blocks: usize, bytes: u64) {
        self.stored.add(blocks, bytes);
    }

    pub(crate) fn snapshot(&self, failovers: u64, gateways: Vec<GatewayStats>) -> LocalStats {
        let misses = MissReason::KINDS.iter().zip(&self.misses);
        LocalStats {
            blocks_loaded: self.loaded.blocks.load(Ordering::Relaxed),
            bytes_loaded: self.loaded.bytes.load(Ordering::Relaxed),
            blocks_stored: self.stored.blocks.load(Ordering::Relaxed),
            bytes_stored: self.stored.bytes.load(Ordering::Relaxed),
            misses: misses.map(|(name, count)| (*name, count.load(Ordering::Relaxed))).collect(),
            failovers,
            gateways,
        }
    }
}
