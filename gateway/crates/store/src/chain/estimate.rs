//! How long delivering a match takes, by what tiers were measured to be.
//!
//! Staging and the upstream are measured where blocks are brought from them: the time until they answer (HEADs count too), and
//! how fast bytes come after that, times the reads that were under way together. Memory is measured up to the client's socket,
//! by whoever sends. Averages follow good news at once by half and bad news by a quarter: bad news keeps those away who would
//! bring better.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use blockgate_block::Tier;

/// How many blocks a client's read fetches from staging or the upstream at the same time, about: its window is 32 blocks or 64 MiB.
const FETCHES_TOGETHER: u64 = 16;

/// A delivery of fewer bytes says how long the first byte takes, one of more how fast bytes are.
const BANDWIDTH_BYTES_MIN: u64 = 64 << 10;

/// What a tier is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSpeed {
    /// Time to the first byte.
    pub latency: Duration,
    /// What it delivers after that, all streams together.
    pub bytes_per_second: u64,
}

/// Memory, until it is measured: a loopback connection's speed, which a network will correct.
const MEMORY_PRIOR: TierSpeed = TierSpeed { latency: Duration::from_micros(100), bytes_per_second: 2 << 30 };

/// Staging, until it is measured: an NVMe disk, with other work.
const STAGING_PRIOR: TierSpeed = TierSpeed { latency: Duration::from_micros(300), bytes_per_second: 1 << 30 };

/// An upstream, until it is measured: an object store in the same building.
const UPSTREAM_PRIOR: TierSpeed = TierSpeed { latency: Duration::from_millis(10), bytes_per_second: 200 << 20 };

/// What tiers were measured to be.
#[derive(Default)]
pub(crate) struct Speeds {
    memory: Measured,
    staging: Source,
    upstream: Source,
}

/// A tier that blocks are brought from.
#[derive(Default)]
struct Source {
    measured: Measured,
    /// Bodies that arrive from it just now.
    arriving: AtomicUsize,
}

impl Source {
    fn arriving(&self) -> Arriving<'_> {
        Arriving { together: self.arriving.fetch_add(1, Ordering::Relaxed) + 1, source: self }
    }
}

#[derive(Default)]
struct Measured {
    latency_s: Average,
    seconds_per_byte: Average,
}

impl Measured {
    fn speed(&self, prior: TierSpeed) -> TierSpeed {
        let latency = self.latency_s.get().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let bytes_per_second = self.seconds_per_byte.get().map(|seconds| (1.0 / seconds) as u64);
        TierSpeed {
            latency: latency.unwrap_or(prior.latency),
            bytes_per_second: bytes_per_second.unwrap_or(prior.bytes_per_second).max(1),
        }
    }
}

/// A moving average of positive numbers; none before the first. Of samples taken at the same moment, one may be lost.
#[derive(Default)]
struct Average(AtomicU64);

impl Average {
    fn get(&self) -> Option<f64> {
        // 0 is the number 0.0, which no sample is.
        Some(f64::from_bits(self.0.load(Ordering::Relaxed))).filter(|value| *value > 0.0)
    }

    fn add(&self, sample: f64) {
        let sample = sample.max(f64::MIN_POSITIVE);
        let value = match self.get() {
            None => sample,
            Some(value) if sample < value => value + (sample - value) / 2.0,
            Some(value) => value + (sample - value) / 4.0,
        };
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

#[allow(clippy::cast_precision_loss)] // exact up to 2^53
fn per_byte(elapsed: Duration, bytes: u64) -> f64 {
    elapsed.as_secs_f64() / bytes.max(1) as f64
}

impl Speeds {
    /// Bytes from a tier reached a client's socket.
    pub(crate) fn delivered(&self, tier: Tier, bytes: u64, elapsed: Duration) {
        // From other tiers, the time of bringing the block to memory is in it.
        if tier != Tier::Memory {
            return;
        }
        if bytes < BANDWIDTH_BYTES_MIN {
            self.memory.latency_s.add(elapsed.as_secs_f64());
        } else {
            self.memory.seconds_per_byte.add(per_byte(elapsed, bytes));
        }
    }

    /// The upstream answered.
    pub(crate) fn answered(&self, elapsed: Duration) {
        self.upstream.measured.latency_s.add(elapsed.as_secs_f64());
    }

    /// A body begins to arrive from the upstream.
    pub(crate) fn arriving(&self) -> Arriving<'_> {
        self.upstream.arriving()
    }

    /// Staging described a block.
    pub(crate) fn staging_answered(&self, elapsed: Duration) {
        self.staging.measured.latency_s.add(elapsed.as_secs_f64());
    }

    /// A block is being read from staging.
    pub(crate) fn reading(&self) -> Arriving<'_> {
        self.staging.arriving()
    }

    pub(crate) fn memory(&self) -> TierSpeed {
        self.memory.speed(MEMORY_PRIOR)
    }

    pub(crate) fn staging(&self) -> TierSpeed {
        self.staging.measured.speed(STAGING_PRIOR)
    }

    pub(crate) fn upstream(&self) -> TierSpeed {
        self.upstream.measured.speed(UPSTREAM_PRIOR)
    }
}

/// A body on its way from staging or the upstream.
pub(crate) struct Arriving<'a> {
    source: &'a Source,
    together: usize,
}

