//! `blockgate serve`: from the configuration to the last response.
//!
//! Draining happens in this order: readiness says no; after `drain_grace` the listeners close, and idle connections with
//! them; requests in flight end, for at most `drain_timeout`; blocks acknowledged before they were uploaded are uploaded,
//! for at most as long again; the staging log is closed, and keeps what is not uploaded. A second signal ends the process at
//! once.

use std::io;
use std::time::Duration;

use blockgate_staging::Stats;
use blockgate_store::{Store, StoreError};
use blockgate_upstream::UpstreamError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::config::{self, Config};
use crate::ops::Ops;
use crate::server::{self, Answer, Listener, Phase, PhaseSender, PhaseWatch, Protocol, Shed, TlsError, phases};
use crate::welcome::{Address, Welcome};
use crate::wire::{Gateway, WireError};

/// Files open beside clients' connections: the upstream's, the process's.
const OTHER_FILES: u64 = 4_096;
/// Longest time that the staging log may take to be closed: a sick disk must not keep the process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The status of a process that a second signal ended.
const EXIT_FORCED: i32 = 130;

/// Why serving did not begin, or did not end well.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// A part can't be made.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// TLS can't be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address can't be listened on.
    #[error("[server] {setting}: cannot listen on {address}: {source}")]
    Listen {
        /// The setting that names it.
        setting: &'static str,
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel gives no signals.
    #[error("signals: {0}")]
    Signals(io::Error),
    /// Acknowledged blocks may not be in the upstream.
    #[error("uploads did not end within {0:?}: blocks written with write = \"async\" may be lost")]
    UploadsLeft(Duration),
}

/// Serves until a signal says otherwise.
///
/// # Errors
/// See [`ServeError`].
pub(crate) async fn serve(config: Config) -> Result<(), ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Signals)?;
    raise_open_files(u64::from(config.server.limits.connections_max) + segments(&config) + OTHER_FILES);
    // Addresses first: when another process has them, nothing else is touched.
    let sockets = Sockets::bind(&config.server)?;
    let gateway = tokio::select! {
        built = Gateway::build(&config) => built?,
        _ = signals.next() => return Ok(()),
    };
    ensure_default_buckets(&config, &gateway).await;

    let (sender, phase) = phases();
    let welcome = Welcome::new(&config, &gateway, sockets.addresses());
    let ops = Ops::new(gateway.upstream.clone(), gateway.metrics.clone(), phase.clone());
    tokio::spawn(axum::serve(sockets.ops, ops.router()).into_future());
    let listeners = start(&config.server, sockets.s3, &gateway, &phase);
    welcome.show();

    let signal = signals.next().await;
    sender.enter(Phase::Leaving);
    tracing::info!(signal, "draining");
    tokio::spawn(async move {
        let signal = signals.next().await;
        tracing::warn!(signal, "a second signal: not draining any longer");
        std::process::exit(EXIT_FORCED);
    });
    drain(&config.server, &sender, listeners, &gateway).await
}

/// Sockets bound, nothing served yet.
struct Sockets {
    s3: Vec<(TcpListener, Option<TlsAcceptor>, Option<String>)>,
    ops: TcpListener,
}

impl Sockets {
    fn bind(server: &config::Server) -> Result<Self, ServeError> {
        let listen = |setting, address: &str, send_buffer_bytes| {
            server::listen(address, send_buffer_bytes).map_err(|source| ServeError::Listen {
                setting,
                address: address.to_owned(),
                source,
            })
        };
        let tls = server.tls.as_ref().map(server::acceptor).transpose()?;
        let mut s3 = Vec::with_capacity(server.listeners.len());
        for listener in &server.listeners {
            let socket = listen("listen", &listener.listen, Some(server.limits.send_buffer_bytes))?;
            let tls = tls.clone().filter(|_| listener.tls);
            s3.push((socket, tls, listener.default_bucket.clone()));
        }
        Ok(Self { s3, ops: listen("ops_listen", &server.ops_listen, None)? })
    }

