//! Byte ranges.

use std::ops::Range;

use blockgate_store::RangeSpec;
use s3s::{S3Result, dto, s3_error};

/// The range of a GET or HEAD.
pub(crate) fn spec(range: dto::Range) -> RangeSpec {
    match range {
        dto::Range::Int { first, last } => RangeSpec::From { first, last },
        dto::Range::Suffix { length } => RangeSpec::Suffix { len_bytes: length },
    }
}

/// Which bytes of an object `spec` names; `None` where it begins beyond the end.
pub(crate) fn resolve(spec: RangeSpec, size_bytes: u64) -> Option<Range<u64>> {
    let range = match spec {
        RangeSpec::From { first, last } => {
            first..last.map_or(size_bytes, |last| last.saturating_add(1).min(size_bytes))
        }
        RangeSpec::Suffix { len_bytes } => size_bytes.saturating_sub(len_bytes)..size_bytes,
    };
    (!range.is_empty()).then_some(range)
}

/// The `Content-Range` of a part of an object; `range` is not empty.
pub(crate) fn content_range(range: &Range<u64>, size_bytes: u64) -> String {
    format!("bytes {}-{}/{size_bytes}", range.start, range.end.saturating_sub(1))
}

/// Reads `x-amz-copy-source-range`, which has one form only: `bytes=first-last`.
pub(crate) fn copy_range(text: &str) -> S3Result<Range<u64>> {
    let number =
        |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    text.strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
        .and_then(|(first, last)| Some(number(first)?..number(last)?.checked_add(1)?))
        .filter(|range| !range.is_empty())
        .ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "The x-amz-copy-source-range value must be of the form bytes=first-last, where first and last are the \
                 zero-based offsets of the first and last bytes to copy."
            )
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(header: &str, size: u64) -> Option<Range<u64>> {
        resolve(spec(dto::Range::parse(header).unwrap()), size)
    }

    #[test]
    fn ranges_of_an_object() {
        for (header, expected) in [
            ("bytes=0-0", Some(0..1)),
            ("bytes=2-5", Some(2..6)),
            ("bytes=2-", Some(2..10)),
            ("bytes=9-9", Some(9..10)),
            ("bytes=5-999", Some(5..10)),
            ("bytes=10-", None),
            ("bytes=10-12", None),
            ("bytes=-3", Some(7..10)),
            ("bytes=-10", Some(0..10)),
            ("bytes=-99", Some(0..10)),
            ("bytes=-0", None),
        ] {
            assert_eq!(of(header, 10), expected, "{header}");
        }
        for header in ["bytes=0-", "bytes=0-5", "bytes=-5"] {
            assert_eq!(of(header, 0), None, "{header} of nothing");
        }
        assert_eq!(content_range(&(2..6), 10), "bytes 2-5/10");
    }

    #[test]
    fn copy_ranges_have_one_form() {
        assert_eq!(copy_range("bytes=0-0").unwrap(), 0..1);
        assert_eq!(copy_range("bytes=5-8388607").unwrap(), 5..8_388_608);
        for bad in [
            "",
            "0-1",
            "bytes=",
            "bytes=-1",
            "bytes=1-",
            "bytes=2-1",
            "bytes=0-1,3-4",
            "bytes= 0-1",
            "bytes=+0-1",
            "bytes=0-18446744073709551615",
            "bytes=0-1 ",
        ] {
            assert!(copy_range(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_range_lies_within_the_object(first in any::<u64>(), last in proptest::option::of(any::<u64>()), len in any::<u64>(), size in any::<u64>()) {
            for spec in [RangeSpec::From { first, last }, RangeSpec::Suffix { len_bytes: len }] {
                if let Some(range) = resolve(spec, size) {
                    prop_assert!(range.start < range.end && range.end <= size);
                }
            }
        }

        #[test]
        fn a_copy_range_is_read_as_written(first in 0u64..1 << 40, len in 1u64..1 << 40) {
            prop_assert_eq!(copy_range(&format!("bytes={first}-{}", first + len - 1)).unwrap(), first..first + len);
        }

        #[test]
        fn hostile_copy_ranges_do_not_panic(text in any::<String>()) {
            let _ = copy_range(&text);
        }
    }
}
