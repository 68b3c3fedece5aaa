//! A face, and what its answers hold.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::response::Response;
use blockgate_api::frame::{self, Decoder, Event, FrameHeader};
use blockgate_api::rules::{GetRules, GetStep};
use blockgate_api::types::{GetRequest, Miss, PutHeader, PutResponse, StreamEnd};
use blockgate_api::{Crc64, ErrorBody, FRAMES_MEDIA_TYPE};
use blockgate_auth::{AccessKey, AccessKeys, Permission, Secret};
use blockgate_block::Arena;
use blockgate_kv::{Caller, Identity, KvFace, KvParts};
use blockgate_store::{BucketPolicies, BucketPolicy, Mode, Store, StoreParts};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{FaultUpstream, FsUpstream, Upstream};
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// May do everything.
pub(crate) const ADMIN: &str = "TESTADMIN";
/// May read `kv-*`.
pub(crate) const READER: &str = "TESTREADER";
pub(crate) const BUCKET: &str = "kv-bucket";
/// A passthrough bucket.
pub(crate) const PASSTHROUGH: &str = "pass-bucket";

/// A directory with buckets.
pub(crate) struct Disk {
    pub(crate) faults: Arc<FaultUpstream>,
    folder: Arc<TempDir>,
}

impl Disk {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let faults = Arc::new(FaultUpstream::new(Arc::new(FsUpstream::open(folder.path()).await.unwrap())));
        for bucket in [BUCKET, PASSTHROUGH] {
            faults.create_bucket(bucket).await.unwrap();
        }
        Self { faults, folder: Arc::new(folder) }
    }

    /// A gateway that knows nothing yet.
    pub(crate) fn gateway(&self) -> Gateway {
        self.gateway_with(64 << 20, BucketPolicy { max_block_bytes: 4 << 20, ..BucketPolicy::default() })
    }

    pub(crate) fn gateway_with(&self, memory_bytes: u64, policy: BucketPolicy) -> Gateway {
        let passthrough = BucketPolicy { mode: Mode::Passthrough, ..BucketPolicy::default() };
        let metrics = Metrics::new();
        let store = Store::new(StoreParts {
            upstream: self.faults.clone(),
            arena: Arena::new(memory_bytes).unwrap(),
            index_entries: 10_000,
            negative_ttl: Duration::from_secs(1),
            policies: BucketPolicies::new(vec![("pass-*".to_owned(), passthrough)], policy),
            metrics: metrics.clone(),
        });
        let identity = Identity {
            gateway_id: "g1".to_owned(),
            version: "0.0.0".to_owned(),
            started_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        };
        let face = KvFace::new(KvParts { store: store.clone(), keys: Arc::new(keys()), metrics, identity });
        Gateway { face, store, _folder: Arc::clone(&self.folder) }
    }
}

fn keys() -> AccessKeys {
    let key = |name: &str, buckets: &[&str], permissions: &[Permission]| AccessKey {
        access_key: name.into(),
        secret_key: Secret::new("secret-of-no-use".into()),
        tenant: None,
        buckets: buckets.iter().map(|&bucket| bucket.to_owned()).collect(),
        permissions: permissions.to_vec(),
    };
    AccessKeys::new(vec![key(ADMIN, &[], &[]), key(READER, &["kv-*"], &[Permission::Read])]).unwrap()
}

/// A face and the store below.
pub(crate) struct Gateway {
    pub(crate) face: KvFace,
    pub(crate) store: Arc<Store>,
    /// There as long as its gateways.
    _folder: Arc<TempDir>,
}

impl Gateway {
    pub(crate) async fn send(&self, request: Request<Body>, access_key: &str, is_promised: bool) -> Response {
        let caller = Caller { access_key: access_key.to_owned(), request_id: "R1".to_owned(), is_promised };
        self.face.call(request, caller).await
    }

    pub(crate) async fn post(&self, operation: &str, json: impl Into<Body>) -> Response {
        self.send(post_request(&format!("{BUCKET}/{operation}"), "application/json", json), ADMIN, false).await
    }

