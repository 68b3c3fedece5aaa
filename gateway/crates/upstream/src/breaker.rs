//! A circuit breaker: while the store does not answer, calls fail at once instead of waiting one by one.
//!
//! It opens when calls failed in a row without an answer, or when one waits while nothing else is answered. While it is open a
//! task asks the store again and again whether it is there; the first answer closes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::{Result, Upstream, UpstreamError};

/// When a breaker opens, and how it asks.
#[derive(Clone, Copy, Debug)]
pub struct BreakerLimits {
    /// Failures in a row that open it.
    pub failures_max: u32,
    /// How long a brief call may wait while none is answered.
    pub silence_max: Duration,
    /// Pause between two questions while it is open.
    pub probe_pause: Duration,
    /// How long the answer to such a question may take.
    pub probe_timeout: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self {
            failures_max: 5,
            silence_max: Duration::from_secs(3),
            probe_pause: Duration::from_secs(1),
            probe_timeout: Duration::from_secs(2),
        }
    }
}

/// The breaker of one upstream. Cheap to clone.
#[derive(Clone)]
pub struct Breaker(Arc<Inner>);

struct Inner {
    upstream: Arc<dyn Upstream>,
    limits: BreakerLimits,
    state: Mutex<State>,
    /// What `state` says, for those who wait for it.
    is_open: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    is_open: bool,
    failures: u32,
    /// When the calls began that wait for an answer, by number.
    waiting: BTreeMap<u64, Instant>,
    last_number: u64,
    answered_at: Option<Instant>,
}

impl State {
    /// Whether a call waits for so long, and nothing was answered for as long.
    fn is_silent(&self, now: Instant, silence_max: Duration) -> bool {
        let Some((_, oldest)) = self.waiting.first_key_value() else { return false };
        let since = self.answered_at.map_or(*oldest, |answered| answered.max(*oldest));
        now.duration_since(since) >= silence_max
    }
}

/// A call that was let through.
pub struct Admitted {
    breaker: Breaker,
    number: Option<u64>,
}

impl Breaker {
    /// A closed breaker in front of `upstream`.
    #[must_use]
    pub fn new(upstream: Arc<dyn Upstream>, limits: BreakerLimits) -> Self {
        Self(Arc::new(Inner { upstream, limits, state: Mutex::default(), is_open: watch::Sender::new(false) }))
    }

    /// Whether calls fail at once.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.state.lock().is_open
    }

    /// Lets a call through. `is_brief` says that an answer is due soon, whatever the request's size: only the silence of
    /// such calls means something.
    ///
    /// # Errors
    /// [`UpstreamError::Unavailable`] while it is open.
    pub fn admit(&self, is_brief: bool) -> Result<Admitted> {
        let mut state = self.0.state.lock();
        if !state.is_open && state.is_silent(Instant::now(), self.0.limits.silence_max) {
            self.open(&mut state, "no answer");
        }
        if state.is_open {
            return Err(UpstreamError::Unavailable("it did not answer a moment ago and is not asked again yet".into()));
        }
        let number = is_brief.then(|| {
            state.last_number += 1;
            let number = state.last_number;
            state.waiting.insert(number, Instant::now());
            number
        });
        Ok(Admitted { breaker: self.clone(), number })
    }

    /// Waits until it is open. Whoever waits for an answer meanwhile notices the silence by this.
    pub async fn opened(&self) {
        let mut is_open = self.0.is_open.subscribe();
        loop {
            tokio::select! {
                // An error would mean that the breaker, which is held here, is gone.
                _ = is_open.wait_for(|is_open| *is_open) => return,
                () = sleep(self.0.limits.silence_max / 4) => {
                    let mut state = self.0.state.lock();
                    if state.is_silent(Instant::now(), self.0.limits.silence_max) {
                        self.open(&mut state, "no answer");
                    }
                }
            }
        }
    }

    fn open(&self, state: &mut State, why: &str) {
        if std::mem::replace(&mut state.is_open, true) {
            return;
        }
        self.0.is_open.send_replace(true);
        tracing::warn!(why, "the upstream does not answer: calls fail at once until it does");
        tokio::spawn(probe(Arc::downgrade(&self.0)));
    }
}

impl Admitted {
    /// The call ended. An error that is the request's own, or a refusal, is an answer too.
    pub fn ended(self, outcome: std::result::Result<(), &UpstreamError>) {
        let mut state = self.breaker.0.state.lock();
        match outcome {
            Err(UpstreamError::Unavailable(why)) => {
                state.failures += 1;
                if state.failures >= self.breaker.0.limits.failures_max {
                    self.breaker.open(&mut state, why);
                }
            }
            _ => {
                state.failures = 0;
                state.answered_at = Some(Instant::now());
            }
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.breaker.0.state.lock().waiting.remove(&number);
        }
    }
}

