//! The last hand on every response: ids, and errors as AWS writes them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_RANGE};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri, Version};
use s3s::{Body, S3Error, s3_error};

use crate::context::RequestContext;
use crate::unmount;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
pub(crate) const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const ERROR_END: &[u8] = b"</Error>";

/// What of a request its response needs.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) context: RequestContext,
    /// What clients that signed for another region are told.
    pub(crate) region: Option<String>,
    /// The methods that the mount has at the path.
    pub(crate) allow: Option<&'static str>,
}

/// Makes the response to a request out of what s3s or the guard answered.
pub(crate) fn finish(asked: &Asked, answer: Result<Response<Body>, S3Error>) -> Response<Body> {
    // What the body turned out to be outranks whatever was made of it.
    let answer = match asked.context.refused() {
        Some(refused) => Err(S3Error::from(refused)),
        None => answer,
    };
    let is_mounted = asked.context.is_mounted();
    let mut response = match answer {
        Ok(response) if is_mounted => unmount::answer(response, asked),
        Err(error) if is_mounted => unmount::error(&error, asked),
        answer => answer.or_else(S3Error::to_http_response).unwrap_or_else(|_| unwritable()),
    };
    // s3s has no other status for a HEAD than 200.
    if asked.method == Method::HEAD && response.headers().contains_key(CONTENT_RANGE) && response.status().is_success()
    {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    if response.status().is_client_error() || response.status().is_server_error() {
        if !is_mounted {
            complete_error(&mut response, asked, asked.context.request_id());
        }
        // Nobody reads what is left of the body, so the connection ends here: clients must not send their next request on it.
        if asked.context.is_body_open() && asked.version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    let headers = response.headers_mut();
    headers.insert(HOST_ID, host_id().clone());
    if let Ok(request_id) = HeaderValue::from_str(asked.context.request_id()) {
        headers.insert(REQUEST_ID, request_id);
    }
    response
}

/// For an error whose text XML can't hold: none of the gateway's own, so what it quotes is the client's.
fn unwritable() -> Response<Body> {
    let error = s3_error!(InvalidRequest, "The request holds characters that no answer can quote.");
    error.to_http_response().unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    })
}

/// Adds what AWS adds to the text of an error; takes the text away from the answer to a HEAD.
fn complete_error(response: &mut Response<Body>, asked: &Asked, request_id: &str) {
    if asked.method == Method::HEAD {
        *response.body_mut() = Body::empty();
        return;
    }
    let Some(text) = response.body().bytes() else { return };
    let Some(start) = text.strip_suffix(ERROR_END) else { return };
    let host_id = host_id().to_str().unwrap_or_default();
    let resource = resource(asked.uri.path());
    let size = actual_size(response);
    let region = expected_region(start, asked.region.as_deref());
    let end = format!(
        "{size}{region}<Resource>{resource}</Resource><RequestId>{request_id}</RequestId><HostId>{host_id}</HostId></Error>"
    );
    *response.body_mut() = Body::from(Bytes::from([start, end.as_bytes()].concat()));
}

/// The object's size beside a range beyond it: awscrt learns from there that an object is empty.
fn actual_size(response: &Response<Body>) -> String {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let size = range.and_then(|range| range.strip_prefix("bytes */"));
    size.map_or_else(String::new, |size| format!("<ActualObjectSize>{size}</ActualObjectSize>"))
}

/// The region that credentials must be for: s3cmd and boto3 learn it from there and sign again.
fn expected_region(error: &[u8], region: Option<&str>) -> String {
    const MALFORMED: &[u8] = b"<Code>AuthorizationHeaderMalformed</Code>";
    let is_told = error.windows(MALFORMED.len()).any(|window| window == MALFORMED);
    region.filter(|_| is_told).map_or_else(String::new, |region| format!("<Region>{region}</Region>"))
}

/// The path as it was sent, escaped for XML.
fn resource(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars().filter(|c| !c.is_control()) {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            other => text.push(other),
        }
    }
    text
}

/// Names this process in `x-amz-id-2`.
fn host_id() -> &'static HeaderValue {
    static HOST_ID: OnceLock<HeaderValue> = OnceLock::new();
    HOST_ID.get_or_init(|| {
        let seed = [seed().to_le_bytes(), mix(seed()).to_le_bytes()].concat();
        HeaderValue::from_str(&BASE64_STANDARD.encode(seed)).unwrap_or(HeaderValue::from_static("blockgate"))
    })
}

