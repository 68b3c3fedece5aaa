//! Servers as child processes, and what they cost.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sign::Signer;
use crate::{Result, client};

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is asked whether it is ready.
const POLL_EVERY: Duration = Duration::from_millis(2);
/// The unit of CPU time in `/proc`: fixed at a hundredth of a second by Linux's interface to user space.
const TICKS_PER_S: f64 = 100.0;

/// A running server; it ends with this handle.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// The operations listener, where there is one.
    pub(crate) ops: Option<SocketAddr>,
}

impl Server {
    /// Starts this program with other arguments; it prints its address.
    pub(crate) fn baseline(arguments: &[String]) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().ok_or("no standard output")?;
        let read = BufReader::new(stdout).read_line(&mut line);
        let address = match read {
            Ok(_) => line.trim().parse().map_err(|_| format!("{arguments:?} prints no address: {line:?}"))?,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { process, address, ops: None })
    }

    /// Starts a gateway with nothing but these variables, and waits until it is ready.
    pub(crate) async fn gateway(binary: &Path, signer: &Signer, variables: &[(String, String)]) -> Result<Self> {
        let (address, ops) = (free_address()?, free_address()?);
        let process = Command::new(binary)
            .arg("serve")
            .env("BLOCKGATE__SERVER__LISTEN", address.to_string())
            .env("BLOCKGATE__SERVER__OPS_LISTEN", ops.to_string())
            .env("BLOCKGATE__SERVER__REGION", &signer.region)
            .env("BLOCKGATE__ACCESS__0__ACCESS_KEY", &signer.access_key)
            .env("BLOCKGATE__ACCESS__0__SECRET_KEY", &signer.secret_key)
            .env("BLOCKGATE__TELEMETRY__LOG_LEVEL", "warn")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut server = Self { process, address, ops: Some(ops) };
        server.wait_until_ready(ops).await?;
        Ok(server)
    }

    async fn wait_until_ready(&mut self, ops: SocketAddr) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < START_TIMEOUT {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("the gateway ended: {status}").into());
            }
            if matches!(client::text(ops, "/readyz").await, Ok((200, _))) {
                return Ok(());
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        Err("the gateway does not become ready".into())
    }

    /// CPU time that the process has used so far, in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        let pid = self.process.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        cpu_s_in(&stat).ok_or_else(|| format!("/proc/{pid}/stat: {stat}").into())
    }

    /// Memory that the process has, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(&path)?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let kib: u64 = resident.and_then(|kib| kib.parse().ok()).ok_or_else(|| format!("{path}: no VmRSS"))?;
        Ok(kib << 10)
    }

    /// The sum of a metric over all label sets that hold every one of `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let ops = self.ops.ok_or("a server without metrics")?;
        let (_, text) = client::text(ops, "/metrics").await?;
        Ok(metric_in(&text, name, labels))
    }

    /// The median of what a histogram has counted so far, between the bounds of its bucket by straight line; none where it
    /// counted nothing.
    pub(crate) async fn median(&self, histogram: &str) -> Result<Option<f64>> {
        let ops = self.ops.ok_or("a server without metrics")?;
        let (_, text) = client::text(ops, "/metrics").await?;
        Ok(median_in(&text, histogram))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The gateway's binary, where this program's lies.
pub(crate) fn gateway_beside_this() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("blockgate"))
}

/// User and system time of a `/proc/<pid>/stat`; the second field, in parentheses, may hold anything.
fn cpu_s_in(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_S)
}

fn metric_in(text: &str, name: &str, labels: &[&str]) -> f64 {
    text.lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .filter(|line| labels.iter().all(|label| line.contains(label)))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

fn median_in(text: &str, histogram: &str) -> Option<f64> {
    let name = format!("{histogram}_bucket");
    let bound = |line: &str| line.split_once("le=\"")?.1.split_once('"')?.0.parse::<f64>().ok();
    let bounds: Vec<f64> = text.lines().filter(|line| line.starts_with(&name)).filter_map(bound).collect();
    let half = metric_in(text, &format!("{histogram}_count"), &[]) / 2.0;
    let (mut below, mut counted) = (0.0, 0.0);
    for bound in bounds {
        let upto = metric_in(text, &name, &[&format!("le=\"{bound}\"")]);
        if half > 0.0 && upto >= half {
            return Some(below + (bound - below) * (half - counted) / (upto - counted));
        }
        (below, counted) = (bound, upto);
    }
    None
}

/// An address that nothing listens on.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 100 1 1";
        assert_eq!(cpu_s_in(stat), Some(2.0));
    }

    #[test]
    fn metrics_are_summed_by_label() {
        let text = "# HELP a x\na_total{op=\"get\",ok=\"1\"} 3\na_total{op=\"get\",ok=\"0\"} 1\na_total{op=\"put\"} 9\na_total_x 5\n";
        assert_eq!(metric_in(text, "a_total", &["op=\"get\""]), 4.0);
        assert_eq!(metric_in(text, "a_total", &[]), 13.0);
        assert_eq!(metric_in(text, "b", &[]), 0.0);
    }

    #[test]
    fn medians_lie_within_their_bucket() {
        let text = "t_bucket{le=\"0.25\"} 2\nt_bucket{le=\"0.5\"} 10\nt_bucket{le=\"+Inf\"} 12\nt_sum 4\nt_count 12\n";
        assert_eq!(median_in(text, "t"), Some(0.375));
        assert_eq!(median_in(text, "u"), None);
    }
}
