//! The file system's clock, learned from the times that it gives to files.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Differences below this are file systems rounding times, not clocks going wrong.
const SLACK_MS: i64 = 50;

/// A host's clock, set right by what a file server's clock shows.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// How far the server is ahead of this host.
    ahead_ms: AtomicI64,
}

impl Clock {
    /// Takes in that a file was written at `server`, between `before` and `after` by this host.
    pub(super) fn learn(&self, server: SystemTime, before: SystemTime, after: SystemTime) {
        let least = to_ms(server) - to_ms(after) - SLACK_MS;
        let most = to_ms(server) - to_ms(before) + SLACK_MS;
        let ahead = self.ahead_ms.load(Ordering::Relaxed);
        if ahead < least || ahead > most {
            self.ahead_ms.store(least.midpoint(most), Ordering::Relaxed);
        }
    }

    /// The server's time when this host's is `local`.
    pub(super) fn at(&self, local: SystemTime) -> SystemTime {
        from_ms(to_ms(local) + self.ahead_ms.load(Ordering::Relaxed))
    }

    /// The server's time.
    pub(super) fn now(&self) -> SystemTime {
        self.at(SystemTime::now())
    }
}

/// Milliseconds since 1970.
pub(super) fn to_ms(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_server_but_not_its_rounding() {
        let clock = Clock::default();
        let at = |ms: i64| from_ms(1_000_000 + ms);
        clock.learn(at(-4), at(0), at(1));
        assert_eq!(clock.at(at(7)), at(7));
        clock.learn(at(90_000), at(0), at(0));
        assert_eq!(clock.at(at(7)), at(90_007));
        clock.learn(at(89_970), at(0), at(0));
        assert_eq!(clock.at(at(7)), at(90_007));
        clock.learn(at(80_000), at(-20_000), at(0));
        assert_eq!(clock.at(at(7)), at(90_007), "the write took long: nothing is learned");
        clock.learn(at(-5_000), at(0), at(0));
        assert_eq!(clock.at(at(7)), at(-4_993));
    }
}
