//! Headers: none twice.

use http::HeaderMap;
use s3s::{S3Result, s3_error};

/// Headers that are lists by nature or that the gateway never reads; everything else may come once.
const LISTS: [&str; 13] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "connection",
    "cookie",
    "forwarded",
    "te",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
];

/// Refuses a header that comes twice: two readers could each believe another one.
pub(crate) fn check(headers: &HeaderMap) -> S3Result<()> {
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    for name in headers.keys() {
        if headers.get_all(name).iter().nth(1).is_some() && !LISTS.contains(&name.as_str()) {
            return Err(s3_error!(InvalidRequest, "The header {name} is given twice."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::check;

    fn twice(name: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in ["a", "b"] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_lists_come_twice() {
        for name in ["authorization", "host", "range", "if-match", "content-md5", "content-type", "x-amz-date"] {
            assert_eq!(check(&twice(name)).unwrap_err().code().as_str(), "InvalidRequest", "{name}");
        }
        for name in ["x-amz-meta-a", "x-amz-content-sha256", "x-amz-copy-source", "x-kv-deadline-ms", "cache-control"] {
            assert!(check(&twice(name)).is_err(), "{name}");
        }
        assert!(check(&twice("accept")).is_ok());
        assert!(check(&HeaderMap::new()).is_ok());
    }
}