/// Asks until there is an answer, then closes the breaker.
async fn probe(breaker: Weak<Inner>) {
    loop {
        let Some(pause) = breaker.upgrade().map(|inner| inner.limits.probe_pause) else { return };
        sleep(pause).await;
        let Some(inner) = breaker.upgrade() else { return };
        let outcome = timeout(inner.limits.probe_timeout, inner.upstream.ping()).await;
        if matches!(outcome, Ok(Ok(()) | Err(UpstreamError::AccessDenied(_)))) {
            let mut state = inner.state.lock();
            // What waited through the outage says nothing of what follows.
            *state = State { last_number: state.last_number, answered_at: Some(Instant::now()), ..State::default() };
            inner.is_open.send_replace(false);
            tracing::info!("the upstream answers again");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, FaultUpstream, FsUpstream, Op};

    const LIMITS: BreakerLimits = BreakerLimits {
        failures_max: 3,
        silence_max: Duration::ZERO,
        probe_pause: Duration::from_millis(1),
        probe_timeout: Duration::from_secs(60),
    };

    async fn upstream(directory: &tempfile::TempDir) -> Arc<FaultUpstream> {
        let fs: Arc<dyn Upstream> = Arc::new(FsUpstream::open(directory.path()).await.unwrap());
        Arc::new(FaultUpstream::new(fs))
    }

    fn fails(breaker: &Breaker, error: &UpstreamError) {
        breaker.admit(false).unwrap().ended(Err(error));
    }

    #[tokio::test]
    async fn opens_after_failures_in_a_row_and_closes_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        let upstream = upstream(&directory).await;
        let breaker = Breaker::new(upstream.clone(), LIMITS);
        let out = UpstreamError::Unavailable("refused".into());
        upstream.always(Op::Ping, Fault::Fail(out.clone()));
        fails(&breaker, &out);
        fails(&breaker, &out);
        fails(&breaker, &UpstreamError::NoSuchKey);
        for _ in 0..LIMITS.failures_max {
            assert!(!breaker.is_open(), "an answer between failures counts");
            fails(&breaker, &out);
        }
        while upstream.calls(Op::Ping) < 3 {
            assert!(breaker.admit(true).is_err() && breaker.admit(false).is_err());
            sleep(LIMITS.probe_pause).await;
        }
        upstream.heal();
        while breaker.is_open() {
            sleep(LIMITS.probe_pause).await;
        }
        assert!(breaker.admit(true).is_ok());
    }

    #[test]
    fn silence_is_a_call_that_waits_and_no_answer_for_as_long() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut state = State::default();
        let is_silent = |state: &State, ms| state.is_silent(at(ms), Duration::from_millis(100));
        assert!(!is_silent(&state, 1_000), "nobody waits");
        state.waiting.insert(1, at(0));
        assert!(!is_silent(&state, 99) && is_silent(&state, 100));
        // A call that began later was answered, and the first one, perhaps on a dead connection, was not.
        state.waiting.insert(2, at(10));
        state.answered_at = Some(at(50));
        assert!(!is_silent(&state, 149) && is_silent(&state, 150));
        state.waiting.clear();
        state.waiting.insert(3, at(140));
        assert!(!is_silent(&state, 239) && is_silent(&state, 240));
    }

    #[tokio::test]
    async fn only_brief_calls_can_be_silent() {
        let directory = tempfile::tempdir().unwrap();
        let breaker = Breaker::new(upstream(&directory).await, LIMITS);
        let _large = breaker.admit(false).unwrap();
        let Ok(waits) = breaker.admit(true) else { panic!("a large upload takes its time") };
        assert!(breaker.admit(false).is_err(), "nobody answers");
        drop(waits);
        while breaker.is_open() {
            sleep(LIMITS.probe_pause).await;
        }
        assert!(breaker.admit(true).is_ok());
    }

    #[tokio::test]
    async fn a_call_that_waits_alone_notices_the_silence() {
        let directory = tempfile::tempdir().unwrap();
        let limits = BreakerLimits { silence_max: Duration::from_millis(20), ..LIMITS };
        let breaker = Breaker::new(upstream(&directory).await, limits);
        let Ok(_waits) = breaker.admit(true) else { panic!("it is closed") };
        breaker.opened().await;
    }
}
