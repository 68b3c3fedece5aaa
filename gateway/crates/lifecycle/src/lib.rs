//! The life cycle of blocks, kept by all gateways together through the upstream alone: `docs/adr/0007-life-cycle.md`.
//!
//! * [`changes`]: what gateways tell each other of writes
//! * [`members`]: which gateways there are, and what is whose
//! * [`ledger`]: which blocks expire in which period
//! * [`sweep`]: deletes them, and what a reconcile finds
//! * [`usage`]: bytes by bucket and tenant
//!
//! Knows no tiers: what a change means to them is for the [`Host`] to say.
#![forbid(unsafe_code)]

pub mod changes;
mod id;
pub mod ledger;
mod life;
pub mod members;
pub mod names;
mod settings;
pub mod sweep;
pub mod usage;

use blockgate_block::BlockKey;

pub use changes::{Change, Selector, Version};
pub use id::GatewayId;
pub use life::{Lifecycle, Trust};
pub use settings::{BucketSettings, Coherence, Foreign, Settings};

/// Who holds copies of blocks, and is told what became of them.
pub trait Host: Send + Sync + 'static {
    /// Another gateway changed something. Quick, and called for the changes of a batch one by one, batches in the order of
    /// their names.
    fn apply(&self, bucket: &str, change: &Change);

    /// Whether something of this bucket may be in the tiers under this key: such a write is published, others are noted.
    fn may_know(&self, key: &BlockKey) -> bool;
}
