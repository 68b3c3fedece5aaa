//! What went wrong, in the words of S3: the one place where errors of the store become answers.
//!
//! | what happened | answer |
//! | --- | --- |
//! | a miss, whatever its reason | 404 `NoSuchKey` with `x-kv-miss` |
//! | the client's copy is good | 304 with `ETag` and `Last-Modified` |
//! | the request's body is short, long, stalled or not what was promised | 400, and nothing was stored |
//! | the upstream refuses the request | the 4xx that S3 has for it |
//! | the upstream refuses the gateway's own credentials, or is out | 503 `ServiceUnavailable` |
//! | the gateway's staging disk can't record the change of a staged block | 503 `ServiceUnavailable` |
//! | the upstream is full | 507 `InsufficientStorage`, which no client retries |

use std::time::SystemTime;

use blockgate_block::{KeyError, MissReason};
use blockgate_store::StoreError;
use blockgate_upstream::{BodyError, UpstreamError};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use s3s::{S3Error, s3_error};

use crate::convert::{kv, text, time};
use crate::refusal::refusal;

/// The answer to a failed store operation.
pub(crate) fn of_store(error: StoreError) -> S3Error {
    match error {
        StoreError::Miss(reason) => of_miss(reason),
        StoreError::PreconditionFailed => s3_error!(PreconditionFailed),
        StoreError::NotModified(info) => not_modified(Some(&info.etag), Some(info.last_modified)),
        StoreError::InvalidRange { size_bytes } => invalid_range(size_bytes),
        StoreError::InvalidArgument(message) => invalid_argument(&message),
        StoreError::Body(error) => of_body(&error),
        StoreError::Staging(_) => {
            s3_error!(
                ServiceUnavailable,
                "The gateway's staging disk fails: it can't record that a staged block changes."
            )
        }
        StoreError::Upstream(error) => of_upstream(error),
        other => internal(&other),
    }
}

/// The answer to a failed upstream call.
pub(crate) fn of_upstream(error: UpstreamError) -> S3Error {
    use UpstreamError as E;
    match error {
        E::NoSuchKey => of_miss(MissReason::Absent),
        E::NoSuchBucket => s3_error!(NoSuchBucket),
        E::NoSuchUpload => s3_error!(NoSuchUpload),
        E::BucketExists => s3_error!(BucketAlreadyOwnedByYou, "The bucket is there already, and yours."),
        E::BucketNotEmpty => s3_error!(BucketNotEmpty),
        E::PreconditionFailed => s3_error!(PreconditionFailed),
        E::NotModified { etag } => not_modified(etag.as_deref(), None),
        E::Conflict => s3_error!(ConditionalRequestConflict),
        E::InvalidRange { size_bytes } => invalid_range(size_bytes),
        E::InvalidPart { number: 0 } => s3_error!(InvalidPart),
        E::InvalidPart { number } => s3_error!(InvalidPart, "Part {number} was never stored, or has another ETag."),
        E::InvalidPartOrder => s3_error!(InvalidPartOrder),
        E::EntityTooSmall => s3_error!(EntityTooSmall),
        E::EntityTooLarge => s3_error!(EntityTooLarge),
        E::InvalidBucketName(_) => s3_error!(InvalidBucketName),
        E::NotSupported(what) => s3_error!(NotImplemented, "The upstream store does not support {what}."),
        E::InvalidRequest(message) => s3_error!(InvalidRequest, "{}", text::printable(&message)),
        // These are blockgate's credentials, not the client's: a 403 would send the client looking in the wrong place.
        E::AccessDenied(_) => s3_error!(ServiceUnavailable, "The upstream store refuses the gateway's credentials."),
        E::SlowDown => s3_error!(SlowDown),
        E::Full => insufficient_storage(),
        E::Body(error) => of_body(&error),
        E::Damaged(_) => of_miss(MissReason::Corrupt),
        E::Unavailable(_) => s3_error!(ServiceUnavailable, "The upstream store does not answer."),
        other => internal(&other),
    }
}

/// The answer to a request whose body failed; nothing was stored.
pub(crate) fn of_body(error: &BodyError) -> S3Error {
    match error {
        BodyError::Cut(_) | BodyError::Length { .. } => {
            s3_error!(IncompleteBody, "The body is not as long as was announced, or was cut short.")
        }
        BodyError::Mismatch { code, message } => refusal(code, text::printable(message).into_owned()),
        BodyError::Stalled => s3_error!(RequestTimeout),
        // Only bytes that are stored already can be corrupt: the source of a copy.
        BodyError::Corrupt => of_miss(MissReason::Corrupt),
        other => internal(other),
    }
}

/// The answer to a key that no client may use.
pub(crate) fn of_key(error: KeyError) -> S3Error {
    match error {
        KeyError::TooLong => s3_error!(KeyTooLongError),
        KeyError::Reserved => s3_error!(AccessDenied, "{error}"),
        KeyError::Nul => s3_error!(InvalidURI, "{error}"),
        KeyError::Empty => s3_error!(InvalidArgument, "{error}"),
    }
}

/// A block that can't be served now.
pub(crate) fn of_miss(reason: MissReason) -> S3Error {
    let mut error = s3_error!(NoSuchKey, "The block can't be served: {reason}.");
    set_headers(&mut error, [(kv::MISS, HeaderValue::from_static(reason.as_str()))]);
    error
}

/// 416, with the length that ranges must begin within.
pub(crate) fn invalid_range(size_bytes: u64) -> S3Error {
    let mut error = s3_error!(InvalidRange);
    if let Ok(range) = HeaderValue::try_from(format!("bytes */{size_bytes}")) {
        set_headers(&mut error, [(CONTENT_RANGE, range)]);
    }
    error
}

