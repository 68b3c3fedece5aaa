//! Conditional headers and ranges, judged against what is known of an object.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{MissReason, ObjectInfo};
use blockgate_upstream::Conditions;

use crate::{RangeSpec, ReadRequest, Result, StoreError};

/// Whether a read of `info` may go on: not expired, of the fingerprint asked for, its conditions met.
pub(crate) fn judge_read(info: &Arc<ObjectInfo>, request: &ReadRequest, now: SystemTime) -> Result<()> {
    if is_expired(info, now) {
        return Err(StoreError::Miss(MissReason::Expired));
    }
    if request.fingerprint.is_some() && request.fingerprint.as_deref() != info.fingerprint() {
        return Err(StoreError::Miss(MissReason::Fingerprint));
    }
    judge(info, &request.conditions)
}

/// Whether the object may no longer be served.
pub(crate) fn is_expired(info: &ObjectInfo, now: SystemTime) -> bool {
    info.expires_at().is_some_and(|at| at <= now)
}

/// Whether an object is still the version that was seen. Its ETag alone does not tell: most upstreams make it of the bytes,
/// and the same bytes may have been stored anew, for another fingerprint or for another time.
pub(crate) fn is_version(info: &ObjectInfo, seen: &ObjectInfo) -> bool {
    info.upstream_etag == seen.upstream_etag
        && info.size_bytes == seen.size_bytes
        && info.record == seen.record
        && info.fingerprint() == seen.fingerprint()
}

/// Judges conditions in the order of RFC 9110, section 13.2.2.
pub(crate) fn judge(info: &Arc<ObjectInfo>, conditions: &Conditions) -> Result<()> {
    if let Some(tag) = &conditions.if_match {
        if !names(tag, info) {
            return Err(StoreError::PreconditionFailed);
        }
    } else if conditions.if_unmodified_since.is_some_and(|since| seconds(info.last_modified) > seconds(since)) {
        return Err(StoreError::PreconditionFailed);
    }
    let fresh = match (&conditions.if_none_match, conditions.if_modified_since) {
        (Some(tag), _) => names(tag, info),
        (None, Some(since)) => seconds(info.last_modified) <= seconds(since),
        (None, None) => false,
    };
    if fresh { Err(StoreError::NotModified(Arc::clone(info))) } else { Ok(()) }
}

/// Whether an ETag of a condition names this object: by the block's ETag or the upstream's.
pub(crate) fn names(tag: &str, info: &ObjectInfo) -> bool {
    tag == "*" || tag == info.etag || (tag == info.upstream_etag && !tag.is_empty())
}

/// HTTP dates have whole seconds.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Which bytes of an object of `size_bytes` are asked for.
pub(crate) fn resolve_range(range: Option<RangeSpec>, size_bytes: u64) -> Result<Range<u64>> {
    let unsatisfiable = StoreError::InvalidRange { size_bytes };
    match range {
        None => Ok(0..size_bytes),
        Some(RangeSpec::From { first, last }) => {
            let end = last.map_or(size_bytes, |last| last.saturating_add(1).min(size_bytes));
            if first < end { Ok(first..end) } else { Err(unsatisfiable) }
        }
        Some(RangeSpec::Suffix { len_bytes }) => {
            let len_bytes = len_bytes.min(size_bytes);
            if len_bytes > 0 { Ok(size_bytes - len_bytes..size_bytes) } else { Err(unsatisfiable) }
        }
    }
}

#[cfg(test)]
mod tests {
    use blockgate_block::Attributes;
    use proptest::prelude::*;

    use super::*;

    fn info() -> Arc<ObjectInfo> {
        Arc::new(ObjectInfo {
            size_bytes: 10,
            etag: "block-1".into(),
            upstream_etag: "up".into(),
            last_modified: UNIX_EPOCH + Duration::from_millis(5_400),
            attributes: Attributes::default(),
            record: None,
            tag_count: 0,
            parts_count: None,
        })
    }

    fn outcome(conditions: &Conditions) -> &'static str {
        match judge(&info(), conditions) {
            Ok(()) => "ok",
            Err(StoreError::PreconditionFailed) => "failed",
            Err(StoreError::NotModified(_)) => "fresh",
            Err(_) => "other",
        }
    }

    #[test]
    fn conditions_follow_the_rfc() {
        let none = Conditions::default();
        let tag = |tag: &str| Some(tag.to_owned());
        let at = |s| Some(UNIX_EPOCH + Duration::from_secs(s));
        let cases = [
            (none.clone(), "ok"),
            (Conditions { if_match: tag("block-1"), ..none.clone() }, "ok"),
            (Conditions { if_match: tag("up"), ..none.clone() }, "ok"),
            (Conditions { if_match: tag("*"), ..none.clone() }, "ok"),
            (Conditions { if_match: tag("other"), ..none.clone() }, "failed"),
            (Conditions { if_match: tag(""), ..none.clone() }, "failed"),
            (Conditions { if_unmodified_since: at(5), ..none.clone() }, "ok"),
            (Conditions { if_unmodified_since: at(4), ..none.clone() }, "failed"),
            (Conditions { if_match: tag("up"), if_unmodified_since: at(4), ..none.clone() }, "ok"),
            (Conditions { if_none_match: tag("up"), ..none.clone() }, "fresh"),
            (Conditions { if_none_match: tag("*"), ..none.clone() }, "fresh"),
            (Conditions { if_none_match: tag("other"), if_modified_since: at(9), ..none.clone() }, "ok"),
            (Conditions { if_modified_since: at(5), ..none.clone() }, "fresh"),
            (Conditions { if_modified_since: at(4), ..none.clone() }, "ok"),
            (Conditions { if_match: tag("other"), if_none_match: tag("up"), ..none }, "failed"),
        ];
        for (conditions, expected) in cases {
            assert_eq!(outcome(&conditions), expected, "{conditions:?}");
        }
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_a_model(size in 0u64..40, first in 0u64..45, last in proptest::option::of(0u64..45), suffix in 0u64..45) {
            let bytes: Vec<u64> = (0..size).collect();
            let read = |spec| resolve_range(Some(spec), size).ok().map(|r| bytes[r.start as usize..r.end as usize].to_vec());
            let from: Vec<u64> = bytes.iter().copied().filter(|&b| b >= first && last.is_none_or(|last| b <= last)).collect();
            prop_assert_eq!(read(RangeSpec::From { first, last }).unwrap_or_default(), from);
            let tail: Vec<u64> = bytes.iter().copied().filter(|&b| b + suffix >= size).collect();
            prop_assert_eq!(read(RangeSpec::Suffix { len_bytes: suffix }).unwrap_or_default(), tail);
            prop_assert_eq!(resolve_range(None, size).ok(), Some(0..size));
        }
    }

    #[test]
    fn an_empty_answer_is_never_a_range() {
        for spec in [RangeSpec::From { first: 0, last: None }, RangeSpec::Suffix { len_bytes: 5 }] {
            assert!(matches!(resolve_range(Some(spec), 0), Err(StoreError::InvalidRange { size_bytes: 0 })));
        }
        let whole = RangeSpec::From { first: 0, last: Some(u64::MAX) };
        assert_eq!(resolve_range(Some(whole), 3).ok(), Some(0..3));
    }
}
