//! A gateway that fails as it is told: what no real one does on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use blockgate_api::frame::{FrameHeader, end, miss};
use blockgate_api::types::{
    ExistsRequest, ExistsResponse, GetMode, GetOrder, GetRequest, LookupRequest, LookupResponse, Miss, PutResponse,
    PutResult, StatsResponse, StreamEnd, TierCounts,
};
use blockgate_api::{Crc64, ErrorBody, ErrorCode, ErrorDetail, FRAMES_MEDIA_TYPE, MissReason};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use blockgate_sdk::{Builder, Client};

/// How a gateway answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Refuses with the code's status.
    Refuse(ErrorCode),
    /// Answers a status without a body that could be understood.
    Status(u16),
    /// Never answers.
    Stall,
    /// Answers, then stalls after so many bytes of the body.
    StallAfter(usize),
    /// Closes the connection after so many bytes of the body.
    CutAfter(usize),
    /// The head is right, and the body that of another program.
    Garbage,
    /// The checksum of this frame is another.
    WrongCrc(usize),
    /// This frame says another index.
    WrongIndex(usize),
    /// The last frame never comes, though the body ends.
    NoEnd,
    /// Says it matches more than was asked for.
    Boast,
}

/// A running double.
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    server: JoinHandle<()>,
}

struct State {
    blocks: Mutex<BTreeMap<String, Bytes>>,
    fault: Mutex<Fault>,
    requests: AtomicUsize,
    last_get: Mutex<GetRequest>,
}

impl Double {
    /// Holds blocks `k0`, `k1` … of these lengths, each filled with its number.
    pub(crate) async fn start(lengths: &[usize]) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), lengths).await
    }

    pub(crate) async fn listen(address: SocketAddr, lengths: &[usize]) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let block = |(index, len): (usize, &usize)| (format!("k{index}"), vec![index as u8; *len].into());
        let state = Arc::new(State {
            blocks: Mutex::new(lengths.iter().enumerate().map(block).collect()),
            fault: Mutex::new(Fault::None),
            requests: AtomicUsize::new(0),
            last_get: Mutex::default(),
        });
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, state.clone()));
        Self { address, state, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn fails(&self, fault: Fault) {
        *self.state.fault.lock() = fault;
    }

    pub(crate) fn remove(&self, key: &str) {
        self.state.blocks.lock().remove(key);
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn last_get(&self) -> GetRequest {
        self.state.last_get.lock().clone()
    }

    /// Ends it, its connections too.
    pub(crate) async fn die(mut self) -> SocketAddr {
        self.server.abort();
        let _ = (&mut self.server).await;
        self.address
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A client of these.
pub(crate) fn builder(doubles: &[&Double]) -> Builder {
    let urls = doubles.iter().map(|double| double.url());
    let client = Client::builder().endpoints(urls).access_key("AK").secret_key("secret").bucket("kv");
    client.deadline(Duration::from_secs(20))
}

/// A clock for breakers, which only a test moves.
#[derive(Clone)]
pub(crate) struct ManualClock(Arc<Mutex<Instant>>);

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock() += by;
    }

    pub(crate) fn source(&self) -> impl Fn() -> Instant + Send + Sync + 'static {
        let now = self.0.clone();
        move || *now.lock()
    }
}

type Body = BoxBody<Bytes, std::io::Error>;

