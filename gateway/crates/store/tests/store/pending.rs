//! Blocks acknowledged before they are at the upstream.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{CopyObject, Limits, StoreError, WriteRequest};
use blockgate_upstream::{Conditions, UpstreamError};

use crate::support::*;

/// A rig whose uploads wait.
fn held_rig(limits: Limits) -> Rig {
    let rig = rig_with(limits, 16 << 20, Duration::from_secs(3600));
    rig.double.hold_puts.store(true, Ordering::SeqCst);
    rig
}

fn at_upstream(rig: &Rig) -> usize {
    rig.double.count("put")
}

async fn let_go(rig: &Rig) {
    settle().await;
    rig.double.hold_puts.store(false, Ordering::SeqCst);
    rig.double.release();
    rig.store.drain().await;
}

#[tokio::test]
async fn a_block_is_served_before_it_is_uploaded() {
    let rig = held_rig(limits());
    let bytes = pattern(100_000, 1);
    let written = rig.put_with("async:k", &bytes, with_meta(&[("a", "b"), ("kv-ttl", "60")])).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    let served = rig.get("async:k").await.unwrap();
    assert_eq!((served.tier, &served.info.etag), (Tier::Memory, &written.etag));
    same(read(served).await.unwrap(), &bytes);
    assert_eq!(rig.head("async:k").await.unwrap().info.expires_at(), written.expires_at);
    assert_eq!(rig.store.pending_bytes(), 100_000);
    assert_eq!(missed(rig.another().get("async:k").await), MissReason::Absent);
    let_go(&rig).await;
    assert_eq!(rig.store.pending_bytes(), 0);
    assert_eq!(rig.get("async:k").await.unwrap().tier, Tier::Memory);
    let (here, there) = (rig.head("async:k").await.unwrap().info, rig.another().head("async:k").await.unwrap().info);
    assert_eq!(here, there);
    same(rig.another().bytes("async:k").await, &bytes);
}

#[tokio::test]
async fn writes_of_one_key_keep_their_order() {
    let rig = held_rig(limits());
    rig.put("async:k", b"one").await;
    let second = {
        let store = rig.store.clone();
        tokio::spawn(async move { store.delete(&named("async:k")).await })
    };
    settle().await;
    assert!(!second.is_finished(), "a delete waits for what was acknowledged before it");
    same(rig.bytes("async:k").await, "one");
    let_go(&rig).await;
    second.await.unwrap().unwrap();
    assert_eq!(missed(rig.get("async:k").await), MissReason::Absent);
    assert_eq!(missed(rig.another().get("async:k").await), MissReason::Absent);
    for bytes in [b"two", b"3rd"] {
        rig.put("async:k", bytes).await;
    }
    rig.store.drain().await;
    same(rig.bytes("async:k").await, "3rd");
    same(rig.another().bytes("async:k").await, "3rd");
}

#[tokio::test]
async fn a_copy_sees_what_was_acknowledged() {
    let rig = held_rig(limits());
    rig.put("async:k", b"block").await;
    let copy = CopyObject {
        source: named("async:k"),
        source_conditions: Conditions::default(),
        target: named("l"),
        attributes: None,
        tags: None,
        conditions: Conditions::default(),
    };
    let store = rig.store.clone();
    let copying = tokio::spawn(async move { store.copy(copy).await });
    let_go(&rig).await;
    assert_eq!(copying.await.unwrap().unwrap().etag, etag_of(b"block"));
    same(rig.bytes("l").await, "block");
}

