//! The gateways of a world, one of which may be killed and begin anew.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::BlockKey;
use blockgate_store::{Limits, Store, WriteRequest};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{Payload, Upstream};
use tempfile::TempDir;

use crate::support::*;

const ARENA_BYTES: u64 = 128 << 10;
/// Small, so that segments are used again.
const SEGMENT_BYTES: u64 = 256 << 10;
pub const NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// What gateways are made of.
pub struct Gateways {
    upstream: Arc<dyn Upstream>,
    bucket: &'static str,
    /// Where they stage, if they do.
    disk: Option<TempDir>,
}

impl Gateways {
    pub fn new(upstream: Arc<dyn Upstream>, bucket: &'static str, disk: Option<TempDir>) -> Self {
        Self { upstream, bucket, disk }
    }

    pub fn stage(&self) -> bool {
        self.disk.is_some()
    }

    /// A gateway, with what the one of this number before it staged.
    pub async fn begin(&self, number: usize) -> Arc<Store> {
        let limits = Limits { commit_attempts: 2, upload_retry: Duration::from_millis(1), ..limits() };
        let parts = || parts_on(Arc::clone(&self.upstream), ARENA_BYTES, NEGATIVE_TTL, Metrics::new());
        let Some(disk) = &self.disk else { return Store::with_limits(parts(), limits) };
        let staging = staging_in(&disk.path().join(number.to_string()), SEGMENT_BYTES);
        open_after(|| Store::open_with_limits(parts(), limits.clone(), staging.clone())).await
    }

    /// Lets a gateway see that the bucket is there, so that it believes in it through an outage.
    pub async fn show_bucket(&self, store: &Store) {
        let key = BlockKey::new(self.bucket, "filler/seen").unwrap();
        let _ = store.put(&key, WriteRequest::default(), Payload::Bytes("seen".into())).await.unwrap();
        store.drain().await;
    }
}
