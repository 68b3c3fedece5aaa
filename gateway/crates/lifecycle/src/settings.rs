//! What can be set.

use std::time::Duration;

/// Settings of all buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A published change is honoured by every gateway after so long.
    pub coherence_interval: Duration,
    /// How long the change log is kept.
    pub changes_kept: Duration,
    /// How often a gateway says that it lives. It counts as gone after three times as long.
    pub heartbeat: Duration,
    /// What the ledger sorts by. Gateways of one store may differ.
    pub ledger_period: Duration,
    /// Longest time that ledger lines wait to be written.
    pub ledger_delay: Duration,
    /// How often the ledger is looked at for what is due.
    pub sweep_interval: Duration,
    /// How long after its end a period is due.
    pub sweep_grace: Duration,
    /// Most objects looked at or deleted per second, by sweeps.
    pub sweep_rate: u32,
    /// How often everything is looked at.
    pub reconcile_interval: Duration,
    /// Most objects looked at per second, by reconciles.
    pub reconcile_rate: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            coherence_interval: Duration::from_secs(2),
            changes_kept: Duration::from_secs(3_600),
            heartbeat: Duration::from_secs(5),
            ledger_period: Duration::from_secs(3_600),
            ledger_delay: Duration::from_secs(10),
            sweep_interval: Duration::from_secs(60),
            sweep_grace: Duration::from_secs(30),
            sweep_rate: 500,
            reconcile_interval: Duration::from_secs(24 * 3_600),
            reconcile_rate: 100,
        }
    }
}

/// What other gateways' writes mean to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Coherence {
    /// Nothing: there are no other gateways. No change is written or read; the ledger and the sweeper work.
    Off,
    /// They are honoured within the interval, while the upstream answers.
    #[default]
    Bounded,
    /// And what can't be vouched for is not served.
    Strict,
}

/// Whose objects without a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Foreign {
    /// Another tool's: they are kept.
    #[default]
    Keep,
    /// Cache like all else: they live as long as the bucket's blocks do.
    Cache,
}

/// Settings of one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BucketSettings {
    /// What other gateways' writes mean.
    pub coherence: Coherence,
    /// Whose objects without a record are.
    pub foreign: Foreign,
    /// How long blocks live that were stored without a time to live.
    pub ttl: Option<Duration>,
    /// Most bytes of all blocks.
    pub quota_bytes: Option<u64>,
}
