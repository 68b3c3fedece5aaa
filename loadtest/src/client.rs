//! The client: a number of connections, each sending its next request when the last answer has been read to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::try_join_all;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Result;
use crate::sign::Prepared;

/// Requests to one server.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) server: SocketAddr,
    pub(crate) connections: usize,
    /// Sent in turn; each connection begins elsewhere.
    pub(crate) requests: Arc<Vec<Prepared>>,
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// Until this time has passed.
    Elapsed(Duration),
    /// Until every request has been sent once.
    Once,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) requests: u64,
    /// Bytes of bodies, sent and received.
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    /// Of each request, from its first byte sent to its last byte received; in no order.
    pub(crate) latencies: Vec<Duration>,
}

/// Sends requests over all connections.
///
/// # Errors
/// The first answer that is not what it should be: a benchmark of errors is worth nothing.
pub(crate) async fn run(load: &Load, until: Until) -> Result<Done> {
    let mut senders = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        senders.push(connect(load.server).await?);
    }
    let start = Instant::now();
    let workers = senders.into_iter().enumerate().map(|(worker, sender)| {
        let requests = load.requests.clone();
        let connections = load.connections;
        let task = tokio::spawn(work(sender, requests, worker, connections, start, until));
        async move { task.await? }
    });
    let done = try_join_all(workers).await?;
    let elapsed = start.elapsed();
    let sum = |part: fn(&Done) -> u64| done.iter().map(part).sum();
    let (requests, bytes) = (sum(|done| done.requests), sum(|done| done.bytes));
    Ok(Done { requests, bytes, elapsed, latencies: done.into_iter().flat_map(|done| done.latencies).collect() })
}

async fn connect(server: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn work(
    mut sender: SendRequest<Full<Bytes>>,
    requests: Arc<Vec<Prepared>>,
    worker: usize,
    workers: usize,
    start: Instant,
    until: Until,
) -> Result<Done> {
    let mut done = Done::default();
    let mut next = worker;
    loop {
        let over = match until {
            Until::Elapsed(time) => start.elapsed() >= time,
            Until::Once => next >= requests.len(),
        };
        if over {
            return Ok(done);
        }
        // Workers go round together, so that each object is asked for at the greatest distance from the last time.
        let prepared = &requests[next % requests.len()];
        next += workers;
        let begun = Instant::now();
        done.bytes += send(&mut sender, prepared).await? + prepared.body.len() as u64;
        done.latencies.push(begun.elapsed());
        done.requests += 1;
    }
}

async fn send(sender: &mut SendRequest<Full<Bytes>>, prepared: &Prepared) -> Result<u64> {
    sender.ready().await?;
    let mut response = sender.send_request(prepared.request()).await?;
    let status = response.status();
    let mut received = 0;
    let mut text = Vec::new();
    while let Some(frame) = response.frame().await {
        if let Some(data) = frame?.data_ref() {
            received += data.len() as u64;
            if !status.is_success() {
                text.extend_from_slice(data);
            }
        }
    }
    if !status.is_success() {
        return Err(format!("{} answers {status}: {}", prepared.method, String::from_utf8_lossy(&text)).into());
    }
    if received != prepared.answer_bytes {
        return Err(format!("{} answers {received} bytes, not {}", prepared.method, prepared.answer_bytes).into());
    }
    Ok(received)
}

/// A connection for requests one after the other whose answers are looked at.
#[derive(Debug)]
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(crate) async fn open(server: SocketAddr) -> Result<Self> {
        connect(server).await.map(Self)
    }

    /// Sends a request; its whole answer, whatever it is.
    pub(crate) async fn exchange(&mut self, prepared: &Prepared) -> Result<Response<Bytes>> {
        self.0.ready().await?;
        let (head, body) = self.0.send_request(prepared.request()).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }

    /// Sends a request; the body of its answer.
    pub(crate) async fn answer(&mut self, prepared: &Prepared) -> Result<Bytes> {
        let response = self.exchange(prepared).await?;
        let status = response.status();
        let body = response.into_body();
        if !status.is_success() {
            return Err(format!("{} answers {status}: {}", prepared.method, String::from_utf8_lossy(&body)).into());
        }
        Ok(body)
    }
}

/// Sends one request on a connection of its own.
pub(crate) async fn once(server: SocketAddr, prepared: &Prepared) -> Result<u64> {
    send(&mut connect(server).await?, prepared).await
}

/// GETs a text.
pub(crate) async fn text(server: SocketAddr, path: &str) -> Result<(u16, String)> {
    let request = Prepared::plain(http::Method::GET, path, &server.to_string(), Bytes::new(), 0)?;
    let mut sender = connect(server).await?;
    let response = sender.send_request(request.request()).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
