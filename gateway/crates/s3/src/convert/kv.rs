//! The headers by which S3 requests speak of blocks.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::{S3Result, s3_error};

/// On every hit: the tier that served it.
pub(crate) const TIER: HeaderName = HeaderName::from_static("x-kv-tier");
/// On every miss: why.
pub(crate) const MISS: HeaderName = HeaderName::from_static("x-kv-miss");
/// On a read: milliseconds that the gateway may take until the last byte.
const DEADLINE: HeaderName = HeaderName::from_static("x-kv-deadline-ms");
/// On a read: the fingerprint that the block must have been stored for.
const FINGERPRINT: HeaderName = HeaderName::from_static("x-kv-fingerprint");
/// The same, spelled as on the PUT.
const META_FINGERPRINT: HeaderName = HeaderName::from_static("x-amz-meta-kv-fingerprint");

/// The longest deadline that a request may set: an hour.
const DEADLINE_MS_MAX: u64 = 3_600_000;

/// The deadline that a read asks for.
pub(crate) fn deadline(headers: &HeaderMap) -> S3Result<Option<Duration>> {
    let Some(value) = headers.get(DEADLINE) else { return Ok(None) };
    value
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|ms| (1..=DEADLINE_MS_MAX).contains(ms))
        .map(|ms| Some(Duration::from_millis(ms)))
        .ok_or_else(|| s3_error!(InvalidArgument, "{DEADLINE} must be a whole number from 1 to {DEADLINE_MS_MAX}."))
}

/// The fingerprint that a read asks for.
pub(crate) fn fingerprint(headers: &HeaderMap) -> S3Result<Option<String>> {
    match (headers.get(FINGERPRINT), headers.get(META_FINGERPRINT)) {
        (None, None) => Ok(None),
        (Some(a), Some(b)) if a != b => {
            Err(s3_error!(InvalidArgument, "{FINGERPRINT} and {META_FINGERPRINT} name different fingerprints."))
        }
        (Some(value), _) | (None, Some(value)) => utf8(value).map(Some),
    }
}

fn utf8(value: &HeaderValue) -> S3Result<String> {
    std::str::from_utf8(value.as_bytes())
        .map(str::to_owned)
        .map_err(|_| s3_error!(InvalidArgument, "The fingerprint is not UTF-8."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap()))
            .collect()
    }

    #[test]
    fn deadlines() {
        let of = |value| deadline(&headers(&[("x-kv-deadline-ms", value)]));
        assert_eq!(deadline(&HeaderMap::new()).unwrap(), None);
        assert_eq!(of("1").unwrap(), Some(Duration::from_millis(1)));
        assert_eq!(of("3600000").unwrap(), Some(Duration::from_secs(3600)));
        for bad in ["", "0", "3600001", "-1", "+1", "1.5", "1 ", "one", "18446744073709551617"] {
            assert_eq!(of(bad).unwrap_err().code().as_str(), "InvalidArgument", "{bad:?}");
        }
    }

    #[test]
    fn fingerprints() {
        let of = |pairs| fingerprint(&headers(pairs));
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("x-kv-fingerprint", "llama é")]).unwrap().as_deref(), Some("llama é"));
        assert_eq!(of(&[("x-amz-meta-kv-fingerprint", "a")]).unwrap().as_deref(), Some("a"));
        assert!(of(&[("x-kv-fingerprint", "a"), ("x-amz-meta-kv-fingerprint", "b")]).is_err());
        assert!(of(&[("x-kv-fingerprint", "a"), ("x-amz-meta-kv-fingerprint", "a")]).is_ok());
    }
}
