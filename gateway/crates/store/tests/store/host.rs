//! A host with a staging disk, on which gateways come and go.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::Arena;
use blockgate_store::{Limits, StagingEngine, StagingError, StagingSettings, StagingStats, Store, StoreParts};
use blockgate_telemetry::Metrics;
use blockgate_upstream::Upstream;
use tempfile::TempDir;

use crate::double::{Double, Handle};
use crate::support::{Rig, limits, policies};

/// Attempts to see something happen on a disk, a millisecond apart.
const LOOKS_MAX: u32 = 5_000;

/// What outlives a gateway: its disk, and the upstream.
pub struct Host {
    pub double: Arc<Double>,
    dir: TempDir,
    pub arena_bytes: u64,
    pub index_entries: u64,
    pub limits: Limits,
}

impl Host {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { double: Double::new(), dir, arena_bytes: 16 << 20, index_entries: 10_000, limits: limits() }
    }

    pub fn settings(&self) -> StagingSettings {
        StagingSettings {
            path: self.dir.path().join("staging"),
            capacity_bytes: 64 << 20,
            segment_bytes: 4 << 20,
            engine: StagingEngine::Auto,
            daily_write_bytes: None,
            pending_bytes_max: 32 << 20,
            probe_every: Duration::from_millis(20),
        }
    }

    /// Starts a gateway, once the one before it has let go of the disk.
    pub async fn start(&self) -> Rig {
        self.start_with(self.settings()).await
    }

    pub async fn start_with(&self, settings: StagingSettings) -> Rig {
        for _ in 0..LOOKS_MAX {
            let metrics = Metrics::new();
            let upstream: Arc<dyn Upstream> = Arc::new(Handle(Arc::clone(&self.double)));
            let parts = StoreParts {
                upstream,
                arena: Arena::new(self.arena_bytes).unwrap(),
                index_entries: self.index_entries,
                negative_ttl: Duration::from_secs(3600),
                policies: policies(),
                metrics: metrics.clone(),
            };
            match Store::open_with_limits(parts, self.limits.clone(), settings.clone()) {
                Ok(store) => return Rig { double: Arc::clone(&self.double), store, metrics },
                Err(StagingError::InUse(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the disk stays in use");
    }

    /// Ends a gateway well, and starts another.
    pub async fn restart(&self, rig: Rig) -> Rig {
        rig.store.close().await;
        drop(rig);
        self.start().await
    }

    /// The gateway dies, and another one starts.
    pub async fn crash(&self, rig: Rig) -> Rig {
        drop(rig);
        self.start().await
    }

    pub fn segments(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.settings().path).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
    }

    /// Flips a bit of every copy of `bytes` on the disk, and says how many there were.
    pub fn damage(&self, bytes: &[u8]) -> usize {
        let mut copies = 0;
        for path in self.segments() {
            let mut file = std::fs::read(&path).unwrap();
            // Payloads begin at a page.
            let places: Vec<usize> =
                (0..file.len()).step_by(4096).filter(|at| file[*at..].starts_with(bytes)).collect();
            copies += places.len();
            places.into_iter().for_each(|at| file[at + bytes.len() / 2] ^= 1);
            std::fs::write(&path, file).unwrap();
        }
        copies
    }
}

/// Waits until the staging disk is as wanted.
pub async fn until(rig: &Rig, wanted: impl Fn(&StagingStats) -> bool) {
    for _ in 0..LOOKS_MAX {
        if wanted(&rig.store.staging_stats().unwrap()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never so: {:?}", rig.store.staging_stats());
}

/// Waits until so many blocks are staged.
pub async fn staged(rig: &Rig, blocks: u64) {
    until(rig, |stats| stats.blocks == blocks).await;
}
