//! Fetches under way: ahead of the socket, within limits.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use blockgate_api::MissReason;
use blockgate_api::types::GetOrder;
use blockgate_store::Whole;
use futures::StreamExt as _;
use futures::stream::{FuturesOrdered, FuturesUnordered};

use crate::budget::Room;

/// A block, and the room that it takes while it is held.
pub(super) type Fetched = Result<(Whole, Room), MissReason>;
type Fetch = Pin<Box<dyn Future<Output = (usize, Fetched)> + Send>>;

/// Dropping it ends what is under way.
pub(super) struct Window {
    fetches: Fetches,
    /// Indices of blocks that are under way.
    indices: BTreeSet<usize>,
}

enum Fetches {
    Request(FuturesOrdered<Fetch>),
    Ready(FuturesUnordered<Fetch>),
}

impl Window {
    pub(super) fn new(order: GetOrder) -> Self {
        let fetches = match order {
            GetOrder::Request => Fetches::Request(FuturesOrdered::new()),
            GetOrder::Ready => Fetches::Ready(FuturesUnordered::new()),
        };
        Self { fetches, indices: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether a block before `limit` is under way.
    pub(super) fn awaits_before(&self, limit: usize) -> bool {
        self.indices.first().is_some_and(|first| *first < limit)
    }

    pub(super) fn push(&mut self, index: usize, fetch: impl Future<Output = Fetched> + Send + 'static) {
        self.indices.insert(index);
        let fetch = Box::pin(async move { (index, fetch.await) });
        match &mut self.fetches {
            Fetches::Request(fetches) => fetches.push_back(fetch),
            Fetches::Ready(fetches) => fetches.push(fetch),
        }
    }

    /// The next block, in the order asked for; none when nothing is under way.
    pub(super) async fn next(&mut self) -> Option<(usize, Fetched)> {
        let next = match &mut self.fetches {
            Fetches::Request(fetches) => fetches.next().await,
            Fetches::Ready(fetches) => fetches.next().await,
        };
        if let Some((index, _)) = &next {
            self.indices.remove(index);
        }
        next
    }

    /// Ends what is under way.
    pub(super) fn clear(&mut self) {
        self.indices.clear();
        match &mut self.fetches {
            Fetches::Request(fetches) => *fetches = FuturesOrdered::new(),
            Fetches::Ready(fetches) => fetches.clear(),
        }
    }
}
