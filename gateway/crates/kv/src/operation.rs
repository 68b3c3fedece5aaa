//! The operations, and what others must know of them before they run.

use blockgate_api::BASE_PATH;

/// What an operation's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// There is none.
    None,
    /// JSON.
    Json,
    /// Frames.
    Frames,
}

/// An operation of the KV extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The longest usable prefix of a chain.
    Lookup,
    /// Which keys are there.
    Exists,
    /// Blocks, as frames.
    Get,
    /// Stores blocks.
    Put,
    /// Removes blocks.
    Delete,
    /// Renews times to live.
    Touch,
    /// What operators look at: of this gateway and a bucket.
    Stats,
    /// What operators look at: the gateways.
    Fleet,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 8] =
        [Self::Lookup, Self::Exists, Self::Get, Self::Put, Self::Delete, Self::Touch, Self::Stats, Self::Fleet];

    /// The operation at a path.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        let rest = path.strip_prefix(BASE_PATH)?.strip_prefix('/')?;
        if rest == Self::Fleet.name() {
            return Some(Self::Fleet);
        }
        let (bucket, name) = rest.split_once('/')?;
        let of_bucket = Self::ALL.into_iter().filter(|operation| *operation != Self::Fleet);
        if bucket.is_empty() { None } else { of_bucket.into_iter().find(|operation| operation.name() == name) }
    }

    /// The bucket that a path names, as it is written there; empty for `fleet`.
    #[must_use]
    pub(crate) fn bucket(path: &str) -> &str {
        let rest = path.strip_prefix(BASE_PATH).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
        rest.split_once('/').map_or("", |(bucket, _)| bucket)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Exists => "exists",
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Touch => "touch",
            Self::Stats => "stats",
            Self::Fleet => "fleet",
        }
    }

    /// As routers write it.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Lookup => "/_kv/v1/{bucket}/lookup",
            Self::Exists => "/_kv/v1/{bucket}/exists",
            Self::Get => "/_kv/v1/{bucket}/get",
            Self::Put => "/_kv/v1/{bucket}/put",
            Self::Delete => "/_kv/v1/{bucket}/delete",
            Self::Touch => "/_kv/v1/{bucket}/touch",
            Self::Stats => "/_kv/v1/{bucket}/stats",
            Self::Fleet => "/_kv/v1/fleet",
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lookup => "KvLookup",
            Self::Exists => "KvExists",
            Self::Get => "KvGet",
            Self::Put => "KvPut",
            Self::Delete => "KvDelete",
            Self::Touch => "KvTouch",
            Self::Stats => "KvStats",
            Self::Fleet => "KvFleet",
        }
    }

    /// Whether it is a GET.
    pub(crate) const fn is_read_only(self) -> bool {
        matches!(self, Self::Stats | Self::Fleet)
    }

    /// Its methods, as in the header `Allow`.
    #[must_use]
    pub const fn allow(self) -> &'static str {
        if self.is_read_only() { "GET,HEAD" } else { "POST" }
    }

    /// What its body is.
    #[must_use]
    pub const fn body(self) -> BodyKind {
        match self {
            Self::Put => BodyKind::Frames,
            Self::Stats | Self::Fleet => BodyKind::None,
            _ => BodyKind::Json,
        }
    }

    /// Whether a signature that does not cover the body is not enough: the body alone says what is lost.
    #[must_use]
    pub const fn destroys(self) -> bool {
        matches!(self, Self::Delete | Self::Touch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for operation in Operation::ALL {
            let path = operation.path().replace("{bucket}", "kv");
            assert_eq!(Operation::at(&path), Some(operation));
            assert_eq!(Operation::bucket(&path), if operation == Operation::Fleet { "" } else { "kv" });
        }
        for path in [
            "/_kv/v1",
            "/_kv/v1/",
            "/_kv/v1/kv",
            "/_kv/v1//get",
            "/_kv/v1/kv/get/",
            "/_kv/v1/kv/fleet",
            "/_kv/v2/kv/get",
        ] {
            assert_eq!(Operation::at(path), None, "{path}");
        }
        assert_eq!(Operation::at("/_kv/v1/fleet/get"), Some(Operation::Get), "a bucket may have that name");
    }
}
