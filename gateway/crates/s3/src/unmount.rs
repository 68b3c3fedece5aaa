//! Errors of the guard, of s3s and of request bodies in the words of the KV extension: the one place where they become
//! [`ErrorBody`].
//!
//! | here | there |
//! | --- | --- |
//! | codes that both have | themselves |
//! | a digest that does not fit, whichever (`XAmzContentSHA256Mismatch` …) | `BadDigest` |
//! | a document or an upload that is too long | `EntityTooLarge` |
//! | a presigned query that is malformed | `AuthorizationHeaderMalformed` |
//! | any other 4xx | by its status: `AccessDenied`, `InvalidRequest` |
//! | any other 5xx | `InternalError` |

use blockgate_api::{ErrorBody, ErrorCode, ErrorDetail};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use s3s::{Body, S3Error};

use crate::respond::Asked;

/// A response of the mount as it is; one of s3s, which is an error in XML, as JSON.
pub(crate) fn answer(response: Response<Body>, asked: &Asked) -> Response<Body> {
    let is_xml = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/xml");
    let status = response.status();
    if !is_xml || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = response.body().bytes().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let code = code_of(element(&text, "Code").as_deref().unwrap_or_default(), status);
    written(code, element(&text, "Message").as_deref(), asked)
}

/// An error as JSON.
pub(crate) fn error(error: &S3Error, asked: &Asked) -> Response<Body> {
    let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    written(code_of(error.code().as_str(), status), error.message(), asked)
}

fn code_of(code: &str, status: StatusCode) -> ErrorCode {
    if let Some(same) = ErrorCode::ALL.iter().find(|known| known.as_str() == code) {
        return *same;
    }
    match code {
        "XAmzContentSHA256Mismatch" | "InvalidDigest" => ErrorCode::BadDigest,
        "MaxMessageLengthExceeded" => ErrorCode::EntityTooLarge,
        "AuthorizationQueryParametersError" | "MissingSecurityHeader" => ErrorCode::AuthorizationHeaderMalformed,
        "ServiceUnavailable" => ErrorCode::UpstreamUnavailable,
        _ if status == StatusCode::FORBIDDEN => ErrorCode::AccessDenied,
        _ if status.is_client_error() => ErrorCode::InvalidRequest,
        _ => ErrorCode::InternalError,
    }
}

/// What codes say that come without a message.
fn default_message(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::SignatureDoesNotMatch => "The signature is not the one that the gateway calculates.",
        ErrorCode::InvalidAccessKeyId => "The access key is not known.",
        ErrorCode::RequestTimeTooSkewed => "The request's clock is too far off.",
        ErrorCode::AccessDenied => "Access denied.",
        ErrorCode::InternalError => "An internal error: please try again.",
        ErrorCode::MissingContentLength => "The body needs a Content-Length.",
        _ => code.as_str(),
    }
}

fn written(code: ErrorCode, message: Option<&str>, asked: &Asked) -> Response<Body> {
    let message = message.filter(|text| !text.is_empty()).unwrap_or_else(|| default_message(code)).to_owned();
    let request_id = asked.context.request_id().to_owned();
    let body = ErrorBody { error: ErrorDetail { code, message, request_id } };
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(allow) = asked.allow.filter(|_| code == ErrorCode::MethodNotAllowed) {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if asked.method == Method::HEAD {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    } else {
        *response.body_mut() = Body::from(body);
    }
    response
}

/// The text of the first element of this name in an error of s3s.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    quick_xml::escape::unescape(text).ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use http::{Uri, Version};
    use s3s::{S3ErrorCode, s3_error};

    use super::*;
    use crate::context::RequestContext;
    use crate::refusal::refusal;

    fn asked(method: Method) -> Asked {
        let context = RequestContext::new("42".to_owned(), true);
        Asked {
            method,
            uri: Uri::from_static("/_kv/v1/b/get"),
            version: Version::HTTP_11,
            context,
            region: None,
            allow: Some("POST"),
        }
    }

    fn read(response: &Response<Body>) -> ErrorDetail {
        let body: ErrorBody = serde_json::from_slice(&response.body().bytes().unwrap()).unwrap();
        body.error
    }

    #[test]
    fn every_error_has_a_code_of_the_contract_and_its_status() {
        for (given, expected) in [
            (s3_error!(SignatureDoesNotMatch), ErrorCode::SignatureDoesNotMatch),
            (s3_error!(InvalidURI, "a < b"), ErrorCode::InvalidRequest),
            (s3_error!(NotImplemented, "no"), ErrorCode::NotImplemented),
            (s3_error!(RequestTimeout), ErrorCode::RequestTimeout),
            (s3_error!(MissingContentLength), ErrorCode::MissingContentLength),
            (s3_error!(AuthorizationQueryParametersError), ErrorCode::AuthorizationHeaderMalformed),
            (s3_error!(ExpiredToken), ErrorCode::InvalidRequest),
            (S3Error::new(S3ErrorCode::InternalError), ErrorCode::InternalError),
            (refusal("XAmzContentSHA256Mismatch", "wrong"), ErrorCode::BadDigest),
            (refusal("MaxMessageLengthExceeded", "long"), ErrorCode::EntityTooLarge),
        ] {
            let direct = error(&given, &asked(Method::POST));
            let by_s3s = answer(given.to_http_response().unwrap(), &asked(Method::POST));
            for response in [direct, by_s3s] {
                let detail = read(&response);
                assert_eq!((detail.code, response.status()), (expected, expected.status()));
                assert_eq!(detail.request_id, "42");
                assert!(!detail.message.is_empty());
            }
        }
    }

    #[test]
    fn messages_come_through() {
        let response = answer(s3_error!(InvalidURI, "a < b").to_http_response().unwrap(), &asked(Method::POST));
        assert_eq!(read(&response).message, "a < b");
    }

    #[test]
    fn a_wrong_method_names_the_right_ones_and_head_has_no_body() {
        let response = error(&s3_error!(MethodNotAllowed), &asked(Method::HEAD));
        assert_eq!(
            (response.status(), response.headers()[ALLOW].to_str().unwrap()),
            (StatusCode::METHOD_NOT_ALLOWED, "POST")
        );
        assert_eq!(response.body().bytes().unwrap().len(), 0);
        assert!(response.headers().contains_key(CONTENT_LENGTH));
    }
}
