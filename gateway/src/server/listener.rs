//! Accepts connections, within a limit, until the process closes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::answer::{Answer, Handler};
use super::connection::Protocol;
use super::phase::PhaseWatch;

/// How long to wait when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket and what it serves.
pub(crate) struct Listener<H> {
    pub(crate) socket: TcpListener,
    pub(crate) protocol: Protocol,
    pub(crate) answer: Answer<H>,
    pub(crate) connections_max: u32,
}

impl<H: Handler> Listener<H> {
    /// Serves until the process closes and every connection has ended.
    pub(crate) async fn serve(self, mut phase: PhaseWatch) {
        let slots = Arc::new(Semaphore::new(self.connections_max as usize));
        let protocol = Arc::new(self.protocol);
        loop {
            if slots.available_permits() == 0 {
                self.answer.metrics.limit_hit("max_connections");
            }
            let next = async {
                // The semaphore is never closed.
                let slot = slots.clone().acquire_owned().await.ok()?;
                Some((slot, accept(&self.socket).await))
            };
            let (slot, (stream, peer)) = tokio::select! {
                () = phase.closing() => break,
                Some(next) = next => next,
            };
            let (protocol, answer, phase) = (protocol.clone(), self.answer.clone(), phase.clone());
            tokio::spawn(async move {
                protocol.serve(stream, peer, answer, phase).await;
                drop(slot);
            });
        }
        // New connections are refused from here on, instead of waiting in the backlog for nobody.
        drop(self.socket);
        // All slots are back when every connection has ended.
        let _ = slots.acquire_many(self.connections_max).await;
    }
}

async fn accept(socket: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match socket.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_the_connection(&error) => tracing::debug!(%error, "accept"),
            Err(error) => {
                tracing::warn!(%error, "accept: no connection can be taken now; raise the limit of open files?");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether the connection failed before it was accepted, rather than the process.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
