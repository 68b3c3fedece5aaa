//! The rows: what is compared with what, and what is hoped for.

mod kv;
mod staging;
mod stall;
mod store;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tempfile::TempDir;

use self::store::S3Store;
use super::compare::{Before, Nothing, Side, SideResult, Unit, compare};
use super::report::{Bar, Row};
use super::{Options, Rhythm};
use crate::Result;
use crate::child::Server;
use crate::client::{self, Load, Until, run};
use crate::objects::objects;
use crate::sign::{Prepared, Signer, random_hex};

/// Distinct objects in each row.
const OBJECTS: usize = 64;
/// Connections of the client.
const CONNECTIONS: usize = 16;
/// The gateway's send buffer, which is its default.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Blocks asked for by many at once, one after the other.
const SHARED_BLOCKS: usize = 16;
/// Readers of each of them.
const SHARED_READERS: usize = 64;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A row that reads from memory, or asks what is there.
struct MemoryRow {
    name: &'static str,
    method: Method,
    size_bytes: usize,
    unit: Unit,
    baseline: Baseline,
    ratio_bar: Option<f64>,
    cpu_bar: Option<f64>,
}

/// What a row is compared with.
#[derive(Clone, Copy)]
enum Baseline {
    /// hyper with the system's default buffers.
    Hyper,
    /// hyper with the gateway's send buffer.
    HyperSameBuffer,
    /// Plain sockets with the gateway's send buffer.
    Raw,
}

fn memory_rows() -> Vec<MemoryRow> {
    let get = |name, size_bytes, unit, baseline, ratio_bar, cpu_bar| MemoryRow {
        name,
        method: Method::GET,
        size_bytes,
        unit,
        baseline,
        ratio_bar,
        cpu_bar,
    };
    let (hyper, same, raw) = (Baseline::Hyper, Baseline::HyperSameBuffer, Baseline::Raw);
    vec![
        get("memory GET 4 MiB × 16", 4 * MIB, Unit::Gib, hyper, Some(1.15), Some(0.30)),
        get("memory GET 4 MiB × 16, same buffers", 4 * MIB, Unit::Gib, same, Some(0.9), Some(0.30)),
        get("memory GET 4 MiB × 16, raw", 4 * MIB, Unit::Gib, raw, None, None),
        get("memory GET 1 MiB × 16", MIB, Unit::Gib, hyper, Some(0.85), None),
        get("memory GET 256 KiB × 16", 256 * KIB, Unit::Gib, hyper, Some(0.80), None),
        get("memory GET 64 KiB × 16", 64 * KIB, Unit::Gib, hyper, None, None),
        get("small GET 1 KiB × 16", KIB, Unit::Requests, hyper, Some(0.6), None),
        MemoryRow { method: Method::HEAD, ..get("HEAD × 16", KIB, Unit::Requests, hyper, Some(0.6), None) },
    ]
}

const PUT_ROW: &str = "memory PUT 4 MiB × 16";
const MISS_FS_ROW: &str = "miss path on fs, GET 4 MiB × 16";
const MISS_S3_ROW: &str = "miss path on S3, GET 4 MiB × 16";
const SINGLE_FLIGHT_ROW: &str = "single flight: 64 readers of a cold block";

/// Measures every row that is wanted.
pub(super) async fn measure(options: &Options) -> Result<Vec<Row>> {
    let directory = match &options.directory {
        Some(path) => tempfile::tempdir_in(path)?,
        None => tempfile::tempdir()?,
    };
    let signer =
        Signer { access_key: random_hex()?, secret_key: random_hex()?, region: options.upstream_region.clone() };
    let bench = Bench { options, rhythm: options.rhythm(), directory, signer };
    let mut rows = Vec::new();
    bench.memory(&mut rows).await?;
    bench.miss_fs(&mut rows).await?;
    bench.miss_s3(&mut rows).await?;
    bench.single_flight(&mut rows).await?;
    bench.lookups(&mut rows).await?;
    bench.transfers(&mut rows).await?;
    bench.staging(&mut rows).await?;
    bench.stall(&mut rows).await?;
    Ok(rows)
}

struct Bench<'o> {
    options: &'o Options,
    rhythm: Rhythm,
    directory: TempDir,
    signer: Signer,
}

