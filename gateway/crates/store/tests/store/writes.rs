//! PUT and DELETE: what is stored, what is refused, and that nothing is half done.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{BlockRecord, MissReason, RECORD_META, Tier};
use blockgate_store::{Limits, StoreError, WriteRequest};
use blockgate_upstream::{BodyError, Conditions, Payload, UpstreamError};
use bytes::Bytes;
use futures::StreamExt;

use crate::support::*;

fn on(if_match: Option<&str>, if_none_match: Option<&str>) -> WriteRequest {
    let conditions = Conditions {
        if_match: if_match.map(str::to_owned),
        if_none_match: if_none_match.map(str::to_owned),
        ..Conditions::default()
    };
    WriteRequest { conditions, ..WriteRequest::default() }
}

fn stream(len_bytes: u64, chunks: Vec<Result<Bytes, BodyError>>) -> Payload {
    Payload::Stream { len_bytes, stream: Box::pin(futures::stream::iter(chunks)) }
}

#[tokio::test]
async fn a_block_is_stored_with_its_record() {
    let rig = rig();
    let mut request = with_meta(&[("a", "b"), ("kv-ttl", "60")]);
    request.attributes.content_type = Some("application/x-kv".into());
    request.tags = tags(&[("t", "u")]);
    let written = rig.put_with("k", b"block", request.clone()).await.unwrap();
    let object = rig.double.object("k").unwrap();
    let record = BlockRecord::parse(&object.attributes.user[RECORD_META]).unwrap();
    assert_eq!(record.etag().to_string(), written.etag);
    assert_eq!((record.stored_at, record.expires_at), (written.stored_at, written.expires_at));
    assert_eq!(record.expires_at, Some(rig.double.now() + Duration::from_secs(60)));
    assert_eq!((object.bytes.as_ref(), object.tags), (b"block".as_ref(), request.tags));
    let found = rig.head("k").await.unwrap();
    assert_eq!((found.tier, &found.info.attributes, found.info.tag_count), (Tier::Memory, &request.attributes, 1));
    assert_eq!(rig.metric("blockgate_writes_total{bucket=\"b\"}"), 1);
}

#[tokio::test]
async fn the_ttl_comes_from_metadata_tag_or_bucket() {
    let rig = rig();
    let life = |written: blockgate_store::Written| {
        written.expires_at.map(|at| at.duration_since(written.stored_at).unwrap().as_secs())
    };
    let with_tag = WriteRequest { tags: tags(&[("kv-ttl", "5")]), ..WriteRequest::default() };
    assert_eq!(life(rig.put("k", b"block").await), None);
    assert_eq!(life(rig.put("minute:k", b"block").await), Some(60));
    assert_eq!(life(rig.put_with("minute:k", b"block", with_meta(&[("kv-ttl", "5")])).await.unwrap()), Some(5));
    assert_eq!(life(rig.put_with("minute:k", b"block", with_tag).await.unwrap()), Some(5));
}

#[tokio::test]
async fn what_a_bucket_does_not_take_is_refused_before_the_body_is_read() {
    let rig = rig();
    let both = WriteRequest { tags: tags(&[("kv-ttl", "6")]), ..with_meta(&[("kv-ttl", "5")]) };
    let refusals = [
        ("k", with_meta(&[("kv-ttl", "0")]), "kv-ttl must be"),
        ("k", both, "5 seconds"),
        ("k", with_meta(&[(RECORD_META, "v=1")]), "reserved"),
        ("strict:k", WriteRequest::default(), "kv-fingerprint"),
    ];
    for (key, request, text) in refusals {
        let body = futures::stream::poll_fn(|_| panic!("the body is read"));
        let payload = Payload::Stream { len_bytes: 5, stream: Box::pin(body) };
        let error = refused(rig.store.put(&named(key), request, payload).await);
        assert!(matches!(&error, StoreError::InvalidArgument(message) if message.contains(text)), "{error}");
    }
    assert!(rig.put_with("strict:k", b"block", with_meta(&[("kv-fingerprint", "f")])).await.is_ok());
    let error = refused(rig.put_with("k", b"block", on(None, Some("etag"))).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NotSupported(_))), "{error}");
    assert_eq!(rig.double.count("put"), 1);
}

