//! What gateways tell each other of writes.

use std::time::SystemTime;

use blockgate_block::{BlockKey, BlockRecord, ObjectInfo, TenantId};

/// A version of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its record; none where another tool's object or one without a record was written.
    pub record: Option<BlockRecord>,
    /// The upstream's ETag.
    pub upstream_etag: String,
    /// Hash of its fingerprint ([`blockgate_block::fingerprint_hash`]).
    pub fingerprint: u64,
}

impl Version {
    /// Whether `info` describes this version.
    #[must_use]
    pub fn is(&self, info: &ObjectInfo) -> bool {
        self.record == info.record
            && self.upstream_etag == info.upstream_etag
            && self.fingerprint == blockgate_block::fingerprint_hash(info.fingerprint())
    }
}

/// Which blocks a purge is of; all that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Selector {
    /// Keys that begin so; empty for all.
    pub prefix: String,
    /// Blocks that were stored for this fingerprint.
    pub fingerprint: Option<String>,
    /// Blocks that this tenant stored.
    pub tenant: Option<TenantId>,
}

/// What became of a key, or of many. A change is of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something was stored under the key.
    Stored {
        /// The key.
        key: BlockKey,
        /// What is there now.
        version: Version,
    },
    /// The block lives longer or shorter, or has other metadata; its bytes are the same.
    Renewed {
        /// The key.
        key: BlockKey,
        /// What is there now. Of what it was before, `record.stored_at` and the bytes hold.
        version: Version,
    },
    /// Nothing is there any more.
    Removed {
        /// The key.
        key: BlockKey,
        /// When: what was stored later stays.
        at: SystemTime,
    },
    /// All that a selector names is being removed; those that are at the upstream are also told of one by one.
    Purged {
        /// Which.
        selector: Selector,
        /// When: what was stored later stays.
        at: SystemTime,
    },
    /// A sweep or a reclaim deleted a version. A newer one may have gone with it.
    Swept {
        /// The key.
        key: BlockKey,
        /// When the deleted version was stored.
        stored_at: SystemTime,
        /// When it was to expire, or did.
        expires_at: Option<SystemTime>,
    },
}
