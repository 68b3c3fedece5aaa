//! JSON in and out: read strictly, within limits.

use axum::body::Body;
use axum::response::Response;
use blockgate_api::{ErrorCode, Object, limits};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::place::{offset_of, place_at};
use crate::refusal::Refusal;

const JSON: &str = "application/json";

/// Reads a request.
pub(crate) async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, Refusal> {
    check_media_type(headers, JSON)?;
    parse(&gather(body).await?)
}

/// Refuses a body of another kind.
pub(crate) fn check_media_type(headers: &HeaderMap, expected: &str) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if kind.eq_ignore_ascii_case(expected) && encoding.is_none_or(|encoding| encoding == b"identity") {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::UnsupportedMediaType,
        format!("the body must be of Content-Type {expected}, without Content-Encoding"),
    ))
}

async fn gather(mut body: Body) -> Result<Bytes, Refusal> {
    let (mut first, mut more) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| cut())?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + more.len() + data.len() > limits::JSON_BYTES_MAX {
            let message = format!("a JSON body is at most {} bytes long", limits::JSON_BYTES_MAX);
            return Err(Refusal::new(ErrorCode::EntityTooLarge, message));
        }
        if first.is_empty() {
            first = data;
        } else {
            more.extend_from_slice(&data);
        }
    }
    Ok(if more.is_empty() { first } else { [first.as_ref(), &more].concat().into() })
}

/// The body broke off. Where it was refused on the way in, that reason stands in for this one.
pub(crate) fn cut() -> Refusal {
    Refusal::new(ErrorCode::IncompleteBody, "the body ended before it was whole")
}

/// Reads one JSON object and nothing behind it.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Refusal> {
    let Object(value) = serde_json::from_slice(text).map_err(|error| refused(text, &error))?;
    Ok(value)
}

fn refused(text: &[u8], error: &serde_json::Error) -> Refusal {
    let place = place_at(text, offset_of(text, error.line(), error.column()));
    if place.depth > limits::JSON_DEPTH_MAX {
        return Refusal::limit("nesting of the JSON body", limits::JSON_DEPTH_MAX);
    }
    let field = if place.field.is_empty() { String::new() } else { format!(", in `{}`", place.field) };
    Refusal::new(ErrorCode::InvalidJson, format!("{error}{field}"))
}

/// A response.
pub(crate) fn response(value: &impl Serialize) -> Response {
    // Types of the contract alone, none of which can fail to be written.
    let mut response = Response::new(Body::from(serde_json::to_vec(value).unwrap_or_default()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

#[cfg(test)]
mod tests {
    use blockgate_api::types::{GetRequest, LookupRequest};

    use super::*;

    fn code<T: DeserializeOwned>(text: &str) -> Option<(ErrorCode, String)> {
        parse::<T>(text.as_bytes()).err().map(|refusal| (refusal.code, refusal.message))
    }

    #[test]
    fn what_is_not_the_operations_object_is_refused_with_its_place() {
        for (text, told) in [
            ("", "EOF"),
            ("null", "expected a JSON object"),
            (r#"[["k"],"","",null,0,false,null]"#, "expected a JSON object"),
            (r#"{"keys":["a"]} x"#, "trailing"),
            (r#"{"keys":["a"],"deadline":5}"#, "unknown field `deadline`"),
            (r#"{"keys":["a"],"keys":["b"]}"#, "duplicate field `keys`"),
            (r#"{"keys":["a",7]}"#, "in `keys[1]`"),
            (r#"{"keys":"a"}"#, "in `keys`"),
            (r#"{"deadline_ms":-1}"#, "in `deadline_ms`"),
            (r#"{"deadline_ms":1.5}"#, "in `deadline_ms`"),
            (r#"{"keys":["\ud800"]}"#, "in `keys[0]`"),
        ] {
            let (code, message) = code::<LookupRequest>(text).expect(text);
            assert_eq!(code, ErrorCode::InvalidJson, "{text}");
            assert!(message.contains(told), "{text}: {message}");
        }
        assert!(parse::<LookupRequest>(b"{\"keys\":[\"\xff\"]}").is_err());
        assert!(code::<LookupRequest>(" {} ").is_none());
    }

    #[test]
    fn deep_nesting_is_refused_by_its_limit() {
        for depth in [9, 100, 100_000] {
            let text = format!(r#"{{"keys":{}"#, "[".repeat(depth));
            assert!(matches!(
                code::<LookupRequest>(&text),
                Some((ErrorCode::InvalidJson | ErrorCode::LimitExceeded, _))
            ));
        }
    }

    #[test]
    fn ranges_are_objects() {
        assert!(code::<GetRequest>(r#"{"ranges":[{"offset":0,"length":1}]}"#).is_none());
        assert!(code::<GetRequest>(r#"{"ranges":null}"#).is_none());
        assert!(code::<GetRequest>(r#"{"ranges":[[0,1]]}"#).is_some());
    }
}
