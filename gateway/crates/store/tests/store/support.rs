//! Stores to test with, and short ways to use them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{Arena, Attributes, BlockKey, Crc64, KeyList, MissReason};
use blockgate_store::{
    Body, BucketPolicies, BucketPolicy, Limits, Mode, OnUpstreamError, RangeSpec, ReadRequest, Result, Served,
    StagingEngine, StagingError, StagingSettings, Store, StoreError, StoreParts, WriteMode, WriteRequest, Written,
};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{BodyError, ByteStream, Payload, Upstream};
use bytes::Bytes;
use futures::StreamExt;

use crate::double::{Double, Handle};

/// Largest block in the tests' buckets.
pub const BLOCK_MAX: usize = 1 << 20;

/// A store on a double, with limits that let nothing wait long.
pub struct Rig {
    pub double: Arc<Double>,
    pub store: Arc<Store>,
    pub metrics: Metrics,
}

pub fn limits() -> Limits {
    Limits {
        first_byte: Duration::from_secs(60),
        between_chunks: Duration::from_secs(60),
        upload_pause: Duration::from_millis(1),
        heap_wait: Duration::from_secs(60),
        ..Limits::for_arena(16 << 20)
    }
}

/// Buckets: `b` as blocks are kept by default, and others by what is different.
pub fn policies() -> BucketPolicies {
    let kv = BucketPolicy { max_block_bytes: BLOCK_MAX as u64, ..BucketPolicy::default() };
    let with = |change: &dyn Fn(&mut BucketPolicy)| {
        let mut policy = kv.clone();
        change(&mut policy);
        policy
    };
    let rules = [
        ("async", with(&|p| p.write = WriteMode::Async)),
        ("back", with(&|p| p.write = WriteMode::Back)),
        ("no-such-async", with(&|p| p.write = WriteMode::Async)),
        ("past", with(&|p| p.mode = Mode::Passthrough)),
        ("strict", with(&|p| p.require_fingerprint = true)),
        ("errors", with(&|p| p.on_upstream_error = OnUpstreamError::Error)),
        ("minute", with(&|p| p.ttl = Some(Duration::from_secs(60)))),
        ("instant", with(&|p| p.deadline = Some(Duration::ZERO))),
    ];
    BucketPolicies::new(rules.into_iter().map(|(name, policy)| (name.to_owned(), policy)).collect(), kv)
}

pub fn rig() -> Rig {
    rig_with(limits(), 16 << 20, Duration::from_secs(3600))
}

pub fn rig_with(limits: Limits, arena_bytes: u64, negative_ttl: Duration) -> Rig {
    rig_on(Double::new(), limits, arena_bytes, negative_ttl)
}

pub fn rig_on(double: Arc<Double>, limits: Limits, arena_bytes: u64, negative_ttl: Duration) -> Rig {
    let metrics = Metrics::new();
    let upstream: Arc<dyn Upstream> = Arc::new(Handle(Arc::clone(&double)));
    let store = store_on(upstream, limits, arena_bytes, negative_ttl, metrics.clone());
    Rig { double, store, metrics }
}

pub fn store_on(
    upstream: Arc<dyn Upstream>,
    limits: Limits,
    arena_bytes: u64,
    negative_ttl: Duration,
    metrics: Metrics,
) -> Arc<Store> {
    Store::with_limits(parts_on(upstream, arena_bytes, negative_ttl, metrics), limits)
}

pub fn parts_on(upstream: Arc<dyn Upstream>, arena_bytes: u64, negative_ttl: Duration, metrics: Metrics) -> StoreParts {
    StoreParts {
        upstream,
        arena: Arena::new(arena_bytes).unwrap(),
        index_entries: 10_000,
        negative_ttl,
        policies: policies(),
        metrics,
    }
}

/// A log in this directory.
pub fn staging_in(path: &Path, segment_bytes: u64) -> StagingSettings {
    StagingSettings {
        path: path.to_owned(),
        capacity_bytes: 16 * segment_bytes,
        segment_bytes,
        engine: StagingEngine::Auto,
        daily_write_bytes: None,
        pending_bytes_max: 8 * segment_bytes,
        probe_every: Duration::from_secs(5),
    }
}

