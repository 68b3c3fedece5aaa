//! The headers of a hit, as the long way writes them.

use std::fmt::Display;
use std::ops::Range;

use blockgate_block::{ObjectInfo, Tier};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use s3s::Body;

use crate::convert::object::{expiration, hit_headers};
use crate::convert::{checksum, range as ranges, time};

const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-crc64nvme");
const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");
const EXPIRATION: HeaderName = HeaderName::from_static("x-amz-expiration");
const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// Describes an object, or `range` of it; none where a value can't be written plainly.
pub(super) fn headers(info: &ObjectInfo, tier: Tier, range: Option<&Range<u64>>) -> Option<HeaderMap> {
    let mut headers = hit_headers(info, tier);
    headers.reserve(12);
    let len_bytes = range.map_or(info.size_bytes, |range| range.end - range.start);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len_bytes));
    headers.insert(ETAG, value(format_args!("\"{}\"", info.etag))?);
    headers.insert(LAST_MODIFIED, value(time::http_date(info.last_modified))?);
    match (range, info.crc64()) {
        (Some(range), _) => drop(headers.insert(CONTENT_RANGE, value(ranges::content_range(range, info.size_bytes))?)),
        (None, Some(crc64)) => {
            headers.insert(CHECKSUM, value(checksum::base64(crc64))?);
            headers.insert(CHECKSUM_TYPE, HeaderValue::from_static("FULL_OBJECT"));
        }
        (None, None) => {}
    }
    if let Some(at) = info.expires_at() {
        headers.insert(EXPIRATION, value(expiration(at))?);
    }
    if info.tag_count > 0 {
        headers.insert(TAGGING_COUNT, HeaderValue::from(info.tag_count));
    }
    let attributes = &info.attributes;
    for (name, text) in [
        (CACHE_CONTROL, &attributes.cache_control),
        (CONTENT_DISPOSITION, &attributes.content_disposition),
        (CONTENT_ENCODING, &attributes.content_encoding),
        (CONTENT_LANGUAGE, &attributes.content_language),
        (CONTENT_TYPE, &attributes.content_type),
        (EXPIRES, &attributes.expires),
    ] {
        if let Some(text) = text {
            headers.insert(name, plain(text)?);
        }
    }
    for (name, text) in &attributes.user {
        let name = HeaderName::try_from(format!("x-amz-meta-{name}")).ok()?;
        headers.insert(name, plain(text)?);
    }
    Some(headers)
}

/// A client's text, where it needs no encoding.
fn plain(text: &str) -> Option<HeaderValue> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) { HeaderValue::from_str(text).ok() } else { None }
}

fn value(text: impl Display) -> Option<HeaderValue> {
    HeaderValue::try_from(text.to_string()).ok()
}

/// The whole answer.
pub(super) fn response(headers: HeaderMap, is_partial: bool, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = if is_partial { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    *response.headers_mut() = headers;
    response
}
