//! ETags and conditions.

use blockgate_upstream::Conditions;
use s3s::dto::{ETag, ETagCondition, Timestamp};
use s3s::{S3Result, s3_error};

use super::time;

/// An ETag as answers show it.
pub(crate) fn etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

/// The conditions of a GET, a HEAD, or of the source of a copy.
pub(crate) fn of_read(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
    if_modified_since: Option<Timestamp>,
    if_unmodified_since: Option<Timestamp>,
) -> Conditions {
    Conditions {
        if_match: if_match.map(strong),
        if_none_match: if_none_match.map(weak),
        if_modified_since: if_modified_since.map(time::instant),
        if_unmodified_since: if_unmodified_since.map(time::instant),
    }
}

/// The conditions of a PUT, a copy's target or a Complete.
///
/// # Errors
/// S3 knows only `If-None-Match: *` here.
pub(crate) fn of_write(if_match: Option<ETagCondition>, if_none_match: Option<ETagCondition>) -> S3Result<Conditions> {
    if if_none_match.as_ref().is_some_and(|condition| !condition.is_any()) {
        return Err(s3_error!(NotImplemented, "On writes, If-None-Match must be *."));
    }
    if if_match.is_some() && if_none_match.is_some() {
        return Err(s3_error!(NotImplemented, "If-Match and If-None-Match exclude each other."));
    }
    Ok(Conditions { if_match: if_match.map(strong), if_none_match: if_none_match.map(weak), ..Conditions::default() })
}

/// `If-Match` compares strongly (RFC 9110): a weak ETag keeps its mark here, which no stored ETag has.
fn strong(condition: ETagCondition) -> String {
    match condition {
        ETagCondition::Any => "*".to_owned(),
        ETagCondition::ETag(ETag::Strong(etag)) => etag,
        ETagCondition::ETag(ETag::Weak(etag)) => format!("W/\"{etag}\""),
    }
}

/// `If-None-Match` compares weakly.
fn weak(condition: ETagCondition) -> String {
    match condition {
        ETagCondition::Any => "*".to_owned(),
        ETagCondition::ETag(etag) => etag.into_value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<ETagCondition> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn quoted_bare_and_any() {
        for (text, if_match, if_none_match) in
            [("*", "*", "*"), ("\"abc-1\"", "abc-1", "abc-1"), ("abc-1", "abc-1", "abc-1"), ("W/\"a\"", "W/\"a\"", "a")]
        {
            let conditions = of_read(parse(text), parse(text), None, None);
            assert_eq!(conditions.if_match.as_deref(), Some(if_match));
            assert_eq!(conditions.if_none_match.as_deref(), Some(if_none_match));
        }
        assert!(of_read(None, None, None, None).is_empty());
    }

    #[test]
    fn writes_know_one_if_none_match() {
        assert_eq!(of_write(None, parse("*")).unwrap().if_none_match.as_deref(), Some("*"));
        assert_eq!(of_write(parse("a"), None).unwrap().if_match.as_deref(), Some("a"));
        assert_eq!(of_write(None, parse("a")).unwrap_err().code().as_str(), "NotImplemented");
        assert!(of_write(parse("a"), parse("*")).is_err());
    }
}
