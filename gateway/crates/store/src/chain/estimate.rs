//! How long delivering a match takes.

use std::time::Duration;

use blockgate_block::Tier;

/// What a tier was measured to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSpeed {
    /// Time to the first byte.
    pub latency: Duration,
    /// What one stream delivers after it.
    pub bytes_per_second: u64,
}

/// What tiers were measured to be.
#[derive(Default)]
pub(crate) struct Speeds;

impl Speeds {
    /// Bytes from a tier reached a client's socket.
    pub(crate) fn delivered(&self, _: Tier, _: u64, _: Duration) {}
}
