//! Sheds load: beyond a number of requests at once, further ones are refused before any work is done for them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts requests until their last byte has been sent.
#[derive(Clone, Debug)]
pub(crate) struct Shed(Arc<Semaphore>);

impl Shed {
    /// At most `requests_max` at once.
    pub(crate) fn new(requests_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(requests_max)))
    }

    /// Room for one more request, or none.
    pub(crate) fn enter(&self) -> Option<Slot> {
        self.0.clone().try_acquire_owned().ok().map(Slot)
    }
}

/// Room for a request, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// A response body that holds its request's slot to the end.
#[derive(Debug)]
pub(crate) struct Held<B> {
    body: B,
    _slot: Option<Slot>,
}

impl<B> Held<B> {
    /// A body that holds `slot`.
    pub(crate) fn new(body: B, slot: Option<Slot>) -> Self {
        Self { body, _slot: slot }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Held<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_slot_is_held_until_the_body_is_dropped() {
        let shed = Shed::new(1);
        let slot = shed.enter();
        assert!(slot.is_some());
        let body = Held::new(Full::new(Bytes::from_static(b"block")), slot);
        assert!(shed.enter().is_none());
        assert_eq!(body.size_hint().exact(), Some(5));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "block");
        assert!(shed.enter().is_some());
    }
}
