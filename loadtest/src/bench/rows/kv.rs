//! The KV extension: one request in place of one a block.

use std::time::Instant;

use blockgate_api::frame::{self, HEADER_BYTES};
use blockgate_api::types::{GetMode, GetRequest, LookupRequest, LookupResponse, StreamEnd};
use blockgate_sdk::{Client, LoadOptions, LookupOptions};

use super::*;
use crate::bench::compare::alternate;
use crate::client::Connection;
use crate::delay::Proxy;

/// Keys of a lookup.
const CHAIN: usize = 4_000;
/// How many of them are there, where the gateway knows none of them.
const COLD_PRESENT: usize = 2_500;
/// HEADs that are measured to tell how long [`CHAIN`] of them would take.
const COLD_HEADS: usize = 100;
/// How far away the upstream is.
const UPSTREAM_DELAY: Duration = Duration::from_millis(5);
const BLOCK_BYTES: usize = 64 * KIB;

const INDEXED_ROW: &str = "lookup of 4,000 keys, all indexed";
const INDEXED_16_ROW: &str = "lookup of 4,000 keys, all indexed, against HEAD × 16";
const INDEXED_P50_ROW: &str = "lookup of 4,000 keys, all indexed: server p50";
const COLD_ROW: &str = "lookup of 4,000 keys, cold, upstream at 5 ms";
const COLD_ROUNDS_ROW: &str = "lookup of 4,000 keys, cold: round trips deep";
const COLD_REQUESTS_ROW: &str = "lookup of 4,000 keys, cold: upstream requests";
const BATCH_ROW: &str = "batch GET 64 × 64 KiB, 1 client";
const PREFIX_ROW: &str = "fused prefix GET, 64 × 64 KiB, 1 client";
const PREFIX_SDK_ROW: &str = "fused prefix GET, 64 × 64 KiB, Rust SDK";

