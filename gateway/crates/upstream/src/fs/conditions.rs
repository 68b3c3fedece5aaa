//! Conditions of requests, judged in the order of RFC 9110, section 13.2.2.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Conditions, Result, UpstreamError};

/// Judges a read of an object.
pub(super) fn judge_read(conditions: &Conditions, etag: &str, modified_at: SystemTime) -> Result<()> {
    judge_if_match(conditions, etag, modified_at)?;
    let is_same = match (&conditions.if_none_match, conditions.if_modified_since) {
        (Some(tag), _) => names(tag, etag),
        (None, Some(since)) => seconds(modified_at) <= seconds(since),
        (None, None) => false,
    };
    if is_same { Err(UpstreamError::NotModified { etag: Some(etag.to_owned()) }) } else { Ok(()) }
}

/// Judges the source of a copy, where a condition that fails is always an error.
pub(super) fn judge_source(conditions: &Conditions, etag: &str, modified_at: SystemTime) -> Result<()> {
    judge_read(conditions, etag, modified_at).map_err(|_| UpstreamError::PreconditionFailed)
}

/// Judges a write over what is there: ETag and time, or nothing.
pub(super) fn judge_write(conditions: &Conditions, current: Option<(&str, SystemTime)>) -> Result<()> {
    let Some((etag, modified_at)) = current else {
        return if conditions.if_match.is_some() { Err(UpstreamError::NoSuchKey) } else { Ok(()) };
    };
    judge_if_match(conditions, etag, modified_at)?;
    match &conditions.if_none_match {
        Some(tag) if names(tag, etag) => Err(UpstreamError::PreconditionFailed),
        _ => Ok(()),
    }
}

fn judge_if_match(conditions: &Conditions, etag: &str, modified_at: SystemTime) -> Result<()> {
    let holds = match (&conditions.if_match, conditions.if_unmodified_since) {
        (Some(tag), _) => names(tag, etag),
        (None, Some(since)) => seconds(modified_at) <= seconds(since),
        (None, None) => true,
    };
    if holds { Ok(()) } else { Err(UpstreamError::PreconditionFailed) }
}

fn names(tag: &str, etag: &str) -> bool {
    tag == "*" || tag == etag
}

/// Times on the wire have no fractions.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: f64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    fn tags(if_match: Option<&str>, if_none_match: Option<&str>) -> Conditions {
        Conditions {
            if_match: if_match.map(str::to_owned),
            if_none_match: if_none_match.map(str::to_owned),
            ..Conditions::default()
        }
    }

    #[test]
    fn reads() {
        let read = |conditions: &Conditions| judge_read(conditions, "e", at(10.5));
        assert!(read(&Conditions::default()).is_ok());
        assert!(read(&tags(Some("e"), Some("f"))).is_ok());
        assert!(read(&tags(Some("*"), None)).is_ok());
        assert!(matches!(read(&tags(Some("f"), Some("e"))), Err(UpstreamError::PreconditionFailed)));
        assert!(
            matches!(read(&tags(Some("e"), Some("e"))), Err(UpstreamError::NotModified { etag: Some(etag) }) if etag == "e")
        );
        assert!(matches!(read(&tags(None, Some("*"))), Err(UpstreamError::NotModified { .. })));
    }

    #[test]
    fn times_count_in_seconds_and_only_without_etags() {
        let since = |modified: Option<f64>, unmodified: Option<f64>| Conditions {
            if_modified_since: modified.map(at),
            if_unmodified_since: unmodified.map(at),
            ..Conditions::default()
        };
        let read = |conditions: &Conditions| judge_read(conditions, "e", at(10.5));
        assert!(matches!(read(&since(Some(10.0), None)), Err(UpstreamError::NotModified { .. })));
        assert!(read(&since(Some(9.0), None)).is_ok());
        assert!(read(&since(None, Some(10.0))).is_ok());
        assert!(matches!(read(&since(None, Some(9.0))), Err(UpstreamError::PreconditionFailed)));
        assert!(read(&Conditions { if_match: Some("e".into()), ..since(None, Some(9.0)) }).is_ok());
        assert!(read(&Conditions { if_none_match: Some("f".into()), ..since(Some(10.0), None) }).is_ok());
    }

    #[test]
    fn writes() {
        let over = Some(("e", at(10.0)));
        assert!(judge_write(&tags(None, Some("*")), None).is_ok());
        assert!(matches!(judge_write(&tags(None, Some("*")), over), Err(UpstreamError::PreconditionFailed)));
        assert!(judge_write(&tags(Some("e"), None), over).is_ok());
        assert!(matches!(judge_write(&tags(Some("f"), None), over), Err(UpstreamError::PreconditionFailed)));
        assert!(matches!(judge_write(&tags(Some("e"), None), None), Err(UpstreamError::NoSuchKey)));
    }
}
