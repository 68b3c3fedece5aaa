//! Blocks that are acknowledged by the staging log, and uploaded afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{
    BucketPolicies, BucketPolicy, ChainRequest, CopyObject, Limits, StagingSettings, Store, StoreError, StoreParts,
    WriteMode, WriteRequest,
};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{Conditions, ListEntry, ListRequest, Payload, Upstream, UpstreamError};
use tempfile::TempDir;

use crate::double::{Double, Handle, When};
use crate::support::*;

mod damaged;
mod ended;
mod listed;
mod orders;

/// A gateway that writes back, its upstream, and the directory that outlives it.
pub struct Back {
    pub rig: Rig,
    pub disk: TempDir,
    pub setup: Setup,
}

#[derive(Clone)]
pub struct Setup {
    pub limits: Limits,
    pub arena_bytes: u64,
    pub pending_bytes_max: u64,
}

impl Default for Setup {
    fn default() -> Self {
        let limits =
            Limits { upload_retry: Duration::from_millis(1), settle_wait: Duration::from_secs(60), ..limits() };
        Self { limits, arena_bytes: 16 << 20, pending_bytes_max: 64 << 20 }
    }
}

/// Uploads wait for each other.
pub fn one_at_a_time() -> Setup {
    Setup { limits: Limits { uploads_at_once: 1, ..Setup::default().limits }, ..Setup::default() }
}

const SEGMENT_BYTES: u64 = 4 << 20;

async fn open(double: &Arc<Double>, disk: &TempDir, setup: &Setup) -> Rig {
    let metrics = Metrics::new();
    let policy = BucketPolicy { write: WriteMode::Back, max_block_bytes: BLOCK_MAX as u64, ..BucketPolicy::default() };
    let opened = open_after(|| {
        let upstream: Arc<dyn Upstream> = Arc::new(Handle(Arc::clone(double)));
        let parts = StoreParts {
            policies: BucketPolicies::new(Vec::new(), policy.clone()),
            ..parts_on(upstream, setup.arena_bytes, Duration::from_secs(3600), metrics.clone())
        };
        let staging = StagingSettings {
            pending_bytes_max: setup.pending_bytes_max,
            ..staging_in(&disk.path().join("staging"), SEGMENT_BYTES)
        };
        double.release();
        Store::open_with_limits(parts, setup.limits.clone(), staging)
    });
    Rig { double: Arc::clone(double), store: opened.await, metrics }
}

pub async fn back() -> Back {
    back_with(Setup::default()).await
}

pub async fn back_with(setup: Setup) -> Back {
    let (double, disk) = (Double::new(), tempfile::tempdir().unwrap());
    let rig = open(&double, &disk, &setup).await;
    Back { rig, disk, setup }
}

impl Back {
    /// The gateway is killed, and another takes its place.
    pub async fn restart(self) -> Self {
        let Self { rig, disk, setup } = self;
        let Rig { double, store, .. } = rig;
        drop(store);
        let rig = open(&double, &disk, &setup).await;
        Self { rig, disk, setup }
    }

    /// The upstream is out.
    pub fn outage(&self, is_out: bool) {
        self.rig.double.outage.store(is_out, Ordering::SeqCst);
    }

    /// Uploads wait before they commit.
    pub fn hold(&self) {
        self.rig.double.hold_puts.store(true, Ordering::SeqCst);
    }

    /// Lets uploads go, and waits until all is uploaded.
    pub async fn let_go(&self) {
        settle().await;
        self.rig.double.hold_puts.store(false, Ordering::SeqCst);
        self.rig.double.release();
        self.rig.store.drain().await;
    }

    /// Another gateway, which has only the upstream.
    pub fn elsewhere(&self) -> Rig {
        rig_on(Arc::clone(&self.rig.double), limits(), 16 << 20, Duration::ZERO)
    }

    pub fn puts(&self) -> usize {
        self.rig.double.count("put")
    }

    pub fn uploads(&self, outcome: &str) -> u64 {
        let line = format!("blockgate_upstream_requests_total{{operation=\"upload\",outcome=\"{outcome}\"}}");
        self.rig.metric(&line)
    }

    pub async fn list(&self, request: &ListRequest) -> Vec<(String, Option<String>)> {
        let page = self.rig.store.list("b", request).await.unwrap();
        let shown = |entry: ListEntry| match entry {
            ListEntry::Object { key, etag, .. } => (key, Some(etag)),
            ListEntry::CommonPrefix(prefix) => (prefix, None),
        };
        page.entries.into_iter().map(shown).collect()
    }
}

pub fn all() -> ListRequest {
    ListRequest { limit: 1000, ..ListRequest::default() }
}