impl Bench<'_> {
    pub(super) async fn lookups(&self, rows: &mut Vec<Row>) -> Result<()> {
        if [INDEXED_ROW, INDEXED_16_ROW, INDEXED_P50_ROW].iter().any(|row| self.options.wants(row)) {
            self.lookup_indexed(rows).await?;
        }
        if [COLD_ROW, COLD_ROUNDS_ROW, COLD_REQUESTS_ROW].iter().any(|row| self.options.wants(row)) {
            self.lookup_cold(rows).await?;
        }
        Ok(())
    }

    async fn lookup_indexed(&self, rows: &mut Vec<Row>) -> Result<()> {
        const BUCKET: &str = "bench-lookup";
        let gateway = self.gateway_on_fs("lookup", "256MiB").await?;
        self.fill_chain(gateway.address, BUCKET, CHAIN).await?;
        let lookup = self.lookup_of(&gateway, BUCKET)?;
        let requests = async || gateway.metric("blockgate_upstream_requests_total", &[]).await;
        let before = requests().await?;
        for (row, connections, bar) in
            [(INDEXED_ROW, 1, Some(Bar::AtLeast(100.0))), (INDEXED_16_ROW, CONNECTIONS, None)]
        {
            let heads = self.chain(gateway.address, BUCKET, &Method::HEAD, CHAIN, connections, 0)?;
            let results = alternate(
                self.rhythm.pairs,
                ("blockgate", async || lookups_per_second(&gateway, &lookup, self.rhythm.each, CHAIN).await),
                ("4,000 HEADs", async || Ok(1.0 / run(&heads, Until::Once).await?.elapsed.as_secs_f64())),
            );
            rows.push(Row { bar, ..self.done(row, Unit::Chains, results.await?) });
        }
        let asked = requests().await? - before;
        if asked > 0.0 {
            return Err(format!("{INDEXED_ROW}: {asked} requests to the upstream: not all was indexed").into());
        }
        let p50 = gateway.median("blockgate_lookup_seconds").await?.ok_or("the gateway counted no lookup")?;
        let results = (count("blockgate", vec![p50 * 1e3]), count("half a millisecond", vec![0.5]));
        rows.push(Row { bar: Some(Bar::AtMost(1.0)), ..self.done(INDEXED_P50_ROW, Unit::Milliseconds, results) });
        Ok(())
    }

    /// Each measurement has a gateway of its own, which has just been started.
    async fn lookup_cold(&self, rows: &mut Vec<Row>) -> Result<()> {
        let (store, filling) = match S3Store::of(self.options)? {
            Some(store) => {
                let filling = self.gateway_on_s3(&store, "256MiB").await?;
                (store, filling)
            }
            None => {
                // blockgate itself is an S3 store.
                let near = self.gateway_on_fs("far-away", "256MiB").await?;
                let store = S3Store { name: "blockgate".into(), address: near.address, signer: self.signer.clone() };
                (store, near)
            }
        };
        let bucket = format!("bench-{}", &random_hex()?[..8]);
        self.fill_chain(filling.address, &bucket, COLD_PRESENT).await?;
        let proxy = Proxy::start(store.address, UPSTREAM_DELAY).await?;
        let far = S3Store { address: proxy.address, ..store };
        let (mut rounds, mut asked) = (Vec::new(), Vec::new());
        let lookup = async || {
            let gateway = self.gateway_on_s3(&far, "256MiB").await?;
            let requests = async || gateway.metric("blockgate_upstream_requests_total", &[]).await;
            let (lookup, before) = (self.lookup_of(&gateway, &bucket)?, requests().await?);
            let per_second = lookups_per_second(&gateway, &lookup, Duration::ZERO, COLD_PRESENT).await?;
            asked.push(requests().await? - before);
            rounds.push(gateway.metric("blockgate_lookup_upstream_rounds_sum", &[]).await?);
            Ok(per_second)
        };
        let heads = async || {
            let gateway = self.gateway_on_s3(&far, "256MiB").await?;
            let heads = self.chain(gateway.address, &bucket, &Method::HEAD, COLD_HEADS, 1, 0)?;
            let elapsed = run(&heads, Until::Once).await?.elapsed;
            Ok(COLD_HEADS as f64 / elapsed.as_secs_f64() / CHAIN as f64)
        };
        let name = format!("4,000 HEADs one by one (from {COLD_HEADS})");
        let results = alternate(self.rhythm.pairs, ("blockgate", lookup), (&name, heads)).await?;
        rows.push(Row { bar: Some(Bar::AtLeast(100.0)), ..self.done(COLD_ROW, Unit::Chains, results) });
        let four = vec![4.0; rounds.len()];
        let results = (count("blockgate", rounds), count("at most", four));
        rows.push(Row { bar: Some(Bar::AtMost(1.0)), ..self.done(COLD_ROUNDS_ROW, Unit::Rounds, results) });
        let heads = vec![CHAIN as f64; asked.len()];
        let results = (count("blockgate", asked), count("one a key", heads));
        rows.push(self.done(COLD_REQUESTS_ROW, Unit::Rounds, results));
        let deletes = self.chain(filling.address, &bucket, &Method::DELETE, COLD_PRESENT, CONNECTIONS, 0)?;
        run(&deletes, Until::Once).await?;
        Ok(())
    }

    pub(super) async fn transfers(&self, rows: &mut Vec<Row>) -> Result<()> {
        const BUCKET: &str = "bench-batch";
        if ![BATCH_ROW, PREFIX_ROW, PREFIX_SDK_ROW].iter().any(|row| self.options.wants(row)) {
            return Ok(());
        }
        let gateway = self.gateway_on_fs("batch", "256MiB").await?;
        self.fill(gateway.address, &self.signer, BUCKET, BLOCK_BYTES).await?;
        let gets = self.chain(gateway.address, BUCKET, &Method::GET, OBJECTS, 1, BLOCK_BYTES as u64)?;
        let heads = self.chain(gateway.address, BUCKET, &Method::HEAD, OBJECTS, 1, 0)?;
        let both = heads.requests.iter().zip(gets.requests.iter()).flat_map(|(head, get)| [head.clone(), get.clone()]);
        let both = Load { requests: Arc::new(both.collect()), ..gets.clone() };
        for (row, mode, single, name, bar) in [
            (BATCH_ROW, GetMode::All, gets, "64 GETs", 2.0),
            (PREFIX_ROW, GetMode::Prefix, both, "HEAD + GET a block", 5.0),
        ] {
            if self.options.wants(row) {
                let batch = side("blockgate", self.batch(&gateway, BUCKET, mode)?, &gateway);
                let done = self.compare(row, Unit::Gib, &batch, &side(name, single, &gateway)).await?;
                rows.push(Row { bar: Some(Bar::AtLeast(bar)), ..done });
            }
        }
        if self.options.wants(PREFIX_SDK_ROW) {
            rows.push(self.prefix_by_sdk(&gateway, BUCKET).await?);
        }
        Ok(())
    }

    /// Both sides by the same client, which verifies every block and copies it into the caller's buffer.
    async fn prefix_by_sdk(&self, gateway: &Server, bucket: &str) -> Result<Row> {
        let client = Client::builder()
            .endpoint(format!("http://{}", gateway.address))
            .access_key(&self.signer.access_key)
            .secret_key(&self.signer.secret_key)
            .region(&self.signer.region)
            .bucket(bucket)
            .build()?;
        let keys: Vec<String> = (0..OBJECTS).map(|number| number.to_string()).collect();
        let fused = async |buffers: &mut [Vec<u8>]| load(&client, &keys, buffers).await;
        let single = async |buffers: &mut [Vec<u8>]| {
            let mut bytes = 0;
            for (key, buffer) in keys.chunks(1).zip(buffers.chunks_mut(1)) {
                let found = client.lookup(key, &LookupOptions::default()).await;
                if found.matched != 1 {
                    return Err(format!("block {key:?} is a miss: {:?}", found.miss).into());
                }
                bytes += load(&client, key, buffer).await?;
            }
            Ok(bytes)
        };
        let each = self.rhythm.each;
        let (fused, single) =
            (async || gib_per_second(each, &fused).await, async || gib_per_second(each, &single).await);
        let results = alternate(self.rhythm.pairs, ("blockgate", fused), ("lookup + get a block", single)).await?;
        Ok(Row { bar: Some(Bar::AtLeast(5.0)), ..self.done(PREFIX_SDK_ROW, Unit::Gib, results) })
    }

    /// Stores the blocks of a chain, small ones.
    async fn fill_chain(&self, server: SocketAddr, bucket: &str, blocks: usize) -> Result<()> {
        self.create_bucket(server, &self.signer, bucket).await?;
        run(&self.chain(server, bucket, &Method::PUT, blocks, CONNECTIONS, 0)?, Until::Once).await?;
        Ok(())
    }

    /// One request for each block of a chain. PUTs have a small body.
    fn chain(
        &self,
        server: SocketAddr,
        bucket: &str,
        method: &Method,
        blocks: usize,
        connections: usize,
        answer_bytes: u64,
    ) -> Result<Load> {
        let body = if *method == Method::PUT { Bytes::from(vec![7; KIB]) } else { Bytes::new() };
        let host = server.to_string();
        let request = |number| {
            let path = format!("/{bucket}/{number}");
            self.signer.prepare(method.clone(), &path, &host, body.clone(), answer_bytes)
        };
        let requests = (0..blocks).map(request).collect::<Result<Vec<Prepared>>>()?;
        Ok(Load { server, connections, requests: Arc::new(requests) })
    }

    fn lookup_of(&self, gateway: &Server, bucket: &str) -> Result<Prepared> {
        let keys = (0..CHAIN).map(|number| number.to_string()).collect();
        self.post(gateway, bucket, "lookup", &LookupRequest { keys, ..LookupRequest::default() }, 0)
    }

    /// All objects in one request.
    fn batch(&self, gateway: &Server, bucket: &str, mode: GetMode) -> Result<Load> {
        let keys = (0..OBJECTS).map(|number| number.to_string()).collect();
        let end = frame::end(StreamEnd { blocks: OBJECTS as u64, bytes: (OBJECTS * BLOCK_BYTES) as u64 });
        let answer_bytes = (OBJECTS * (HEADER_BYTES + BLOCK_BYTES) + end.len()) as u64;
        let get =
            self.post(gateway, bucket, "get", &GetRequest { keys, mode, ..GetRequest::default() }, answer_bytes)?;
        Ok(Load { server: gateway.address, connections: 1, requests: Arc::new(vec![get]) })
    }

    pub(super) fn post(
        &self,
        gateway: &Server,
        bucket: &str,
        operation: &str,
        request: &impl serde::Serialize,
        answer_bytes: u64,
    ) -> Result<Prepared> {
        let path = format!("{}/{bucket}/{operation}", blockgate_api::BASE_PATH);
        let body = serde_json::to_vec(request)?.into();
        Ok(self.signer.prepare(Method::POST, &path, &gateway.address.to_string(), body, answer_bytes)?.json())
    }
}

