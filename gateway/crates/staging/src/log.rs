//! What all parts of the log share.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};

use crate::Clock;
use crate::append::{Appender, Purpose};
use crate::blocks::Blocks;
use crate::budget::Budget;
use crate::format::Geometry;
use crate::io::Io;
use crate::keeper::{Keeper, Stock};
use crate::offer::Offers;
use crate::types::{RemoveError, Settings, Stats};

/// Most puts under way at once. More wait.
pub(crate) const PUTS_MAX: usize = 64;

/// The log. Its background tasks hold it until [`Log::stop`].
pub(crate) struct Log {
    pub(crate) settings: Settings,
    /// Of new segments.
    pub(crate) geometry: Geometry,
    pub(crate) io: Io,
    pub(crate) clock: Clock,
    pub(crate) runtime: Handle,
    /// Tells this log's segments from another's.
    pub(crate) id: [u8; 16],
    /// Locked as long as this is there.
    pub(crate) lock: File,
    pub(crate) blocks: Blocks,
    pub(crate) appender: Mutex<Appender>,
    pub(crate) puts: Arc<Semaphore>,
    pub(crate) offers: Offers,
    pub(crate) budget: Budget,
    pub(crate) opened: Instant,
    /// Held while footers are written.
    pub(crate) sealing: tokio::sync::Mutex<()>,
    pub(crate) signals: Signals,
    pub(crate) counters: Counters,
    pub(crate) reads: Reads,
    stop: watch::Sender<bool>,
}

/// Who is to look again.
#[derive(Default)]
pub(crate) struct Signals {
    /// The committer: something was written.
    pub(crate) written: Notify,
    /// The keeper: a segment was taken, or could be reclaimed.
    pub(crate) keeper: Notify,
    /// All who wait for the keeper to have looked.
    pub(crate) looked: Notify,
    /// The flusher: something was marked.
    pub(crate) flusher: Notify,
    /// Who watches the disk: it failed.
    pub(crate) health: Notify,
    /// Who stages what is offered.
    pub(crate) offers: Notify,
    /// All who wait for a segment.
    pub(crate) room: Notify,
    /// All who wait for appends to end.
    pub(crate) appended: Notify,
}

/// Sums since the log was opened.
#[derive(Default)]
pub(crate) struct Counters {
    written_bytes: AtomicU64,
    rewritten_bytes: AtomicU64,
    pub(crate) reclaimed_segments: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) corrupt: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) io_errors: AtomicU64,
}

/// Whether the disk can be read.
#[derive(Default)]
pub(crate) struct Reads {
    pub(crate) errors_in_a_row: AtomicU32,
    pub(crate) are_off: AtomicBool,
}

impl Counters {
    pub(crate) fn count_written(&self, purpose: Purpose, bytes: u64) {
        let sum = match purpose {
            Purpose::Put | Purpose::Offer => &self.written_bytes,
            Purpose::Copy(..) => &self.rewritten_bytes,
        };
        sum.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Log {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        settings: Settings,
        geometry: Geometry,
        io: Io,
        clock: Clock,
        runtime: Handle,
        id: [u8; 16],
        lock: File,
        blocks: Blocks,
    ) -> Self {
        Self {
            budget: Budget::new(settings.daily_write_bytes),
            settings,
            geometry,
            io,
            clock,
            runtime,
            id,
            lock,
            blocks,
            appender: Mutex::default(),
            puts: Arc::new(Semaphore::new(PUTS_MAX)),
            offers: Offers::default(),
            opened: Instant::now(),
            sealing: tokio::sync::Mutex::default(),
            signals: Signals::default(),
            counters: Counters::default(),
            reads: Reads::default(),
            stop: watch::Sender::new(false),
        }
    }

    /// Starts the background tasks.
    pub(crate) fn start(self: &Arc<Self>, stock: Stock) {
        self.runtime.spawn(Keeper::new(Arc::clone(self), stock).run());
        self.runtime.spawn(Arc::clone(self).run_committer());
        self.runtime.spawn(Arc::clone(self).run_offers());
        self.runtime.spawn(Arc::clone(self).run_flusher());
        self.runtime.spawn(Arc::clone(self).run_health());
    }

    async fn run_committer(self: Arc<Self>) {
        while self.is_signalled(self.signals.written.notified()).await {
            self.commit().await;
        }
    }

    /// Does something to the end, whether or not its caller waits for it.
    pub(crate) async fn whole(
        &self,
        work: impl Future<Output = Result<(), RemoveError>> + Send + 'static,
    ) -> Result<(), RemoveError> {
        self.runtime.spawn(work).await.unwrap_or_else(|error| Err(RemoveError(error.to_string())))
    }

    /// Takes nothing in any more, ends what was begun, and leaves everything as a start reads it fastest.
    pub(crate) async fn close(&self) {
        self.appender.lock().is_closing = true;
        self.offers.clear();
        self.signals.room.notify_waiters();
        self.wait_for(|appender| appender.is_idle()).await;
        {
            let mut appender = self.appender.lock();
            appender.close_active();
            let ready = std::mem::take(&mut appender.ready);
            ready.iter().for_each(|life| life.close());
            appender.closed.extend(ready);
        }
        let closed = async { self.seal_closed().await.and(self.flush_all().await) };
        if let Err(error) = closed.await {
            let path = self.settings.path.display();
            tracing::warn!(%path, %error, "staging was not closed cleanly: the next start takes longer");
        }
        self.stop();
    }

    /// Ends the background tasks, each when it is done with what it does.
    pub(crate) fn stop(&self) {
        self.end_appends();
        self.stop.send_replace(true);
    }

    /// Waits for a signal. False when the log is to stop.
    pub(crate) async fn is_signalled(&self, signal: impl Future<Output = ()>) -> bool {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop.wait_for(|is_stopped| *is_stopped) => false,
            () = signal => true,
        }
    }

    /// The disk did not do something: nothing is taken in until it was tried again.
    pub(crate) fn fail(&self, doing: &str, error: &io::Error) {
        self.counters.io_errors.fetch_add(1, Ordering::Relaxed);
        self.turn_off(format!("{doing}: {error}"));
    }

    /// Now, as blocks count it: milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let since = (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn stats(&self) -> Stats {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let (totals, counters) = (&self.blocks.totals, &self.counters);
        let (ready, is_on) = {
            let appender = self.appender.lock();
            (appender.ready.len(), appender.is_open())
        };
        let lives = self.blocks.lives();
        let bytes = lives.iter().map(|life| life.geometry().segment_bytes()).sum::<u64>();
        Stats {
            capacity_bytes: self.settings.capacity_bytes,
            used_bytes: bytes.saturating_sub(ready as u64 * self.geometry.segment_bytes()),
            blocks: get(&totals.blocks),
            block_bytes: get(&totals.block_bytes),
            pending_blocks: get(&totals.pending_blocks),
            pending_bytes: get(&totals.pending_bytes),
            table_bytes: self.blocks.heap_bytes(),
            written_bytes: get(&counters.written_bytes),
            rewritten_bytes: get(&counters.rewritten_bytes),
            reclaimed_segments: get(&counters.reclaimed_segments),
            commits: get(&counters.commits),
            corrupt: get(&counters.corrupt),
            refused: get(&counters.refused),
            io_errors: get(&counters.io_errors),
            is_on,
        }
    }
}
