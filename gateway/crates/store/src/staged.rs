//! The staging tier, as the rest of the store sees it.

use std::sync::Arc;

use blockgate_block::BlockKey;
use blockgate_index::{Index, Record};
use blockgate_staging::{Clock, OpenError, PendingBlock, RemoveError, Settings, Staging, Summary, Told};
use blockgate_upstream::{Upstream, UpstreamError};

use crate::core::{Core, each};
use crate::{Result, StoreError};

/// Blocks that one request takes out of staging at the same time.
const UNSTAGED_AT_ONCE: usize = 256;

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

impl Core {
    /// Takes up what was acknowledged before the last start and is not yet at the upstream.
    pub(crate) fn resume(self: &Arc<Self>, pending: Vec<PendingBlock>) {
        if !pending.is_empty() {
            tracing::warn!(blocks = pending.len(), "staged blocks wait for their upload");
        }
    }

    /// To be called under the key's write lock, before the upstream is told to replace or remove an object: after a restart,
    /// staging must not show what was there before.
    pub(crate) async fn unstage(&self, key: &BlockKey) -> Result<()> {
        match self.staging() {
            Some(staging) => staging.remove(key).await.map_err(refused),
            None => Ok(()),
        }
    }

    /// The same for many.
    pub(crate) async fn unstage_all(&self, keys: &[BlockKey]) -> Result<()> {
        if self.staging().is_none() {
            return Ok(());
        }
        // All at once: one flush of the disk serves them together.
        let outcomes = each(0..keys.len(), UNSTAGED_AT_ONCE, |index| self.unstage(&keys[index])).await;
        outcomes.into_iter().collect()
    }

    /// The same, before an object's description changes and its bytes stay.
    pub(crate) async fn amend(&self, key: &BlockKey) -> Result<()> {
        match self.staging() {
            Some(staging) => staging.amend(key).await.map_err(refused),
            None => Ok(()),
        }
    }
}

/// Nothing was changed.
fn refused(error: RemoveError) -> StoreError {
    StoreError::Upstream(UpstreamError::Unavailable(error.to_string()))
}
