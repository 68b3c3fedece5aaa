//! What the parts of the face tell each other about one request.

use std::sync::{Arc, OnceLock};

use crate::guard::operation::BodyKind;
use crate::refusal::Refused;

/// Travels with the request as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestContext(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    operation: OnceLock<(&'static str, BodyKind)>,
    refused: OnceLock<Refused>,
}

impl RequestContext {
    /// The operation that s3s found and what its body is, once the request is authenticated.
    pub(crate) fn operation(&self) -> Option<(&'static str, BodyKind)> {
        self.0.operation.get().copied()
    }

    pub(crate) fn set_operation(&self, label: &'static str, body: BodyKind) {
        let _ = self.0.operation.set((label, body));
    }

    /// What was found wrong while the body was read. s3s makes an internal error of whatever a body yields, so the true
    /// reason waits here until the response is made. The first reason stands.
    pub(crate) fn refused(&self) -> Option<&Refused> {
        self.0.refused.get()
    }

    pub(crate) fn refuse(&self, refused: Refused) {
        let _ = self.0.refused.set(refused);
    }
}
