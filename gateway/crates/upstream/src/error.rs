//! What can go wrong at an upstream, named by what happened.

use thiserror::Error;

use crate::types::BodyError;

/// The result of every upstream call.
pub type Result<T> = std::result::Result<T, UpstreamError>;

/// Why an upstream call failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// No such object.
    #[error("no such key")]
    NoSuchKey,
    /// No such bucket.
    #[error("no such bucket")]
    NoSuchBucket,
    /// No such multipart upload: never begun, completed, or aborted.
    #[error("no such upload")]
    NoSuchUpload,
    /// The bucket is already there.
    #[error("the bucket exists")]
    BucketExists,
    /// The bucket holds objects.
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// A condition of the request does not hold.
    #[error("precondition failed")]
    PreconditionFailed,
    /// A conditional read found nothing newer. Carries the ETag, for the 304.
    #[error("not modified")]
    NotModified {
        /// The object's ETag without quotes, where the store says.
        etag: Option<String>,
    },
    /// Another conditional write was faster (S3: 409 `ConditionalRequestConflict`).
    #[error("a concurrent conditional write won")]
    Conflict,
    /// The range begins at or beyond the object's end.
    #[error("the range begins beyond the object's {size_bytes} bytes")]
    InvalidRange {
        /// The object's length.
        size_bytes: u64,
    },
    /// A part named in Complete was never stored or has another ETag.
    #[error("part {number} is missing or has another ETag")]
    InvalidPart {
        /// The part's number; 0 where the store does not say.
        number: u32,
    },
    /// Parts are not in ascending order.
    #[error("the parts are not in ascending order")]
    InvalidPartOrder,
    /// A part other than the last is under 5 MiB.
    #[error("a part other than the last is too small")]
    EntityTooSmall,
    /// The object would be larger than the store takes.
    #[error("the object is too large")]
    EntityTooLarge,
    /// The bucket's name is not one that the store takes.
    #[error("invalid bucket name: {0}")]
    InvalidBucketName(String),
    /// The store can't do this.
    #[error("the upstream does not support {0}")]
    NotSupported(&'static str),
    /// The store refuses the request as malformed.
    #[error("the upstream refuses the request: {0}")]
    InvalidRequest(String),
    /// The store refuses blockgate's own credentials, or forbids the operation.
    #[error("the upstream denies access: {0}")]
    AccessDenied(String),
    /// The store asks to slow down.
    #[error("the upstream asks to slow down")]
    SlowDown,
    /// No space left, or over a quota.
    #[error("the upstream is full")]
    Full,
    /// The client's body failed; nothing was stored.
    #[error("the request body failed: {0}")]
    Body(#[source] BodyError),
    /// No answer: refused, timed out, cut, or a 5xx after all retries.
    #[error("the upstream is unavailable: {0}")]
    Unavailable(String),
    /// Stored state that can't be read (a damaged metadata file, say).
    #[error("stored state is damaged: {0}")]
    Damaged(String),
}

impl UpstreamError {
    /// Whether the store, rather than the request, is at fault, so that a later try may succeed.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::SlowDown | Self::Unavailable(_) | Self::AccessDenied(_))
    }
}
