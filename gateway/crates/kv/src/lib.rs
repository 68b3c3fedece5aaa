//! The KV face: what no S3 server gives an inference engine. Lookup of a chain, batches of blocks as frames, the contract of
//! [`blockgate_api`].
//!
//! Knows nothing of signatures: it is handed requests that are authenticated, with who asks. Holds no caching logic: the store
//! does.
#![forbid(unsafe_code)]

mod budget;
mod cut;
mod fields;
mod gate;
mod get;
mod json;
mod limits;
mod lookup;
mod operation;
mod place;
mod put;
mod query;
mod refusal;
mod remove;
mod stats;

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use blockgate_auth::AccessKeys;
use blockgate_store::Store;
use blockgate_telemetry::Metrics;
use tower::ServiceExt as _;

use crate::gate::Gate;
pub use crate::operation::{BodyKind, Operation};

/// What the face is made of.
pub struct KvParts {
    /// Where blocks are.
    pub store: Arc<Store>,
    /// Who may do what.
    pub keys: Arc<AccessKeys>,
    /// Where limits that were hit are counted.
    pub metrics: Metrics,
    /// What `fleet` says of this gateway.
    pub identity: Identity,
}

/// What is known of this gateway.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A name that no other gateway has.
    pub gateway_id: String,
    /// The program's version.
    pub version: String,
    /// When it started, by its own clock.
    pub started_at: SystemTime,
}

/// Who asks, and what was found out on the way in.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The access key that signed the request.
    pub access_key: String,
    /// Names the request in logs and errors.
    pub request_id: String,
    /// Whether a digest of the whole body was promised, so that nothing may become visible before its end was reached
    /// without an error.
    pub is_promised: bool,
}

/// The KV face. Cheap to clone.
#[derive(Clone)]
pub struct KvFace(Router);

impl KvFace {
    /// The face over a store.
    #[must_use]
    pub fn new(parts: KvParts) -> Self {
        let gate = Arc::new(Gate::new(parts));
        let mut router = Router::new();
        for operation in Operation::ALL {
            let filter = if operation.is_read_only() { MethodFilter::GET } else { MethodFilter::POST };
            let gate = Arc::clone(&gate);
            let handler = move |request: Request| {
                let gate = Arc::clone(&gate);
                async move { gate.answer(operation, request).await }
            };
            router = router.route(operation.path(), on(filter, handler));
        }
        Self(router.fallback(gate::not_found).method_not_allowed_fallback(gate::method_not_allowed))
    }

    /// Answers one request; never fails: what goes wrong is a [`blockgate_api::ErrorBody`].
    pub async fn call(&self, mut request: Request<Body>, caller: Caller) -> Response {
        request.extensions_mut().insert(caller);
        match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
