//! What happens to every request before and after the S3 face: limits in front, a net beneath.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use blockgate_s3::{Face, ResponseBody};
use blockgate_telemetry::Metrics;
use futures::FutureExt;
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;

use super::shed::{Held, Shed};

/// What answers requests.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Incoming>) -> impl Future<Output = Response<ResponseBody>> + Send;

    /// Whether errors are written as JSON in place of XML.
    fn speaks_json(&self, request: &Request<Incoming>) -> bool;
}

impl Handler for Face {
    fn handle(&self, request: Request<Incoming>) -> impl Future<Output = Response<ResponseBody>> + Send {
        self.call(request)
    }

    fn speaks_json(&self, request: &Request<Incoming>) -> bool {
        self.is_mounted(request)
    }
}

/// A handler with its limits. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Answer<H> {
    pub(crate) handler: H,
    pub(crate) shed: Shed,
    pub(crate) header_bytes_max: usize,
    pub(crate) metrics: Metrics,
}

impl<H: Handler> Answer<H> {
    /// Answers one request; whatever happens there is an answer.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response<Held<ResponseBody>> {
        let is_json = self.handler.speaks_json(&request);
        if header_bytes(&request) > self.header_bytes_max {
            self.metrics.limit_hit("max_header_bytes");
            return HEADERS_TOO_LARGE.response(is_json);
        }
        let Some(slot) = self.shed.enter() else {
            self.metrics.limit_hit("max_concurrent_requests");
            return SLOW_DOWN.response(is_json);
        };
        match AssertUnwindSafe(self.handler.handle(request)).catch_unwind().await {
            Ok(response) => response.map(|body| Held::new(body, Some(slot))),
            Err(panic) => {
                tracing::error!(panic = panic_text(panic.as_ref()), "a request panicked: please report this as a bug");
                INTERNAL_ERROR.response(is_json)
            }
        }
    }
}

/// What a request's line and headers took on the wire, about.
fn header_bytes(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    request.headers().iter().fold(target, |sum, (name, value)| sum + name.as_str().len() + value.len() + 4)
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// An answer that needs no face.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: &'static str,
}

const SLOW_DOWN: Refusal =
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "SlowDown", message: "Please reduce your request rate." };

const HEADERS_TOO_LARGE: Refusal = Refusal {
    status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    code: "RequestHeaderSectionTooLarge",
    message: "Your request header section exceeds the maximum allowed request header section size.",
};

const INTERNAL_ERROR: Refusal = Refusal {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    code: "InternalError",
    message: "We encountered an internal error. Please try again.",
};

impl Refusal {
    fn response(&self, is_json: bool) -> Response<Held<ResponseBody>> {
        let Self { status, code, message } = self;
        if is_json {
            return self.json();
        }
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        );
        written(*status, "application/xml", body)
    }

    /// As the KV extension's contract has it, which knows no status 431.
    fn json(&self) -> Response<Held<ResponseBody>> {
        let status = match self.status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => StatusCode::BAD_REQUEST,
            status => status,
        };
        let code = if status == self.status { self.code } else { "LimitExceeded" };
        let message = self.message;
        let body = format!(r#"{{"error":{{"code":"{code}","message":"{message}","request_id":""}}}}"#);
        written(status, "application/json", body)
    }
}

fn written(status: StatusCode, media_type: &'static str, body: String) -> Response<Held<ResponseBody>> {
    let mut response = Response::new(Held::new(ResponseBody::from(body), None));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    response
}
