//! A proxy that makes a server look far away, or dead.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::Result;

/// Pieces of an answer that may be under way on one connection.
const PIECES_MAX: usize = 1024;
const PIECE_BYTES: usize = 64 << 10;

/// Passes connections on to a server; every byte of its answers comes later. It ends with this handle.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    is_frozen: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (is_frozen, frozen) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let frozen = frozen.clone();
                // A connection that breaks is for its two ends to notice.
                tokio::spawn(async move { pass_on(client, server, delay, frozen).await.ok() });
            }
        });
        Ok(Self { address, is_frozen, task })
    }

    /// Holds all answers back, or lets them go.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.send_replace(is_frozen);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(
    client: TcpStream,
    server: SocketAddr,
    delay: Duration,
    frozen: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let requests = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let answers = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE_BYTES);
            let end = from_server.read_buf(&mut buffer).await? == 0;
            if end || sender.send((Instant::now() + delay, buffer.split().freeze())).await.is_err() {
                drop(sender);
                return Ok(());
            }
        }
    };
    tokio::try_join!(requests, answers, deliver(receiver, to_client, frozen))?;
    Ok(())
}

/// Writes each piece when its time has come.
async fn deliver(
    mut pieces: mpsc::Receiver<(Instant, Bytes)>,
    mut to: impl AsyncWrite + Unpin,
    mut frozen: watch::Receiver<bool>,
) -> std::io::Result<()> {
    while let Some((at, piece)) = pieces.recv().await {
        sleep_until(at).await;
        // An error means that the proxy is gone, and with it what was frozen.
        let _ = frozen.wait_for(|is_frozen| !is_frozen).await;
        to.write_all(&piece).await?;
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_arrive_whole_and_later() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap(), Duration::from_millis(20)).await.unwrap();
        let start = Instant::now();
        let mut client = TcpStream::connect(proxy.address).await.unwrap();
        client.write_all(b"ask").await.unwrap();
        let (mut connection, _) = server.accept().await.unwrap();
        let mut asked = [0; 3];
        connection.read_exact(&mut asked).await.unwrap();
        connection.write_all(b"answer").await.unwrap();
        drop(connection);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!((&asked, answer.as_slice()), (b"ask", b"answer".as_slice()));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
