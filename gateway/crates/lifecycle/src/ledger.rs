//! Which blocks expire in which period.

use std::time::SystemTime;

use blockgate_block::{BlockKey, TenantId};

/// That a block expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerLine {
    /// Its key.
    pub key: BlockKey,
    /// When it expires.
    pub expires_at: SystemTime,
    /// When it was stored: a line is of one version.
    pub stored_at: SystemTime,
    /// Its bytes.
    pub len_bytes: u64,
    /// Who stored it.
    pub tenant: Option<TenantId>,
}