impl Arriving<'_> {
    /// It is all there, `elapsed` after the answer.
    pub(crate) fn whole(self, bytes: u64, elapsed: Duration) {
        if bytes < BANDWIDTH_BYTES_MIN {
            return;
        }
        let together = (self.together + self.source.arriving.load(Ordering::Relaxed)).max(2) / 2;
        #[allow(clippy::cast_precision_loss)] // small
        self.source.measured.seconds_per_byte.add(per_byte(elapsed, bytes) / together as f64);
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.source.arriving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What delivering blocks takes, as they are added one by one. Never falls.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    memory: TierSpeed,
    bytes: u64,
    staging: Fetching,
    upstream: Fetching,
}

/// Blocks to be brought from one tier.
#[derive(Clone, Copy)]
struct Fetching {
    speed: TierSpeed,
    blocks: u64,
    bytes: u64,
}

impl Fetching {
    fn at(speed: TierSpeed) -> Self {
        Self { speed, blocks: 0, bytes: 0 }
    }

    fn add(&mut self, len_bytes: u64) {
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(len_bytes);
    }

    fn takes(&self) -> Duration {
        let rounds = u32::try_from(self.blocks.div_ceil(FETCHES_TOGETHER)).unwrap_or(u32::MAX);
        self.speed.latency.saturating_mul(rounds) + transfer(self.bytes, self.speed)
    }
}

impl Delivery {
    pub(super) fn by(speeds: &Speeds) -> Self {
        Self {
            memory: speeds.memory(),
            bytes: 0,
            staging: Fetching::at(speeds.staging()),
            upstream: Fetching::at(speeds.upstream()),
        }
    }

    pub(super) fn add(&mut self, len_bytes: u64, tier: Tier) {
        self.bytes = self.bytes.saturating_add(len_bytes);
        match tier {
            Tier::Memory => {}
            Tier::Staging => self.staging.add(len_bytes),
            Tier::Upstream => self.upstream.add(len_bytes),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fetching, a few blocks at a time, and then sending: what of it overlaps is left as a reserve.
    pub(super) fn takes(&self) -> Duration {
        if self.bytes == 0 && self.staging.blocks + self.upstream.blocks == 0 {
            return Duration::ZERO;
        }
        self.staging.takes() + self.upstream.takes() + self.memory.latency + transfer(self.bytes, self.memory)
    }
}

#[allow(clippy::cast_precision_loss)] // exact up to 2^53
fn transfer(bytes: u64, speed: TierSpeed) -> Duration {
    let seconds = bytes as f64 / speed.bytes_per_second as f64;
    // An hour stands for all that is longer: no sum of it overflows, no deadline is.
    Duration::from_secs_f64(seconds.min(3600.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn averages_begin_with_the_first_sample_and_follow_good_news_faster() {
        let average = Average::default();
        assert_eq!(average.get(), None);
        average.add(4.0);
        assert_eq!(average.get(), Some(4.0));
        average.add(2.0);
        assert_eq!(average.get(), Some(3.0));
        average.add(7.0);
        assert_eq!(average.get(), Some(4.0));
        average.add(0.0);
        assert_eq!(average.get(), Some(2.0));
    }

    #[test]
    fn what_was_measured_replaces_what_was_supposed() {
        let speeds = Speeds::default();
        assert_eq!((speeds.memory(), speeds.upstream()), (MEMORY_PRIOR, UPSTREAM_PRIOR));
        speeds.answered(3 * MS);
        speeds.arriving().whole(1 << 20, 10 * MS);
        assert_eq!(speeds.upstream(), TierSpeed { latency: 3 * MS, bytes_per_second: 104_857_600 });
        speeds.delivered(Tier::Memory, 100, MS);
        speeds.delivered(Tier::Memory, 1 << 30, Duration::from_secs(1));
        speeds.delivered(Tier::Upstream, 1, Duration::from_secs(60));
        assert_eq!(speeds.memory(), TierSpeed { latency: MS, bytes_per_second: 1 << 30 });
    }

    #[test]
    fn staging_is_measured_apart() {
        let speeds = Speeds::default();
        assert_eq!(speeds.staging(), STAGING_PRIOR);
        speeds.staging_answered(MS);
        speeds.reading().whole(1 << 20, 2 * MS);
        assert_eq!(speeds.staging(), TierSpeed { latency: MS, bytes_per_second: 524_288_000 });
        assert_eq!(speeds.upstream(), UPSTREAM_PRIOR);
        let takes = |tier| {
            let mut delivery = Delivery::by(&speeds);
            delivery.add(100 << 20, tier);
            delivery.takes()
        };
        assert!(takes(Tier::Memory) < takes(Tier::Staging) && takes(Tier::Staging) < takes(Tier::Upstream));
    }

    #[test]
    fn bodies_that_arrive_together_add_up() {
        let speeds = Speeds::default();
        let together: Vec<_> = (0..4).map(|_| speeds.arriving()).collect();
        // Four at the end of the last, which began with four.
        together.into_iter().next_back().expect("four").whole(1 << 20, 10 * MS);
        assert_eq!(speeds.upstream().bytes_per_second, 4 * 104_857_600);
        assert_eq!(speeds.upstream.arriving.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn every_block_adds_to_the_time() {
        let mut delivery = Delivery::by(&Speeds::default());
        assert_eq!(delivery.takes(), Duration::ZERO);
        delivery.add(2 << 30, Tier::Memory);
        assert_eq!(delivery.takes(), Duration::from_secs(1) + MS / 10);
        delivery.add(200 << 20, Tier::Upstream);
        let one = delivery.takes();
        assert!((Duration::from_millis(2_100)..Duration::from_millis(2_120)).contains(&one), "{one:?}");
        let mut last = one;
        for _ in 0..20 {
            delivery.add(u64::MAX / 8, if last == one { Tier::Staging } else { Tier::Upstream });
            assert!(delivery.takes() >= last);
            last = delivery.takes();
        }
    }
}
