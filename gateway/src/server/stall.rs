//! Gives up on a peer that does not take what is sent to it.
//!
//! A reader that stops reading would otherwise hold its response, and the block's memory, for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A connection whose writes fail with [`io::ErrorKind::TimedOut`] when nothing could be written for too long.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    inner: S,
    stall: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Whether `deadline` runs: a write is waiting.
    waiting: bool,
}

impl<S> StallGuard<S> {
    /// Guards `inner`; must be called within a tokio runtime.
    pub(crate) fn new(inner: S, stall: Duration) -> Self {
        Self { inner, stall, deadline: Box::pin(tokio::time::sleep(stall)), waiting: false }
    }

    /// Passes on what is ready; when nothing is, starts or asks the clock.
    fn guard<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = false;
            return outcome;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.stall);
        }
        ready!(self.deadline.as_mut().poll(cx));
        self.waiting = false;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes no bytes")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.guard(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.guard(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.guard(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.guard(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up_on() {
        let (near, _far) = duplex(16);
        let mut near = StallGuard::new(near, Duration::from_millis(1));
        let error = near.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn every_byte_that_is_taken_gives_new_time() {
        let (near, mut far) = duplex(16);
        let mut near = StallGuard::new(near, Duration::from_secs(3_600));
        let mut write = async |expected_ready: bool| {
            let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut near).poll_write(cx, &[0; 16]).is_ready())).await;
            assert_eq!(ready, expected_ready);
            near.waiting
        };
        assert!(!write(true).await);
        assert!(write(false).await, "full: the clock runs");
        far.read_exact(&mut [0; 16]).await.unwrap();
        assert!(!write(true).await, "taken: it stands");
    }
}
