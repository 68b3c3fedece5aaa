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
    let result = |name: &str| SideResult { name: name.to_owned(), per_second: Vec::new(), cpu_s: None };
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
        SideResult { name: self.name, per_second: self.per_second, cpu_s }
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
}
