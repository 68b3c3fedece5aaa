//! What went wrong, in the words of the contract: the one place where errors of the store and of frames become answers.

use axum::body::Body;
use axum::response::Response;
use blockgate_api::frame::FrameError;
use blockgate_api::{ErrorBody, ErrorCode, ErrorDetail, limits};
use blockgate_store::StoreError;
use blockgate_upstream::{BodyError, UpstreamError};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

/// Why a request, or one block of it, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A value that is not accepted.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// More than a limit of the contract allows.
    pub(crate) fn limit(what: &str, max: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::LimitExceeded, format!("{what}: at most {max}"))
    }

    /// A bug.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(ErrorCode::InternalError, "an internal error: please try again")
    }

    /// As a response.
    pub(crate) fn response(self, request_id: &str) -> Response {
        let Self { code, message } = self;
        let body = ErrorBody { error: ErrorDetail { code, message, request_id: request_id.to_owned() } };
        // Written from strings alone, which can't fail.
        let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap_or_default()));
        *response.status_mut() = code.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::InvalidArgument(message) => Self::argument(message),
            StoreError::Body(error) => error.into(),
            StoreError::Staging(_) => Self::new(
                ErrorCode::UpstreamUnavailable,
                "the gateway's staging disk fails: it can't record that a staged block changes",
            ),
            StoreError::Upstream(error) => error.into(),
            // Reads answer misses in their bodies; what else can miss waits for the upstream.
            StoreError::Miss(reason) => {
                Self::new(ErrorCode::UpstreamUnavailable, format!("the upstream store can't be asked: {reason}"))
            }
            error => Self::internal(&error),
        }
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Cut(_) | BodyError::Length { .. } => {
                Self::new(ErrorCode::IncompleteBody, "the body ended before it was whole")
            }
            BodyError::Mismatch { message, .. } => Self::new(ErrorCode::BadDigest, message),
            BodyError::Corrupt => Self::new(ErrorCode::BadDigest, "the bytes do not have their checksum"),
            BodyError::Stalled => Self::new(ErrorCode::RequestTimeout, "the body took too long to arrive"),
            error => Self::internal(&error),
        }
    }
}

impl From<UpstreamError> for Refusal {
    fn from(error: UpstreamError) -> Self {
        use UpstreamError as E;
        match error {
            E::NoSuchBucket | E::InvalidBucketName(_) => no_such_bucket(),
            E::NotSupported(what) => Self::new(ErrorCode::NotImplemented, format!("not supported: {what}")),
            E::InvalidRequest(message) => Self::new(ErrorCode::InvalidRequest, message),
            E::EntityTooLarge => Self::new(ErrorCode::EntityTooLarge, "the block is too large for the upstream store"),
            E::SlowDown => Self::new(ErrorCode::SlowDown, "too much is asked at once: please try again"),
            E::Full => Self::new(ErrorCode::InsufficientStorage, "the upstream store is full"),
            // These are blockgate's credentials, not the client's.
            E::AccessDenied(_) => {
                Self::new(ErrorCode::UpstreamUnavailable, "the upstream store refuses the gateway's credentials")
            }
            E::Unavailable(_) => Self::new(ErrorCode::UpstreamUnavailable, "the upstream store does not answer"),
            E::Body(error) => error.into(),
            E::Damaged(what) => Self::new(ErrorCode::InvalidRequest, format!("what is stored can't be read: {what}")),
            error => Self::internal(&error),
        }
    }
}

impl From<FrameError> for Refusal {
    fn from(error: FrameError) -> Self {
        let code = match &error {
            FrameError::Cut => ErrorCode::IncompleteBody,
            FrameError::Checksum { .. } => ErrorCode::BadDigest,
            FrameError::TooLong { max_bytes, .. } if *max_bytes == limits::JSON_FRAME_BYTES_MAX => {
                ErrorCode::LimitExceeded
            }
            FrameError::TooLong { .. } => ErrorCode::EntityTooLarge,
            _ => ErrorCode::InvalidFrame,
        };
        Self::new(code, error.to_string())
    }
}

/// There is no such bucket, or can't be.
pub(crate) fn no_such_bucket() -> Refusal {
    Refusal::new(ErrorCode::NoSuchBucket, "there is no such bucket")
}