/// Lookups one after the other for this time, at least one, each of which must match so many blocks.
async fn lookups_per_second(gateway: &Server, lookup: &Prepared, each: Duration, matched: usize) -> Result<f64> {
    let mut connection = Connection::open(gateway.address).await?;
    let (start, mut lookups) = (Instant::now(), 0.0);
    while lookups == 0.0 || start.elapsed() < each {
        let answer: LookupResponse = serde_json::from_slice(&connection.answer(lookup).await?)?;
        if answer.matched != matched as u64 {
            return Err(format!("a lookup matches {} blocks, not {matched}: {answer:?}", answer.matched).into());
        }
        lookups += 1.0;
    }
    Ok(lookups / start.elapsed().as_secs_f64())
}

/// Loads blocks, all of which must be there; their bytes.
async fn load(client: &Client, keys: &[String], buffers: &mut [Vec<u8>]) -> Result<u64> {
    let outcome = client.get_into(keys, buffers, &LoadOptions::default()).await;
    if outcome.loaded != keys.len() {
        return Err(format!("{} of {} blocks loaded: {:?}", outcome.loaded, keys.len(), outcome.misses).into());
    }
    Ok(outcome.bytes)
}

/// Loads all blocks again and again for this time.
async fn gib_per_second(each: Duration, load: impl AsyncFn(&mut [Vec<u8>]) -> Result<u64>) -> Result<f64> {
    let mut buffers = vec![vec![0; BLOCK_BYTES]; OBJECTS];
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < each {
        bytes += load(&mut buffers).await?;
    }
    Ok(bytes as f64 / f64::from(1 << 30) / start.elapsed().as_secs_f64())
}
