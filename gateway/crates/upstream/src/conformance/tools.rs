//! What checks have in common.

use std::pin::Pin;
use std::task::{Context, Poll};

use blockgate_block::ObjectInfo;
use bytes::Bytes;
use futures::{Stream, StreamExt};

use super::Bench;
use crate::{BodyError, ByteStream, Conditions, GetReply, ListEntry, ListRequest, Payload, PutRequest, Result, Stored};

/// Fails unless a result is an error of this kind.
macro_rules! assert_fails {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err($pattern) $(if $guard)? => {}
            other => panic!("{} gives {other:?}, not {}", stringify!($result), stringify!($pattern)),
        }
    };
}
pub(super) use assert_fails;

/// Bytes that depend on `seed` and repeat nowhere near.
pub(super) fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// Conditions with one `If-Match`.
pub(super) fn if_match(etag: &str) -> Conditions {
    Conditions { if_match: Some(etag.to_owned()), ..Conditions::default() }
}

/// Conditions with one `If-None-Match`.
pub(super) fn if_none_match(etag: &str) -> Conditions {
    Conditions { if_none_match: Some(etag.to_owned()), ..Conditions::default() }
}

/// A PUT with conditions.
pub(super) fn put_if(conditions: Conditions) -> PutRequest {
    PutRequest { conditions, ..PutRequest::default() }
}

/// What streams of bytes are made of.
type Piece = std::result::Result<Bytes, BodyError>;

/// A payload that arrives in pieces, whatever length was announced.
pub(super) fn streamed(announced: usize, bytes: &Bytes, piece_bytes: usize) -> Payload {
    Payload::Stream { len_bytes: announced as u64, stream: Box::pin(futures::stream::iter(pieces(bytes, piece_bytes))) }
}

/// A payload that fails after `bytes`.
pub(super) fn failing(announced: usize, bytes: &Bytes, error: BodyError) -> Payload {
    let pieces = pieces(bytes, 100_000).into_iter().chain([Err(error)]);
    Payload::Stream { len_bytes: announced as u64, stream: Box::pin(futures::stream::iter(pieces.collect::<Vec<_>>())) }
}

fn pieces(bytes: &Bytes, piece_bytes: usize) -> Vec<Piece> {
    (0..bytes.len()).step_by(piece_bytes).map(|at| Ok(bytes.slice(at..bytes.len().min(at + piece_bytes)))).collect()
}

/// A stream that gives `bytes` and then nothing, for ever.
pub(super) fn stalling(bytes: &Bytes) -> ByteStream {
    struct Stalling(Option<Bytes>);
    impl Stream for Stalling {
        type Item = Piece;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(bytes))))
        }
    }
    Box::pin(Stalling(Some(bytes.clone())))
}

/// All bytes of a body; panics where it fails.
pub(super) async fn read_all(reply: GetReply) -> Bytes {
    let (range, mut body) = (reply.range, reply.body);
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(bytes.len() as u64, range.end - range.start, "the body is as long as its range");
    bytes.into()
}

impl Bench {
    pub(super) async fn put(&self, key: &str, bytes: &Bytes) -> Stored {
        self.put_with(key, bytes, PutRequest::default()).await.unwrap()
    }

    pub(super) async fn put_with(&self, key: &str, bytes: &Bytes, request: PutRequest) -> Result<Stored> {
        self.upstream.put(&self.bucket, key, request, Payload::Bytes(bytes.clone())).await
    }

    pub(super) async fn get(&self, key: &str) -> Bytes {
        read_all(self.upstream.get(&self.bucket, key, None, &Conditions::default()).await.unwrap()).await
    }

    pub(super) async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.upstream.head(&self.bucket, key, &Conditions::default()).await
    }

    pub(super) async fn assert_absent(&self, key: &str) {
        assert_fails!(self.head(key).await, crate::UpstreamError::NoSuchKey);
        let entries = self
            .list_all(&self.bucket, ListRequest { prefix: key.to_owned(), limit: 1000, ..Default::default() })
            .await;
        assert!(entries.iter().all(|entry| entry.name() != key), "{key:?} is listed");
    }

    /// All pages of a listing, one after the other.
    pub(super) async fn list_all(&self, bucket: &str, mut request: ListRequest) -> Vec<ListEntry> {
        let mut entries: Vec<ListEntry> = Vec::new();
        loop {
            let page = self.upstream.list(bucket, &request).await.unwrap();
            assert!(page.entries.len() <= request.limit as usize, "a page is longer than its limit");
            assert!(!page.truncated || !page.entries.is_empty(), "a truncated page is empty: {request:?}");
            entries.extend(page.entries);
            if !page.truncated {
                return entries;
            }
            request.start_after = entries.last().map(|entry| entry.name().to_owned());
        }
    }
}
