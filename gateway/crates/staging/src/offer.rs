//! Blocks that the upstream has, and that are staged if there is room and budget for them. Nobody waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blockgate_block::Digest;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::append::Purpose;
use crate::log::Log;
use crate::prepare::Prepared;
use crate::types::{Bytes4k, NewBlock};

/// Most blocks that wait to be written, and most bytes of them: they keep their slots of the arena.
const OFFERS_MAX: usize = 1024;
const OFFER_BYTES_MAX: u64 = 128 << 20;

/// Offered blocks that are written at the same time.
const WRITES_MAX: usize = 8;

/// What was offered and is not yet on its way.
#[derive(Default)]
pub(crate) struct Offers(Mutex<Queue>);

struct Queue {
    waiting: VecDeque<Offered>,
    bytes: u64,
    bytes_max: u64,
    /// Taken from the queue: it can still be withdrawn.
    in_hand: Vec<(Digest, Withdrawn)>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, bytes_max: OFFER_BYTES_MAX, in_hand: Vec::new() }
    }
}

/// Whether something newer of the block came meanwhile.
pub(crate) type Withdrawn = Arc<AtomicBool>;

struct Offered {
    block: NewBlock,
    withdrawn: Withdrawn,
}

impl Offers {
    /// Lets no more than `bytes` wait.
    pub(crate) fn bound(&self, bytes: u64) {
        self.0.lock().bytes_max = bytes.min(OFFER_BYTES_MAX);
    }

    fn push(&self, block: NewBlock) -> bool {
        let mut queue = self.0.lock();
        let bytes = len_bytes(&block);
        if queue.waiting.len() >= OFFERS_MAX || queue.bytes + bytes > queue.bytes_max {
            return false;
        }
        queue.bytes += bytes;
        queue.waiting.push_back(Offered { block, withdrawn: Withdrawn::default() });
        true
    }

    fn take(&self) -> Option<Offered> {
        let mut queue = self.0.lock();
        let offered = queue.waiting.pop_front()?;
        queue.bytes -= len_bytes(&offered.block);
        queue.in_hand.push((offered.block.key.digest(), Arc::clone(&offered.withdrawn)));
        Some(offered)
    }

    fn done(&self, withdrawn: &Withdrawn) {
        self.0.lock().in_hand.retain(|(_, other)| !Arc::ptr_eq(withdrawn, other));
    }

    /// Withdraws what was offered of a block: it is not to take the place of anything that comes after this. What is
    /// already on its way has an earlier version.
    pub(crate) fn withdraw(&self, digest: Digest) {
        let mut queue = self.0.lock();
        let Queue { waiting, bytes, in_hand, .. } = &mut *queue;
        waiting.retain(|offered| {
            let stays = offered.block.key.digest() != digest;
            *bytes -= if stays { 0 } else { len_bytes(&offered.block) };
            stays
        });
        for (_, withdrawn) in in_hand.iter().filter(|(other, _)| *other == digest) {
            withdrawn.store(true, Ordering::Release);
        }
    }

    /// Withdraws everything that waits.
    pub(crate) fn clear(&self) {
        let mut queue = self.0.lock();
        queue.waiting.clear();
        queue.bytes = 0;
    }
}

fn len_bytes(block: &NewBlock) -> u64 {
    match &block.bytes {
        Bytes4k::Arena(bytes) => bytes.len(),
        Bytes4k::Heap(bytes) => bytes.len() as u64,
    }
}

impl Log {
    /// Takes a block in hand, or refuses it.
    pub(crate) fn offer(&self, block: NewBlock) {
        // The newer offer counts.
        self.offers.withdraw(block.key.digest());
        if !self.appender.lock().is_open() || !self.offers.push(block) {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.signals.offers.notify_one();
    }

    /// Stages what is offered.
    pub(crate) async fn run_offers(self: Arc<Self>) {
        let writes = Arc::new(Semaphore::new(WRITES_MAX));
        while self.is_signalled(self.signals.offers.notified()).await {
            while let (Ok(permit), Some(offered)) = (Arc::clone(&writes).acquire_owned().await, self.offers.take()) {
                let log = Arc::clone(&self);
                self.runtime.spawn(async move {
                    let is_taken = log.stage(&offered).await;
                    log.offers.done(&offered.withdrawn);
                    log.counters.refused.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
                    drop(permit);
                });
            }
        }
    }

    /// False where it is refused.
    async fn stage(self: &Arc<Self>, offered: &Offered) -> bool {
        let Ok(mut prepared) = Prepared::new(&offered.block, self.geometry) else { return false };
        if !self.budget.spend(prepared.entry.digest, prepared.disk_bytes(), self.opened.elapsed()) {
            return false;
        }
        prepared.withdrawn = Some(Arc::clone(&offered.withdrawn));
        match self.append_when_room(&prepared, Purpose::Offer, None).await {
            Ok(answer) => answer.await.is_ok_and(|outcome| outcome.is_ok()),
            Err(_) => false,
        }
    }
}