#[tokio::test]
async fn a_block_is_there_for_all_who_ask_this_gateway_before_it_is_uploaded() {
    let back = back().await;
    back.hold();
    let bytes = pattern(100_000, 1);
    let request = WriteRequest { tags: tags(&[("t", "u")]), ..with_meta(&[("a", "b"), ("kv-ttl", "60")]) };
    let written = back.rig.put_with("k/1", &bytes, request).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    let served = back.rig.get("k/1").await.unwrap();
    assert_eq!((served.tier, &served.info.etag), (Tier::Memory, &written.etag));
    same(read(served).await.unwrap(), &bytes);
    assert_eq!(back.rig.head("k/1").await.unwrap().info.expires_at(), written.expires_at);
    let chain = Arc::new(key_list(&["k/1"]));
    assert_eq!(back.rig.store.lookup(&chain, ChainRequest::default()).await.unwrap().matched, 1);
    assert_eq!(back.list(&all()).await, [("k/1".to_owned(), Some(written.etag.clone()))]);
    assert_eq!(back.rig.store.tags(&named("k/1")).await.unwrap(), tags(&[("t", "u")]));
    assert_eq!(back.rig.store.pending_bytes(), 100_000);
    assert_eq!(back.rig.metric("blockgate_pending_upload_blocks "), 1);
    assert_eq!(missed(back.elsewhere().get("k/1").await), MissReason::Absent);
    back.let_go().await;
    assert_eq!((back.rig.store.pending_bytes(), back.puts()), (0, 1));
    assert_eq!(back.rig.get("k/1").await.unwrap().tier, Tier::Memory);
    assert_eq!(back.list(&all()).await, [("k/1".to_owned(), Some(written.etag.clone()))]);
    let elsewhere = back.elsewhere();
    assert_eq!(back.rig.head("k/1").await.unwrap().info, elsewhere.head("k/1").await.unwrap().info);
    same(elsewhere.bytes("k/1").await, &bytes);
    assert_eq!(elsewhere.store.tags(&named("k/1")).await.unwrap(), tags(&[("t", "u")]));
    assert_eq!(back.uploads("ok"), 1);
}

#[tokio::test]
async fn an_outage_loses_nothing_and_a_restart_neither() {
    let back = back_with(Setup { arena_bytes: 1 << 20, ..Setup::default() }).await;
    let bytes = |n: u64| pattern(60_000 + usize::try_from(n).unwrap(), n);
    back.rig.put("first", b"so that the bucket is known").await;
    back.rig.store.drain().await;
    back.outage(true);
    for n in 0..60 {
        // More than memory holds.
        back.rig.put_with(&format!("k{n}"), &bytes(n), with_meta(&[("kv-ttl", "3600")])).await.unwrap();
    }
    for n in 0..60 {
        same(back.rig.bytes(&format!("k{n}")).await, bytes(n));
    }
    let before = back.rig.head("k7").await.unwrap().info;
    let back = back.restart().await;
    for n in 0..60 {
        let served = back.rig.get(&format!("k{n}")).await.unwrap();
        assert_eq!(served.tier, Tier::Staging);
        same(read(served).await.unwrap(), bytes(n));
    }
    assert_eq!(back.rig.head("k7").await.unwrap().info, before);
    // That the first one was uploaded is written down a moment later: until then it is asked about once more.
    assert!([60, 61].contains(&back.rig.metric("blockgate_pending_upload_blocks ")));
    back.outage(false);
    back.rig.store.drain().await;
    let elsewhere = back.elsewhere();
    for n in 0..60 {
        same(elsewhere.bytes(&format!("k{n}")).await, bytes(n));
    }
    let there = elsewhere.head("k7").await.unwrap().info;
    assert_eq!((there.record, &there.etag), (before.record, &before.etag));
    assert_eq!(back.rig.double.keys().len(), 61);
}

#[tokio::test]
async fn overwrites_go_up_once_and_the_last_one_wins() {
    let back = back().await;
    back.hold();
    back.rig.put("k", b"one").await;
    settle().await;
    for bytes in [b"two", b"3rd", b"4th"] {
        back.rig.put("k", bytes).await;
        same(back.rig.bytes("k").await, bytes);
    }
    assert_eq!(back.rig.store.pending_bytes(), 3);
    back.let_go().await;
    assert_eq!(back.puts(), 2, "the one under way, and the last");
    same(back.rig.bytes("k").await, "4th");
    same(back.elsewhere().bytes("k").await, "4th");
    let back = back.restart().await;
    same(back.rig.bytes("k").await, "4th");
    back.rig.store.drain().await;
    assert_eq!(back.puts(), 2);
}

#[tokio::test]
async fn what_the_log_does_not_take_goes_through() {
    let back = back().await;
    let absent = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let request = WriteRequest { conditions: absent, ..WriteRequest::default() };
    back.hold();
    let store = Arc::clone(&back.rig.store);
    let put = tokio::spawn(async move { store.put(&named("c"), request, Payload::Bytes("block".into())).await });
    let store = Arc::clone(&back.rig.store);
    let empty =
        tokio::spawn(async move { store.put(&named("e"), WriteRequest::default(), Payload::Bytes("".into())).await });
    settle().await;
    assert!(!put.is_finished() && !empty.is_finished());
    assert_eq!(back.rig.store.pending_bytes(), 0);
    back.let_go().await;
    put.await.unwrap().unwrap();
    empty.await.unwrap().unwrap();
    let body = |bytes: &'static str| back.rig.store.take_in("b", Payload::Bytes(bytes.into()));
    let members = vec![
        (named("g/1"), WriteRequest::default(), body("one").await.unwrap()),
        (named("g/2"), WriteRequest::default(), body("two").await.unwrap()),
    ];
    back.rig.store.put_group(members).await.unwrap();
    assert_eq!(back.rig.store.pending_bytes(), 0);
    same(back.elsewhere().bytes("g/2").await, "two");
}

