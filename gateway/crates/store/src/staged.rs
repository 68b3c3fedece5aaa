//! The staging tier, as the rest of the store sees it.

mod read;

use std::sync::Arc;

use blockgate_block::BlockKey;
use blockgate_index::{Index, Record};
use blockgate_staging::{Clock, OpenError, PendingBlock, Settings, Staging, Summary, Told};
use blockgate_upstream::Upstream;

pub(crate) use self::read::{FromStaging, Silence};
use crate::Result;
use crate::core::Core;
use crate::writeback::refused;

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
    /// To be called under the key's write lock, before an object's description changes at the upstream and its bytes stay:
    /// staging must not describe it as it was, after a restart either.
    pub(crate) async fn amend(&self, key: &BlockKey) -> Result<()> {
        match self.staging() {
            Some(staging) => staging.amend(key).await.map_err(refused),
            None => Ok(()),
        }
    }
}
