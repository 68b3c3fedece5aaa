//! How slowly a body may arrive.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes that count as progress. One byte now and then does not.
const PROGRESS_BYTES: usize = 4 << 10;

/// Measures the time that is spent waiting for the peer, and only that: a slow upstream is not the client's fault.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Longest wait for [`PROGRESS_BYTES`], or for the end.
    stall: Duration,
    waited: Duration,
    since_progress_bytes: usize,
    waiting_since: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(stall: Duration) -> Self {
        Self { stall, waited: Duration::ZERO, since_progress_bytes: 0, waiting_since: None }
    }

    /// Bytes have arrived.
    pub(crate) fn arrived(&mut self, len_bytes: usize) {
        if self.waiting_since.is_some() {
            self.arrived_at(len_bytes, Instant::now());
        } else {
            self.progress(len_bytes);
        }
    }

    fn arrived_at(&mut self, len_bytes: usize, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
        self.progress(len_bytes);
    }

    fn progress(&mut self, len_bytes: usize) {
        self.since_progress_bytes += len_bytes;
        if self.since_progress_bytes >= PROGRESS_BYTES {
            self.since_progress_bytes = 0;
            self.waited = Duration::ZERO;
        }
    }

    /// Nothing is there at the instant `now`: until when the peer is waited for.
    pub(crate) fn wait(&mut self, now: Instant) -> Instant {
        let since = *self.waiting_since.get_or_insert(now);
        since + self.stall.saturating_sub(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    /// How many pieces of `len_bytes`, each after `wait_s` of waiting and `pause_s` of nobody asking, come in time.
    fn in_time(len_bytes: usize, wait_s: u64, pause_s: u64, limit: usize) -> usize {
        let mut pace = Pace::new(STALL);
        let mut now = Instant::now();
        for count in 0..limit {
            let deadline = pace.wait(now);
            now += Duration::from_secs(wait_s);
            if now >= deadline {
                return count;
            }
            pace.arrived_at(len_bytes, now);
            now += Duration::from_secs(pause_s);
        }
        limit
    }

    #[test]
    fn silence_is_a_stall() {
        assert_eq!(in_time(1 << 20, 31, 0, 100), 0);
    }

    #[test]
    fn a_steady_body_may_take_long() {
        assert_eq!(in_time(PROGRESS_BYTES, 29, 0, 100), 100);
        assert_eq!(in_time(PROGRESS_BYTES / 2, 14, 0, 100), 100);
    }

    #[test]
    fn a_drip_is_a_stall() {
        assert_eq!(in_time(1, 4, 0, 100), 7);
    }

    #[test]
    fn time_that_nobody_waited_does_not_count() {
        assert_eq!(in_time(PROGRESS_BYTES, 2, 600, 100), 100);
        assert_eq!(in_time(1, 2, 600, 10), 10);
    }
}