async fn serve(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, and its connections with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let state = state.clone();
        let service = hyper::service::service_fn(move |request| {
            let state = state.clone();
            async move { Ok::<_, Infallible>(answer(&state, request).await) }
        });
        connections.spawn(async move {
            // A cut body ends its connection with an error, as is meant.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer(state: &State, request: Request<Incoming>) -> Response<Body> {
    assert!(request.headers()["authorization"].to_str().unwrap().starts_with("AWS4-HMAC-SHA256 Credential=AK/"));
    let operation = request.uri().path().strip_prefix("/_kv/v1/kv/").unwrap().to_owned();
    if operation != "stats" {
        state.requests.fetch_add(1, Ordering::Relaxed);
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let fault = *state.fault.lock();
    match fault {
        Fault::Stall => futures::future::pending().await,
        Fault::Refuse(code) => {
            let error = ErrorDetail { code, message: "as told".into(), request_id: "r1".into() };
            let body = serde_json::to_vec(&ErrorBody { error }).unwrap();
            Response::builder().status(code.status()).body(full(body)).unwrap()
        }
        Fault::Status(status) => Response::builder().status(status).body(full("<Error/>")).unwrap(),
        _ if operation == "get" => get(state, &serde_json::from_slice(&body).unwrap(), fault),
        Fault::Garbage => Response::new(full("{\"matched\":")),
        _ => Response::new(full(json(state, &operation, &body, fault))),
    }
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

fn json(state: &State, operation: &str, body: &[u8], fault: Fault) -> Vec<u8> {
    let blocks = state.blocks.lock();
    match operation {
        "lookup" => {
            let request: LookupRequest = serde_json::from_slice(body).unwrap();
            let matched = request.keys.iter().take_while(|key| blocks.contains_key(*key)).count() as u64;
            let all = request.keys.len() as u64;
            serde_json::to_vec(&LookupResponse {
                matched: if fault == Fault::Boast { all + 1 } else { matched },
                bytes: matched,
                tiers: TierCounts { memory: matched, ..TierCounts::default() },
                miss: (matched < all).then_some(Miss { index: matched, reason: MissReason::Absent }),
                estimate_ms: 1.5,
                lease_expires_at: None,
            })
        }
        "exists" => {
            let request: ExistsRequest = serde_json::from_slice(body).unwrap();
            let present = request.keys.iter().map(|key| blocks.contains_key(key)).collect();
            serde_json::to_vec(&ExistsResponse { present })
        }
        "put" => {
            let sound = PutResult { status: 200, etag: Some("e".into()), code: None, message: None };
            let full = PutResult { status: 507, etag: None, code: Some(ErrorCode::InsufficientStorage), message: None };
            serde_json::to_vec(&PutResponse { results: vec![sound, full] })
        }
        "stats" => serde_json::to_vec(&StatsResponse::default()),
        other => panic!("{other}"),
    }
    .unwrap()
}

fn get(state: &State, request: &GetRequest, fault: Fault) -> Response<Body> {
    *state.last_get.lock() = request.clone();
    let blocks = state.blocks.lock();
    let mut frames: Vec<Bytes> = Vec::new();
    let mut total = StreamEnd::default();
    for (index, key) in (0..).zip(&request.keys) {
        let Some(bytes) = blocks.get(key) else {
            frames.push(miss(index, MissReason::Absent));
            if request.mode == GetMode::Prefix {
                break;
            }
            continue;
        };
        let position = frames.len();
        let crc64 = Crc64::from_u64(Crc64::of(bytes).to_u64() ^ u64::from(fault == Fault::WrongCrc(position)));
        let index = if fault == Fault::WrongIndex(position) { index + 1 } else { index };
        let header = FrameHeader::data(index, 0, bytes.len() as u64, crc64);
        frames.push([&header.encode()[..], bytes].concat().into());
        total.blocks += 1;
        total.bytes += bytes.len() as u64;
    }
    if request.order == GetOrder::Ready {
        frames.reverse();
    }
    let matched = if fault == Fault::Boast { request.keys.len() as u64 + 1 } else { total.blocks };
    if fault != Fault::NoEnd {
        frames.push(end(total));
    }
    let whole: Bytes = if fault == Fault::Garbage { "<html>".into() } else { frames.concat().into() };
    let body = match fault {
        Fault::StallAfter(bytes) => chunks(whole.slice(..bytes)).chain(stream::pending()).left_stream(),
        Fault::CutAfter(bytes) => {
            // Later than what stands before it, which would be discarded with the connection.
            let cut = stream::once(async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(std::io::Error::other("cut"))
            });
            chunks(whole.slice(..bytes)).chain(cut).left_stream().right_stream()
        }
        _ => chunks(whole).right_stream().right_stream(),
    };
    let head = Response::builder().header("content-type", FRAMES_MEDIA_TYPE);
    let head = match (request.mode, fault) {
        (GetMode::All, fault) if fault != Fault::Boast => head,
        _ => head.header("x-kv-matched", matched).header("x-kv-bytes", total.bytes),
    };
    head.body(BodyExt::boxed(StreamBody::new(body))).unwrap()
}

/// Cut where frames are not.
fn chunks(bytes: Bytes) -> impl futures::Stream<Item = Result<Frame<Bytes>, std::io::Error>> {
    let pieces: Vec<Bytes> = bytes.chunks(1000).map(Bytes::copy_from_slice).collect();
    stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece))))
}
