//! Bodies on their way to and from the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aws_sdk_s3::primitives::{ByteStream as SdkStream, SdkBody};
use bytes::Bytes;
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::{BodyError, ByteStream};

/// What became of a streamed request body, for the one who waits for the answer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    failure: Mutex<Option<BodyError>>,
    sent: Notify,
}

impl Progress {
    /// Why the body failed, if it did.
    pub(super) fn failure(&self) -> Option<BodyError> {
        self.failure.lock().take()
    }

    /// Waits until the whole body was handed to the connection.
    pub(super) async fn sent(&self) {
        self.sent.notified().await;
    }
}

/// A request body of announced length.
///
/// The last bytes are held back until the stream has ended well and with the right length. A body that fails thus never
/// arrives whole, and the store keeps nothing of it.
pub(super) struct Guarded {
    stream: ByteStream,
    announced: u64,
    taken: u64,
    held: Option<Bytes>,
    ended: bool,
    progress: Arc<Progress>,
}

impl Guarded {
    pub(super) fn new(stream: ByteStream, announced: u64) -> (Self, Arc<Progress>) {
        let progress = Arc::new(Progress::default());
        let body = Self { stream, announced, taken: 0, held: None, ended: false, progress: progress.clone() };
        (body, progress)
    }

    pub(super) fn into_sdk(self) -> SdkStream {
        SdkStream::new(SdkBody::from_body_1_x(self))
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.ended = true;
        self.held = None;
        *self.progress.failure.lock() = Some(error.clone());
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            match ready!(self.stream.as_mut().poll_next(context)) {
                Some(Ok(chunk)) if chunk.is_empty() => {}
                Some(Ok(chunk)) => {
                    self.taken += chunk.len() as u64;
                    if self.taken > self.announced {
                        let (announced, got) = (self.announced, self.taken);
                        return self.fail(BodyError::Length { announced, got });
                    }
                    if let Some(ready) = self.held.replace(chunk) {
                        return Poll::Ready(Some(Ok(Frame::data(ready))));
                    }
                }
                Some(Err(error)) => return self.fail(error),
                None if self.taken != self.announced => {
                    let (announced, got) = (self.announced, self.taken);
                    return self.fail(BodyError::Length { announced, got });
                }
                None => {
                    self.ended = true;
                    self.progress.sent.notify_one();
                    return Poll::Ready(self.held.take().map(|last| Ok(Frame::data(last))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, Bytes::len) as u64;
        SizeHint::with_exact(self.announced - self.taken + held)
    }
}

/// A response body of announced length.
///
/// Ends with an error where the length differs. Holds the request's permit as long as it lives.
pub(super) struct Download {
    stream: SdkStream,
    announced: u64,
    taken: u64,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Download {
    pub(super) fn stream(stream: SdkStream, announced: u64, permit: OwnedSemaphorePermit) -> ByteStream {
        Box::pin(Self { stream, announced, taken: 0, ended: false, _permit: permit })
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.ended = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Stream for Download {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(Pin::new(&mut self.stream).poll_next(context)) {
            Some(Ok(chunk)) => {
                self.taken += chunk.len() as u64;
                if self.taken > self.announced {
                    let (announced, got) = (self.announced, self.taken);
                    return self.fail(BodyError::Length { announced, got });
                }
                Poll::Ready(Some(Ok(chunk)))
            }
            Some(Err(error)) => {
                let text = super::error::chain(&error);
                // The stalled stream guard tells of itself only in words.
                let stalled = text.contains("minimum throughput");
                self.fail(if stalled { BodyError::Stalled } else { BodyError::Cut(text) })
            }
            None if self.taken < self.announced => {
                let missing = self.announced - self.taken;
                self.fail(BodyError::Cut(format!("{missing} bytes are missing")))
            }
            None => {
                self.ended = true;
                Poll::Ready(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body_util::BodyExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    fn stream(items: Vec<Result<&'static [u8], BodyError>>) -> ByteStream {
        Box::pin(futures::stream::iter(items.into_iter().map(|item| item.map(Bytes::from_static))))
    }

    /// The bytes that left before the end, and whether the end was good.
    async fn sent(items: Vec<Result<&'static [u8], BodyError>>, announced: u64) -> (Vec<u8>, bool) {
        let (mut body, progress) = Guarded::new(stream(items), announced);
        assert_eq!(body.size_hint().exact(), Some(announced));
        let mut out = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => out.extend(frame.into_data().unwrap()),
                Err(_) => {
                    assert!(progress.failure().is_some() && body.is_end_stream());
                    return (out, false);
                }
            }
        }
        progress.sent().await;
        assert!(progress.failure().is_none());
        (out, true)
    }

    #[tokio::test]
    async fn a_sound_body_passes() {
        assert_eq!(sent(vec![Ok(b"ab"), Ok(b""), Ok(b"cde")], 5).await, (b"abcde".to_vec(), true));
        assert_eq!(sent(vec![], 0).await, (vec![], true));
    }

    #[tokio::test]
    async fn a_broken_body_never_leaves_whole() {
        let cut = || Err(BodyError::Cut("gone".to_owned()));
        assert_eq!(sent(vec![Ok(b"ab"), Ok(b"cde"), cut()], 5).await, (b"ab".to_vec(), false));
        assert_eq!(sent(vec![Ok(b"abcde"), cut()], 5).await, (vec![], false));
        assert_eq!(sent(vec![Ok(b"abcd")], 5).await, (vec![], false));
        assert_eq!(sent(vec![Ok(b"abcde"), Ok(b"f")], 5).await, (vec![], false));
        assert_eq!(sent(vec![cut()], 0).await, (vec![], false));
    }

    #[tokio::test]
    async fn a_short_download_ends_with_an_error() {
        let semaphore = Arc::new(Semaphore::new(1));
        for (announced, good) in [(3, true), (4, false), (2, false)] {
            let permit = semaphore.clone().acquire_owned().await.unwrap();
            let body = Download::stream(SdkStream::from_static(b"abc"), announced, permit);
            let items: Vec<_> = body.collect().await;
            assert_eq!(items.iter().all(Result::is_ok), good, "{announced}");
            assert_eq!(semaphore.available_permits(), 1);
        }
    }
}
