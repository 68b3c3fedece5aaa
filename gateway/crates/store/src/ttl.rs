//! How long a block lives, and the record that says so.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{Attributes, BlockRecord, Crc64, FINGERPRINT_META, RECORD_META, TTL_META, TTL_TAG};

use crate::{BucketPolicy, Result, StoreError};

/// The longest time to live that a client may ask for: ten years.
const TTL_SECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60;

/// The time to live that a client asks for, in user metadata or in a tag.
pub(crate) fn requested_ttl(attributes: &Attributes, tags: &[(String, String)]) -> Result<Option<Duration>> {
    let from_meta = attributes.user.get(TTL_META).map(|text| parse_ttl(text)).transpose()?;
    let from_tag = tag_ttl(tags)?;
    match (from_meta, from_tag) {
        (Some(meta), Some(tag)) if meta != tag => Err(StoreError::InvalidArgument(format!(
            "the metadata {TTL_META} says {} seconds and the tag {TTL_TAG} says {}: give one of them, or equal ones",
            meta.as_secs(),
            tag.as_secs()
        ))),
        (meta, tag) => Ok(meta.or(tag)),
    }
}

/// The time to live that tags ask for.
pub(crate) fn tag_ttl(tags: &[(String, String)]) -> Result<Option<Duration>> {
    tags.iter().find(|(name, _)| name == TTL_TAG).map(|(_, value)| parse_ttl(value)).transpose()
}

/// Refuses a time to live that records do not keep or that no client may ask for.
pub(crate) fn check_ttl(ttl: Duration) -> Result<()> {
    if (Duration::from_millis(1)..=Duration::from_secs(TTL_SECONDS_MAX)).contains(&ttl) {
        return Ok(());
    }
    Err(StoreError::InvalidArgument(format!("a time to live is from 1 millisecond to {TTL_SECONDS_MAX} seconds")))
}

fn parse_ttl(text: &str) -> Result<Duration> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(seconds @ 1..=TTL_SECONDS_MAX) if digits_only => Ok(Duration::from_secs(seconds)),
        _ => Err(StoreError::InvalidArgument(format!(
            "{TTL_META} must be a whole number of seconds from 1 to {TTL_SECONDS_MAX}"
        ))),
    }
}

/// Checks what a client attaches to a block: the reserved name is not used, and a fingerprint is there where the bucket
/// demands one.
pub(crate) fn check_attributes(attributes: &Attributes, policy: &BucketPolicy) -> Result<()> {
    if attributes.user.contains_key(RECORD_META) {
        return Err(StoreError::InvalidArgument(format!("the metadata name {RECORD_META} is reserved")));
    }
    if policy.is_kv() && policy.require_fingerprint && !attributes.user.contains_key(FINGERPRINT_META) {
        return Err(StoreError::InvalidArgument(format!("this bucket requires the metadata {FINGERPRINT_META}")));
    }
    Ok(())
}

/// The record of a block stored at `now`.
pub(crate) fn record_of(crc64: Crc64, len_bytes: u64, now: SystemTime, ttl: Option<Duration>) -> BlockRecord {
    let stored_at = whole_ms(now);
    BlockRecord { crc64, len_bytes, stored_at, expires_at: ttl.map(|ttl| stored_at + ttl), group: None, tenant: None }
}

/// An instant as records keep it, so that the answer to a PUT says what every later read will say.
pub(crate) fn whole_ms(at: SystemTime) -> SystemTime {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    UNIX_EPOCH + Duration::new(since.as_secs(), since.subsec_millis() * 1_000_000)
}

/// Attributes as they go to the upstream: the client's, and the record.
pub(crate) fn with_record(attributes: &Attributes, record: &BlockRecord) -> Attributes {
    let mut attributes = attributes.clone();
    attributes.user.insert(RECORD_META.to_owned(), record.to_string());
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(meta: Option<&str>, tag: Option<&str>) -> Result<Option<Duration>> {
        let user = meta.map(|text| (TTL_META.to_owned(), text.to_owned())).into_iter().collect();
        let tags: Vec<_> = tag.map(|text| (TTL_TAG.to_owned(), text.to_owned())).into_iter().collect();
        requested_ttl(&Attributes { user, ..Attributes::default() }, &tags)
    }

    #[test]
    fn a_ttl_is_a_positive_number_of_seconds() {
        assert_eq!(ttl(None, None).unwrap(), None);
        assert_eq!(ttl(Some("60"), None).unwrap(), Some(Duration::from_secs(60)));
        assert_eq!(ttl(None, Some("315360000")).unwrap(), Some(Duration::from_secs(315_360_000)));
        assert_eq!(ttl(Some("60"), Some("060")).unwrap(), Some(Duration::from_secs(60)));
        for text in ["", "0", "-1", "+1", "1.5", "1s", " 1", "315360001", "99999999999999999999"] {
            let message = ttl(Some(text), None).unwrap_err().to_string();
            assert_eq!(message, "kv-ttl must be a whole number of seconds from 1 to 315360000", "{text:?}");
        }
        assert!(ttl(Some("60"), Some("61")).unwrap_err().to_string().contains("60 seconds"));
    }

    #[test]
    fn records_keep_whole_milliseconds() {
        let now = UNIX_EPOCH + Duration::from_nanos(1_999_999_999);
        let record = record_of(Crc64::of(b""), 0, now, Some(Duration::from_secs(1)));
        assert_eq!(BlockRecord::parse(&record.to_string()), Ok(record));
        assert_eq!(record.expires_at, Some(UNIX_EPOCH + Duration::from_millis(2_999)));
    }
}
