//! Checksums that a client promised, compared with what arrived.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::dto::Checksum;
use s3s::{S3Result, s3_error};

use crate::refusal::Refused;

/// Prefix of the headers and trailers that hold checksums.
const PREFIX: &str = "x-amz-checksum-";
/// Names with that prefix that hold no checksum.
const SETTINGS: [&str; 3] = ["x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type"];

/// One way to compute a checksum.
struct Kind {
    header: &'static str,
    len_bytes: usize,
    start: fn(&mut ChecksumHasher),
    read: fn(&Checksum) -> Option<&String>,
}

macro_rules! kind {
    ($header:literal, $len:literal, $hasher:ident, $result:ident) => {
        Kind {
            header: concat!("x-amz-checksum-", $header),
            len_bytes: $len,
            start: |hasher| hasher.$hasher = Some(Default::default()),
            read: |checksum| checksum.$result.as_ref(),
        }
    };
}

static MD5: Kind = kind!("md5", 16, md5, checksum_md5);
static SHA256: Kind = kind!("sha256", 32, sha256, checksum_sha256);
static KINDS: [Kind; 10] = [
    kind!("crc64nvme", 8, crc64nvme, checksum_crc64nvme),
    kind!("crc32", 4, crc32, checksum_crc32),
    kind!("crc32c", 4, crc32c, checksum_crc32c),
    kind!("sha1", 20, sha1, checksum_sha1),
    kind!("sha256", 32, sha256, checksum_sha256),
    kind!("sha512", 64, sha512, checksum_sha512),
    kind!("md5", 16, md5, checksum_md5),
    kind!("xxhash64", 8, xxhash64, checksum_xxhash64),
    kind!("xxhash3", 8, xxhash3, checksum_xxhash3),
    kind!("xxhash128", 16, xxhash128, checksum_xxhash128),
];

/// The name of a header that holds a checksum of a known kind.
pub(crate) fn checksum_header(name: &str) -> Option<&'static str> {
    KINDS.iter().map(|kind| kind.header).find(|header| header.eq_ignore_ascii_case(name))
}

/// What was promised, and what has arrived so far.
#[derive(Default)]
pub(crate) struct Digests {
    hasher: ChecksumHasher,
    promised: Vec<Promise>,
    trailer: Option<&'static Kind>,
}

struct Promise {
    kind: &'static Kind,
    /// In base64.
    value: String,
    /// S3 error code where it is broken.
    code: &'static str,
}

impl Digests {
    /// The promise of `Content-MD5`.
    pub(crate) fn of_content_md5(headers: &HeaderMap) -> S3Result<Self> {
        let mut digests = Self::default();
        if let Some(md5) = headers.get("content-md5") {
            let md5 = md5.to_str().ok().filter(|md5| is_digest(md5, MD5.len_bytes));
            let md5 = md5.ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid."))?;
            digests.promise(&MD5, md5, "BadDigest");
        }
        Ok(digests)
    }

    /// The promises of `Content-MD5`, `x-amz-checksum-*` and `x-amz-trailer`.
    pub(crate) fn of_headers(headers: &HeaderMap) -> S3Result<Self> {
        let mut digests = Self::of_content_md5(headers)?;
        let trailer = headers.get("x-amz-trailer").and_then(|name| name.to_str().ok());
        digests.trailer = trailer.and_then(|name| KINDS.iter().find(|k| k.header.eq_ignore_ascii_case(name.trim())));
        let mut checksums = usize::from(digests.trailer.is_some());
        for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with(PREFIX)) {
            let name = name.as_str();
            if SETTINGS.contains(&name) {
                continue;
            }
            let kind = KINDS.iter().find(|kind| kind.header == name);
            let kind = kind.ok_or_else(|| s3_error!(InvalidRequest, "The checksum {name} is not known."))?;
            let value = value.to_str().ok().filter(|value| is_digest(value, kind.len_bytes));
            let value = value.ok_or_else(|| s3_error!(InvalidRequest, "Value for {name} header is invalid."))?;
            digests.promise(kind, value, "BadDigest");
            checksums += 1;
        }
        if checksums > 1 {
            return Err(s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header."));
        }
        Ok(digests)
    }

    /// Promises the SHA-256 that the signature covers (64 hex digits).
    pub(crate) fn promise_signed_sha256(&mut self, hex_digest: &str) {
        let value = hex::decode(hex_digest).map(|bytes| BASE64_STANDARD.encode(bytes)).unwrap_or_default();
        self.promise(&SHA256, &value, "XAmzContentSHA256Mismatch");
    }

    fn promise(&mut self, kind: &'static Kind, value: &str, code: &'static str) {
        (kind.start)(&mut self.hasher);
        self.promised.push(Promise { kind, value: value.to_owned(), code });
    }

    /// Whether nothing was promised.
    pub(crate) fn is_empty(&self) -> bool {
        self.promised.is_empty() && self.trailer.is_none()
    }