    fn addresses(&self) -> (Vec<Address>, Address) {
        let s3 = self.s3.iter().map(|(socket, tls, bucket)| Address::new(socket, tls.is_some(), bucket.as_deref()));
        (s3.collect(), Address::new(&self.ops, false, None))
    }
}

/// Starts the listeners; each ends when the process closes and its last connection has ended.
fn start(
    server: &config::Server,
    sockets: Vec<(TcpListener, Option<TlsAcceptor>, Option<String>)>,
    gateway: &Gateway,
    phase: &PhaseWatch,
) -> JoinSet<()> {
    let shed = Shed::new(server.limits.concurrent_requests_max as usize);
    let mut listeners = JoinSet::new();
    for (socket, tls, default_bucket) in sockets {
        let listener = Listener {
            socket,
            protocol: Protocol::new(&server.limits, tls),
            answer: Answer {
                handler: gateway.face(server, default_bucket.as_deref()),
                shed: shed.clone(),
                header_bytes_max: server.limits.header_bytes_max,
                metrics: gateway.metrics.clone(),
            },
            connections_max: server.limits.connections_max,
        };
        listeners.spawn(listener.serve(phase.clone()));
    }
    listeners
}

/// What follows once readiness says no.
async fn drain(
    server: &config::Server,
    sender: &PhaseSender,
    mut listeners: JoinSet<()>,
    gateway: &Gateway,
) -> Result<(), ServeError> {
    tokio::time::sleep(server.drain_grace).await;
    sender.enter(Phase::Closing);
    let all_ended = async { while listeners.join_next().await.is_some() {} };
    if tokio::time::timeout(server.drain_timeout, all_ended).await.is_err() {
        tracing::warn!(drain_timeout = ?server.drain_timeout, "requests in flight were cut");
    }
    let all_uploaded = tokio::time::timeout(server.drain_timeout, gateway.store.drain()).await.is_ok();
    close_staging(&gateway.store).await;
    if !all_uploaded && gateway.store.unprotected_bytes() > 0 {
        return Err(ServeError::UploadsLeft(server.drain_timeout));
    }
    tracing::info!("drained");
    Ok(())
}

/// Closes the staging log, where there is one, and tells what it keeps.
async fn close_staging(store: &Store) {
    if tokio::time::timeout(CLOSE_TIMEOUT, store.close()).await.is_err() {
        tracing::warn!("the staging log was not closed in time: nothing is lost, the next start reads more of it");
    }
    if let Some(Stats { pending_blocks: blocks @ 1.., pending_bytes: bytes, .. }) = store.staging_stats() {
        tracing::warn!(blocks, bytes, "blocks stay in staging until the next start uploads them: none is lost");
    }
}

/// A listener that stands for one bucket is of no use without it. On `fs` it is created; a shared store is only looked at.
async fn ensure_default_buckets(config: &Config, gateway: &Gateway) {
    for bucket in config.server.listeners.iter().filter_map(|listener| listener.default_bucket.as_deref()) {
        let outcome = match gateway.store.head_bucket(bucket).await {
            Err(StoreError::Upstream(UpstreamError::NoSuchBucket)) => gateway.store.create_bucket(bucket).await,
            there => there.map(|_| ()),
        };
        match outcome {
            Ok(()) | Err(StoreError::Upstream(UpstreamError::BucketExists)) => {}
            Err(error) => tracing::warn!(bucket, %error, "the bucket of a listener can't be used"),
        }
    }
}

/// Files that the staging log has open.
pub(crate) fn segments(config: &Config) -> u64 {
    config.staging.as_ref().map_or(0, |settings| settings.capacity_bytes / settings.segment_bytes)
}

/// Lets the process open as many files as the limits promise, where the machine allows it.
pub(crate) fn raise_open_files(wanted: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = Some(maximum.map_or(wanted, |maximum| maximum.min(wanted)));
    if setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_err() || current < Some(wanted) {
        tracing::warn!(
            wanted,
            allowed = current,
            "too few open files allowed for [server.limits] max_connections and the segments of [staging]"
        );
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
