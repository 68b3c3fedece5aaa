//! Bodies taken in first and stored afterwards.

use blockgate_block::{Crc64, Tier};
use blockgate_store::{ReadRequest, StoreError, WriteRequest};
use blockgate_upstream::{BodyError, Payload, UpstreamError};
use bytes::Bytes;

use crate::support::*;

fn payload(bytes: &[u8]) -> Payload {
    Payload::Bytes(Bytes::copy_from_slice(bytes))
}

#[tokio::test]
async fn a_body_is_taken_in_and_stored_later() {
    let rig = rig();
    let bytes = pattern(5000, 1);
    let body = rig.store.take_in("b", payload(&bytes)).await.unwrap();
    assert_eq!((body.crc64(), body.len_bytes()), (Crc64::of(&bytes), 5000));
    assert_eq!((rig.double.count("put"), rig.store.index_len()), (0, 0));
    let written = rig.store.put_taken(&named("k"), with_meta(&[("kv-ttl", "9")]), body).await.unwrap();
    assert_eq!((written.etag, written.size_bytes), (etag_of(&bytes), Some(5000)));
    assert_eq!(written.expires_at, Some(written.stored_at + std::time::Duration::from_secs(9)));
    let served = rig.store.get(&named("k"), ReadRequest::default()).await.unwrap();
    assert_eq!(served.tier, Tier::Memory);
    same(read(served).await.unwrap(), &bytes);
    same(&rig.double.object("k").unwrap().bytes, &bytes);
}

#[tokio::test]
async fn a_body_that_is_not_stored_frees_its_room() {
    let rig = rig_with(limits(), 1 << 20, std::time::Duration::ZERO);
    let before = rig.store.memory_stats().arena.used_bytes;
    let body = rig.store.take_in("b", payload(&pattern(100_000, 1))).await.unwrap();
    assert!(rig.store.memory_stats().arena.used_bytes > before);
    drop(body);
    assert_eq!(rig.store.memory_stats().arena.used_bytes, before);
}

#[tokio::test]
async fn what_is_refused() {
    let rig = rig();
    let too_large = payload(&vec![0; BLOCK_MAX + 1]);
    let message = refused(rig.store.take_in("b", too_large).await).to_string();
    assert_eq!(message, "a block of this bucket has at most 1048576 bytes, not 1048577");
    let cut =
        Payload::Stream { len_bytes: 5, stream: Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"four"))])) };
    let error = refused(rig.store.take_in("b", cut).await);
    assert!(matches!(error, StoreError::Body(BodyError::Length { announced: 5, got: 4 })), "{error}");
    for (key, request) in [("b:k", with_meta(&[("kv-ttl", "0")])), ("strict:k", WriteRequest::default())] {
        let body = rig.store.take_in("b", payload(b"x")).await.unwrap();
        let error = refused(rig.store.put_taken(&named(key), request, body).await);
        assert!(matches!(error, StoreError::InvalidArgument(_)), "{error}");
    }
    let body = rig.store.take_in("b", payload(b"x")).await.unwrap();
    let error = refused(rig.store.put_taken(&named("no-such:k"), WriteRequest::default(), body).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchBucket)), "{error}");
}

#[tokio::test]
async fn other_kinds_of_bucket_store_it_their_way() {
    let rig = rig();
    let bytes = pattern(100, 1);
    let body = rig.store.take_in("past", payload(&bytes)).await.unwrap();
    let written = rig.store.put_taken(&named("past:k"), WriteRequest::default(), body).await.unwrap();
    assert!(written.etag.starts_with("up-"), "a passthrough bucket shows the upstream's ETag");
    let body = rig.store.take_in("async", payload(&bytes)).await.unwrap();
    rig.double.hold_puts.store(true, std::sync::atomic::Ordering::SeqCst);
    let written = rig.store.put_taken(&named("async:k"), WriteRequest::default(), body).await.unwrap();
    assert_eq!((written.etag, rig.store.pending_bytes()), (etag_of(&bytes), 100));
    settle().await;
    rig.double.release();
    rig.store.drain().await;
}
