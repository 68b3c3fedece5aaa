//! fio, the yardstick of disks: what the disk does when nobody is in between.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::compare::Latency;
use crate::Result;

/// What is tried first, and what where the kernel or a container refuses it.
const ENGINES: [&str; 2] = ["io_uring", "libaio"];

/// fio on one file, past the page cache.
#[derive(Clone, Debug)]
pub(super) struct Fio {
    file: PathBuf,
    engine: &'static str,
}

/// What fio measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) bytes_per_second: f64,
    pub(super) latency: Latency,
}

impl Fio {
    /// Writes a file of `size_bytes` and finds an engine; none where fio is not installed.
    ///
    /// # Errors
    /// Where fio is there and does not work on that file.
    pub(super) async fn on_new_file(file: PathBuf, size_bytes: u64) -> Result<Option<Self>> {
        let mut outcome = Err("no engine".into());
        for engine in ENGINES {
            let fio = Self { file: file.clone(), engine };
            let layout = ["--rw=write", "--bs=4M", "--iodepth=8", "--end_fsync=1", &format!("--size={size_bytes}")];
            match fio.run(&layout).await {
                Ok(Some(_)) => return Ok(Some(fio)),
                Ok(None) => return Ok(None),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// One measurement; none where fio is not installed.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<Option<Measured>> {
        let mut command = Command::new("fio");
        command
            .args(["--name=baseline", "--direct=1", "--refill_buffers", "--output-format=json"])
            .arg(format!("--filename={}", self.file.display()))
            .arg(format!("--ioengine={}", self.engine))
            .args(arguments);
        let output = match tokio::task::spawn_blocking(move || command.output()).await? {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            output => output?,
        };
        if !output.status.success() {
            let (status, said) = (output.status, String::from_utf8_lossy(&output.stderr));
            return Err(format!("fio on {}: {status}: {said}", self.file.display()).into());
        }
        measured(&output.stdout).map(Some)
    }

    pub(super) fn name(&self) -> String {
        format!("fio, {}", self.engine)
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    read: Direction,
    write: Direction,
}

#[derive(Deserialize)]
struct Direction {
    bw_bytes: f64,
    total_ios: u64,
    clat_ns: Latencies,
}

#[derive(Deserialize)]
struct Latencies {
    /// Absent where nothing went this way.
    #[serde(default)]
    percentile: Percentiles,
}

#[derive(Default, Deserialize)]
struct Percentiles {
    #[serde(rename = "50.000000", default)]
    p50: f64,
    #[serde(rename = "99.000000", default)]
    p99: f64,
}

/// Reads a report of one job that only reads or only writes.
fn measured(report: &[u8]) -> Result<Measured> {
    // Warnings come before the report.
    let start = report.iter().position(|&byte| byte == b'{').ok_or("fio reports nothing")?;
    let report: Report = serde_json::from_slice(&report[start..])?;
    let job = report.jobs.into_iter().next().ok_or("fio reports no job")?;
    let Direction { bw_bytes, clat_ns, .. } = if job.read.total_ios > 0 { job.read } else { job.write };
    let ms = |ns: f64| ns / 1e6;
    let latency = Latency { p50_ms: ms(clat_ns.percentile.p50), p99_ms: ms(clat_ns.percentile.p99) };
    Ok(Measured { bytes_per_second: bw_bytes, latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_behind_warnings() {
        let report = br#"fio: a warning
            {"jobs":[{"jobname":"baseline",
              "read":{"bw_bytes":0,"total_ios":0,"clat_ns":{"min":0}},
              "write":{"bw_bytes":2147483648,"total_ios":3,
                       "clat_ns":{"percentile":{"50.000000":1500000,"99.000000":4000000}}}}]}"#;
        let measured = measured(report).unwrap();
        assert_eq!(measured.bytes_per_second, 2_147_483_648.0);
        assert_eq!(measured.latency, Latency { p50_ms: 1.5, p99_ms: 4.0 });
        assert!(super::measured(b"fio: no report").is_err());
    }
}
