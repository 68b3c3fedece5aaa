//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::answer::{Answer, Handler};
use super::phase::PhaseWatch;
use super::stall::StallGuard;
use crate::config::Limits;

/// Most bytes that a connection reads at once; larger headers are answered 431 by hyper itself.
const READ_BUFFER_BYTES_MAX: usize = 256 << 10;
/// Requests at once on an HTTP/2 connection.
const H2_STREAMS_MAX: u32 = 256;
/// What a peer may send on one HTTP/2 stream before it is read.
const H2_STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// What a peer may send on all streams of an HTTP/2 connection before it is read.
const H2_CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// How often an HTTP/2 peer is asked whether it is there.
const H2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long it may take to say so.
const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How a listener speaks with its peers.
pub(crate) struct Protocol {
    http: auto::Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
    header_timeout: Duration,
    body_stall_timeout: Duration,
}

impl Protocol {
    /// HTTP/1.1 and HTTP/2 (by ALPN, or by prior knowledge where there is no TLS), within limits.
    pub(crate) fn new(limits: &Limits, tls: Option<TlsAcceptor>) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(READ_BUFFER_BYTES_MAX)
            .half_close(false);
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
            .max_concurrent_streams(H2_STREAMS_MAX)
            .initial_stream_window_size(H2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(H2_CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(H2_PING_INTERVAL)
            .keep_alive_timeout(H2_PING_TIMEOUT);
        Self { http, tls, header_timeout: limits.header_timeout, body_stall_timeout: limits.body_stall_timeout }
    }

    /// Serves a connection to its end. When the process closes, the request in flight ends and no other follows.
    pub(crate) async fn serve<H: Handler>(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        answer: Answer<H>,
        closing: PhaseWatch,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "TCP_NODELAY");
        }
        let stream = StallGuard::new(stream, self.body_stall_timeout);
        let Some(tls) = &self.tls else { return self.speak(stream, peer, answer, closing).await };
        match tokio::time::timeout(self.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream, peer, answer, closing).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    async fn speak<H: Handler>(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: SocketAddr,
        answer: Answer<H>,
        mut closing: PhaseWatch,
    ) {
        let asked = Arc::new(AtomicBool::new(false));
        let service = service_fn({
            let asked = asked.clone();
            move |request| {
                asked.store(true, Ordering::Relaxed);
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(answer.answer(request).await) }
            }
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(stream), service));
        // hyper's own timeout begins only when it knows which version of HTTP the peer speaks.
        let mut first_request_due = pin!(tokio::time::sleep(self.header_timeout));
        let (mut is_due_open, mut is_closing) = (true, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "connection");
                    }
                    return;
                }
                () = closing.closing(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = first_request_due.as_mut(), if is_due_open => {
                    is_due_open = false;
                    if !asked.load(Ordering::Relaxed) {
                        tracing::debug!(%peer, "no request came");
                        return;
                    }
                }
            }
        }
    }
}
