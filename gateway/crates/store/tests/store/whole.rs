//! Blocks as one buffer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{Limits, ReadRequest, Result, StoreError, Whole};
use blockgate_upstream::UpstreamError;

use crate::double::Trick;
use crate::support::*;

const LARGE: usize = 700_000;
const SOON: Duration = Duration::from_millis(30);

async fn whole(rig: &Rig, key: &str) -> Result<Whole> {
    rig.store.get_whole(&named(key), ReadRequest::default()).await
}

async fn whole_by(rig: &Rig, key: &str, deadline: Duration) -> Result<Whole> {
    rig.store.get_whole(&named(key), ReadRequest { deadline: Some(deadline), ..ReadRequest::default() }).await
}

#[tokio::test]
async fn a_block_is_one_buffer_from_every_tier() {
    let rig = rig();
    let bytes = pattern(LARGE, 1);
    rig.put("k", &bytes).await;
    let cold = rig.another();
    for (rig, tier) in [(&rig, Tier::Memory), (&cold, Tier::Upstream), (&cold, Tier::Memory)] {
        let whole = whole(rig, "k").await.unwrap();
        assert_eq!((whole.tier, whole.info.etag.as_str()), (tier, etag_of(&bytes).as_str()));
        same(whole.bytes, &bytes);
    }
    assert_eq!(cold.metric("blockgate_reads_total{bucket=\"b\",tier=\"upstream\"}"), 1);
    assert_eq!(cold.metric("blockgate_read_bytes_total{bucket=\"b\",tier=\"memory\"}"), LARGE as u64);
    rig.put("empty", b"").await;
    assert!(whole(&rig.another(), "empty").await.unwrap().bytes.is_empty());
}

#[tokio::test]
async fn whatever_is_wrong_with_a_block_is_a_miss() {
    let rig = rig();
    let bytes = pattern(LARGE, 2);
    for key in ["corrupt", "cut", "stolen"] {
        rig.put(key, &bytes).await;
    }
    rig.put_with("theirs", &bytes, with_meta(&[("kv-fingerprint", "f"), ("kv-ttl", "5")])).await.unwrap();
    let cold = rig.another();
    cold.double.trick(Trick::Flip(LARGE - 1));
    assert_eq!(missed(whole(&cold, "corrupt").await), MissReason::Corrupt);
    for _ in 0..3 {
        cold.double.trick(Trick::CutAfter(1000));
    }
    assert_eq!(missed(whole(&cold, "cut").await), MissReason::UpstreamUnavailable);
    cold.double.steal("stolen");
    assert_eq!(missed(whole(&cold, "stolen").await), MissReason::Absent);
    let other = ReadRequest { fingerprint: Some("g".into()), ..ReadRequest::default() };
    assert_eq!(missed(rig.store.get_whole(&named("theirs"), other).await), MissReason::Fingerprint);
    rig.double.pass(Duration::from_secs(5));
    assert_eq!(missed(whole(&rig, "theirs").await), MissReason::Expired);
    assert_eq!(cold.metric("blockgate_misses_total{bucket=\"b\",reason=\"corrupt\"}"), 1);
    let error = refused(whole(&rig, "past:k").await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NotSupported(_))));
}

#[tokio::test]
async fn a_deadline_bounds_all_of_it() {
    let rig = rig();
    rig.put("k", &pattern(LARGE, 3)).await;
    let cold = rig.another();
    cold.double.trick(Trick::Silent);
    assert_eq!(missed(whole_by(&cold, "k", SOON).await), MissReason::Deadline);
    let cold = rig.another();
    cold.double.trick(Trick::StallAfter(LARGE - 1));
    assert_eq!(missed(whole_by(&cold, "k", SOON).await), MissReason::Deadline);
    let cold = rig.another();
    same(whole_by(&cold, "k", Duration::from_secs(60)).await.unwrap().bytes, pattern(LARGE, 3));
}

/// A gateway whose arena has no room for the blocks, and whose heap has for one of them at a time.
fn roomless(first: &Rig, heap_bytes: u64) -> Rig {
    let limits = Limits { heap_bytes, heap_wait: SOON, ..limits() };
    rig_on(std::sync::Arc::clone(&first.double), limits, 64 << 10, Duration::ZERO)
}

#[tokio::test]
async fn what_finds_no_slot_is_gathered_in_the_bounded_heap() {
    let first = rig();
    let bytes = pattern(LARGE, 4);
    first.put("k", &bytes).await;
    let rig = roomless(&first, 1 << 20);
    let held = whole(&rig, "k").await.unwrap();
    same(&held.bytes, &bytes);
    assert_eq!(missed(whole(&rig, "k").await), MissReason::Deadline, "the heap is taken");
    let view = held.bytes.slice(10..20);
    drop(held);
    assert_eq!(missed(whole(&rig, "k").await), MissReason::Deadline, "by the last view of it");
    drop(view);
    same(whole(&rig, "k").await.unwrap().bytes, &bytes);
    rig.double.trick(Trick::Flip(500));
    assert_eq!(missed(whole(&rig, "k").await), MissReason::Corrupt);
    rig.double.trick(Trick::StallAfter(500));
    assert_eq!(missed(whole_by(&rig, "k", SOON).await), MissReason::Deadline);
    let less = roomless(&first, 1 << 18);
    assert_eq!(missed(whole(&less, "k").await), MissReason::Deadline);
}

#[tokio::test]
async fn objects_larger_than_any_block_are_blocks_only_where_the_heap_holds_them() {
    let first = rig();
    let bytes = pattern(BLOCK_MAX + 100, 5);
    first.put("k", &bytes).await;
    let rig = roomless(&first, 4 << 20);
    same(whole(&rig, "k").await.unwrap().bytes, &bytes);
    assert_eq!(crate::chains::lookup(&rig, &one("k")).await.matched, 1);
    let rig = roomless(&first, 1 << 18);
    assert_eq!(missed(whole(&rig, "k").await), MissReason::Absent);
    assert_eq!(crate::chains::lookup(&rig, &one("k")).await.miss, Some((0, MissReason::Absent)));
    rig.double.outage.store(true, Ordering::SeqCst);
}

fn one(key: &str) -> std::sync::Arc<blockgate_block::KeyList> {
    std::sync::Arc::new(blockgate_block::KeyList::new("b", "", "", vec![key.to_owned()]).unwrap())
}
