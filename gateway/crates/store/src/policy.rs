//! Settings by bucket.

use std::time::Duration;

/// Whether a bucket's objects go through the tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Objects up to [`BucketPolicy::max_block_bytes`] are blocks.
    #[default]
    Kv,
    /// Nothing is cached; ETags and errors are the upstream's.
    Passthrough,
}

/// When a PUT is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// After the upstream has the block.
    #[default]
    Through,
    /// After the staging log has it: a crash does not lose it. Through where staging can't take it.
    Back,
    /// After memory has it.
    Async,
}

/// What a read answers while the upstream is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnUpstreamError {
    /// A miss: engines recompute at once.
    #[default]
    Miss,
    /// A 5xx: for tools that must tell absent from unreachable.
    Error,
}

/// Settings of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPolicy {
    /// Cached or not.
    pub mode: Mode,
    /// When a PUT is acknowledged.
    pub write: WriteMode,
    /// TTL of blocks stored without one.
    pub ttl: Option<Duration>,
    /// Refuse a PUT without a fingerprint.
    pub require_fingerprint: bool,
    /// Deadline of reads that name none.
    pub deadline: Option<Duration>,
    /// What a read answers while the upstream is out.
    pub on_upstream_error: OnUpstreamError,
    /// Larger objects stream past the tiers.
    pub max_block_bytes: u64,
}

impl BucketPolicy {
    pub(crate) fn is_kv(&self) -> bool {
        self.mode == Mode::Kv
    }
}

impl Default for BucketPolicy {
    fn default() -> Self {
        Self {
            mode: Mode::Kv,
            write: WriteMode::Through,
            ttl: None,
            require_fingerprint: false,
            deadline: None,
            on_upstream_error: OnUpstreamError::Miss,
            max_block_bytes: 64 << 20,
        }
    }
}

/// Settings of all buckets: the first pattern that fits a name decides, else the default.
#[derive(Clone, Debug, Default)]
pub struct BucketPolicies {
    rules: Vec<(String, BucketPolicy)>,
    default: BucketPolicy,
}

impl BucketPolicies {
    /// Rules in order; a pattern is a bucket name in which `*` stands for any run of characters and `?` for one.
    #[must_use]
    pub fn new(rules: Vec<(String, BucketPolicy)>, default: BucketPolicy) -> Self {
        Self { rules, default }
    }

    /// All settings with the pattern that they are for, the default's last.
    pub fn all(&self) -> impl Iterator<Item = (&str, &BucketPolicy)> {
        let rules = self.rules.iter().map(|(pattern, policy)| (pattern.as_str(), policy));
        rules.chain([("every other bucket", &self.default)])
    }

    /// The settings of `bucket`.
    #[must_use]
    pub fn of(&self, bucket: &str) -> &BucketPolicy {
        self.rules
            .iter()
            .find(|(pattern, _)| blockgate_block::glob_matches(pattern, bucket))
            .map_or(&self.default, |(_, policy)| policy)
    }
}
