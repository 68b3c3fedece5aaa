//! Strict HTTP in front of s3s: one concern a module, none reads the body before the request is authenticated.
//!
//! `docs/adr/0003-strictness-around-s3s.md` says what each is for.

mod authority;
mod body;
mod chunks;
mod credentials;
mod drain;
mod escape;
mod form;
mod framing;
mod headers;
pub(crate) mod operation;
mod pace;
mod path;
mod payload;
mod query;

use std::borrow::Cow;

use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderMap, Method};
use s3s::{S3Result, s3_error};

pub(crate) use body::WatchedBody;
pub(crate) use credentials::Credentials;
pub(crate) use drain::drain;
pub(crate) use form::FormReader;
use framing::Framing;
pub(crate) use payload::{OBJECT_BYTES_MAX, Payload};
use query::Query;

/// Methods that S3 has operations for.
const METHODS: [Method; 5] = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE];

/// What is known of a request that may go on.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Where it is signed.
    pub(crate) credentials: Credentials,
    /// How its payload is written.
    pub(crate) payload: Payload,
    /// Whether the client waits for `100 Continue`.
    pub(crate) continues: bool,
}

/// Refuses a request that no honest client sends, whoever it is from.
pub(crate) fn check(parts: &mut Parts, body_is_empty: bool, anonymous_read: bool) -> S3Result<Admission> {
    if parts.method == Method::OPTIONS {
        return Err(s3_error!(AccessDenied, "CORS is not enabled."));
    }
    if !METHODS.contains(&parts.method) {
        return Err(s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource."));
    }
    path::check(parts.uri.path())?;
    headers::check(&parts.headers)?;
    authority::check(parts)?;
    let framing = framing::check(parts)?;
    let query = Query::parse(parts.uri.query())?;
    let credentials = credentials::check(parts, &query, anonymous_read)?;
    let payload = payload::check(&parts.method, &parts.headers, credentials, framing, body_is_empty)?;
    if credentials == Credentials::Form && !matches!(framing, Framing::Length(_)) {
        return Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."));
    }
    Ok(Admission { credentials, payload, continues: expects_continue(&parts.headers) })
}

/// Whether hyper says `100 Continue` once the body is asked for.
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The path that a raw one stands for.
pub(crate) fn unescape_path(path: &str) -> Option<Cow<'_, str>> {
    escape::unescape(path, false).ok()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use http::Request;
    use tokio::time::Instant;

    use super::*;

    /// What the checks cost for the GET that LMCache sends: `cargo test --release -- --ignored --nocapture checks_cost`.
    #[test]
    #[ignore = "a measurement, not a test"]
    fn checks_cost() {
        const ROUNDS: u32 = 1_000_000;
        let request = Request::get("/model%40world%401%400a1b2c3d4e5f@half")
            .header("host", "kv.localhost:9800")
            .header("user-agent", "LMCache/0.5.6")
            .header("range", "bytes=0-8388607")
            .header("x-amz-date", "20260101T000000Z")
            .header("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
            .header(
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AK/20260101/us-east-1/s3/aws4_request, \
                 SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
                 Signature=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            );
        let mut parts = request.body(()).unwrap().into_parts().0;
        let started = Instant::now();
        for _ in 0..ROUNDS {
            black_box(check(black_box(&mut parts), true, false)).unwrap();
            black_box(operation::check("GetObject", &parts.uri, &parts.headers)).unwrap();
        }
        println!("{:?} a request", started.elapsed() / ROUNDS);
    }
}
