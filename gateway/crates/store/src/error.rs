//! How a store operation fails.

use std::sync::Arc;

use blockgate_block::{MissReason, ObjectInfo};
use blockgate_upstream::{BodyError, UpstreamError};
use thiserror::Error;

/// The result of every store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why a store operation failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The block can't be served now. A 404 with the reason, on both faces.
    #[error("miss: {0}")]
    Miss(MissReason),
    /// `If-Match` or `If-Unmodified-Since` does not hold.
    #[error("precondition failed")]
    PreconditionFailed,
    /// `If-None-Match` or `If-Modified-Since` says that the client's copy is good.
    #[error("not modified")]
    NotModified(Arc<ObjectInfo>),
    /// The range lies beyond the object.
    #[error("the range is beyond the object's {size_bytes} bytes")]
    InvalidRange {
        /// The object's length.
        size_bytes: u64,
    },
    /// The request contradicts itself or the bucket's settings; the text says how.
    #[error("{0}")]
    InvalidArgument(String),
    /// The request's body failed; nothing was stored.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The staging disk could not record that a staged block changes. Nothing was changed: after a restart the old one might
    /// be found there.
    #[error("the staging disk could not record that a block changes: {0}")]
    Staging(String),
    /// The upstream refused or failed.
    #[error(transparent)]
    Upstream(UpstreamError),
}

impl From<UpstreamError> for StoreError {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::PreconditionFailed => Self::PreconditionFailed,
            UpstreamError::InvalidRange { size_bytes } => Self::InvalidRange { size_bytes },
            UpstreamError::Body(error) => Self::Body(error),
            error => Self::Upstream(error),
        }
    }
}
