//! Strict HTTP in front of s3s: one concern a module, none reads the body before the request is authenticated.
//!
//! `docs/adr/0003-strictness-around-s3s.md` says what each is for.

mod authority;
mod body;
mod chunks;
mod credentials;
mod escape;
mod form;
mod framing;
mod headers;
pub(crate) mod operation;
mod pace;
mod path;
mod payload;
mod query;

use http::Method;
use http::request::Parts;
use s3s::{S3Result, s3_error};

pub(crate) use body::WatchedBody;
pub(crate) use credentials::Credentials;
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
    Ok(Admission { credentials, payload })
}

/// The path that a raw one stands for, itself where it stands for none.
#[cfg(test)]
pub(crate) fn unescape_path(path: &str) -> String {
    escape::unescape(path, false).map_or_else(|_| path.to_owned(), std::borrow::Cow::into_owned)
}
