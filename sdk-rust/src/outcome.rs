//! How reads end: without errors, since an engine can always compute what it does not get.

use std::fmt;
use std::time::{Duration, SystemTime};

use blockgate_api::types::TierCounts;
use blockgate_api::{ErrorCode, MissReason as Told};

/// Why a block is not there to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissReason {
    /// Nothing is stored under the key.
    Absent,
    /// Its time to live is over.
    Expired,
    /// It was stored for another fingerprint.
    Fingerprint,
    /// The gateway found that its bytes are not those that were stored.
    Corrupt,
    /// The gateway could not deliver it in time.
    Deadline,
    /// The shared store behind the gateway does not answer.
    UpstreamUnavailable,
    /// No gateway could be reached, or the connection was lost.
    Unreachable,
    /// No answer came by the call's deadline.
    Timeout,
    /// The gateway's answer breaks the contract.
    Protocol,
    /// The bytes that arrived do not have the checksum that was announced for them.
    Checksum,
    /// The block has another length than the buffer given for it.
    BufferLength,
    /// The gateway refused the request.
    Refused(ErrorCode),
    /// A blocking call was made from async code.
    InsideRuntime,
}

impl MissReason {
    /// One of each kind, in the order of [`MissReason::kind`].
    pub(crate) const KINDS: [&'static str; 13] = [
        "absent",
        "expired",
        "fingerprint",
        "corrupt",
        "deadline",
        "upstream_unavailable",
        "unreachable",
        "timeout",
        "protocol",
        "checksum",
        "buffer_length",
        "refused",
        "inside_runtime",
    ];

    /// Position in [`MissReason::KINDS`].
    pub(crate) const fn kind(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Expired => 1,
            Self::Fingerprint => 2,
            Self::Corrupt => 3,
            Self::Deadline => 4,
            Self::UpstreamUnavailable => 5,
            Self::Unreachable => 6,
            Self::Timeout => 7,
            Self::Protocol => 8,
            Self::Checksum => 9,
            Self::BufferLength => 10,
            Self::Refused(_) => 11,
            Self::InsideRuntime => 12,
        }
    }

    /// The name for metrics and logs. Those that a gateway says are its own names for them.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::KINDS[self.kind()]
    }
}

impl From<Told> for MissReason {
    fn from(reason: Told) -> Self {
        match reason {
            Told::Absent => Self::Absent,
            Told::Expired => Self::Expired,
            Told::Fingerprint => Self::Fingerprint,
            Told::Corrupt => Self::Corrupt,
            Told::Deadline => Self::Deadline,
            Told::UpstreamUnavailable => Self::UpstreamUnavailable,
        }
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(code) => write!(f, "refused: {code}"),
            other => f.write_str(other.as_str()),
        }
    }
}

/// A block that can't be used, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Its position in the call's keys.
    pub index: usize,
    /// Why.
    pub reason: MissReason,
}

/// How much of a chain is reusable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lookup {
    /// How many blocks, from the first.
    pub matched: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// Where the gateway has them.
    pub tiers: TierCounts,
    /// Why the match ends; none when all keys match.
    pub miss: Option<Miss>,
    /// What delivering the match would take, as the gateway estimates.
    pub estimate: Duration,
    /// Until when the leased part stays, by the shared store's clock; none without a lease.
    pub lease_expires_at: Option<SystemTime>,
}

impl Lookup {
    /// No match, for this reason.
    pub(crate) fn missed(index: usize, reason: MissReason) -> Self {
        Self { miss: Some(Miss { index, reason }), ..Self::default() }
    }
}

/// Which keys are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exists {
    /// One for each key, in order. False where it could not be found out.
    pub present: Vec<bool>,
    /// Why it could not be found out; none where all answers are exact.
    pub failure: Option<MissReason>,
}

impl Exists {
    /// How many are there.
    #[must_use]
    pub fn count(&self) -> usize {
        self.present.iter().filter(|present| **present).count()
    }
}

/// Which blocks were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOutcome {
    /// How many blocks are in their buffers, whole and verified. With [`GetMode::Prefix`](crate::GetMode::Prefix) these are
    /// the first ones.
    pub loaded: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// What is not loaded, in order: every such block with [`GetMode::All`](crate::GetMode::All), only the first with
    /// [`GetMode::Prefix`](crate::GetMode::Prefix). What their buffers hold is not specified.
    pub misses: Vec<Miss>,
}

impl GetOutcome {
    /// Whether every block was loaded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.misses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gateways_say_keeps_its_name() {
        for told in Told::ALL {
            assert_eq!(MissReason::from(told).as_str(), told.as_str());
        }
    }
}
