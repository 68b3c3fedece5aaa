//! Stores under way while later blocks arrive.

use std::sync::Arc;

use blockgate_store::{Store, Written};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::task::JoinHandle;

use super::{Arrived, Outcome};
use crate::limits::{STORES_BLOCKS, STORES_BYTES};
use crate::refusal::Refusal;

/// A window of stores. Each is a task of its own, so that a block that has arrived is stored also when the client goes away.
pub(super) struct Stores {
    store: Arc<Store>,
    under_way: FuturesUnordered<Ending>,
    under_way_bytes: u64,
    ended: Vec<Outcome>,
}

type Ending = std::pin::Pin<Box<dyn Future<Output = (u64, u64, Result<Written, Refusal>)> + Send>>;

impl Stores {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, under_way: FuturesUnordered::new(), under_way_bytes: 0, ended: Vec::new() }
    }

    /// Begins to store a block, once the window has room.
    pub(super) async fn begin(&mut self, index: u64, arrived: Arrived) {
        let len_bytes = arrived.body.len_bytes();
        while self.under_way.len() >= STORES_BLOCKS
            || (!self.under_way.is_empty() && self.under_way_bytes + len_bytes > STORES_BYTES)
        {
            self.end_one().await;
        }
        let store = Arc::clone(&self.store);
        let Arrived { key, request, body } = arrived;
        let task = tokio::spawn(async move { store.put_taken(&key, request, body).await.map_err(Refusal::from) });
        self.under_way_bytes += len_bytes;
        self.under_way.push(Box::pin(async move { (index, len_bytes, outcome(task).await) }));
    }

    /// Notes a block that is not stored.
    pub(super) fn refuse(&mut self, index: u64, refusal: Refusal) {
        self.ended.push((index, Err(refusal)));
    }

    /// Waits for all.
    pub(super) async fn finish(&mut self) -> Vec<Outcome> {
        while !self.under_way.is_empty() {
            self.end_one().await;
        }
        std::mem::take(&mut self.ended)
    }

    async fn end_one(&mut self) {
        if let Some((index, len_bytes, outcome)) = self.under_way.next().await {
            self.under_way_bytes -= len_bytes;
            self.ended.push((index, outcome));
        }
    }
}

async fn outcome(task: JoinHandle<Result<Written, Refusal>>) -> Result<Written, Refusal> {
    task.await.unwrap_or_else(|error| Err(Refusal::internal(&error)))
}
