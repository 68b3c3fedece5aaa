//! The staging tier, as the rest of the store sees it.

mod read;

use std::sync::Arc;

use blockgate_block::BlockKey;
use blockgate_index::{Index, Record};
use blockgate_staging::{Clock, OpenError, PendingBlock, Settings, Staging, Summary, Told};
use blockgate_upstream::Upstream;

pub(crate) use self::read::{FromStaging, Silence};
use crate::core::Core;
use crate::writeback::refused;
use crate::{Limits, Result, StagingError, StagingSettings, StagingStats, Store, StoreParts};

/// Opens the log and wires it to the index: it knows from the start what is there, and hears of who comes and goes.
pub(crate) fn open(
    settings: Settings,
    upstream: Arc<dyn Upstream>,
    index: &Arc<Index>,
) -> std::result::Result<(Arc<Staging>, Vec<PendingBlock>), OpenError> {
    let clock: Clock = Arc::new(move || upstream.now());
    let told: Told = {
        let index = Arc::clone(index);
        Arc::new(move |digest, is_there| index.set_in_staging(digest, is_there))
    };
    Staging::open(settings, clock, told, &mut |digest, found| {
        // Of a block whose description has changed since, the upstream must be asked when it is wanted.
        if !found.amended {
            index.insert(digest, record_of(&found));
        }
    })
}

fn record_of(found: &Summary) -> Record {
    Record {
        len_bytes: found.len_bytes,
        crc64: found.crc64,
        expires_at_ms: found.expires_at_ms,
        fingerprint: found.fingerprint,
        in_memory: false,
        in_staging: true,
        in_upstream: !found.pending,
    }
}

impl Store {
    /// A store over a staging tier, whose directory is read: blocks the thread meanwhile. What is staged there is known from
    /// the start. Must be called within a tokio runtime, off its own threads.
    ///
    /// # Errors
    /// Where the staging directory can't be used.
    pub fn open(parts: StoreParts, staging: StagingSettings) -> std::result::Result<Arc<Self>, StagingError> {
        let limits = Limits::for_arena(parts.arena.stats().capacity_bytes);
        Self::open_with_limits(parts, limits, staging)
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_limits(
        parts: StoreParts,
        limits: Limits,
        staging: StagingSettings,
    ) -> std::result::Result<Arc<Self>, StagingError> {
        Ok(Arc::new(Self { core: Core::with_staging(parts, limits, staging)? }))
    }

    /// How the staging tier stands; none where there is none.
    #[must_use]
    pub fn staging_stats(&self) -> Option<StagingStats> {
        self.core.staging().map(|staging| staging.stats())
    }

    /// Ends the staging tier well, so that the next start is quick. To be called last: nothing is staged afterwards.
    pub async fn close(&self) {
        self.core.writeback.close();
        if let Some(staging) = self.core.staging() {
            staging.close().await;
        }
    }
}

impl Core {
    /// Values of staging that are read whenever metrics are shown.
    pub(crate) fn show_staging(&self) {
        let Some(staging) = self.staging() else { return };
        let show = |name, help, read: fn(&StagingStats) -> u64| {
            let staging = Arc::downgrade(staging);
            let read = move || staging.upgrade().map_or(0, |staging| read(&staging.stats()));
            #[allow(clippy::cast_precision_loss)] // exact up to 2^53
            self.metrics.observe(name, help, move || read() as f64);
        };
        show("blockgate_staging_on", "1 while staging takes blocks in.", |stats| u64::from(stats.is_on));
        show("blockgate_staging_blocks", "Blocks in staging.", |stats| stats.blocks);
        show("blockgate_staging_block_bytes", "Bytes of blocks in staging.", |stats| stats.block_bytes);
        show("blockgate_staging_pending_blocks", "Staged blocks that the upstream does not have yet.", |stats| {
            stats.pending_blocks
        });
        show(
            "blockgate_staging_pending_bytes",
            "Bytes of staged blocks that the upstream does not have yet.",
            |stats| stats.pending_bytes,
        );
        show("blockgate_staging_capacity_bytes", "Most bytes of segments.", |stats| stats.capacity_bytes);
        show("blockgate_staging_used_bytes", "Bytes of segments that hold blocks.", |stats| stats.used_bytes);
        show("blockgate_staging_table_bytes", "Memory taken by the table of staged blocks.", |stats| stats.table_bytes);
        show("blockgate_staging_written_bytes_total", "Bytes written for blocks that were staged.", |stats| {
            stats.written_bytes
        });
        show("blockgate_staging_rewritten_bytes_total", "Bytes written again when segments were reclaimed.", |stats| {
            stats.rewritten_bytes
        });
        show("blockgate_staging_reclaimed_segments_total", "Segments reclaimed.", |stats| stats.reclaimed_segments);
        show("blockgate_staging_commits_total", "Group commits.", |stats| stats.commits);
        show("blockgate_staging_corrupt_total", "Staged blocks dropped because their bytes were wrong.", |stats| {
            stats.corrupt
        });
        show(
            "blockgate_staging_refused_total",
            "Blocks not staged: for the write budget, for want of room, or while off.",
            |stats| stats.refused,
        );
        show("blockgate_staging_io_errors_total", "Reads and writes of the staging disk that failed.", |stats| {
            stats.io_errors
        });
    }

    /// To be called under the key's write lock, before an object's description changes at the upstream and its bytes stay:
    /// staging must not describe it as it was, after a restart either.
    pub(crate) async fn amend(&self, key: &BlockKey) -> Result<()> {
        match self.staging() {
            Some(staging) => staging.amend(key).await.map_err(refused),
            None => Ok(()),
        }
    }
}
