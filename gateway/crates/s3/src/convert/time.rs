//! Instants.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use s3s::dto::{Timestamp, TimestampFormat};

/// The last second of the year 9999, beyond which no date can be written.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// An instant as s3s has it. What lies before 1970 or after 9999 becomes the nearest instant that can be written.
pub(crate) fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST_SECOND);
    Timestamp::from(UNIX_EPOCH + since)
}

/// An instant as a client sent it.
pub(crate) fn instant(timestamp: Timestamp) -> SystemTime {
    time::OffsetDateTime::from(timestamp).into()
}

/// An instant as HTTP headers write it.
pub(crate) fn http_date(at: SystemTime) -> String {
    let mut text = Vec::with_capacity(29);
    let written = timestamp(at).format(TimestampFormat::HttpDate, &mut text);
    debug_assert!(written.is_ok(), "a Vec takes every write, and the year has four digits");
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(http_date(UNIX_EPOCH + Duration::from_secs(1_000_000_000)), "Sun, 09 Sep 2001 01:46:40 GMT");
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(1)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(UNIX_EPOCH + Duration::from_secs(1 << 45)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn an_instant_survives() {
        let at = UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
        assert_eq!(instant(timestamp(at)), at);
    }
}