/// Opens a store, once the gateway before it has let go of the log, which it does with the last thing that was under way.
pub async fn open_after(mut open: impl FnMut() -> std::result::Result<Arc<Store>, StagingError>) -> Arc<Store> {
    loop {
        match open() {
            Ok(store) => return store,
            Err(StagingError::InUse(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Rig {
    /// Another gateway on the same upstream, which knows nothing yet.
    pub fn another(&self) -> Self {
        rig_on(Arc::clone(&self.double), limits(), 16 << 20, Duration::from_secs(3600))
    }

    pub async fn put(&self, key: &str, bytes: &[u8]) -> Written {
        self.put_with(key, bytes, WriteRequest::default()).await.unwrap()
    }

    pub async fn put_with(&self, key: &str, bytes: &[u8], request: WriteRequest) -> Result<Written> {
        self.store.put(&named(key), request, Payload::Bytes(Bytes::copy_from_slice(bytes))).await
    }

    pub async fn get(&self, key: &str) -> Result<Served> {
        self.store.get(&named(key), ReadRequest::default()).await
    }

    /// All bytes of an object.
    pub async fn bytes(&self, key: &str) -> Bytes {
        read(self.get(key).await.unwrap()).await.unwrap()
    }

    pub async fn head(&self, key: &str) -> Result<blockgate_store::Found> {
        self.store.head(&named(key), ReadRequest::default()).await
    }

    /// The value of a metric's line.
    pub fn metric(&self, line: &str) -> u64 {
        let text = self.metrics.render();
        let value = text.lines().find_map(|l| l.strip_prefix(line)?.trim().parse::<f64>().ok());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        value.map_or(0, |value| value as u64)
    }
}

/// `key` in bucket `b`, or `bucket:key`.
pub fn named(key: &str) -> BlockKey {
    let (bucket, key) = key.split_once(':').unwrap_or(("b", key));
    BlockKey::new(bucket, key).unwrap()
}

/// Keys in bucket `b`.
pub fn key_list(keys: &[&str]) -> KeyList {
    KeyList::new("b", "", "", keys.iter().map(|&key| key.to_owned()).collect()).unwrap()
}

pub async fn read(served: Served) -> std::result::Result<Bytes, BodyError> {
    let len = served.range.end - served.range.start;
    let bytes = match served.body {
        Body::Bytes(bytes) => bytes,
        Body::Stream(stream) => collect(stream).await?,
    };
    assert_eq!(bytes.len() as u64, len, "a body is as long as its range");
    Ok(bytes)
}

pub async fn collect(mut stream: ByteStream) -> std::result::Result<Bytes, BodyError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        assert!(!chunk.is_empty(), "no chunk is empty");
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

pub fn stream_of(body: Body) -> ByteStream {
    match body {
        Body::Stream(stream) => stream,
        Body::Bytes(_) => panic!("the bytes are all there"),
    }
}

/// The reason of a miss.
pub fn missed<T>(result: Result<T>) -> MissReason {
    match result {
        Err(StoreError::Miss(reason)) => reason,
        Err(error) => panic!("not a miss: {error}"),
        Ok(_) => panic!("a hit"),
    }
}

pub fn refused<T>(result: Result<T>) -> StoreError {
    match result {
        Err(error) => error,
        Ok(_) => panic!("not refused"),
    }
}

/// Bytes that differ at every place and for every seed.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub fn etag_of(bytes: &[u8]) -> String {
    format!("{}{:016x}-1", Crc64::of(bytes), bytes.len())
}

pub fn meta(entries: &[(&str, &str)]) -> Attributes {
    let user = entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Attributes { user, ..Attributes::default() }
}

pub fn with_meta(entries: &[(&str, &str)]) -> WriteRequest {
    WriteRequest { attributes: meta(entries), ..WriteRequest::default() }
}

pub fn tags(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub fn range(first: u64, last: u64) -> ReadRequest {
    ReadRequest { range: Some(RangeSpec::From { first, last: Some(last) }), ..ReadRequest::default() }
}

/// Equal, without printing a block where they are not.
#[track_caller]
pub fn same(got: impl AsRef<[u8]>, expected: impl AsRef<[u8]>) {
    let (got, expected) = (got.as_ref(), expected.as_ref());
    assert_eq!(got.len(), expected.len(), "lengths differ");
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");
}

/// Lets every task run until none can go on.
pub async fn settle() {
    for _ in 0..3000 {
        tokio::task::yield_now().await;
    }
}
