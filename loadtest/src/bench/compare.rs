//! Two servers measured alternately.

use std::time::Duration;

use serde::Serialize;

use super::Rhythm;
use crate::Result;
use crate::child::Server;
use crate::client::{Load, Until, run};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// Bodies, in GiB.
    Gib,
    /// Requests.
    Requests,
    /// GETs that reach the upstream: not a speed, but a count for each block.
    UpstreamGets,
    /// Chains of keys asked about.
    Chains,
    /// Not a speed: milliseconds.
    Milliseconds,
    /// Not a speed: requests to the upstream, one after the other.
    Rounds,
}

/// One side of a comparison.
pub(super) struct Side<'s> {
    pub(super) name: String,
    pub(super) load: Load,
    /// Processes whose CPU time counts; none where the server is not ours.
    pub(super) servers: Vec<&'s Server>,
}

/// What a side did, over all its measurements.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SideResult {
    pub(super) name: String,
    /// Units a second, one a pair.
    pub(super) per_second: Vec<f64>,
    /// Server CPU seconds for each GiB (or each 1,000 requests).
    pub(super) cpu_s: Option<f64>,
    /// How long one request took, where that was looked at.
    pub(super) latency: Option<Latency>,
}

/// How long requests took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Latency {
    /// Of one measurement.
    pub(super) fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let percentile = |percent: usize| {
            let at = (all.len() * percent).div_ceil(100).saturating_sub(1);
            all.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
        };
        Self { p50_ms: percentile(50), p99_ms: percentile(99) }
    }

    /// The medians of several measurements; none of none.
    pub(super) fn median(of: &[Self]) -> Option<Self> {
        let middle = |part: fn(&Self) -> f64| median(&of.iter().map(part).collect::<Vec<_>>());
        (!of.is_empty()).then(|| Self { p50_ms: middle(|one| one.p50_ms), p99_ms: middle(|one| one.p99_ms) })
    }
}

impl SideResult {
    /// The median of all measurements.
    pub(super) fn median(&self) -> f64 {
        median(&self.per_second)
    }
}

/// How to run one measurement, and what to wait for before.
pub(super) trait Before {
    /// Brings both sides back to where a measurement begins.
    async fn before(&self) -> Result<()>;
}

/// Nothing needs to be done.
pub(super) struct Nothing;

impl Before for Nothing {
    async fn before(&self) -> Result<()> {
        Ok(())
    }
}

/// Measures both sides alternately; which goes first alternates too, so that neither gains by a machine that slows down.
pub(super) async fn compare(
    subject: &Side<'_>,
    baseline: &Side<'_>,
    unit: Unit,
    rhythm: Rhythm,
    until: Option<Until>,
    before: &impl Before,
) -> Result<(SideResult, SideResult)> {
    let until = until.unwrap_or(Until::Elapsed(rhythm.each));
    let (mut subject_tally, mut baseline_tally) = (Tally::new(subject, unit), Tally::new(baseline, unit));
    for pair in 0..rhythm.pairs {
        let order = if pair % 2 == 0 {
            [(subject, &mut subject_tally), (baseline, &mut baseline_tally)]
        } else {
            [(baseline, &mut baseline_tally), (subject, &mut subject_tally)]
        };
        for (side, tally) in order {
            before.before().await?;
            tally.measure(side, until).await?;
        }
    }
    Ok((subject_tally.result(), baseline_tally.result()))
}

/// Measures two things alternately that are more than requests sent in turn; each returns its units a second.
pub(super) async fn alternate(
    pairs: usize,
    (subject, mut measure_subject): (&str, impl AsyncFnMut() -> Result<f64>),
    (baseline, mut measure_baseline): (&str, impl AsyncFnMut() -> Result<f64>),
) -> Result<(SideResult, SideResult)> {
    let result = |name: &str| SideResult { name: name.to_owned(), per_second: Vec::new(), cpu_s: None, latency: None };
    let (mut subject, mut baseline) = (result(subject), result(baseline));
    for pair in 0..pairs {
        if pair % 2 == 0 {
            subject.per_second.push(measure_subject().await?);
            baseline.per_second.push(measure_baseline().await?);
        } else {
            baseline.per_second.push(measure_baseline().await?);
            subject.per_second.push(measure_subject().await?);
        }
    }
    Ok((subject, baseline))
}

struct Tally {
    name: String,
    unit: Unit,
    per_second: Vec<f64>,
    units: f64,
    cpu_s: Option<f64>,
}

impl Tally {
    fn new(side: &Side<'_>, unit: Unit) -> Self {
        let cpu_s = (!side.servers.is_empty()).then_some(0.0);
        Self { name: side.name.clone(), unit, per_second: Vec::new(), units: 0.0, cpu_s }
    }

    async fn measure(&mut self, side: &Side<'_>, until: Until) -> Result<()> {
        let cpu_s = || side.servers.iter().map(|server| server.cpu_s()).sum::<Result<f64>>();
        let before = cpu_s()?;
        let done = run(&side.load, until).await?;
        let used = cpu_s()? - before;
        let units = match self.unit {
            Unit::Gib => done.bytes as f64 / f64::from(1 << 30),
            _ => done.requests as f64,
        };
        self.per_second.push(units / done.elapsed.max(Duration::from_micros(1)).as_secs_f64());
        self.units += units;
        self.cpu_s = self.cpu_s.map(|total| total + used);
        Ok(())
    }

    fn result(self) -> SideResult {
        let each = match self.unit {
            Unit::Gib => 1.0,
            _ => 1_000.0,
        };
        let cpu_s = self.cpu_s.map(|cpu_s| cpu_s / (self.units / each));
        SideResult { name: self.name, per_second: self.per_second, cpu_s, latency: None }
    }
}

/// The middle of some numbers; of an even count, the mean of the two in the middle.
pub(super) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (middle, 1) => sorted[middle],
        (middle, _) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles_are_of_the_sorted_and_medians_of_them_part_by_part() {
        let latency = Latency::of((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(latency, Latency { p50_ms: 100.0, p99_ms: 198.0 });
        let (low, high) = (Latency { p50_ms: 1.0, p99_ms: 9.0 }, Latency { p50_ms: 3.0, p99_ms: 3.0 });
        assert_eq!(Latency::median(&[low, high]), Some(Latency { p50_ms: 2.0, p99_ms: 6.0 }));
        assert_eq!(Latency::median(&[]), None);
    }
}
