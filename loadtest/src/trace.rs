//! `loadtest trace`: replays who asked for which blocks through a real gateway, and tells which tier had them.
//!
//! A request of the trace is a chain of blocks. What a lookup finds of it is read, the rest is stored, as an engine does.
//! The upstream keeps everything, so that all reuse there is is found; the question is how much of it the host had.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use blockgate_api::types::{LookupRequest, LookupResponse};
use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::Result;
use crate::child::{Server, gateway_beside_this};
use crate::client::Connection;
use crate::objects::object;
use crate::sign::{Prepared, Signer, random_hex};

const BUCKET: &str = "trace";
/// What the memory tier and the log are aligned to.
const PAGE_BYTES: usize = 4096;
/// Pages of a record before its payload, for keys as short as these.
const RECORD_HEADER_PAGES: usize = 1;
/// The smallest that a gateway takes, so that few blocks are lost with one.
const SEGMENT_BYTES: usize = 1 << 20;
/// The least that a gateway takes.
const MEMORY_BYTES_MIN: usize = 1 << 20;
/// The fewest that a log may have, with those that are kept free.
const SEGMENTS_MIN: usize = 6;
/// How often a store that asks for patience is asked again.
const TRIES_MAX: usize = 100;

/// What to replay, and how small the tiers are.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The trace: a JSON object a line with `hash_ids`, one id for each block of a chain.
    file: PathBuf,
    /// Only so many requests from its start.
    #[arg(long)]
    requests: Option<usize>,
    /// The gateway's binary; beside this program if absent.
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Where the log is kept: a directory on a real disk.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where the fs upstream is kept; one file for each block, so best in memory.
    #[arg(long, default_value = "/dev/shm")]
    upstream: PathBuf,
    /// Bytes of a block. A page and its share of a file's footer are two pages in the upstream: this is one.
    #[arg(long, default_value_t = 3_584)]
    block_bytes: usize,
    /// Percent of the distinct blocks that memory holds.
    #[arg(long, default_value_t = 2.0)]
    memory: f64,
    /// Percent of the distinct blocks that staging has room for.
    #[arg(long, default_value_t = 10.0)]
    staging: f64,
    /// Requests under way at once.
    #[arg(long, default_value = "16")]
    connections: NonZeroUsize,
}

/// A request of the trace.
#[derive(Debug, Deserialize)]
struct Chain {
    hash_ids: Vec<u64>,
}

/// Where blocks were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    blocks: usize,
    memory: usize,
    staging: usize,
    upstream: usize,
    /// Of those in memory and staging, the ones before the first of their chain that was in neither: what a host without
    /// an upstream would have had.
    local_prefix: usize,
}

