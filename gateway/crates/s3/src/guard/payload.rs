//! What the request says of its payload: plain, hashed, or in signed or unsigned chunks.

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Method};
use s3s::{S3Error, S3Result, s3_error};

use super::credentials::Credentials;
use super::framing::{Framing, decimal};
use crate::digest;
use crate::refusal::refusal;

/// Largest object of one PUT or part, as on AWS: 5 GiB.
pub(crate) const OBJECT_BYTES_MAX: u64 = 5 << 30;

/// SHA-256 of nothing.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// How the payload is written in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// As it is.
    Plain {
        /// The payload's SHA-256 in hex, where one was sent.
        sha256: Option<String>,
    },
    /// `aws-chunked`.
    Chunked(Chunked),
}

/// The shape of an `aws-chunked` body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunked {
    /// Whether each chunk carries a signature.
    pub(crate) signed: bool,
    /// Name of the trailer that must follow the last chunk.
    pub(crate) trailer: Option<&'static str>,
    /// Length of the payload without the chunks' framing.
    pub(crate) decoded_len: u64,
}

/// Reads what the headers say and refuses what contradicts itself.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    credentials: Credentials,
    framing: Framing,
    body_is_empty: bool,
) -> S3Result<Payload> {
    let value = headers.get("x-amz-content-sha256").map(|value| value.to_str().unwrap_or("?"));
    let (signed, trailer) = match value {
        None if credentials == Credentials::Header => {
            return Err(s3_error!(InvalidRequest, "Missing required header for this request: x-amz-content-sha256"));
        }
        Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") => (true, false),
        Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") => (true, true),
        Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER") => (false, true),
        plain => return check_plain(plain, headers, framing, body_is_empty).map(|sha256| Payload::Plain { sha256 }),
    };
    if credentials != Credentials::Header || *method != Method::PUT {
        return Err(s3_error!(InvalidRequest, "Chunked payloads are for PUT requests that are signed in a header."));
    }
    let trailer = declared_trailer(headers, trailer)?;
    let decoded_len = headers.get("x-amz-decoded-content-length").ok_or_else(|| {
        s3_error!(MissingContentLength, "You must provide the x-amz-decoded-content-length HTTP header.")
    })?;
    let decoded_len = decimal(decoded_len.as_bytes())
        .ok_or_else(|| s3_error!(InvalidArgument, "x-amz-decoded-content-length must be a decimal number."))?;
    if decoded_len > OBJECT_BYTES_MAX {
        return Err(too_large());
    }
    if body_is_empty {
        return Err(s3_error!(IncompleteBody, "A chunked payload has at least its last chunk."));
    }
    Ok(Payload::Chunked(Chunked { signed, trailer, decoded_len }))
}

pub(crate) fn too_large() -> S3Error {
    s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size.")
}

fn check_plain(
    value: Option<&str>,
    headers: &HeaderMap,
    framing: Framing,
    body_is_empty: bool,
) -> S3Result<Option<String>> {
    let chunked_only = headers.contains_key("x-amz-decoded-content-length") || headers.contains_key("x-amz-trailer");
    if chunked_only || is_encoded_in_chunks(headers) {
        return Err(s3_error!(InvalidRequest, "A chunked payload needs x-amz-content-sha256: STREAMING-…"));
    }
    if matches!(framing, Framing::Length(length) if length > OBJECT_BYTES_MAX) {
        return Err(too_large());
    }
    let sha256 = value.filter(|&value| value != "UNSIGNED-PAYLOAD");
    let Some(sha256) = sha256 else { return Ok(None) };
    if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Err(s3_error!(
            InvalidArgument,
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-…, or a valid sha256 value."
        ));
    }
    // Said here since operations without a body never look at it.
    if body_is_empty && sha256 != EMPTY_SHA256 {
        return Err(refusal(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        ));
    }
    Ok(Some(sha256.to_owned()))
}

fn is_encoded_in_chunks(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|encoding| encoding.trim().eq_ignore_ascii_case("aws-chunked")))
}

