//! Errors that the face itself answers with.

use std::borrow::Cow;

use s3s::{S3Error, S3ErrorCode};

/// An S3 error by its code on the wire. Codes that s3s does not know (`XAmzContentSHA256Mismatch`) are the client's
/// fault: 400.
pub(crate) fn refusal(code: &str, message: impl Into<Cow<'static, str>>) -> S3Error {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest);
    let known = code.status_code().is_some();
    let mut error = S3Error::with_message(code, message);
    if !known {
        error.set_status_code(http::StatusCode::BAD_REQUEST);
    }
    error
}

/// A refusal that can wait for its turn: found while a body was read, answered when the response is made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct Refused {
    /// S3 error code.
    pub(crate) code: &'static str,
    /// What is wrong.
    pub(crate) message: Cow<'static, str>,
}

impl Refused {
    pub(crate) fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<&Refused> for S3Error {
    fn from(refused: &Refused) -> Self {
        refusal(refused.code, refused.message.clone())
    }
}

impl From<Refused> for S3Error {
    fn from(refused: Refused) -> Self {
        refusal(refused.code, refused.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_the_clients_fault() {
        for code in ["XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody", "RequestTimeout", "MalformedXML"] {
            let error = refusal(code, "why");
            assert_eq!(error.code().as_str(), code);
            assert!(error.status_code().unwrap().is_client_error(), "{code}");
        }
    }
}
