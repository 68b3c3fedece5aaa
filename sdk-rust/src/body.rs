//! Request bodies: a list of buffers, sent as they are.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Buffers one after the other; the length is known, nothing is copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    parts: std::vec::IntoIter<Bytes>,
    left_bytes: u64,
}

impl From<Vec<Bytes>> for Parts {
    fn from(parts: Vec<Bytes>) -> Self {
        let left_bytes = parts.iter().map(|part| part.len() as u64).sum();
        Self { parts: parts.into_iter(), left_bytes }
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.parts.next();
        self.left_bytes -= next.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(next.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}