/// A part number that the object doesn't have.
pub(crate) fn invalid_part_number() -> S3Error {
    let mut error = refusal("InvalidPartNumber", "The requested part number can't be satisfied.");
    error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
    error
}

/// A request that contradicts itself or what the store takes.
pub(crate) fn invalid_argument(message: &str) -> S3Error {
    s3_error!(InvalidArgument, "{}", text::printable(message))
}

fn insufficient_storage() -> S3Error {
    let mut error = refusal("InsufficientStorage", "The upstream store is full.");
    error.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
    error
}

fn not_modified(etag: Option<&str>, last_modified: Option<SystemTime>) -> S3Error {
    let mut error = s3_error!(NotModified);
    let etag = etag.and_then(|etag| HeaderValue::try_from(format!("\"{etag}\"")).ok()).map(|value| (ETAG, value));
    let last_modified = last_modified
        .and_then(|at| HeaderValue::try_from(time::http_date(at)).ok())
        .map(|value| (LAST_MODIFIED, value));
    set_headers(&mut error, etag.into_iter().chain(last_modified));
    error
}

/// A state that no request should be able to bring about: said in the log, not to the client.
fn internal(cause: &dyn std::error::Error) -> S3Error {
    tracing::error!(%cause, "internal error");
    s3_error!(InternalError)
}

fn set_headers(error: &mut S3Error, headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) {
    let mut map: HeaderMap = headers.into_iter().collect();
    // s3s lets an error's headers stand in for the ones that describe its XML body.
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    error.set_headers(map);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use blockgate_block::{Attributes, ObjectInfo};

    use s3s::S3ErrorCode;

    use super::*;

    fn header<'a>(error: &'a S3Error, name: &str) -> Option<&'a str> {
        error.headers()?.get(name)?.to_str().ok()
    }

    #[test]
    fn every_miss_is_a_404_with_its_reason() {
        for reason in MissReason::ALL {
            let error = of_store(StoreError::Miss(reason));
            assert_eq!(error.status_code(), Some(StatusCode::NOT_FOUND));
            assert_eq!(error.code(), &S3ErrorCode::NoSuchKey);
            assert_eq!(header(&error, "x-kv-miss"), Some(reason.as_str()));
            assert_eq!(header(&error, "content-type"), Some("application/xml"));
        }
        assert_eq!(header(&of_upstream(UpstreamError::NoSuchKey), "x-kv-miss"), Some("absent"));
    }

    #[test]
    fn not_modified_carries_the_validators() {
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let info = ObjectInfo::from_upstream(1, "e".to_owned(), at, Attributes::default());
        let error = of_store(StoreError::NotModified(Arc::new(info)));
        assert_eq!(error.status_code(), Some(StatusCode::NOT_MODIFIED));
        assert_eq!(header(&error, "etag"), Some("\"e\""));
        assert_eq!(header(&error, "last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    }

    #[test]
    fn a_range_beyond_the_end_says_how_long_the_object_is() {
        let error = of_store(StoreError::InvalidRange { size_bytes: 7 });
        assert_eq!(error.status_code(), Some(StatusCode::RANGE_NOT_SATISFIABLE));
        assert_eq!(header(&error, "content-range"), Some("bytes */7"));
    }

    #[test]
    fn what_a_client_does_wrong_is_never_a_5xx() {
        let mismatch = |code| StoreError::Body(BodyError::Mismatch { code, message: "wrong\u{1} bytes".to_owned() });
        for (error, code, status) in [
            (mismatch("BadDigest"), "BadDigest", 400),
            (mismatch("XAmzContentSHA256Mismatch"), "XAmzContentSHA256Mismatch", 400),
            (mismatch("SignatureDoesNotMatch"), "SignatureDoesNotMatch", 403),
            (StoreError::Body(BodyError::Cut("reset".into())), "IncompleteBody", 400),
            (StoreError::Body(BodyError::Length { announced: 2, got: 1 }), "IncompleteBody", 400),
            (StoreError::Body(BodyError::Stalled), "RequestTimeout", 400),
            (StoreError::InvalidArgument("no\0".into()), "InvalidArgument", 400),
            (StoreError::Upstream(UpstreamError::InvalidRequest("no\u{1b}".into())), "InvalidRequest", 400),
            (StoreError::Upstream(UpstreamError::InvalidPart { number: 3 }), "InvalidPart", 400),
            (StoreError::Upstream(UpstreamError::BucketExists), "BucketAlreadyOwnedByYou", 409),
            (StoreError::Upstream(UpstreamError::Conflict), "ConditionalRequestConflict", 409),
        ] {
            let error = of_store(error);
            assert_eq!(error.code().as_str(), code);
            assert_eq!(error.status_code().map(|s| s.as_u16()), Some(status), "{code}");
            assert!(text::fits_xml(error.message().unwrap_or_default()), "{error:?}");
        }
    }

    #[test]
    fn what_the_upstream_does_wrong_is_not_the_clients_fault() {
        for (error, status) in [
            (UpstreamError::AccessDenied("s3:PutObject".into()), 503),
            (UpstreamError::Unavailable("refused".into()), 503),
            (UpstreamError::SlowDown, 503),
            (UpstreamError::Full, 507),
            (UpstreamError::Damaged("x".into()), 404),
            (UpstreamError::NotSupported("tags"), 501),
        ] {
            assert_eq!(of_upstream(error).status_code().map(|s| s.as_u16()), Some(status));
        }
    }
}