impl Bench<'_> {
    async fn memory(&self, rows: &mut Vec<Row>) -> Result<()> {
        let wanted: Vec<_> = memory_rows().into_iter().filter(|row| self.options.wants(row.name)).collect();
        if wanted.is_empty() && !self.options.wants(PUT_ROW) {
            return Ok(());
        }
        // A quarter of it may wait for the upstream: more than a burst of PUTs brings.
        let gateway = self.gateway_on_fs("memory", "3GiB").await?;
        let mut filled = BTreeSet::new();
        for row in wanted {
            let bucket = format!("bench-{}", row.size_bytes);
            if filled.insert(row.size_bytes) {
                self.fill(gateway.address, &self.signer, &bucket, row.size_bytes).await?;
            }
            rows.push(self.memory_row(&row, &gateway, &bucket).await?);
        }
        if self.options.wants(PUT_ROW) {
            rows.push(self.memory_put(&gateway).await?);
        }
        Ok(())
    }

    async fn memory_row(&self, row: &MemoryRow, gateway: &Server, bucket: &str) -> Result<Row> {
        let (name, mut arguments) = match row.baseline {
            Baseline::Hyper => ("hyper", arguments("serve-hyper", row.size_bytes)),
            Baseline::HyperSameBuffer => ("hyper, same buffers", arguments("serve-hyper", row.size_bytes)),
            Baseline::Raw => ("raw sockets, same buffers", arguments("serve-raw", row.size_bytes)),
        };
        if !matches!(row.baseline, Baseline::Hyper) {
            arguments.push(format!("--send-buffer={SEND_BUFFER_BYTES}"));
        }
        let baseline = Server::baseline(&arguments)?;
        let reads = |server: SocketAddr| self.reads(&self.signer, server, bucket, &row.method, row.size_bytes);
        let subject = side("blockgate", reads(gateway.address)?, gateway);
        let baseline = side(name, reads(baseline.address)?, &baseline);
        let before = gateway.metric("blockgate_upstream_requests_total", &[]).await?;
        let mut done = self.compare(row.name, row.unit, &subject, &baseline).await?;
        let after = gateway.metric("blockgate_upstream_requests_total", &[]).await?;
        if after > before {
            return Err(
                format!("{}: {} requests to the upstream: not all came from memory", row.name, after - before).into()
            );
        }
        (done.bar, done.cpu_bar) = (row.ratio_bar.map(Bar::AtLeast), row.cpu_bar);
        Ok(done)
    }

    async fn memory_put(&self, gateway: &Server) -> Result<Row> {
        const BUCKET: &str = "bench-async";
        let size_bytes = 4 * MIB;
        self.create_bucket(gateway.address, &self.signer, BUCKET).await?;
        let baseline = Server::baseline(&arguments("serve-hyper", size_bytes))?;
        let bodies = objects(OBJECTS, size_bytes);
        // Each object twice: enough to measure, not more than may wait for the upstream.
        let writes =
            |server: SocketAddr| self.writes(&self.signer, server, BUCKET, &[&bodies[..], &bodies[..]].concat());
        let subject = side("blockgate", writes(gateway.address)?, gateway);
        let baseline = side("hyper that keeps its frames", writes(baseline.address)?, &baseline);
        // Pages and connections are warm on both sides.
        run(&baseline.load, Until::Once).await?;
        run(&subject.load, Until::Once).await?;
        let settled = UploadsDone { gateway };
        let results = compare(&subject, &baseline, Unit::Gib, self.rhythm, Some(Until::Once), &settled).await?;
        Ok(Row { bar: Some(Bar::AtLeast(0.85)), ..self.done(PUT_ROW, Unit::Gib, results) })
    }

    async fn miss_fs(&self, rows: &mut Vec<Row>) -> Result<()> {
        if !self.options.wants(MISS_FS_ROW) {
            return Ok(());
        }
        let size_bytes = 4 * MIB;
        // Half of what is read in turn: by least recent use, none of it is ever there when it is asked for again.
        let gateway = self.gateway_on_fs("miss", "128MiB").await?;
        self.fill(gateway.address, &self.signer, "bench-miss", size_bytes).await?;
        let files = self.folder("files")?;
        let mut arguments = arguments("serve-hyper", size_bytes);
        arguments.push(format!("--files={}", files.display()));
        let baseline = Server::baseline(&arguments)?;
        let reads = |server: SocketAddr| self.reads(&self.signer, server, "bench-miss", &Method::GET, size_bytes);
        let subject = side("blockgate", reads(gateway.address)?, &gateway);
        let baseline = side("hyper that reads files", reads(baseline.address)?, &baseline);
        rows.push(self.compare(MISS_FS_ROW, Unit::Gib, &subject, &baseline).await?);
        Ok(())
    }

    async fn miss_s3(&self, rows: &mut Vec<Row>) -> Result<()> {
        let Some(store) = S3Store::of(self.options)?.filter(|_| self.options.wants(MISS_S3_ROW)) else { return Ok(()) };
        let size_bytes = 4 * MIB;
        let bucket = format!("bench-{}", &random_hex()?[..8]);
        let gateway = self.gateway_on_s3(&store, "128MiB").await?;
        self.fill(gateway.address, &self.signer, &bucket, size_bytes).await?;
        let through = self.reads(&self.signer, gateway.address, &bucket, &Method::GET, size_bytes)?;
        let straight = self.reads(&store.signer, store.address, &bucket, &Method::GET, size_bytes)?;
        let subject = side("blockgate", through, &gateway);
        let baseline = Side { name: format!("{}, straight", store.name), load: straight, servers: Vec::new() };
        let row = self.compare(MISS_S3_ROW, Unit::Gib, &subject, &baseline).await?;
        rows.push(Row { bar: Some(Bar::AtLeast(0.9)), ..row });
        self.remove(gateway.address, &bucket).await
    }

    /// Not a race but a count: how many GETs reach the upstream when many readers ask for one cold block.
    async fn single_flight(&self, rows: &mut Vec<Row>) -> Result<()> {
        if !self.options.wants(SINGLE_FLIGHT_ROW) {
            return Ok(());
        }
        let size_bytes = 4 * MIB;
        let filling = self.gateway_on_fs("single-flight", "256MiB").await?;
        self.fill(filling.address, &self.signer, "bench-shared", size_bytes).await?;
        drop(filling);
        let gateway = self.gateway_on_fs("single-flight", "256MiB").await?;
        let reads = self.reads(&self.signer, gateway.address, "bench-shared", &Method::GET, size_bytes)?;
        let mut counts = Vec::new();
        for block in reads.requests.iter().take(SHARED_BLOCKS) {
            let requests = Arc::new(vec![block.clone(); SHARED_READERS]);
            let load = Load { server: gateway.address, connections: SHARED_READERS, requests };
            let gets = || gateway.metric("blockgate_upstream_requests_total", &["operation=\"get\""]);
            let before = gets().await?;
            run(&load, Until::Once).await?;
            counts.push(gets().await? - before);
        }
        let one = count("one for each block", vec![1.0; SHARED_BLOCKS]);
        let row = Row::new(SINGLE_FLIGHT_ROW, Unit::UpstreamGets, (count("blockgate", counts), one));
        rows.push(Row { bar: Some(Bar::AtMost(1.0)), ..row });
        Ok(())
    }

    async fn compare(&self, name: &str, unit: Unit, subject: &Side<'_>, baseline: &Side<'_>) -> Result<Row> {
        for side in [subject, baseline] {
            run(&side.load, Until::Once).await?;
        }
        let results = compare(subject, baseline, unit, self.rhythm, None, &Nothing).await?;
        Ok(self.done(name, unit, results))
    }

    fn done(&self, name: &str, unit: Unit, results: (SideResult, SideResult)) -> Row {
        eprintln!("measured: {name}");
        Row::new(name, unit, results)
    }

    async fn gateway_on_fs(&self, folder: &str, memory: &str) -> Result<Server> {
        let path = self.folder(folder)?.display().to_string();
        self.gateway(&[("MEMORY__CAPACITY", memory), ("UPSTREAM__PATH", &path)]).await
    }

    async fn gateway_on_s3(&self, store: &S3Store, memory: &str) -> Result<Server> {
        self.gateway(&[
            ("MEMORY__CAPACITY", memory),
            ("UPSTREAM__KIND", "s3"),
            ("UPSTREAM__ENDPOINT", &format!("http://{}", store.address)),
            ("UPSTREAM__REGION", &store.signer.region),
            ("UPSTREAM__ACCESS_KEY", &store.signer.access_key),
            ("UPSTREAM__SECRET_KEY", &store.signer.secret_key),
        ])
        .await
    }

    async fn gateway(&self, settings: &[(&str, &str)]) -> Result<Server> {
        let bucket = [("BUCKET__0__NAME", "*-async"), ("BUCKET__0__WRITE", "async")];
        let variables: Vec<_> = settings
            .iter()
            .chain(&bucket)
            .map(|(name, value)| (format!("BLOCKGATE__{name}"), (*value).to_owned()))
            .collect();
        Server::gateway(&self.options.gateway()?, &self.signer, &variables).await
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Creates the bucket and stores the objects; they are in memory afterwards, where there is room.
    async fn fill(&self, server: SocketAddr, signer: &Signer, bucket: &str, size_bytes: usize) -> Result<()> {
        self.create_bucket(server, signer, bucket).await?;
        let load = self.writes(signer, server, bucket, &objects(OBJECTS, size_bytes))?;
        run(&load, Until::Once).await?;
        Ok(())
    }

    async fn create_bucket(&self, server: SocketAddr, signer: &Signer, bucket: &str) -> Result<()> {
        let request = signer.prepare(Method::PUT, &format!("/{bucket}"), &server.to_string(), Bytes::new(), 0)?;
        client::once(server, &request).await?;
        Ok(())
    }

    async fn remove(&self, server: SocketAddr, bucket: &str) -> Result<()> {
        let deletes = self.prepare(&self.signer, server, bucket, &Method::DELETE, &vec![Bytes::new(); OBJECTS], 0)?;
        run(&deletes, Until::Once).await?;
        let request =
            self.signer.prepare(Method::DELETE, &format!("/{bucket}"), &server.to_string(), Bytes::new(), 0)?;
        client::once(server, &request).await?;
        Ok(())
    }

    fn reads(
        &self,
        signer: &Signer,
        server: SocketAddr,
        bucket: &str,
        method: &Method,
        size_bytes: usize,
    ) -> Result<Load> {
        let answer_bytes = if *method == Method::HEAD { 0 } else { size_bytes as u64 };
        self.prepare(signer, server, bucket, method, &vec![Bytes::new(); OBJECTS], answer_bytes)
    }

    fn writes(&self, signer: &Signer, server: SocketAddr, bucket: &str, bodies: &[Bytes]) -> Result<Load> {
        self.prepare(signer, server, bucket, &Method::PUT, bodies, 0)
    }

    /// One request for each body, to the objects in turn.
    fn prepare(
        &self,
        signer: &Signer,
        server: SocketAddr,
        bucket: &str,
        method: &Method,
        bodies: &[Bytes],
        answer_bytes: u64,
    ) -> Result<Load> {
        let host = server.to_string();
        let request = |(number, body): (usize, &Bytes)| {
            let path = format!("/{bucket}/{}", number % OBJECTS);
            signer.prepare(method.clone(), &path, &host, body.clone(), answer_bytes)
        };
        let requests = bodies.iter().enumerate().map(request).collect::<Result<Vec<Prepared>>>()?;
        Ok(Load { server, connections: CONNECTIONS, requests: Arc::new(requests) })
    }
}

fn arguments(command: &str, size_bytes: usize) -> Vec<String> {
    vec![command.to_owned(), format!("--objects={OBJECTS}"), format!("--size={size_bytes}")]
}

/// A count for each measurement, in place of a speed.
fn count(name: &str, counts: Vec<f64>) -> SideResult {
    SideResult { name: name.to_owned(), per_second: counts, cpu_s: None, latency: None }
}

fn side<'s>(name: &str, load: Load, server: &'s Server) -> Side<'s> {
    Side { name: name.to_owned(), load, servers: vec![server] }
}

/// Uploads of the last burst are no part of the next one.
struct UploadsDone<'s> {
    gateway: &'s Server,
}

impl Before for UploadsDone<'_> {
    async fn before(&self) -> Result<()> {
        while self.gateway.metric("blockgate_pending_upload_bytes", &[]).await? > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}