#[tokio::test]
async fn a_body_that_fails_stores_nothing() {
    let rig = rig();
    let half = || Ok(Bytes::from_static(b"half"));
    let wrong = || Err(BodyError::Mismatch { code: "BadDigest", message: "crc32".into() });
    for (key, old) in [("k", None), ("old", Some(b"old"))] {
        if let Some(old) = old {
            rig.put(key, old).await;
        }
        for payload in [
            stream(8, vec![half()]),
            stream(8, vec![half(), half(), half()]),
            stream(8, vec![half(), Err(BodyError::Cut("gone".into()))]),
            stream(8, vec![half(), half(), wrong()]),
            stream(BLOCK_MAX as u64 + 4, vec![half()]),
            stream(BLOCK_MAX as u64 + 1, vec![half(), Err(BodyError::Stalled)]),
        ] {
            let error = refused(rig.store.put(&named(key), WriteRequest::default(), payload).await);
            assert!(matches!(error, StoreError::Body(_)), "{error}");
        }
        match old {
            Some(old) => same(rig.bytes(key).await, old.as_ref()),
            None => assert_eq!(missed(rig.get(key).await), MissReason::Absent),
        }
    }
    assert_eq!(rig.store.memory_stats().arena.used_bytes, 4096, "slots of failed bodies are free again");
}

#[tokio::test]
async fn a_put_dropped_in_its_body_leaves_nothing() {
    let rig = rig();
    for len_bytes in [8, BLOCK_MAX as u64 + 8] {
        let endless = futures::stream::iter([Ok(Bytes::from_static(b"half"))]).chain(futures::stream::pending());
        let payload = Payload::Stream { len_bytes, stream: Box::pin(endless) };
        let key = named("k");
        let mut put = Box::pin(rig.store.put(&key, WriteRequest::default(), payload));
        for _ in 0..10 {
            assert!(futures::poll!(&mut put).is_pending());
            settle().await;
        }
        drop(put);
        settle().await;
        assert!(rig.double.object("k").is_none());
        assert_eq!(rig.store.memory_stats().arena.used_bytes, 0);
        // The key is free: nobody waits for the one who left.
        rig.put("k", b"block").await;
        rig.store.delete(&named("k")).await.unwrap();
    }
}

#[tokio::test]
async fn a_put_dropped_after_its_body_happens_whole() {
    for len in [8, BLOCK_MAX + 8] {
        let rig = rig();
        let bytes = pattern(len, 1);
        rig.double.hold_puts.store(true, Ordering::SeqCst);
        let payload = Payload::Bytes(bytes.clone().into());
        let key = named("k");
        let mut put = Box::pin(rig.store.put(&key, WriteRequest::default(), payload));
        assert!(futures::poll!(&mut put).is_pending());
        settle().await;
        drop(put);
        rig.double.release();
        settle().await;
        same(rig.bytes("k").await, &bytes);
    }
}

#[tokio::test]
async fn conditional_writes_are_judged_by_the_upstream() {
    let rig = rig();
    rig.put_with("k", b"one", on(None, Some("*"))).await.unwrap();
    let failed = |error| assert!(matches!(error, StoreError::PreconditionFailed), "{error}");
    failed(refused(rig.put_with("k", b"two", on(None, Some("*"))).await));
    failed(refused(rig.put_with("k", b"two", on(Some("other"), None)).await));
    same(rig.bytes("k").await, "one");
    rig.put_with("k", b"two", on(Some(&etag_of(b"one")), None)).await.unwrap();
    failed(refused(rig.put_with("k", b"three", on(Some(&etag_of(b"one")), None)).await));
    let upstream_etag = rig.double.object("k").unwrap().etag;
    rig.put_with("k", b"three", on(Some(&upstream_etag), None)).await.unwrap();
    same(rig.bytes("k").await, "three");
    // Another gateway's write counts, though this one has not seen it.
    rig.another().put("k", b"four").await;
    failed(refused(rig.put_with("k", b"five", on(Some(&etag_of(b"three")), None)).await));
    let error = refused(rig.put_with("absent", b"one", on(Some(&etag_of(b"one")), None)).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchKey)), "{error}");
    same(rig.bytes("k").await, "four");
}

