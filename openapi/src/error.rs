//! How a request of the KV extension is refused.

use std::fmt;

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// The body of every error: `{"error":{"code","message","request_id"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// For programs.
    pub code: ErrorCode,
    /// For people: what was wrong, where, and what is accepted.
    pub message: String,
    /// Names the request in the gateway's logs.
    pub request_id: String,
}

macro_rules! error_codes {
    ($(#[doc = $doc:literal] $name:ident => $status:ident,)*) => {
        /// What went wrong, for programs. The names are those that S3 uses where it has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorCode { $(#[doc = $doc] $name,)* }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The status that goes with it.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// As it is written in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc.trim_ascii(),)* }
            }
        }
    };
}

error_codes! {
    /// The body is not JSON, or not the JSON that this operation takes: a field is unknown, missing or of another type.
    InvalidJson => BAD_REQUEST,
    /// A field's value is not accepted.
    InvalidArgument => BAD_REQUEST,
    /// The request has another form than any operation's.
    InvalidRequest => BAD_REQUEST,
    /// A limit of the contract is passed; the message names it.
    LimitExceeded => BAD_REQUEST,
    /// The frames of a `put` can't be read: bad magic, flags, order or length.
    InvalidFrame => BAD_REQUEST,
    /// Bytes do not have the checksum that was promised.
    BadDigest => BAD_REQUEST,
    /// The body ended before it was whole.
    IncompleteBody => BAD_REQUEST,
    /// A header, parameter or authorization is malformed.
    AuthorizationHeaderMalformed => BAD_REQUEST,
    /// The signature is not right.
    SignatureDoesNotMatch => FORBIDDEN,
    /// There is no such access key.
    InvalidAccessKeyId => FORBIDDEN,
    /// The request's clock is too far off.
    RequestTimeTooSkewed => FORBIDDEN,
    /// The access key may not do this.
    AccessDenied => FORBIDDEN,
    /// There is no such bucket.
    NoSuchBucket => NOT_FOUND,
    /// There is no such operation.
    NotFound => NOT_FOUND,
    /// The operation exists with another method; `Allow` names it.
    MethodNotAllowed => METHOD_NOT_ALLOWED,
    /// The body took too long to arrive.
    RequestTimeout => REQUEST_TIMEOUT,
    /// A body needs `Content-Length` or chunks.
    MissingContentLength => LENGTH_REQUIRED,
    /// The body is larger than allowed.
    EntityTooLarge => PAYLOAD_TOO_LARGE,
    /// The body's `Content-Type` is not the operation's.
    UnsupportedMediaType => UNSUPPORTED_MEDIA_TYPE,
    /// The bucket is passthrough, or the upstream can't do this.
    NotImplemented => NOT_IMPLEMENTED,
    /// A bug in the gateway.
    InternalError => INTERNAL_SERVER_ERROR,
    /// Too much is asked at once.
    SlowDown => SERVICE_UNAVAILABLE,
    /// The upstream does not answer.
    UpstreamUnavailable => SERVICE_UNAVAILABLE,
    /// No room for the block.
    InsufficientStorage => INSUFFICIENT_STORAGE,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