impl Found {
    /// Counts a chain of `blocks`, of which these tiers had the first ones.
    fn count(&mut self, blocks: usize, tiers: &[Tier]) {
        self.blocks += blocks;
        let of = |tier| tiers.iter().filter(|&&found| found == tier).count();
        self.memory += of(Tier::Memory);
        self.staging += of(Tier::Staging);
        self.upstream += of(Tier::Upstream);
        self.local_prefix += tiers.iter().take_while(|&&tier| tier != Tier::Upstream).count();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Memory,
    Staging,
    Upstream,
}

/// Replays a trace and prints what came of it.
pub(crate) async fn trace(options: Options) -> Result<()> {
    let chains = read(&options)?;
    let unique = chains.iter().flat_map(|chain| &chain.hash_ids).collect::<HashSet<_>>().len();
    let replay = Replay::start(&options, unique).await?;
    eprintln!("{} requests, {unique} distinct blocks of {} bytes", chains.len(), options.block_bytes);
    let mut found = Found::default();
    for (number, chain) in chains.iter().enumerate() {
        let tiers = replay.request(&chain.hash_ids).await?;
        found.count(chain.hash_ids.len(), &tiers);
        if number % 1_000 == 999 {
            eprintln!("{} requests: {found:?}", number + 1);
        }
    }
    replay.report(&found).await
}

fn read(options: &Options) -> Result<Vec<Chain>> {
    let text =
        std::fs::read_to_string(&options.file).map_err(|error| format!("{}: {error}", options.file.display()))?;
    let lines = text.lines().take(options.requests.unwrap_or(usize::MAX));
    Ok(lines.map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
}

/// A gateway and the connections to it.
struct Replay {
    gateway: Server,
    signer: Signer,
    connections: Vec<Mutex<Connection>>,
    block_bytes: usize,
    /// Removed when done.
    _folders: [tempfile::TempDir; 2],
}

impl Replay {
    async fn start(options: &Options, unique: usize) -> Result<Self> {
        let directory = options.directory.clone().unwrap_or_else(std::env::temp_dir);
        let [log, upstream] = [&directory, &options.upstream].map(tempfile::tempdir_in);
        let (log, upstream) = (log?, upstream?);
        let binary = options.gateway.clone().map_or_else(gateway_beside_this, Ok)?;
        let signer = Signer { access_key: random_hex()?, secret_key: random_hex()?, region: "us-east-1".to_owned() };
        let variables = settings(options, unique, log.path(), upstream.path());
        let gateway = Server::gateway(&binary, &signer, &variables).await?;
        let mut connections = Vec::new();
        for _ in 0..options.connections.get() {
            connections.push(Mutex::new(Connection::open(gateway.address).await?));
        }
        let block_bytes = options.block_bytes;
        let replay = Self { gateway, signer, connections, block_bytes, _folders: [log, upstream] };
        let created = replay.prepare(Method::PUT, &format!("/{BUCKET}"), Bytes::new())?;
        replay.connections[0].lock().await.answer(&created).await?;
        Ok(replay)
    }

    fn prepare(&self, method: Method, path: &str, body: Bytes) -> Result<Prepared> {
        self.signer.prepare(method, path, &self.gateway.address.to_string(), body, 0)
    }

    /// Asks for a chain, reads what is there of it, stores the rest. The tiers of what was there, from the chain's start.
    async fn request(&self, ids: &[u64]) -> Result<Vec<Tier>> {
        let question = LookupRequest { keys: ids.iter().map(u64::to_string).collect(), ..LookupRequest::default() };
        let question = serde_json::to_vec(&question)?.into();
        let question = self.prepare(Method::POST, &format!("/_kv/v1/{BUCKET}/lookup"), question)?.json();
        let answer = self.connections[0].lock().await.answer(&question).await?;
        let LookupResponse { matched, .. } = serde_json::from_slice(&answer)?;
        let (present, missing) =
            ids.split_at_checked(usize::try_from(matched)?).ok_or("more matched than asked for")?;
        // The end of a chain first, so that it is the first to be evicted.
        let mut tiers = self.each(present.iter().rev(), async |connection, id| self.load(connection, id).await).await?;
        tiers.reverse();
        self.each(missing.iter(), async |connection, id| self.store(connection, id).await).await?;
        Ok(tiers)
    }

    /// Does something for each block, on all connections; the outcomes in order.
    async fn each<'i, T>(
        &self,
        ids: impl Iterator<Item = &'i u64>,
        act: impl AsyncFn(&mut Connection, u64) -> Result<T>,
    ) -> Result<Vec<T>> {
        let ids = ids.copied().enumerate().collect::<Vec<_>>();
        let workers = self.connections.iter().enumerate().map(async |(worker, connection)| {
            let mut connection = connection.lock().await;
            let mut outcomes = Vec::new();
            for &(place, id) in ids.iter().skip(worker).step_by(self.connections.len()) {
                outcomes.push((place, act(&mut connection, id).await?));
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(outcomes)
        });
        let mut outcomes: Vec<_> = try_join_all(workers).await?.into_iter().flatten().collect();
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    async fn load(&self, connection: &mut Connection, id: u64) -> Result<Tier> {
        let answer = self.patiently(connection, Method::GET, id, Bytes::new()).await?;
        if *answer.body() != self.block(id) {
            return Err(format!("block {id} is not what was stored").into());
        }
        match answer.headers().get("x-kv-tier").map(http::HeaderValue::as_bytes) {
            Some(b"memory") => Ok(Tier::Memory),
            Some(b"staging") => Ok(Tier::Staging),
            Some(b"upstream") => Ok(Tier::Upstream),
            other => Err(format!("block {id} came from {other:?}").into()),
        }
    }

    async fn store(&self, connection: &mut Connection, id: u64) -> Result<()> {
        self.patiently(connection, Method::PUT, id, self.block(id)).await.map(drop)
    }

    /// Sends a request, again where the gateway has too much to upload just now.
    async fn patiently(
        &self,
        connection: &mut Connection,
        method: Method,
        id: u64,
        body: Bytes,
    ) -> Result<Response<Bytes>> {
        let request = self.prepare(method, &format!("/{BUCKET}/{id}"), body)?;
        for _ in 0..TRIES_MAX {
            let answer = connection.exchange(&request).await?;
            match answer.status() {
                StatusCode::SERVICE_UNAVAILABLE => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                status if status.is_success() => return Ok(answer),
                status => {
                    let said = String::from_utf8_lossy(answer.body());
                    return Err(format!("{} of block {id} answers {status}: {said}", request.method).into());
                }
            }
        }
        Err(format!("{} of block {id}: the gateway is busy for ever", request.method).into())
    }

    fn block(&self, id: u64) -> Bytes {
        object(id as usize, self.block_bytes)
    }

    async fn report(&self, found: &Found) -> Result<()> {
        let metric = async |name: &str| self.gateway.metric(&format!("blockgate_staging_{name}"), &[]).await;
        let (written, rewritten) = (metric("written_bytes_total").await?, metric("rewritten_bytes_total").await?);
        let share = |blocks: usize| blocks as f64 / found.blocks.max(1) as f64;
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        println!("| of {} blocks asked for | blocks | ratio |\n| --- | --- | --- |", found.blocks);
        for (what, blocks) in [
            ("found in memory", found.memory),
            ("found in staging", found.staging),
            ("found in either", found.memory + found.staging),
            ("found in either, as a prefix without gap", found.local_prefix),
            ("found in the upstream", found.upstream),
            ("found at all", found.memory + found.staging + found.upstream),
        ] {
            println!("| {what} | {blocks} | {:.3} |", share(blocks));
        }
        println!("\n| the log | |\n| --- | --- |");
        println!("| blocks in it at the end | {:.0} |", metric("blocks").await?);
        println!("| written for blocks | {:.0} MiB |", mib(written));
        println!("| written again by reclaim | {:.0} MiB |", mib(rewritten));
        println!("| write amplification | {:.3} |", (written + rewritten) / written.max(1.0));
        println!("| segments reclaimed | {:.0} |", metric("reclaimed_segments_total").await?);
        println!("| group commits | {:.0} |", metric("commits_total").await?);
        println!("| refused | {:.0} |", metric("refused_total").await?);
        Ok(())
    }
}

/// Tiers that hold so many percent of the distinct blocks.
fn settings(options: &Options, unique: usize, log: &Path, upstream: &Path) -> Vec<(String, String)> {
    let pages = options.block_bytes.div_ceil(PAGE_BYTES).max(1);
    let blocks = |percent: f64| (unique as f64 * percent / 100.0).ceil() as usize;
    let memory = (blocks(options.memory) * pages * PAGE_BYTES).max(MEMORY_BYTES_MIN);
    let staging = blocks(options.staging) * (pages + RECORD_HEADER_PAGES) * PAGE_BYTES;
    let staging = staging.next_multiple_of(SEGMENT_BYTES).max(SEGMENTS_MIN * SEGMENT_BYTES);
    let kib = |bytes: usize| format!("{}KiB", bytes / 1024);
    [
        ("MEMORY__CAPACITY", kib(memory)),
        ("STAGING__CAPACITY", kib(staging)),
        ("STAGING__SEGMENT", kib(SEGMENT_BYTES)),
        ("STAGING__PATH", log.display().to_string()),
        ("UPSTREAM__PATH", upstream.display().to_string()),
    ]
    .map(|(name, value)| (format!("BLOCKGATE__{name}"), value))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_counted_by_block_and_by_prefix() {
        use Tier::{Memory, Staging, Upstream};
        let mut found = Found::default();
        found.count(5, &[Memory, Staging, Upstream, Memory]);
        found.count(3, &[Staging, Memory]);
        found.count(2, &[]);
        let wanted = Found { blocks: 10, memory: 3, staging: 2, upstream: 1, local_prefix: 4 };
        assert_eq!(found, wanted);
    }
}
