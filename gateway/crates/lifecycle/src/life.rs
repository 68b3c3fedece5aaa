//! All of it for all buckets of a gateway.

use std::sync::Arc;
use std::time::SystemTime;

use blockgate_telemetry::Metrics;
use blockgate_upstream::{Result, Upstream};
use tokio::time::Instant;

use crate::ledger::LedgerLine;
use crate::{BucketSettings, Change, GatewayId, Host, Settings};

/// What a gateway may believe of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Trust {
    /// What was learned earlier must be confirmed; none where nothing need be.
    pub since: Option<Instant>,
    /// Nothing at all may be believed now (strict buckets).
    pub none: bool,
}

/// The life cycle of all buckets that a gateway uses. Each is joined when it is first used.
pub struct Lifecycle {
    _settings: Settings,
}

impl Lifecycle {
    /// Begins. `upstream` is the store without what this crate's user lays over it; `settings_of` gives a bucket's settings,
    /// none for one that has no life cycle (passthrough).
    #[must_use]
    pub fn new(
        gateway: GatewayId,
        settings: Settings,
        settings_of: impl Fn(&str) -> Option<BucketSettings> + Send + Sync + 'static,
        upstream: Arc<dyn Upstream>,
        metrics: Metrics,
    ) -> Arc<Self> {
        let _ = (gateway, settings_of, upstream, metrics);
        Arc::new(Self { _settings: settings })
    }

    /// Whom changes are told to; once, before anything is used.
    pub fn serve(&self, host: std::sync::Weak<dyn Host>) {
        let _ = host;
    }

    /// Uses a bucket from now on, if it is not used yet. Cheap.
    pub fn join(self: &Arc<Self>, bucket: &str) {
        let _ = bucket;
    }

    /// Tells other gateways of changes, soon.
    pub fn note(self: &Arc<Self>, bucket: &str, changes: Vec<Change>) {
        let _ = (bucket, changes);
    }

    /// Tells other gateways of changes, and returns when all who live will honour them within the interval. Where the upstream
    /// does not take them in time this is an error, and they are noted: they will be told as soon as it does.
    ///
    /// # Errors
    /// The upstream's.
    pub async fn publish(self: &Arc<Self>, bucket: &str, changes: Vec<Change>) -> Result<()> {
        let _ = (bucket, changes);
        Ok(())
    }

    /// Keeps a line for the ledger.
    pub fn enter(self: &Arc<Self>, bucket: &str, line: LedgerLine) {
        let _ = (bucket, line);
    }

    /// What may be believed of a bucket. Cheap.
    #[must_use]
    pub fn trust(&self, bucket: &str) -> Trust {
        let _ = bucket;
        Trust::default()
    }

    /// For what was known before the start (a staging log): when this gateway last looked at the bucket's changes. Changes since
    /// then are applied by the first look; none, or longer ago than the log is kept, distrusts everything from before.
    pub fn looked_at(&self, bucket: &str, at: Option<SystemTime>) {
        let _ = (bucket, at);
    }

    /// When the changes of each bucket in use were last looked at, by the upstream's clock.
    #[must_use]
    pub fn looks(&self) -> Vec<(String, SystemTime)> {
        Vec::new()
    }

    /// Writes what is noted and gathered, says farewell and ends.
    pub async fn leave(&self) {}
}
