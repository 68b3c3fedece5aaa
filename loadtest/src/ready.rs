//! `loadtest ready`: how soon a gateway is ready whose staging log is full of small blocks, and what memory that takes.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use crate::Result;
use crate::child::{Server, gateway_beside_this};
use crate::sign::{Signer, random_hex};
use crate::stage::Log;

/// Memory tier of the gateway.
const MEMORY_MIB: u64 = 64;
/// Blocks that are written before each start after a crash: what recovery has to look through record by record.
const CRASH_BLOCKS: u64 = 10_000;
/// How long a gateway may rest before its memory is read.
const REST: Duration = Duration::from_secs(1);

/// What to start, and how often.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    log: Log,
    /// The gateway's binary; beside this program if absent.
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Starts on a log that is sealed, and as many on one that a crash has left.
    #[arg(long, default_value_t = 5)]
    starts: usize,
}

/// Fills the log if it is not there, and starts gateways on it.
pub(crate) async fn ready(options: Options) -> Result<()> {
    let log = &options.log;
    if !log.log.exists() {
        fill(log, &["--first=0".to_owned()])?;
    }
    let upstream = tempfile::tempdir()?;
    println!("| the log | ready in s | staged blocks | MiB beyond the memory tier |\n| --- | --- | --- | --- |");
    for start in 0..2 * options.starts {
        let is_crash = start >= options.starts;
        if is_crash {
            // The same blocks anew: the log does not grow.
            fill(log, &["--first=0".to_owned(), format!("--count={CRASH_BLOCKS}"), "--crash".to_owned()])?;
        }
        let began = Instant::now();
        let server = Server::gateway(&options.gateway()?, &signer()?, &variables(log, upstream.path().into())).await?;
        let ready_s = began.elapsed().as_secs_f64();
        tokio::time::sleep(REST).await;
        let blocks = server.metric("blockgate_staging_blocks", &[]).await?;
        let beyond = server.resident_bytes()?.saturating_sub(MEMORY_MIB << 20) >> 20;
        let what = if is_crash { "left by a crash" } else { "sealed" };
        println!("| {what} | {ready_s:.3} | {blocks} | {beyond} |");
    }
    Ok(())
}

impl Options {
    fn gateway(&self) -> Result<PathBuf> {
        match &self.gateway {
            Some(path) => Ok(path.clone()),
            None => gateway_beside_this(),
        }
    }
}

/// Runs `loadtest stage` as a process of its own: a crash must be one.
fn fill(log: &Log, more: &[String]) -> Result<()> {
    let status = Command::new(std::env::current_exe()?)
        .arg("stage")
        .arg("--log")
        .arg(&log.log)
        .args([format!("--blocks={}", log.blocks), format!("--bytes={}", log.bytes)])
        .arg(format!("--segment-mib={}", log.segment_mib))
        .args(more)
        .stdout(std::process::Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("loadtest stage: {status}").into()) }
}

fn signer() -> Result<Signer> {
    Ok(Signer { access_key: "LOADTEST".to_owned(), secret_key: random_hex()?, region: "us-east-1".to_owned() })
}

/// How the gateway is configured.
fn variables(log: &Log, upstream: PathBuf) -> Vec<(String, String)> {
    let (capacity, segment) = log.sizes();
    let entries = log.blocks * 2;
    [
        ("UPSTREAM__PATH", upstream.display().to_string()),
        ("MEMORY__CAPACITY", format!("{MEMORY_MIB}MiB")),
        ("INDEX__ENTRIES", entries.to_string()),
        ("STAGING__PATH", log.log.display().to_string()),
        ("STAGING__CAPACITY", format!("{}MiB", capacity >> 20)),
        ("STAGING__SEGMENT", format!("{}MiB", segment >> 20)),
    ]
    .map(|(name, value)| (format!("BLOCKGATE__{name}"), value))
    .into()
}
