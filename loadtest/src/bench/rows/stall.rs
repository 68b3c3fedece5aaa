//! An upstream that falls silent in the middle of lookups and gets: who has a deadline is answered by it, and what is in memory
//! is served as before.

use std::ops::Range;
use std::time::Instant;

use blockgate_api::types::{GetRequest, LookupRequest};
use futures::future::try_join_all;

use super::*;
use crate::bench::compare::median;
use crate::client::Connection;
use crate::delay::Proxy;

/// How long the upstream is silent.
const SILENCE: Duration = Duration::from_secs(5);
/// How long all goes well before, and may take to do so again after.
const BEFORE: Duration = Duration::from_secs(2);
const RECOVERY_MAX: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_millis(100);
/// Requests that took at least so long waited for the upstream; the others were answered at once.
const WAITED_MIN: Duration = Duration::from_millis(50);
/// Clients that look up, as many that get, and one that reads from memory.
const CLIENTS: usize = 4;
/// Keys of one request; each request has others.
const KEYS: usize = 16;
const UPSTREAM_DELAY: Duration = Duration::from_millis(5);
/// Pause of the client that reads from memory.
const READ_PAUSE: Duration = Duration::from_millis(1);
/// Pause of a client between two requests: the machine has other things to show than how busy it can be.
const PAUSE: Duration = Duration::from_millis(20);

const OVERRUN_ROW: &str = "upstream silent for 5 s, deadlines of 100 ms: p99 overrun";
const MEMORY_ROW: &str = "upstream silent for 5 s: p50 of memory GET 64 KiB";
const RECOVERY_ROW: &str = "upstream silent for 5 s: until all is well again";

/// What one client saw: when each of its requests began, and how long it took.
type Seen = Vec<(Instant, Duration)>;

impl Bench<'_> {
    pub(super) async fn stall(&self, rows: &mut Vec<Row>) -> Result<()> {
        const BUCKET: &str = "bench-stall";
        if ![OVERRUN_ROW, MEMORY_ROW, RECOVERY_ROW].iter().any(|row| self.options.wants(row)) {
            return Ok(());
        }
        let near = self.gateway_on_fs("stall", "256MiB").await?;
        let size_bytes = 64 * KIB;
        self.fill(near.address, &self.signer, BUCKET, size_bytes).await?;
        let proxy = Proxy::start(near.address, UPSTREAM_DELAY).await?;
        let far = S3Store { name: "blockgate".into(), address: proxy.address, signer: self.signer.clone() };
        let gateway = self.gateway_on_s3(&far, "256MiB").await?;
        let hot = self.reads(&self.signer, gateway.address, BUCKET, &Method::GET, size_bytes)?;
        run(&hot, Until::Once).await?;

        let begun = Instant::now();
        let silent = begun + BEFORE..begun + BEFORE + SILENCE;
        let end = silent.end + RECOVERY_MAX;
        let clients = (0..2 * CLIENTS).map(|client| self.ask_until_well(&gateway, BUCKET, client, silent.end, end));
        let reads = read_until(&gateway, &hot, silent.end);
        let switch = async {
            tokio::time::sleep_until(silent.start.into()).await;
            proxy.freeze(true);
            tokio::time::sleep_until(silent.end.into()).await;
            proxy.freeze(false);
            Ok(())
        };
        let (asked, read, ()) = tokio::try_join!(try_join_all(clients), reads, switch)?;

        let waited: Seen = asked.iter().flat_map(|client| &client.seen).copied().collect();
        let overrun_ms = p99_overrun_ms(&waited, &silent).ok_or("nobody waited for the upstream")?;
        let results = (count("blockgate", vec![overrun_ms]), count("at most", vec![20.0]));
        rows.push(Row { bar: Some(Bar::AtMost(1.0)), ..self.done(OVERRUN_ROW, Unit::Milliseconds, results) });
        let median_ms = |span: &Range<Instant>| {
            let took = read.iter().filter(|(at, _)| span.contains(at)).map(|(_, took)| took.as_secs_f64() * 1e3);
            vec![median(&took.collect::<Vec<_>>())]
        };
        let before = median_ms(&(begun..silent.start));
        let results = (count("blockgate", median_ms(&silent)), count("before the silence", before));
        rows.push(self.done(MEMORY_ROW, Unit::Milliseconds, results));
        let well_ms = asked.iter().map(|client| (client.well_at - silent.end).as_secs_f64() * 1e3).fold(0.0, f64::max);
        let results = (count("blockgate", vec![well_ms]), count("at most", vec![5_000.0]));
        rows.push(self.done(RECOVERY_ROW, Unit::Milliseconds, results));
        Ok(())
    }

    /// Looks up, or gets, keys that nobody asked for before, until the silence is over and all is well again.
    async fn ask_until_well(
        &self,
        gateway: &Server,
        bucket: &str,
        client: usize,
        silence_ends: Instant,
        end: Instant,
    ) -> Result<Asked> {
        let mut connection = Connection::open(gateway.address).await?;
        let deadline_ms = Some(u64::try_from(DEADLINE.as_millis())?);
        let mut seen = Seen::new();
        for round in 0.. {
            let keys = (0..KEYS).map(|key| format!("{client}/{round}/{key}")).collect();
            let request = if client < CLIENTS {
                self.post(
                    gateway,
                    bucket,
                    "lookup",
                    &LookupRequest { keys, deadline_ms, ..LookupRequest::default() },
                    0,
                )?
            } else {
                self.post(gateway, bucket, "get", &GetRequest { keys, deadline_ms, ..GetRequest::default() }, 0)?
            };
            let begun = Instant::now();
            let answer = connection.answer(&request).await?;
            seen.push((begun, begun.elapsed()));
            // These keys are nowhere: to say so takes an upstream that answers.
            let is_well = answer.windows(8).any(|window| window == b"\"absent\"");
            if begun > silence_ends && is_well {
                return Ok(Asked { seen, well_at: Instant::now() });
            }
            if begun > end {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(format!("client {client}: still no answer {RECOVERY_MAX:?} after the silence").into())
    }
}

/// What a client with a deadline saw, and when all was well for it again.
struct Asked {
    seen: Seen,
    well_at: Instant,
}

/// Reads blocks that are in memory, one after the other.
async fn read_until(gateway: &Server, hot: &Load, end: Instant) -> Result<Seen> {
    let mut connection = Connection::open(gateway.address).await?;
    let mut seen = Seen::new();
    for request in hot.requests.iter().cycle() {
        let begun = Instant::now();
        if begun > end {
            break;
        }
        connection.answer(request).await?;
        seen.push((begun, begun.elapsed()));
        tokio::time::sleep(READ_PAUSE).await;
    }
    Ok(seen)
}

/// Of the requests that waited in the silence: how long after their deadline 99 of 100 were answered.
fn p99_overrun_ms(seen: &Seen, silent: &Range<Instant>) -> Option<f64> {
    let waited = seen.iter().filter(|(at, took)| *took >= WAITED_MIN && silent.contains(at));
    let mut overruns: Vec<Duration> = waited.map(|(_, took)| took.saturating_sub(DEADLINE)).collect();
    overruns.sort_unstable();
    let at = (overruns.len() * 99).div_ceil(100).checked_sub(1)?;
    eprintln!("{} requests waited; the longest overrun is {:?}", overruns.len(), overruns.last()?);
    overruns.get(at).map(|overrun| overrun.as_secs_f64() * 1e3)
}
