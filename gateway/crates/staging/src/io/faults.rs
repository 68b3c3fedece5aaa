//! A disk that fails on purpose, for tests.

use std::io;

use parking_lot::Mutex;
use tokio::sync::watch;

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Flushing to the disk.
    Sync,
    /// Taking room on the disk.
    Allocate,
}

const OPERATIONS: usize = 4;

/// Which operations of an [`Io`](super::Io) fail, and how. Nothing fails at first.
#[derive(Debug)]
pub struct Faults {
    /// Failures, by number of the error.
    rules: Mutex<[Rule<i32>; OPERATIONS]>,
    /// Wrong reads, by number of the bit.
    flips: Mutex<Rule<u64>>,
    held: watch::Sender<[bool; OPERATIONS]>,
}

/// Of the operations counted from the first, those in `from..until` fail.
#[derive(Clone, Copy, Debug, Default)]
struct Rule<T> {
    seen: u64,
    from: u64,
    until: u64,
    how: T,
}

impl<T: Copy> Rule<T> {
    fn set(&mut self, after: u64, times: u64, how: T) {
        let from = self.seen.saturating_add(after);
        *self = Self { seen: self.seen, from, until: from.saturating_add(times), how };
    }

    /// Counts one more. How it fails, if it does.
    fn count(&mut self) -> Option<T> {
        let number = self.seen;
        self.seen += 1;
        (self.from..self.until).contains(&number).then_some(self.how)
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self { rules: Mutex::default(), flips: Mutex::default(), held: watch::Sender::new([false; OPERATIONS]) }
    }
}

impl Faults {
    /// After `after` more that go through, the next `times` fail with `errno`, without having happened. Replaces what was
    /// said of this operation before.
    pub fn fail(&self, operation: Operation, after: u64, times: u64, errno: i32) {
        self.rules.lock()[operation as usize].set(after, times, errno);
    }

    /// After `after` more reads that return what is on the disk, bit number `bit` of each of the next `times` is wrong,
    /// counted from the start of the read; around its end it goes on at its start.
    pub fn flip(&self, after: u64, times: u64, bit: u64) {
        self.flips.lock().set(after, times, bit);
    }

    /// Lets an operation wait before it happens, until [`Faults::release`].
    pub fn hold(&self, operation: Operation) {
        self.held.send_modify(|held| held[operation as usize] = true);
    }

    /// Lets everything that waits go on.
    pub fn release(&self) {
        self.held.send_modify(|held| *held = [false; OPERATIONS]);
    }

    /// Nothing fails any more, nothing waits.
    pub fn heal(&self) {
        self.rules.lock().iter_mut().for_each(|rule| rule.set(0, 0, 0));
        self.flip(0, 0, 0);
        self.release();
    }

    /// How many were asked for so far, those included that failed or wait.
    pub fn seen(&self, operation: Operation) -> u64 {
        self.rules.lock()[operation as usize].seen
    }

    /// To be asked before an operation.
    pub(super) async fn before(&self, operation: Operation) -> io::Result<()> {
        let errno = self.rules.lock()[operation as usize].count();
        // The sender is ours: it is not gone.
        let _ = self.held.subscribe().wait_for(|held| !held[operation as usize]).await;
        errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// To be asked before a read: the bit of it that is to be wrong.
    pub(super) fn flipped_bit(&self) -> Option<u64> {
        self.flips.lock().count()
    }
}
