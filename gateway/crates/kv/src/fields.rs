//! Fields that several requests have, checked once.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_api::limits;
use blockgate_block::KeyList;
use tokio::time::Instant;

use crate::refusal::Refusal;

/// The keys of a request.
pub(crate) fn keys(bucket: &str, prefix: &str, suffix: &str, keys: Vec<String>) -> Result<Arc<KeyList>, Refusal> {
    if keys.len() > limits::KEYS_MAX {
        return Err(Refusal::limit("`keys`", limits::KEYS_MAX));
    }
    let list = KeyList::new(bucket, prefix, suffix, keys);
    list.map(Arc::new).map_err(|(index, error)| Refusal::argument(format!("`keys[{index}]`: {error}")))
}

/// A fingerprint that blocks can have.
pub(crate) fn fingerprint(fingerprint: Option<&str>) -> Result<(), Refusal> {
    let Some(text) = fingerprint else { return Ok(()) };
    if text.len() > limits::FINGERPRINT_BYTES_MAX {
        return Err(Refusal::limit("bytes of `fingerprint`", limits::FINGERPRINT_BYTES_MAX));
    }
    // It travels as a header, too, which is trimmed and holds no control characters.
    if text.is_empty() || text.trim() != text || text.contains(char::is_control) {
        return Err(Refusal::argument(
            "`fingerprint` must not be empty, begin or end with a blank, or hold control characters",
        ));
    }
    Ok(())
}

/// A number of milliseconds or seconds from 1 to `max`.
pub(crate) fn between(name: &str, value: u64, max: u64) -> Result<u64, Refusal> {
    match value {
        0 => Err(Refusal::argument(format!("`{name}` must be from 1 to {max}"))),
        value if value > max => Err(Refusal::limit(&format!("`{name}`"), max)),
        value => Ok(value),
    }
}

/// How long a request may take, counted from `now`.
pub(crate) fn deadline(deadline_ms: Option<u64>, now: Instant) -> Result<Option<Instant>, Refusal> {
    let Some(ms) = deadline_ms else { return Ok(None) };
    let ms = between("deadline_ms", ms, limits::DEADLINE_MS_MAX)?;
    Ok(now.checked_add(Duration::from_millis(ms)))
}

/// What is left until an instant.
pub(crate) fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|at| at.saturating_duration_since(Instant::now()))
}

/// An instant as the contract writes it.
pub(crate) fn milliseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use blockgate_api::ErrorCode;

    use super::*;

    #[test]
    fn limits_are_named() {
        let many = vec![String::from("k"); limits::KEYS_MAX + 1];
        let refusal = keys("kvs", "", "", many).unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (ErrorCode::LimitExceeded, "`keys`: at most 65536"));
        let refusal = keys("kvs", "", "", vec!["a".into(), "b\0".into()]).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidArgument);
        assert!(refusal.message.starts_with("`keys[1]`: "), "{}", refusal.message);
        assert_eq!(between("ttl_s", 0, 9).unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(between("ttl_s", 10, 9).unwrap_err().code, ErrorCode::LimitExceeded);
        assert_eq!(between("ttl_s", 9, 9), Ok(9));
    }

    #[test]
    fn fingerprints_survive_a_header() {
        assert!(fingerprint(None).is_ok() && fingerprint(Some("llama/fp8 ranks=2")).is_ok());
        for bad in ["", " a", "a ", "a\nb", &"a".repeat(513)] {
            assert!(fingerprint(Some(bad)).is_err(), "{bad}");
        }
    }
}