/// Sixteen hex digits that no other request of this process has, and hardly one of another.
pub(crate) fn next_request_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Mixing is a bijection: distinct counts give distinct ids.
    format!("{:016X}", mix(seed().wrapping_add(count)))
}

/// A number that differs from start to start.
fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one("blockgate"))
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refused;

    fn asked(method: Method, path: &'static str) -> Asked {
        let (version, context) = (Version::HTTP_11, RequestContext::new(next_request_id(), false));
        Asked {
            method,
            uri: Uri::from_static(path),
            version,
            context,
            region: Some("eu-north-1".to_owned()),
            allow: None,
        }
    }

    fn text(response: &Response<Body>) -> String {
        String::from_utf8(response.body().bytes().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn an_error_with_an_unread_body_ends_the_connection() {
        for (version, open, ends) in [
            (Version::HTTP_11, true, true),
            (Version::HTTP_10, true, true),
            (Version::HTTP_11, false, false),
            (Version::HTTP_2, true, false),
        ] {
            let asked = Asked { version, ..asked(Method::PUT, "/b/k") };
            asked.context.set_body_open(open);
            let response = finish(&asked, Err(s3_error!(NoSuchBucket)));
            assert_eq!(response.headers().contains_key(CONNECTION), ends, "{version:?} {open}");
            let response = finish(&asked, Ok(Response::new(Body::empty())));
            assert!(!response.headers().contains_key(CONNECTION));
        }
    }

    #[test]
    fn a_range_beyond_the_end_tells_the_size() {
        let error = crate::error::of_store(blockgate_store::StoreError::InvalidRange { size_bytes: 0 });
        let text = text(&finish(&asked(Method::GET, "/b/k"), Err(error)));
        assert!(text.contains("<ActualObjectSize>0</ActualObjectSize>"), "{text}");
    }

    #[test]
    fn errors_name_what_was_asked_for() {
        let response = finish(&asked(Method::GET, "/b/a&b%3C"), Err(s3_error!(NoSuchKey)));
        assert_eq!(response.status(), 404);
        let id = response.headers()["x-amz-request-id"].to_str().unwrap();
        let text = text(&response);
        assert!(text.contains("<Code>NoSuchKey</Code>"), "{text}");
        assert!(text.contains("<Resource>/b/a&amp;b%3C</Resource>"), "{text}");
        assert!(text.contains(&format!("<RequestId>{id}</RequestId>")), "{text}");
        assert!(text.ends_with("</HostId></Error>"), "{text}");
        assert!(response.headers().contains_key("x-amz-id-2"));
    }

    #[test]
    fn who_signs_for_another_region_is_told_which() {
        let malformed = text(&finish(&asked(Method::GET, "/b"), Err(s3_error!(AuthorizationHeaderMalformed))));
        assert!(malformed.contains("<Region>eu-north-1</Region>"), "{malformed}");
        let other = text(&finish(&asked(Method::GET, "/b"), Err(s3_error!(AccessDenied))));
        assert!(!other.contains("<Region>"), "{other}");
    }

    #[test]
    fn head_has_no_text() {
        let response = finish(&asked(Method::HEAD, "/b/k"), Err(s3_error!(NoSuchKey)));
        assert_eq!((response.status(), text(&response).as_str()), (StatusCode::NOT_FOUND, ""));
    }

    #[test]
    fn what_the_body_turned_out_to_be_outranks_the_answer() {
        let asked = asked(Method::POST, "/b?delete");
        asked.context.refuse(Refused::new("BadDigest", "first"));
        asked.context.refuse(Refused::new("MalformedXML", "second"));
        let response = finish(&asked, Err(s3_error!(InternalError)));
        assert_eq!(response.status(), 400);
        assert!(text(&response).contains("<Code>BadDigest</Code><Message>first</Message>"));
    }

    #[test]
    fn an_error_that_xml_cannot_hold_is_still_the_clients() {
        let response = finish(&asked(Method::GET, "/b"), Err(s3_error!(InvalidArgument, "quoted: \u{1}")));
        assert_eq!(response.status(), 400);
        assert!(text(&response).contains("<Code>InvalidRequest</Code>"));
    }

    #[test]
    fn request_ids_differ() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| next_request_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 16));
    }
}
