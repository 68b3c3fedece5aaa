//! What is mounted beside S3 on the same listeners: behind the same guard and the same signatures, with errors in JSON.
//!
//! Requests under [`MOUNT_PREFIX`] go there, unless their host stands for a bucket: then the path is a key. s3s asks its
//! route before it reads a bucket's name from the path, and verifies the signature before the route is called.

use std::sync::Arc;

use async_trait::async_trait;
use blockgate_upstream::BodyError;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use s3s::route::S3Route;
use s3s::{Body, S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::body::classify;
use crate::context::{Document, RequestContext};
use crate::digest::Digests;
use crate::guard::operation::{self, BodyKind};
use crate::refusal::Refused;

/// Paths of the mount begin so. `_` begins no bucket's name.
pub const MOUNT_PREFIX: &str = "/_kv/";

/// What a mounted operation's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountBody {
    /// There is none.
    None,
    /// JSON: read whole before the first byte is passed on. It ends with an error where it is not what was promised, so that
    /// the mount must read it to its end before it acts.
    Document,
    /// Passed on as it arrives.
    Stream,
}

/// What the face in front must know of a mounted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOperation {
    /// Its name in metrics.
    pub label: &'static str,
    /// What its body is.
    pub body: MountBody,
    /// Whether the signature must cover the body: else whoever has seen one signed request could send it again with
    /// another body.
    pub bound: bool,
    /// The methods that it has, as in the header `Allow`.
    pub allow: &'static str,
}

/// A request that is authenticated; whether it is permitted is for the mount to ask.
pub struct MountRequest {
    /// The request.
    pub request: Request<Body>,
    /// Who signed it.
    pub access_key: String,
    /// Its name in logs and errors.
    pub request_id: String,
    /// Whether a digest of the whole body was promised: then nothing may become visible before the body has ended well.
    /// A body that breaks the promise ends with an error.
    pub is_promised: bool,
}

/// What is mounted.
#[async_trait]
pub trait Mount: Send + Sync + 'static {
    /// The operation at a path; none where there is none.
    fn operation(&self, path: &str) -> Option<MountOperation>;

    /// Answers one request; never fails.
    async fn call(&self, request: MountRequest) -> Response<Body>;
}

/// The mount as s3s asks for it.
pub(crate) struct Route(pub(crate) Arc<dyn Mount>);

#[async_trait]
impl S3Route for Route {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, extensions: &mut http::Extensions) -> bool {
        extensions.get::<RequestContext>().is_some_and(RequestContext::is_mounted)
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        if request.credentials.is_none() {
            return Err(s3_error!(AccessDenied, "The request is not signed."));
        }
        let context = request.extensions.get::<RequestContext>().ok_or_else(lost)?;
        let Some(operation) = self.0.operation(request.uri.path()) else {
            context.set_operation("KvUnknown", BodyKind::None);
            return Ok(());
        };
        let kind = match operation.body {
            MountBody::None => BodyKind::None,
            MountBody::Document => BodyKind::Json,
            MountBody::Stream => BodyKind::Stream,
        };
        context.set_operation(operation.label, kind);
        // A method that the operation does not have is for the mount to refuse, which reads no body then.
        if kind != BodyKind::None && request.method == Method::POST {
            operation::check_mounted(operation.bound, &request.uri, &request.headers)?;
            // The SHA-256 that was signed is compared by s3s, before the last bytes come out: once is enough.
            let digests = Digests::of_headers(&request.headers)?;
            context.set_promised(!digests.is_empty() || is_hashed(&request.headers));
            context.expect_document(Document { operation: operation.label, digests });
        }
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let S3Request { input, method, uri, headers, mut extensions, credentials, .. } = request;
        let context = extensions.remove::<RequestContext>().ok_or_else(lost)?;
        let access_key = credentials.ok_or_else(lost)?.access_key;
        let mut request = Request::new(telling(input, context.clone()));
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        let (request_id, is_promised) = (context.request_id().to_owned(), context.is_promised());
        let response = self.0.call(MountRequest { request, access_key, request_id, is_promised }).await;
        let (parts, body) = response.into_parts();
        let mut response = S3Response::with_status(body, parts.status);
        (response.headers, response.extensions) = (parts.headers, parts.extensions);
        Ok(response)
    }
}

/// Whether the body's SHA-256 was signed.
fn is_hashed(headers: &HeaderMap) -> bool {
    headers.get("x-amz-content-sha256").is_some_and(|value| value.len() == 64)
}

/// The body, which tells why it ended where s3s found that out (the SHA-256 that was signed).
fn telling(body: Body, context: RequestContext) -> Body {
    Body::http_body_unsync(body.map_err(move |error| {
        if let BodyError::Mismatch { code, message } = classify(error.as_ref()) {
            context.refuse(Refused::new(code, message));
        }
        error
    }))
}

/// No request comes here without its context or its credentials.
fn lost() -> S3Error {
    s3_error!(InternalError)
}
