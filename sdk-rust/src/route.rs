//! Which gateway is asked, and which one next.
//!
//! All calls of a chain go to the gateway that rendezvous hashing on the chain's first key names, so that a chain is in one
//! gateway's memory; when it fails, the next in the key's order is asked, which is the same for every client.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as StdInstant;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::Error;
use crate::breaker::Permission;
use crate::gateway::{Connection, Gateway};
use crate::transport::{Failure, Request};

/// Where the time of breakers comes from.
pub(crate) type Clock = Arc<dyn Fn() -> StdInstant + Send + Sync>;

/// All gateways of a client.
pub(crate) struct Router {
    pub(crate) gateways: Vec<Arc<Gateway>>,
    pub(crate) clock: Clock,
    /// What a gateway that failed is asked to see whether it has recovered.
    pub(crate) probe: Request,
    pub(crate) failovers: AtomicU64,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("gateways", &self.gateways).finish_non_exhaustive()
    }
}

impl Router {
    /// The way of one call through the gateways that may be called. Those that are due for a probe are probed beside it, so
    /// that a dead gateway costs a call nothing.
    pub(crate) fn attempts(&self, key: &str, deadline: Instant) -> Attempts<'_> {
        let mut order: Vec<_> = self.gateways.iter().collect();
        order.sort_by_cached_key(|gateway| Reverse(gateway.weight(key)));
        let now = self.now();
        let mut queue = VecDeque::with_capacity(order.len());
        for gateway in order {
            match gateway.breaker.permission(now) {
                Permission::Call => queue.push_back(gateway.clone()),
                Permission::Probe => self.probe(gateway.clone()),
                Permission::Nothing => {}
            }
        }
        Attempts { router: self, deadline, queue, last: None, asked_again: false }
    }

    /// The time of breakers.
    pub(crate) fn now(&self) -> StdInstant {
        (self.clock)()
    }

    fn probe(&self, gateway: Arc<Gateway>) {
        let (request, clock) = (self.probe.clone(), self.clock.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { gateway.probe(&request, &*clock).await });
        }
    }
}

/// One call's way through the gateways.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    router: &'a Router,
    deadline: Instant,
    queue: VecDeque<Arc<Gateway>>,
    last: Option<Error>,
    asked_again: bool,
}

impl Attempts<'_> {
    /// The next gateway to ask, with a connection to it.
    ///
    /// # Errors
    /// When none is left: what the last one said.
    pub(crate) async fn next(&mut self) -> Result<Connection, Error> {
        if Handle::try_current().is_err() {
            return Err(Error::Unreachable { reason: "there is no Tokio runtime".to_owned() });
        }
        let Some(gateway) = self.queue.pop_front() else {
            let shut = || Error::Unreachable { reason: "the breaker of every gateway is open".to_owned() };
            return Err(self.last.take().unwrap_or_else(shut));
        };
        if self.last.is_some() {
            self.router.failovers.fetch_add(1, Ordering::Relaxed);
        }
        gateway.connection(self.deadline).await
    }

    /// Takes note of a failure.
    ///
    /// # Errors
    /// The same where asking another gateway is of no use: it would answer the same, or there is no time left.
    pub(crate) fn failed(&mut self, gateway: &Arc<Gateway>, failure: Failure) -> Result<(), Error> {
        gateway.failed(&failure, self.router.now());
        let Failure { error, is_gateways } = failure;
        tracing::debug!(%error, gateway = %gateway.stats().endpoint, "attempt failed");
        if !is_gateways || error == Error::Timeout {
            return Err(error);
        }
        // A connection kept alive may have been closed just when it was to be used, a byte may have been damaged on its way: the
        // last gateway gets a second chance.
        let is_of_the_way = matches!(error, Error::Lost { .. } | Error::Protocol { .. });
        if self.queue.is_empty() && !self.asked_again && is_of_the_way {
            self.asked_again = true;
            self.queue.push_back(gateway.clone());
        }
        self.last = Some(error);
        Ok(())
    }
}