    /// Starts computing what the trailer will promise. To be called before the first byte.
    pub(crate) fn expect_trailer(&mut self) {
        if let Some(kind) = self.trailer {
            (kind.start)(&mut self.hasher);
        }
    }

    /// Takes the next bytes in.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Compares; `trailers` are those that came after the body.
    pub(crate) fn finish(self, trailers: Option<&HeaderMap>) -> Result<(), Refused> {
        let computed = self.hasher.finalize();
        for promise in &self.promised {
            if (promise.kind.read)(&computed) != Some(&promise.value) {
                let what = if promise.code == "BadDigest" { promise.kind.header } else { "x-amz-content-sha256" };
                return Err(broken(promise.code, what));
            }
        }
        let Some(kind) = self.trailer else { return Ok(()) };
        let value = trailers.and_then(|trailers| trailers.get(kind.header)).and_then(|value| value.to_str().ok());
        match value {
            Some(value) if (kind.read)(&computed).is_some_and(|computed| computed == value) => Ok(()),
            Some(_) => Err(broken("BadDigest", kind.header)),
            None => Err(Refused::new("IncompleteBody", "The trailer that was announced did not come.")),
        }
    }
}

fn broken(code: &'static str, what: &str) -> Refused {
    let message = format!("The {what} you specified did not match what was computed.");
    Refused { code, message: Cow::Owned(message) }
}

fn is_digest(text: &str, len_bytes: usize) -> bool {
    BASE64_STANDARD.decode(text).is_ok_and(|digest| digest.len() == len_bytes)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const TEXT: &[u8] = b"123456789";

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap()))
            .collect()
    }

    fn verify(pairs: &[(&str, &str)], trailers: Option<&HeaderMap>) -> Result<(), String> {
        let mut digests = Digests::of_headers(&headers(pairs)).map_err(|e| e.code().as_str().to_owned())?;
        digests.expect_trailer();
        digests.update(&TEXT[..4]);
        digests.update(&TEXT[4..]);
        digests.finish(trailers).map_err(|refused| refused.code.to_owned())
    }

    /// Check values of the algorithms' specifications for "123456789".
    const RIGHT: [(&str, &str); 6] = [
        ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="),
        ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ("x-amz-checksum-crc32c", "4waSgw=="),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
        ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
    ];

    #[test]
    fn right_digests_pass_and_wrong_ones_do_not() {
        for (name, value) in RIGHT {
            assert_eq!(verify(&[(name, value)], None), Ok(()), "{name}");
            let wrong = if value.starts_with('A') { value.replacen('A', "B", 1) } else { format!("A{}", &value[1..]) };
            assert_eq!(verify(&[(name, &wrong)], None), Err("BadDigest".to_owned()), "{name}");
        }
    }

    #[test]
    fn malformed_digests_are_refused_before_the_body() {
        assert_eq!(verify(&[("content-md5", "nonsense")], None), Err("InvalidDigest".to_owned()));
        assert_eq!(verify(&[("content-md5", "")], None), Err("InvalidDigest".to_owned()));
        for (name, value) in [
            ("x-amz-checksum-crc32", "AAAAAAA="),
            ("x-amz-checksum-crc32", "!"),
            ("x-amz-checksum-crc99", "AAAAAA=="),
            ("x-amz-checksum-", "AAAAAA=="),
        ] {
            assert_eq!(verify(&[(name, value)], None), Err("InvalidRequest".to_owned()), "{name} {value}");
        }
        assert_eq!(verify(&[RIGHT[1], RIGHT[2]], None), Err("InvalidRequest".to_owned()));
    }

    #[test]
    fn the_trailer_that_was_announced_must_come_and_be_right() {
        let announced = [("x-amz-trailer", "x-amz-checksum-crc32")];
        assert_eq!(verify(&announced, Some(&headers(&[RIGHT[1]]))), Ok(()));
        let wrong = headers(&[("x-amz-checksum-crc32", "AAAAAA==")]);
        assert_eq!(verify(&announced, Some(&wrong)), Err("BadDigest".to_owned()));
        assert_eq!(verify(&announced, Some(&headers(&[RIGHT[2]]))), Err("IncompleteBody".to_owned()));
        assert_eq!(verify(&announced, None), Err("IncompleteBody".to_owned()));
    }

    #[test]
    fn the_signed_sha256_is_a_promise_of_its_own() {
        let verify = |hex: &str| {
            let mut digests = Digests::default();
            digests.promise_signed_sha256(hex);
            digests.update(TEXT);
            digests.finish(None).map_err(|refused| refused.code)
        };
        assert_eq!(verify("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"), Ok(()));
        assert_eq!(verify(&"0".repeat(64)), Err("XAmzContentSHA256Mismatch"));
        assert!(Digests::default().is_empty());
    }
}
