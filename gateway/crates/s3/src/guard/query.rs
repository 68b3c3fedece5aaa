//! Query parameters: well-formed, none twice, numbers that are numbers.

use std::borrow::Cow;

use s3s::{S3Result, s3_error};

use super::escape::unescape;

/// Most query parameters of one request.
const PARAMETERS_MAX: usize = 64;

/// Parameters that hold a number. Checked here because an error that quotes a control character from one of them could
/// not be written as XML.
const NUMBERS: [&str; 7] =
    ["list-type", "max-buckets", "max-keys", "max-parts", "max-uploads", "part-number-marker", "partNumber"];

/// Parameters that hold (the beginning of) a key, in which control characters are legal.
const KEYS: [&str; 5] = ["delimiter", "key-marker", "marker", "prefix", "start-after"];

/// Part numbers that S3 has.
const PART_NUMBERS: std::ops::RangeInclusive<u64> = 1..=10_000;

/// Parameters by which a presigned URL is authenticated.
pub(crate) const PRESIGNED: [&str; 6] =
    ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signature", "X-Amz-SignedHeaders"];

/// `x-amz-*` parameters that change nothing here. SDKs put them into presigned URLs; any other one would have to be
/// honoured like the header of its name, and ignoring it would be a lie.
const HARMLESS: [&str; 8] = [
    "x-amz-checksum-mode",
    "x-amz-content-sha256",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-trailer",
    "x-amz-user-agent",
];

/// The parameters of one query, decoded, in order.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads and checks a raw query.
    pub(crate) fn parse(raw: Option<&'a str>) -> S3Result<Self> {
        let Some(raw) = raw.filter(|raw| !raw.is_empty()) else { return Ok(Self::default()) };
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::with_capacity(8);
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(name), Ok(value)) = (unescape(name, true), unescape(value, true)) else {
                return Err(s3_error!(InvalidURI, "The query has a broken escape, invalid UTF-8 or a NUL."));
            };
            if pairs.len() == PARAMETERS_MAX {
                return Err(s3_error!(InvalidArgument, "The query has more than {PARAMETERS_MAX} parameters."));
            }
            if pairs.iter().any(|(earlier, _)| is_same(earlier, &name)) {
                return Err(s3_error!(InvalidArgument, "A query parameter is given twice."));
            }
            check_value(&name, &value)?;
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The value of the parameter of exactly this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_ref())
    }

    /// The names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_ref())
    }

    /// Whether there is any parameter.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// Parameters that some reader takes regardless of case count as the same in any case.
fn is_same(one: &str, other: &str) -> bool {
    one == other || (is_amz(one) && one.eq_ignore_ascii_case(other))
}

fn is_amz(name: &str) -> bool {
    name.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-amz-"))
}

fn check_value(name: &str, value: &str) -> S3Result<()> {
    // Elsewhere they would end in response headers or in error messages, which can't hold them.
    if name.contains(char::is_control) || (value.contains(char::is_control) && !KEYS.contains(&name)) {
        return Err(s3_error!(InvalidArgument, "A query parameter holds a control character."));
    }
    if NUMBERS.contains(&name) && !value.is_empty() {
        let number = value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse::<u64>().ok()).flatten();
        let Some(number) = number.filter(|&n| i32::try_from(n).is_ok()) else {
            return Err(s3_error!(InvalidArgument, "Argument {name} must be an integer between 0 and 2147483647."));
        };
        if name == "partNumber" && !PART_NUMBERS.contains(&number) {
            return Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive."));
        }
    }
    if is_amz(name) {
        let known = PRESIGNED.contains(&name) || HARMLESS.iter().any(|h| h.eq_ignore_ascii_case(name));
        if !known {
            return Err(s3_error!(InvalidArgument, "Send {} as a signed header instead.", name.escape_default()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(raw: &str) -> String {
        Query::parse(Some(raw)).map(|_| ()).map_err(|e| e.code().as_str().to_owned()).unwrap_err()
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("prefix=a%2Fb+c&uploads&x=&&list-type=2")).unwrap();
        assert_eq!(query.get("prefix"), Some("a/b c"));
        assert_eq!(query.get("uploads"), Some(""));
        assert_eq!(query.names().collect::<Vec<_>>(), ["prefix", "uploads", "x", "list-type"]);
        assert!(Query::parse(None).unwrap().is_empty());
    }

    #[test]
    fn doubled_and_broken_parameters_are_refused() {
        for raw in ["a=1&a=1", "partNumber=1&partNumber=2", "a=1&%61=2", "X-Amz-Expires=1&x-amz-expires=9"] {
            assert_eq!(code(raw), "InvalidArgument", "{raw}");
        }
        for raw in ["prefix=%ff", "prefix=%", "%zz=1", "prefix=%00"] {
            assert_eq!(code(raw), "InvalidURI", "{raw}");
        }
        let many: Vec<String> = (0..=PARAMETERS_MAX).map(|n| format!("p{n}")).collect();
        assert_eq!(code(&many.join("&")), "InvalidArgument");
        assert!(Query::parse(Some(&many[1..].join("&"))).is_ok());
    }

    #[test]
    fn numbers_are_numbers() {
        for raw in ["partNumber=0", "partNumber=10001", "partNumber=4294967297", "partNumber=18446744073709551617"] {
            assert_eq!(code(raw), "InvalidArgument", "{raw}");
        }
        for raw in ["max-keys=-1", "max-keys=%01", "max-parts=1.5", "partNumber=%2B1", "max-keys=99999999999"] {
            assert_eq!(code(raw), "InvalidArgument", "{raw}");
        }
        assert!(Query::parse(Some("partNumber=10000&uploadId=u&max-keys=1000")).is_ok());
    }

    #[test]
    fn control_characters_are_for_keys_only() {
        for raw in ["response-content-type=a%0Ab", "fetch-owner=%01", "a%07=1", "versionId=%1b"] {
            assert_eq!(code(raw), "InvalidArgument", "{raw}");
        }
        assert!(Query::parse(Some("prefix=a%01b&marker=%0A&delimiter=%09")).is_ok());
    }

    #[test]
    fn headers_hoisted_into_the_query_are_refused_unless_harmless() {
        assert_eq!(code("x-amz-copy-source=%2Fb%2Fk"), "InvalidArgument");
        assert_eq!(code("X-Amz-Meta-A=1"), "InvalidArgument");
        assert_eq!(code("x-amz-signature=00"), "InvalidArgument");
        assert!(Query::parse(Some("X-Amz-Algorithm=A&x-amz-checksum-mode=ENABLED&X-Amz-Security-Token=t")).is_ok());
    }
}