#[tokio::test]
async fn an_upload_that_fails_is_tried_again_and_then_given_up() {
    let rig = rig_with(Limits { upload_patience: Duration::from_secs(60), ..limits() }, 16 << 20, Duration::ZERO);
    rig.double.failing_puts.store(20, Ordering::SeqCst);
    rig.put("async:k", b"block").await;
    rig.store.drain().await;
    assert_eq!(at_upstream(&rig), 21, "an outage is waited for");
    same(rig.another().bytes("async:k").await, "block");
    let rig = rig_with(Limits { upload_patience: Duration::ZERO, ..limits() }, 16 << 20, Duration::ZERO);
    rig.double.failing_puts.store(1, Ordering::SeqCst);
    rig.put("async:lost", b"block").await;
    same(rig.bytes("async:lost").await, "block");
    rig.store.drain().await;
    assert_eq!(missed(rig.get("async:lost").await), MissReason::Absent, "what is lost is not served");
    assert_eq!(rig.metric("blockgate_upstream_requests_total{operation=\"upload\",outcome=\"lost\"}"), 1);
}

#[tokio::test]
async fn no_more_are_uploaded_at_once_than_allowed() {
    let rig = held_rig(Limits { uploads_at_once: 2, ..limits() });
    for key in ["async:a", "async:b", "async:c", "async:d"] {
        rig.put(key, b"block").await;
    }
    settle().await;
    assert_eq!(at_upstream(&rig), 2);
    let_go(&rig).await;
    rig.store.drain().await;
    assert_eq!(at_upstream(&rig), 4);
}

#[tokio::test]
async fn over_the_limit_writes_go_through() {
    let rig = held_rig(Limits { pending_bytes: 10, ..limits() });
    rig.put("async:a", b"12345").await;
    rig.put("async:b", b"12345").await;
    let store = rig.store.clone();
    let through = tokio::spawn(async move {
        let payload = blockgate_upstream::Payload::Bytes("1".into());
        store.put(&named("async:c"), WriteRequest::default(), payload).await
    });
    settle().await;
    assert!(!through.is_finished());
    assert_eq!(rig.store.pending_bytes(), 10);
    let_go(&rig).await;
    through.await.unwrap().unwrap();
    same(rig.bytes("async:c").await, "1");
}

#[tokio::test]
async fn conditional_writes_always_go_through() {
    let rig = rig();
    let absent = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let request = WriteRequest { conditions: absent, ..WriteRequest::default() };
    rig.put_with("async:k", b"block", request.clone()).await.unwrap();
    assert_eq!(at_upstream(&rig), 1);
    assert!(matches!(refused(rig.put_with("async:k", b"other", request).await), StoreError::PreconditionFailed));
}

#[tokio::test]
async fn nothing_is_acknowledged_for_a_bucket_that_is_not_there() {
    let rig = rig();
    let error = refused(rig.put_with("no-such-async:k", b"block", WriteRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchBucket)), "{error}");
    rig.put("async:k", b"block").await;
    rig.put("async:l", b"block").await;
    assert_eq!(rig.double.count("head_bucket"), 2, "a bucket that is there is believed for a while");
}

#[tokio::test]
async fn a_pending_block_expires_too() {
    let rig = held_rig(limits());
    rig.put_with("async:k", b"block", with_meta(&[("kv-ttl", "1")])).await.unwrap();
    rig.double.pass(Duration::from_secs(1));
    assert_eq!(missed(rig.get("async:k").await), MissReason::Expired);
    assert_eq!(missed(rig.head("async:k").await), MissReason::Expired);
    let_go(&rig).await;
    assert_eq!(missed(rig.get("async:k").await), MissReason::Expired);
}

#[tokio::test]
async fn pending_blocks_cannot_be_evicted() {
    let rig = rig_with(limits(), 1 << 20, Duration::ZERO);
    rig.double.hold_puts.store(true, Ordering::SeqCst);
    let kept = pattern(50_000, 9);
    rig.put("async:k", &kept).await;
    settle().await;
    rig.double.hold_puts.store(false, Ordering::SeqCst);
    for n in 0..60 {
        rig.put(&format!("n{n}"), &pattern(60_000, n)).await;
    }
    same(rig.bytes("async:k").await, &kept);
    assert_eq!(rig.double.count("get"), 0);
    let_go(&rig).await;
}
