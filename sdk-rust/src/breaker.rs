//! Circuit breaker: a gateway that fails again and again is left alone for a while.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Failures in a row that open a breaker.
pub(crate) const FAILURES_MAX: u32 = 3;
/// Time between a breaker's opening and the first probe, and between probes.
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(1);

/// What a gateway's breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls.
    Closed,
    /// Nothing.
    Open,
    /// One probe, which is on its way.
    HalfOpen,
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        })
    }
}

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Call,
    /// Not call; see whether the gateway has recovered, as the only one to do so.
    Probe,
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { since: Instant },
    HalfOpen { since: Instant },
}

impl Breaker {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State::Closed { failures: 0 }))
    }

    pub(crate) fn permission(&self, now: Instant) -> Permission {
        let mut state = self.0.lock();
        match *state {
            State::Closed { .. } => Permission::Call,
            // A probe may vanish with the runtime that ran it, so that a later one takes its place.
            State::Open { since } | State::HalfOpen { since } if now.saturating_duration_since(since) >= OPEN_FOR => {
                *state = State::HalfOpen { since: now };
                Permission::Probe
            }
            State::Open { .. } | State::HalfOpen { .. } => Permission::Nothing,
        }
    }

    pub(crate) fn succeeded(&self) {
        *self.0.lock() = State::Closed { failures: 0 };
    }

    pub(crate) fn failed(&self, now: Instant) {
        let mut state = self.0.lock();
        *state = match *state {
            State::Closed { failures } if failures + 1 < FAILURES_MAX => State::Closed { failures: failures + 1 },
            State::Closed { .. } | State::HalfOpen { .. } => State::Open { since: now },
            State::Open { since } => State::Open { since },
        };
    }

    pub(crate) fn state(&self) -> BreakerState {
        match *self.0.lock() {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::new();
        for _ in 0..FAILURES_MAX {
            assert_eq!(breaker.permission(now), Permission::Call);
            breaker.failed(now);
        }
        breaker
    }

    #[test]
    fn opens_after_failures_in_a_row_alone() {
        let (now, breaker) = (Instant::now(), Breaker::new());
        for _ in 0..10 {
            breaker.failed(now);
            breaker.failed(now);
            breaker.succeeded();
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(opened(now).state(), BreakerState::Open);
    }

    #[test]
    fn probes_once_and_follows_the_probe() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.permission(now + OPEN_FOR / 2), Permission::Nothing);
        assert_eq!(breaker.permission(now + OPEN_FOR), Permission::Probe);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.permission(now + OPEN_FOR), Permission::Nothing);
        breaker.failed(now + OPEN_FOR);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.permission(now + OPEN_FOR), Permission::Nothing);
        assert_eq!(breaker.permission(now + 2 * OPEN_FOR), Permission::Probe);
        breaker.succeeded();
        assert_eq!(breaker.permission(now + 2 * OPEN_FOR), Permission::Call);
    }

    #[test]
    fn a_probe_that_vanished_is_replaced() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.permission(now + OPEN_FOR), Permission::Probe);
        assert_eq!(breaker.permission(now + 2 * OPEN_FOR), Permission::Probe);
    }

    #[test]
    fn failures_of_calls_in_flight_do_not_keep_it_open() {
        let now = Instant::now();
        let breaker = opened(now);
        breaker.failed(now + OPEN_FOR / 2);
        assert_eq!(breaker.permission(now + OPEN_FOR), Permission::Probe);
    }
}