fn declared_trailer(headers: &HeaderMap, wanted: bool) -> S3Result<Option<&'static str>> {
    let name = headers.get("x-amz-trailer");
    match (name, wanted) {
        (None, false) => Ok(None),
        (None, true) => Err(s3_error!(InvalidRequest, "Missing required header for this request: x-amz-trailer")),
        (Some(_), false) => Err(s3_error!(InvalidRequest, "x-amz-trailer needs x-amz-content-sha256: …-TRAILER")),
        (Some(name), true) => {
            let known = name.to_str().ok().and_then(|name| digest::checksum_header(name.trim()));
            known
                .map(Some)
                .ok_or_else(|| s3_error!(InvalidRequest, "x-amz-trailer must name one x-amz-checksum-* header."))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const HASH: &str = "x-amz-content-sha256";
    const DECODED: (&str, &str) = ("x-amz-decoded-content-length", "10");
    const TRAILER: (&str, &str) = ("x-amz-trailer", "x-amz-checksum-crc32");
    const SIGNED: (&str, &str) = (HASH, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    const UNSIGNED: (&str, &str) = (HASH, "STREAMING-UNSIGNED-PAYLOAD-TRAILER");

    fn read(pairs: &[(&str, &str)], credentials: Credentials, empty: bool) -> Result<Payload, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        check(&Method::PUT, &headers, credentials, Framing::Length(99), empty).map_err(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn chunked_payloads_say_their_shape() {
        let chunked = |signed, trailer| Ok(Payload::Chunked(Chunked { signed, trailer, decoded_len: 10 }));
        let header = Credentials::Header;
        assert_eq!(read(&[SIGNED, DECODED], header, false), chunked(true, None));
        assert_eq!(read(&[UNSIGNED, DECODED, TRAILER], header, false), chunked(false, Some("x-amz-checksum-crc32")));
        for (pairs, code) in [
            (&[SIGNED][..], "MissingContentLength"),
            (&[SIGNED, ("x-amz-decoded-content-length", "10x")], "InvalidArgument"),
            (&[SIGNED, ("x-amz-decoded-content-length", "9223372036854775808")], "EntityTooLarge"),
            (&[SIGNED, DECODED, TRAILER], "InvalidRequest"),
            (&[UNSIGNED, DECODED], "InvalidRequest"),
            (&[UNSIGNED, DECODED, ("x-amz-trailer", "x-amz-meta-a")], "InvalidRequest"),
            (&[UNSIGNED, DECODED, ("x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1")], "InvalidRequest"),
            (&[(HASH, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), DECODED], "InvalidRequest"),
        ] {
            assert_eq!(read(pairs, header, false).unwrap_err(), code, "{pairs:?}");
        }
        assert_eq!(read(&[SIGNED, DECODED], Credentials::Presigned, false).unwrap_err(), "InvalidRequest");
        assert_eq!(read(&[SIGNED, DECODED], header, true).unwrap_err(), "IncompleteBody");
    }

    #[test]
    fn plain_payloads() {
        let header = Credentials::Header;
        let zeros = "0".repeat(64);
        assert_eq!(read(&[(HASH, "UNSIGNED-PAYLOAD")], header, false), Ok(Payload::Plain { sha256: None }));
        assert_eq!(read(&[(HASH, &zeros)], header, false), Ok(Payload::Plain { sha256: Some(zeros.clone()) }));
        assert!(read(&[(HASH, EMPTY_SHA256)], header, true).is_ok());
        assert_eq!(read(&[(HASH, &zeros)], header, true).unwrap_err(), "XAmzContentSHA256Mismatch");
        assert_eq!(read(&[], header, false).unwrap_err(), "InvalidRequest");
        assert!(read(&[], Credentials::Presigned, false).is_ok());
        for odd in
            ["", "unsigned-payload", &"F".repeat(64), &"0".repeat(63), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]
        {
            assert_eq!(read(&[(HASH, odd)], header, false).unwrap_err(), "InvalidArgument", "{odd}");
        }
        let encoded = ("content-encoding", "gzip, aws-chunked");
        assert_eq!(read(&[(HASH, "UNSIGNED-PAYLOAD"), encoded], header, false).unwrap_err(), "InvalidRequest");
        assert_eq!(read(&[(HASH, "UNSIGNED-PAYLOAD"), DECODED], header, false).unwrap_err(), "InvalidRequest");
    }
}