#[tokio::test]
async fn a_condition_is_judged_by_what_was_acknowledged() {
    let back = back().await;
    back.rig.put("k", b"one").await;
    let absent = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let request = WriteRequest { conditions: absent, ..WriteRequest::default() };
    assert!(matches!(refused(back.rig.put_with("k", b"two", request).await), StoreError::PreconditionFailed));
    let the_same = Conditions { if_match: Some(etag_of(b"one")), ..Conditions::default() };
    let request = WriteRequest { conditions: the_same, ..WriteRequest::default() };
    back.rig.put_with("k", b"two", request).await.unwrap();
    let back = back.restart().await;
    same(back.rig.bytes("k").await, "two");
}

#[tokio::test]
async fn one_that_finds_no_room_waits_and_is_then_asked_to_slow_down() {
    let limits = Limits { heap_wait: Duration::from_millis(20), ..Setup::default().limits };
    let back = back_with(Setup { limits, pending_bytes_max: 100, ..Setup::default() }).await;
    back.hold();
    back.rig.put("a", &[1; 100]).await;
    let error = refused(back.rig.put_with("b", &[2; 100], WriteRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::SlowDown)), "{error}");
    assert_eq!(back.rig.metric("blockgate_limits_hit_total{limit=\"staging.pending\"}"), 1);
    same(back.rig.bytes("a").await, [1; 100]);
    assert_eq!(missed(back.rig.get("b").await), MissReason::Absent);
    back.let_go().await;
    back.rig.put("b", &[2; 100]).await;
    let back = back_with(Setup { pending_bytes_max: 100, ..Setup::default() }).await;
    back.hold();
    back.rig.put("a", &[1; 100]).await;
    let store = Arc::clone(&back.rig.store);
    let put = tokio::spawn(async move {
        store.put(&named("b"), WriteRequest::default(), Payload::Bytes(vec![2; 100].into())).await
    });
    settle().await;
    assert!(!put.is_finished(), "it waits for room");
    back.let_go().await;
    put.await.unwrap().unwrap();
    back.let_go().await;
    same(back.elsewhere().bytes("b").await, [2; 100]);
}

#[tokio::test]
async fn a_bucket_that_was_there_is_believed_after_a_restart_while_the_store_is_out() {
    let back = back().await;
    back.rig.put("k", b"block").await;
    back.rig.store.drain().await;
    // Its name is written in the background.
    let name = back.disk.path().join("staging/buckets");
    while !name.exists() {
        settle().await;
    }
    back.outage(true);
    let back = back.restart().await;
    back.rig.put("l", b"later").await;
    back.outage(false);
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("l").await, "later");
}

#[tokio::test]
async fn no_bucket_is_believed_that_was_never_there() {
    let back = back().await;
    let error = refused(back.rig.put_with("no-such:k", b"block", WriteRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchBucket)), "{error}");
    back.outage(true);
    let error = refused(back.rig.put_with("unknown:k", b"block", WriteRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
    assert_eq!(back.rig.store.pending_bytes(), 0);
}

#[tokio::test]
async fn large_blocks_go_up_in_parts() {
    let limits = Limits { upload_call_bytes: 100_000, ..Setup::default().limits };
    let back = back_with(Setup { limits, ..Setup::default() }).await;
    let bytes = pattern(260_001, 3);
    let request = WriteRequest { tags: tags(&[("t", "u")]), ..with_meta(&[("kv-ttl", "60"), ("a", "b")]) };
    let written = back.rig.put_with("k", &bytes, request).await.unwrap();
    back.rig.store.drain().await;
    assert_eq!((back.puts(), back.rig.double.count("upload_part")), (0, 11));
    let elsewhere = back.elsewhere();
    same(elsewhere.bytes("k").await, &bytes);
    let there = elsewhere.head("k").await.unwrap().info;
    assert_eq!((&there.etag, there.expires_at()), (&written.etag, written.expires_at));
    assert_eq!(there.attributes.user.get("a").map(String::as_str), Some("b"));
    assert_eq!(elsewhere.store.tags(&named("k")).await.unwrap(), tags(&[("t", "u")]));
}

#[tokio::test]
async fn others_go_up_while_one_is_refused() {
    let back = back_with(one_at_a_time()).await;
    back.rig.double.refuse_puts_of("bad");
    back.rig.put("bad", b"block").await;
    back.rig.put("good", b"block").await;
    while back.rig.double.object("good").is_none() || back.uploads("refused") < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    same(back.rig.bytes("bad").await, "block");
    back.rig.double.refuse_puts_of("");
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("bad").await, "block");
}

fn copy(source: &str, target: &str) -> CopyObject {
    CopyObject {
        source: named(source),
        source_conditions: Conditions::default(),
        target: named(target),
        attributes: None,
        tags: None,
        conditions: Conditions::default(),
    }
}
