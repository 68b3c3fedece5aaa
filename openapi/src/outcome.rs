//! How a read ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Host memory of this gateway.
    Memory,
    /// Local NVMe of this gateway.
    Staging,
    /// The shared store.
    Upstream,
}

impl Tier {
    /// The name in headers (`x-kv-tier`), metrics and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Staging => "staging",
            Self::Upstream => "upstream",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a block can't be served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissReason {
    /// Nothing is stored under the key.
    Absent,
    /// Its time to live is over.
    Expired,
    /// It was stored for another fingerprint.
    Fingerprint,
    /// Its bytes do not have the checksum that they were stored with.
    Corrupt,
    /// It can't be delivered within the request's deadline.
    Deadline,
    /// The shared store does not answer.
    UpstreamUnavailable,
}

impl MissReason {
    /// Every reason, for metrics that must exist before the first miss.
    pub const ALL: [Self; 6] =
        [Self::Absent, Self::Expired, Self::Fingerprint, Self::Corrupt, Self::Deadline, Self::UpstreamUnavailable];

    /// The name in headers (`x-kv-miss`), metrics and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Expired => "expired",
            Self::Fingerprint => "fingerprint",
            Self::Corrupt => "corrupt",
            Self::Deadline => "deadline",
            Self::UpstreamUnavailable => "upstream_unavailable",
        }
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
