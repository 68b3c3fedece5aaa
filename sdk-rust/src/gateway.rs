//! One gateway as a client sees it: where it is, whether it is well, how busy this client keeps it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::Error;
use crate::breaker::Breaker;
use crate::endpoint::Endpoint;
use crate::metrics::GatewayStats;
use crate::transport::{Failure, Request, Transport};

/// Time that a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Gateway {
    endpoint: Endpoint,
    seed: u64,
    transport: Transport,
    /// One permit a request: a connection each.
    connections: Arc<Semaphore>,
    pub(crate) breaker: Breaker,
    calls: AtomicU64,
    failures: AtomicU64,
}

impl Gateway {
    pub(crate) fn new(endpoint: Endpoint, transport: Transport, connections: usize) -> Self {
        Self {
            seed: xxh3_64(endpoint.to_string().as_bytes()),
            endpoint,
            transport,
            connections: Arc::new(Semaphore::new(connections)),
            breaker: Breaker::new(),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// The weight of this gateway for a key, in rendezvous hashing: the heaviest is asked first.
    pub(crate) fn weight(&self, key: &str) -> u64 {
        xxh3_64_with_seed(key.as_bytes(), self.seed)
    }

    /// Waits until this client has a connection to spare.
    pub(crate) async fn connection(self: Arc<Self>, deadline: Instant) -> Result<Connection, Error> {
        let permit =
            timeout_at(deadline, self.connections.clone().acquire_owned()).await.map_err(|_| Error::Timeout)?;
        let permit = permit.map_err(|_| Error::Unreachable { reason: "the client is closed".to_owned() })?;
        Ok(Connection { gateway: self, _permit: permit })
    }

    /// Sees whether a gateway whose breaker is open has recovered: it has if it answers, whatever it says of the request.
    pub(crate) async fn probe(&self, request: &Request, now: impl Fn() -> std::time::Instant) {
        match self.transport.send(&self.endpoint, request, Instant::now() + PROBE_TIMEOUT).await {
            Err(Failure { is_gateways: true, .. } | Failure { error: Error::Timeout, .. }) => {
                self.breaker.failed(now());
            }
            _ => self.breaker.succeeded(),
        }
    }

    pub(crate) fn failed(&self, failure: &Failure, now: std::time::Instant) {
        if failure.is_gateways {
            self.failures.fetch_add(1, Ordering::Relaxed);
            self.breaker.failed(now);
        } else if matches!(failure.error, Error::Refused { .. }) {
            // It answers.
            self.breaker.succeeded();
        }
    }

    pub(crate) fn stats(&self) -> GatewayStats {
        GatewayStats {
            endpoint: self.endpoint.to_string(),
            breaker: self.breaker.state(),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

/// The right to one request to a gateway.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) gateway: Arc<Gateway>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    pub(crate) async fn send(&self, request: &Request, deadline: Instant) -> Result<http::Response<Incoming>, Failure> {
        self.gateway.calls.fetch_add(1, Ordering::Relaxed);
        self.gateway.transport.send(&self.gateway.endpoint, request, deadline).await
    }
}
