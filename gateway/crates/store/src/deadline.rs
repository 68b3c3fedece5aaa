//! How long a request may take.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The instant by which the last byte must have left; never, if there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(allowed: Option<Duration>) -> Self {
        Self(allowed.and_then(|allowed| Instant::now().checked_add(allowed)))
    }

    pub(crate) fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// How long it is until then.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The instant `reserve` before this one; now, if that has passed.
    pub(crate) fn less(self, reserve: Duration) -> Self {
        Self(self.0.map(|at| at.checked_sub(reserve).unwrap_or_else(Instant::now)))
    }

    pub(crate) fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Waits for `future`; `None` when the deadline comes first.
    pub(crate) async fn bound<F: Future>(self, future: F) -> Option<F::Output> {
        match self.0 {
            Some(at) => timeout_at(at, future).await.ok(),
            None => Some(future.await),
        }
    }
}
