//! How much may be written for blocks that the upstream has: flash wears out.

use std::time::Duration;

use blockgate_block::Digest;
use parking_lot::Mutex;

const HOUR: Duration = Duration::from_secs(3600);
const HOURS_PER_DAY: u64 = 24;

/// Digests that are remembered as seen.
const SEEN_MAX: usize = 1 << 16;

/// Most bytes in any 24 hours. In each hour the hour's share of them is for all blocks; what is beyond it is for those
/// that are seen for the second time, so that blocks wanted once do not take the writes of those wanted often.
pub(crate) struct Budget {
    daily_bytes: Option<u64>,
    spent: Mutex<Spent>,
}

struct Spent {
    /// Number of the current hour, since the log was opened.
    hour: u64,
    /// Of the current hour and the 24 before, which hold any 24 hours: by number, around and around.
    bytes: [u64; HOURS_PER_DAY as usize + 1],
    /// One digest for each slot, whichever came last.
    seen: Box<[Digest]>,
}

impl Budget {
    pub(crate) fn new(daily_bytes: Option<u64>) -> Self {
        let seen = if daily_bytes.is_some() { SEEN_MAX } else { 0 };
        let spent = Spent { hour: 0, bytes: [0; 25], seen: vec![Digest(0); seen].into() };
        Self { daily_bytes, spent: Mutex::new(spent) }
    }

    /// Spends `bytes` on a block, `now` after the log was opened, if it is worth them.
    pub(crate) fn spend(&self, digest: Digest, bytes: u64, now: Duration) -> bool {
        let Some(daily_bytes) = self.daily_bytes else { return true };
        let mut spent = self.spent.lock();
        let is_again = spent.see(digest);
        let this_hour = spent.forget_until(now);
        let all = spent.bytes.iter().sum::<u64>();
        let is_within_share = spent.bytes[this_hour] + bytes <= daily_bytes / HOURS_PER_DAY;
        let is_worth_it = all + bytes <= daily_bytes && (is_within_share || is_again);
        if is_worth_it {
            spent.bytes[this_hour] += bytes;
        }
        is_worth_it
    }
}

impl Spent {
    /// Whether this is not the first time.
    fn see(&mut self, digest: Digest) -> bool {
        let slot = &mut self.seen[(digest.0 >> 64) as usize % SEEN_MAX];
        std::mem::replace(slot, digest) == digest
    }

    /// Forgets what is longer ago than a day. Where the current hour is counted.
    fn forget_until(&mut self, now: Duration) -> usize {
        let hour = now.as_secs() / HOUR.as_secs();
        let hours = self.bytes.len() as u64;
        for passed in self.hour + 1..=hour.min(self.hour + hours) {
            self.bytes[(passed % hours) as usize] = 0;
        }
        if hour > self.hour + hours {
            self.bytes.fill(0);
        }
        self.hour = self.hour.max(hour);
        (self.hour % hours) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAILY: u64 = 2400;

    #[test]
    fn without_a_budget_everything_is_written() {
        let budget = Budget::new(None);
        assert!((0..100).all(|i| budget.spend(Digest(i), u64::MAX, Duration::ZERO)));
    }

    #[test]
    fn what_is_beyond_the_hours_share_is_for_what_is_seen_again() {
        let budget = Budget::new(Some(DAILY));
        let spend =
            |block: u128, minutes: u64| budget.spend(Digest(block << 64), 50, Duration::from_secs(minutes * 60));
        assert!(spend(1, 0) && spend(2, 1));
        assert!(!spend(3, 2), "the share of this hour is spent");
        assert!(spend(3, 3), "it is wanted again");
        assert!(!spend(4, 59));
        assert!(spend(5, 60), "another hour");
    }

    #[test]
    fn no_24_hours_have_more_than_the_budget() {
        let budget = Budget::new(Some(DAILY));
        let mut spent = Vec::new();
        for minute in 0..60 * 72 {
            // Everything is wanted again and again: only the day's limit holds.
            for block in 0..3u128 {
                let now = Duration::from_secs(minute * 60);
                if budget.spend(Digest(block << 64), 30, now) {
                    spent.push(minute);
                }
            }
        }
        let most = spent.iter().map(|start| spent.iter().filter(|at| (*start..start + 60 * 24).contains(at)).count());
        assert_eq!(most.max(), Some(80));
        assert!(spent.iter().any(|minute| *minute > 60 * 49), "it goes on");
    }

    #[test]
    fn a_long_pause_forgets_everything() {
        let budget = Budget::new(Some(DAILY));
        let later = Duration::from_secs(1_000_000);
        for now in [Duration::ZERO, later] {
            assert!(budget.spend(Digest(0), DAILY, now));
            assert!(!budget.spend(Digest(0), 1, now));
        }
    }
}
