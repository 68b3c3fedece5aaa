//! The operations listener: is the process alive, can it serve, what has it done.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use blockgate_telemetry::Metrics;
use blockgate_upstream::Upstream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::server::{Phase, PhaseWatch};

/// How long the upstream may take to show that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long its answer is believed, so that no number of probes becomes load.
const PING_VALID: Duration = Duration::from_secs(1);

/// What the operations listener asks.
pub(crate) struct Ops {
    upstream: Arc<dyn Upstream>,
    metrics: Metrics,
    phase: PhaseWatch,
    last_ping: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Ops {
    /// Answers for this upstream, these metrics and this process.
    pub(crate) fn new(upstream: Arc<dyn Upstream>, metrics: Metrics, phase: PhaseWatch) -> Self {
        Self { upstream, metrics, phase, last_ping: Mutex::default() }
    }

    /// `/healthz`, `/readyz` and `/metrics`.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(Arc::new(self))
    }

    /// Why requests should go elsewhere, if they should.
    async fn ready(&self) -> Result<(), String> {
        if self.phase.now() > Phase::Serving {
            return Err("draining".to_owned());
        }
        // Whoever comes while a ping is out waits for its answer.
        let mut last = self.last_ping.lock().await;
        match &*last {
            Some((at, outcome)) if at.elapsed() < PING_VALID => outcome.clone(),
            _ => {
                let outcome = match tokio::time::timeout(PING_TIMEOUT, self.upstream.ping()).await {
                    Ok(outcome) => outcome.map_err(|error| format!("upstream: {error}")),
                    Err(_) => Err(format!("upstream: no answer within {PING_TIMEOUT:?}")),
                };
                *last = Some((Instant::now(), outcome.clone()));
                outcome
            }
        }
    }
}

async fn ready(State(ops): State<Arc<Ops>>) -> Response {
    match ops.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response(),
    }
}

async fn metrics(State(ops): State<Arc<Ops>>) -> Response {
    let format = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (format, ops.metrics.render()).into_response()
}