    /// A request that succeeds.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, operation: &str, json: &str) -> T {
        let (status, bytes) = whole(self.post(operation, json.to_owned()).await).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    }

    pub(crate) async fn put_frames(&self, query: &str, body: impl Into<Body>) -> Response {
        self.send(post_request(&format!("{BUCKET}/put{query}"), FRAMES_MEDIA_TYPE, body), ADMIN, false).await
    }

    /// Stores blocks, all of which must be taken.
    pub(crate) async fn put(&self, blocks: &[(&str, &[u8])]) {
        let (status, bytes) = whole(self.put_frames("", frames_of(blocks)).await).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
        let response: PutResponse = serde_json::from_slice(&bytes).unwrap();
        assert!(response.results.iter().all(|result| result.status == 200), "{response:?}");
    }

    pub(crate) async fn get(&self, request: &GetRequest) -> Got {
        let response = self.post("get", serde_json::to_vec(request).unwrap()).await;
        assert_eq!(response.status(), 200);
        let promised = ["x-kv-matched", "x-kv-bytes"]
            .map(|name| response.headers().get(name).map(|value| value.to_str().unwrap().parse().unwrap()));
        let (_, bytes) = whole(response).await;
        Got::read(request, promised, bytes)
    }
}

pub(crate) fn post_request(path: &str, media_type: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(format!("/_kv/v1/{path}")).header("content-type", media_type);
    request.body(body.into()).unwrap()
}

pub(crate) async fn whole(response: Response) -> (u16, Bytes) {
    (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes())
}

/// An error's status and code.
pub(crate) async fn refused(response: Response) -> (u16, String) {
    let (status, bytes) = whole(response).await;
    let body: ErrorBody = serde_json::from_slice(&bytes).expect("an error");
    assert_eq!(body.error.code.status().as_u16(), status);
    assert_eq!(body.error.request_id, "R1");
    (status, body.error.code.as_str().to_owned())
}

/// What a `get` delivered.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) promised: [Option<u64>; 2],
    /// Each block's bytes, as its parts came; those of blocks that missed are empty.
    pub(crate) blocks: Vec<Vec<u8>>,
    pub(crate) misses: Vec<Miss>,
    /// Index and stripe of each data frame.
    pub(crate) order: Vec<(u32, u32)>,
    pub(crate) end: StreamEnd,
}

impl Got {
    /// Reads a body, by the rules of the contract.
    pub(crate) fn read(request: &GetRequest, promised: [Option<u64>; 2], bytes: Bytes) -> Self {
        let mut rules = GetRules::new(request);
        let mut got = Self {
            promised,
            blocks: vec![Vec::new(); request.keys.len()],
            misses: Vec::new(),
            order: Vec::new(),
            end: StreamEnd::default(),
        };
        let mut decoder = Decoder::new(u64::MAX);
        decoder.feed(bytes);
        let (mut index, mut payload) = (0, Vec::new());
        while let Some(event) = decoder.next().unwrap() {
            match event {
                Event::Json(header, json) => match rules.json(&header, &json).unwrap() {
                    GetStep::Miss(miss) => got.misses.push(miss),
                    GetStep::End(end) => got.end = end,
                },
                Event::DataStart(header) => {
                    rules.data(&header).unwrap();
                    got.order.push((header.index, header.stripe));
                    index = header.index as usize;
                }
                Event::Data(bytes) => payload.extend_from_slice(&bytes),
                Event::DataEnd => {
                    rules.data_end(Crc64::of(&payload)).unwrap();
                    got.blocks[index].append(&mut payload);
                }
            }
        }
        decoder.finish().unwrap();
        got
    }
}

/// The frames of a `put`.
pub(crate) fn frames_of(blocks: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, (key, bytes)) in blocks.iter().enumerate() {
        let header = PutHeader { key: (*key).to_owned(), ..PutHeader::default() };
        body.extend(block_frames(index as u32, &header, bytes));
    }
    body.extend(end_of(blocks));
    body
}

pub(crate) fn block_frames(index: u32, header: &PutHeader, bytes: &[u8]) -> Vec<u8> {
    let data = FrameHeader::data(index, 0, bytes.len() as u64, Crc64::of(bytes)).encode();
    [&frame::put_header(index, header)[..], &data, bytes].concat()
}

pub(crate) fn end_of(blocks: &[(&str, &[u8])]) -> Bytes {
    let bytes = blocks.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    frame::end(StreamEnd { blocks: blocks.len() as u64, bytes })
}

/// Bytes that differ from block to block.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((at >> 8) as u8)).collect()
}

pub(crate) fn strings(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}