#[tokio::test]
async fn an_expired_block_is_no_obstacle() {
    let rig = rig();
    rig.put_with("k", b"one", with_meta(&[("kv-ttl", "1")])).await.unwrap();
    rig.double.pass(Duration::from_secs(1));
    let error = refused(rig.put_with("k", b"two", on(Some(&etag_of(b"one")), None)).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchKey)), "{error}");
    rig.put_with("k", b"two", on(None, Some("*"))).await.unwrap();
    same(rig.bytes("k").await, "two");
    let error = refused(rig.put_with("k", b"three", on(None, Some("*"))).await);
    assert!(matches!(error, StoreError::PreconditionFailed), "{error}");
}

#[tokio::test]
async fn what_was_deleted_is_gone_at_once() {
    let rig = rig();
    rig.put("k", b"block").await;
    rig.store.delete(&named("k")).await.unwrap();
    assert_eq!(missed(rig.get("k").await), MissReason::Absent);
    assert_eq!(missed(rig.head("k").await), MissReason::Absent);
    assert_eq!((rig.double.count("get"), rig.double.count("head")), (0, 0));
    rig.store.delete(&named("k")).await.unwrap();
    rig.double.outage.store(true, Ordering::SeqCst);
    let error = refused(rig.store.delete(&named("k")).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
}

#[tokio::test]
async fn many_are_deleted_each_with_its_outcome() {
    let rig = rig();
    let names = ["a", "locked", "b", "a", "absent", "past:c"];
    for name in ["a", "locked", "b", "past:c"] {
        rig.put(name, b"block").await;
    }
    let keys: Vec<_> = names.iter().map(|name| named(name)).collect();
    let outcomes = rig.store.delete_many(&keys).await.unwrap();
    let deleted: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(deleted, [true, false, true, true, true, true]);
    assert_eq!(missed(rig.get("a").await), MissReason::Absent);
    same(rig.bytes("locked").await, "block");
    let many: Vec<_> = (0..1500).map(|n| named(&format!("n{n}"))).collect();
    assert_eq!(rig.store.delete_many(&many).await.unwrap().len(), 1500);
    assert_eq!(rig.double.count("delete_many"), 4, "at most 1,000 a call, one bucket a call");
    assert!(rig.store.delete_many(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_large_object_has_a_record_only_if_it_must_expire() {
    let rig = rig();
    let bytes = pattern(BLOCK_MAX + 1, 2);
    let written = rig.put("k", &bytes).await;
    assert_eq!(written.etag, rig.double.object("k").unwrap().etag);
    assert_eq!(rig.double.count("copy"), 0);
    let written = rig.put_with("k", &bytes, with_meta(&[("kv-ttl", "60")])).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    assert_eq!(rig.head("k").await.unwrap().info.etag, written.etag);
    same(rig.bytes("k").await, &bytes);
    rig.double.pass(Duration::from_secs(60));
    assert_eq!(missed(rig.get("k").await), MissReason::Expired);
}

#[tokio::test]
async fn without_room_in_the_arena_a_block_takes_a_bounded_way() {
    let rig = rig_with(
        Limits { heap_bytes: 100_000, heap_wait: Duration::from_millis(20), ..limits() },
        4096,
        Duration::ZERO,
    );
    let bytes = pattern(90_000, 3);
    rig.put("k", &bytes).await;
    same(rig.bytes("k").await, &bytes);
    assert_eq!(rig.head("k").await.unwrap().info.etag, etag_of(&bytes));
    // A slow client holds the heap; another is asked to slow down, not to wait for ever.
    let payload = Payload::Stream { len_bytes: 90_000, stream: Box::pin(futures::stream::pending()) };
    let key = named("slow");
    let mut slow = Box::pin(rig.store.put(&key, WriteRequest::default(), payload));
    assert!(futures::poll!(&mut slow).is_pending());
    let error = refused(rig.put_with("k", &bytes, WriteRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::SlowDown)), "{error}");
    drop(slow);
    rig.put("k", &bytes).await;
}
