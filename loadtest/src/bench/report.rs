//! Results as a table for people and as JSON for machines.

use std::fmt::Write;

use serde::Serialize;

use super::Rhythm;
use super::compare::{Latency, SideResult, Unit, median};
use super::machine::Machine;
use crate::Result;

/// A finished row.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) subject: SideResult,
    pub(super) baseline: SideResult,
    /// Subject by baseline, one a pair.
    pub(super) ratios: Vec<f64>,
    /// What the median ratio is hoped to be.
    pub(super) bar: Option<Bar>,
    /// Server CPU seconds a GiB that are hoped for, at most.
    pub(super) cpu_bar: Option<f64>,
}

/// What a ratio is hoped to be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bar) => ratio >= bar,
            Self::AtMost(bar) => ratio <= bar,
        }
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bar) => write!(f, "≥ {bar}"),
            Self::AtMost(bar) => write!(f, "≤ {bar}"),
        }
    }
}

impl Row {
    /// A row of two sides measured in pairs.
    pub(super) fn new(name: &str, unit: Unit, (subject, baseline): (SideResult, SideResult)) -> Self {
        let ratios = subject.per_second.iter().zip(&baseline.per_second).map(|(a, b)| a / b).collect();
        Self { name: name.to_owned(), unit, subject, baseline, ratios, bar: None, cpu_bar: None }
    }

    fn ratio(&self) -> f64 {
        median(&self.ratios)
    }

    fn verdict(&self) -> &'static str {
        let ratio = self.bar.map(|bar| bar.holds(self.ratio()));
        let cpu = self.cpu_bar.zip(self.subject.cpu_s).map(|(bar, cpu_s)| cpu_s <= bar);
        match (ratio, cpu) {
            (None, None) => "",
            (Some(false), _) | (_, Some(false)) => "below",
            _ => "met",
        }
    }
}

/// The table, in Markdown.
pub(super) fn table(machine: &Machine, rhythm: Rhythm, rows: &[Row]) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_table(&mut text, machine, rhythm, rows);
    text
}

fn write_table(text: &mut String, machine: &Machine, rhythm: Rhythm, rows: &[Row]) -> std::fmt::Result {
    let Machine { cpu, cores, memory_gib, kernel } = machine;
    writeln!(text, "{cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}; loopback")?;
    writeln!(text, "{} pairs of {:?} measured alternately; ratio: median of the pairs\n", rhythm.pairs, rhythm.each)?;
    writeln!(text, "| what | blockgate | baseline | ratio (lowest – highest) | bar | | server CPU | baseline CPU |")?;
    writeln!(text, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for row in rows {
        let speed = |side: &SideResult| match row.unit {
            Unit::Gib => format!("{:.2} GiB/s", side.median()),
            Unit::Requests => format!("{:.0}/s", side.median()),
            Unit::UpstreamGets => format!("{:.0} GET", side.median()),
            Unit::Chains => format!("{:.2} chains/s", side.median()),
            Unit::Milliseconds => format!("{:.2} ms", side.median()),
            Unit::Rounds => format!("{:.0}", side.median()),
        };
        let speed = |side: &SideResult| match side.latency {
            None => speed(side),
            Some(Latency { p50_ms, p99_ms }) => format!("{}, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms", speed(side)),
        };
        let cpu = |side: &SideResult| match (side.cpu_s, row.unit) {
            (None, _) => "–".to_owned(),
            (Some(cpu_s), Unit::Gib) => format!("{cpu_s:.2} s/GiB"),
            (Some(cpu_s), _) => format!("{:.0} µs", cpu_s * 1_000.0),
        };
        let (low, high) = row.ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), r| (low.min(*r), high.max(*r)));
        let bars = [row.bar.map(|bar| bar.to_string()), row.cpu_bar.map(|bar| format!("CPU ≤ {bar:.2}"))];
        writeln!(
            text,
            "| {} | {} | {}: {} | **{:.2}** ({low:.2} – {high:.2}) | {} | {} | {} | {} |",
            row.name,
            speed(&row.subject),
            row.baseline.name,
            speed(&row.baseline),
            row.ratio(),
            bars.into_iter().flatten().collect::<Vec<_>>().join(", "),
            row.verdict(),
            cpu(&row.subject),
            cpu(&row.baseline),
        )?;
    }
    Ok(())
}

/// Everything measured, as JSON.
pub(super) fn json(machine: &Machine, rhythm: Rhythm, rows: &[Row]) -> Result<String> {
    let value = serde_json::json!({
        "machine": machine,
        "pairs": rhythm.pairs,
        "seconds": rhythm.each.as_secs_f64(),
        "rows": rows,
    });
    Ok(serde_json::to_string_pretty(&value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(per_second: &[f64], cpu_s: f64) -> SideResult {
        SideResult { name: "x".to_owned(), per_second: per_second.to_vec(), cpu_s: Some(cpu_s), latency: None }
    }

    #[test]
    fn a_row_is_met_when_every_bar_is() {
        let mut row = Row::new("GET", Unit::Gib, (side(&[2.0, 3.0, 4.0], 0.2), side(&[2.0, 2.0, 2.0], 0.3)));
        assert_eq!((row.ratio(), row.verdict()), (1.5, ""));
        row.bar = Some(Bar::AtLeast(1.5));
        assert_eq!(row.verdict(), "met");
        row.cpu_bar = Some(0.1);
        assert_eq!(row.verdict(), "below");
    }
}
