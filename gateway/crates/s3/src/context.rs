//! What the parts of the face tell each other about one request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::digest::Digests;
use crate::guard::operation::BodyKind;
use crate::refusal::Refused;

/// Travels with the request as an extension.
#[derive(Clone, Default)]
pub(crate) struct RequestContext(Arc<Inner>);

/// The document that an operation will read, and what was promised of it.
#[derive(Default)]
pub(crate) struct Document {
    /// The operation's name.
    pub(crate) operation: &'static str,
    /// What must prove true of its bytes.
    pub(crate) digests: Digests,
}

#[derive(Default)]
struct Inner {
    operation: OnceLock<(&'static str, BodyKind)>,
    document: Mutex<Option<Document>>,
    refused: OnceLock<Refused>,
    body_open: AtomicBool,
    mounted: bool,
    promised: AtomicBool,
    request_id: String,
}

impl RequestContext {
    /// Of a request with this id; `mounted` says whether it is for the mount.
    pub(crate) fn new(request_id: String, mounted: bool) -> Self {
        Self(Arc::new(Inner { request_id, mounted, ..Inner::default() }))
    }

    /// Names the request in logs and errors.
    pub(crate) fn request_id(&self) -> &str {
        &self.0.request_id
    }

    /// Whether the request is for the mount.
    pub(crate) fn is_mounted(&self) -> bool {
        self.0.mounted
    }

    /// Whether a digest of the whole body was promised.
    pub(crate) fn is_promised(&self) -> bool {
        self.0.promised.load(Ordering::Relaxed)
    }

    pub(crate) fn set_promised(&self, promised: bool) {
        self.0.promised.store(promised, Ordering::Relaxed);
    }

    /// The operation that s3s found and what its body is, once the request is authenticated.
    pub(crate) fn operation(&self) -> Option<(&'static str, BodyKind)> {
        self.0.operation.get().copied()
    }

    pub(crate) fn set_operation(&self, label: &'static str, body: BodyKind) {
        let _ = self.0.operation.set((label, body));
    }

    /// The body will be a document.
    pub(crate) fn expect_document(&self, document: Document) {
        *self.0.document.lock() = Some(document);
    }

    pub(crate) fn take_document(&self) -> Option<Document> {
        self.0.document.lock().take()
    }

    /// Whether bytes of the body may still come that nobody has read.
    pub(crate) fn is_body_open(&self) -> bool {
        self.0.body_open.load(Ordering::Relaxed)
    }

    pub(crate) fn set_body_open(&self, open: bool) {
        self.0.body_open.store(open, Ordering::Relaxed);
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
