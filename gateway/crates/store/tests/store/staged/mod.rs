//! Blocks that the upstream has and a local disk too.

mod chains;
mod stale;

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{RangeSpec, ReadRequest, StoreError};

use crate::double::Trick;
use crate::host::{Host, staged, until};
use crate::support::*;

const KIB: usize = 1 << 10;

/// A gateway that has just been started on a disk with the blocks `k0`, `k1` …, each of them one byte longer than 100 KiB and
/// the one before.
async fn warm(host: &Host, blocks: usize) -> Rig {
    let rig = host.start().await;
    for n in 0..blocks {
        rig.put(&format!("k{n}"), &block(n)).await;
        staged(&rig, n as u64 + 1).await;
    }
    host.restart(rig).await
}

fn block(n: usize) -> Vec<u8> {
    pattern(100 * KIB + n, n as u64)
}

/// Questions of any kind to the upstream, but for writes.
fn asked(rig: &Rig) -> usize {
    ["get", "head", "list", "tags", "head_bucket"].map(|call| rig.double.count(call)).iter().sum()
}

#[tokio::test]
async fn a_restart_and_a_crash_keep_blocks() {
    let host = Host::new();
    let rig = host.start().await;
    let request = with_meta(&[("kv-fingerprint", "f"), ("kv-ttl", "60"), ("other", "x")]);
    let written = rig.put_with("k", &block(0), request).await.unwrap();
    rig.put("empty", b"").await;
    staged(&rig, 1).await;
    let first = rig.get("k").await.unwrap();
    assert_eq!(first.tier, Tier::Memory);
    let mut rig = host.restart(rig).await;
    for _ in 0..2 {
        let before = asked(&rig);
        let served = rig.get("k").await.unwrap();
        assert_eq!((served.tier, &served.info), (Tier::Staging, &first.info));
        assert_eq!((&served.info.etag, served.info.expires_at()), (&written.etag, written.expires_at));
        same(read(served).await.unwrap(), block(0));
        let served = rig.get("k").await.unwrap();
        assert_eq!((served.tier, &served.info), (Tier::Memory, &first.info), "it was brought to memory");
        same(read(served).await.unwrap(), block(0));
        assert_eq!(asked(&rig), before);
        assert_eq!(rig.metric(r#"blockgate_reads_total{bucket="b",tier="staging"}"#), 1);
        assert_eq!(rig.metric("blockgate_staging_blocks"), 1);
        rig = host.crash(rig).await;
    }
    same(rig.bytes("empty").await, "");
}

#[tokio::test]
async fn what_is_read_from_the_upstream_is_staged() {
    let host = Host::new();
    let writer = host.start().await.another();
    writer.put("k", &block(1)).await;
    host.double.plant("foreign", block(2), meta(&[]));
    let rig = host.start().await;
    for tier in [Tier::Upstream, Tier::Memory] {
        assert_eq!(rig.get("k").await.unwrap().tier, tier);
    }
    same(rig.bytes("foreign").await, block(2));
    staged(&rig, 1).await;
    let rig = host.restart(rig).await;
    let before = asked(&rig);
    let served = rig.get("k").await.unwrap();
    assert_eq!(served.tier, Tier::Staging);
    same(read(served).await.unwrap(), block(1));
    assert_eq!(asked(&rig), before);
    assert_eq!(
        rig.get("foreign").await.unwrap().tier,
        Tier::Upstream,
        "without a record nothing vouches for its bytes"
    );
}

#[tokio::test]
async fn many_readers_read_the_disk_once() {
    let host = Host::new();
    let rig = warm(&host, 1).await;
    let before = asked(&rig);
    let served = futures::future::join_all((0..100).map(|_| rig.get("k0"))).await;
    for served in served {
        let served = served.unwrap();
        assert_eq!(served.tier, Tier::Staging);
        same(read(served).await.unwrap(), block(0));
    }
    assert_eq!(asked(&rig), before);
    assert_eq!(rig.metric("blockgate_single_flight_shared_total"), 99);
    assert_eq!(rig.store.memory_stats().blocks, 1);
}

#[tokio::test]
async fn a_damaged_block_comes_from_the_upstream_in_the_same_read() {
    let host = Host::new();
    let rig = warm(&host, 2).await;
    drop(rig);
    assert_eq!(host.damage(&block(0)), 1);
    let rig = host.start().await;
    let served = rig.get("k0").await.unwrap();
    assert_eq!(served.tier, Tier::Upstream);
    same(read(served).await.unwrap(), block(0));
    assert_eq!(rig.metric(r#"blockgate_corrupt_blocks_total{tier="staging"}"#), 1);
    assert_eq!(rig.metric("blockgate_staging_corrupt_total"), 1);
    assert_eq!(rig.get("k1").await.unwrap().tier, Tier::Staging);
    // What came is staged anew, and found well.
    staged(&rig, 2).await;
    let rig = host.restart(rig).await;
    let served = rig.get("k0").await.unwrap();
    assert_eq!(served.tier, Tier::Staging);
    same(read(served).await.unwrap(), block(0));
}

#[tokio::test]
async fn a_damaged_range_comes_from_the_upstream() {
    let host = Host::new();
    drop(warm(&host, 1).await);
    assert_eq!(host.damage(&block(0)), 1);
    let rig = host.start().await;
    let middle = 50 * KIB as u64;
    let served = rig.store.get(&named("k0"), range(middle - 5, middle + 5)).await.unwrap();
    assert_eq!(served.tier, Tier::Upstream);
    same(read(served).await.unwrap(), &block(0)[50 * KIB - 5..50 * KIB + 6]);
    assert_eq!(rig.metric(r#"blockgate_corrupt_blocks_total{tier="staging"}"#), 1);
}

#[tokio::test]
async fn damage_during_an_outage_is_a_miss() {
    let host = Host::new();
    drop(warm(&host, 2).await);
    assert_eq!(host.damage(&block(0)), 1);
    let rig = host.start().await;
    rig.double.outage.store(true, Ordering::SeqCst);
    assert_eq!(missed(rig.get("k0").await), MissReason::UpstreamUnavailable);
    same(rig.bytes("k1").await, block(1));
}

#[tokio::test]
async fn a_file_that_is_cut_while_it_is_in_use_costs_no_read() {
    let host = Host::new();
    let rig = warm(&host, 2).await;
    for path in host.segments() {
        std::fs::File::options().write(true).open(path).unwrap().set_len(4096).unwrap();
    }
    let first_bytes = rig.store.get(&named("k0"), range(0, 9)).await.unwrap();
    assert_eq!(first_bytes.tier, Tier::Upstream);
    same(read(first_bytes).await.unwrap(), &block(0)[..10]);
    same(rig.bytes("k1").await, block(1));
}

#[tokio::test]
async fn a_disk_that_does_not_answer_is_left_alone() {
    let mut host = Host::new();
    drop(warm(&host, 20).await);
    host.limits.staging_answer = Duration::ZERO;
    host.limits.staging_silence = Duration::from_secs(3600);
    let rig = host.start().await;
    let given_up = || rig.metric(r#"blockgate_limits_hit_total{limit="staging.answer"}"#);
    let mut from_upstream = 0;
    for n in 0..20 {
        let was_given_up = given_up() > 0;
        let served = rig.get(&format!("k{n}")).await.unwrap();
        assert!(served.tier == Tier::Upstream || !was_given_up);
        from_upstream += u32::from(served.tier == Tier::Upstream);
        same(read(served).await.unwrap(), block(n));
    }
    assert!(from_upstream > 0);
    assert_eq!(given_up(), 1, "one of them waited for it");
}

#[tokio::test]
async fn ranges_are_read_without_bringing_the_block() {
    let host = Host::new();
    let rig = warm(&host, 1).await;
    rig.double.outage.store(true, Ordering::SeqCst);
    let len = block(0).len() as u64;
    let get =
        async |spec| rig.store.get(&named("k0"), ReadRequest { range: Some(spec), ..ReadRequest::default() }).await;
    for (spec, expected) in [
        (RangeSpec::From { first: 0, last: Some(0) }, 0..1),
        (RangeSpec::From { first: 4_095, last: Some(70_000) }, 4_095..70_001),
        (RangeSpec::From { first: 65_536, last: None }, 65_536..len),
        (RangeSpec::From { first: len - 1, last: Some(u64::MAX) }, len - 1..len),
        (RangeSpec::Suffix { len_bytes: 100 }, len - 100..len),
    ] {
        let served = get(spec).await.unwrap();
        assert_eq!((served.tier, served.range.clone(), served.info.size_bytes), (Tier::Staging, expected.clone(), len));
        let (first, end) = (usize::try_from(expected.start).unwrap(), usize::try_from(expected.end).unwrap());
        same(read(served).await.unwrap(), &block(0)[first..end]);
    }
    assert_eq!(rig.store.memory_stats().blocks, 0);
    let error = refused(get(RangeSpec::From { first: len, last: None }).await);
    assert!(matches!(error, StoreError::InvalidRange { size_bytes } if size_bytes == len), "{error}");
    // All of it is a block again.
    let served = get(RangeSpec::From { first: 0, last: None }).await.unwrap();
    same(read(served).await.unwrap(), block(0));
    assert_eq!(rig.store.memory_stats().blocks, 1);
}

#[tokio::test]
async fn head_asks_the_disk() {
    let host = Host::new();
    let rig = warm(&host, 1).await;
    let before = asked(&rig);
    for _ in 0..2 {
        let found = rig.head("k0").await.unwrap();
        assert_eq!((found.tier, found.info.etag.clone()), (Tier::Staging, etag_of(&block(0))));
    }
    assert_eq!(asked(&rig), before);
    assert_eq!(rig.store.memory_stats().blocks, 0);
}

#[tokio::test]
async fn fingerprints_and_times_are_kept_on_the_disk() {
    let host = Host::new();
    let rig = host.start().await;
    rig.put_with("k", &block(0), with_meta(&[("kv-fingerprint", "f"), ("kv-ttl", "60")])).await.unwrap();
    staged(&rig, 1).await;
    let of = |fingerprint: &str| ReadRequest { fingerprint: Some(fingerprint.into()), ..ReadRequest::default() };
    let some = |request| ReadRequest { range: Some(RangeSpec::Suffix { len_bytes: 9 }), ..request };
    let mut rig = host.restart(rig).await;
    rig.double.outage.store(true, Ordering::SeqCst);
    for request in [of("g"), some(of("g"))] {
        rig = host.crash(rig).await;
        assert_eq!(missed(rig.store.get(&named("k"), request).await), MissReason::Fingerprint);
        assert!(rig.store.get(&named("k"), some(of("f"))).await.is_ok());
        assert!(rig.store.get(&named("k"), of("f")).await.is_ok());
    }
    let rig = host.crash(rig).await;
    assert_eq!(missed(rig.store.head(&named("k"), of("g")).await), MissReason::Fingerprint);
    rig.double.pass(Duration::from_secs(61));
    for rig in [host.crash(rig).await] {
        // Another gateway may have renewed it: only the upstream can say.
        assert_eq!(missed(rig.get("k").await), MissReason::UpstreamUnavailable);
        assert_eq!(missed(rig.store.get(&named("k"), some(of("f"))).await), MissReason::UpstreamUnavailable);
        rig.double.outage.store(false, Ordering::SeqCst);
        assert_eq!(missed(rig.get("k").await), MissReason::Expired);
        assert_eq!(missed(rig.head("k").await), MissReason::Expired);
        assert_eq!(rig.double.count("get"), 0);
    }
}

#[tokio::test]
async fn a_block_that_finds_no_room_in_memory_comes_from_the_disk() {
    let mut host = Host::new();
    drop(warm(&host, 1).await);
    host.arena_bytes = 4096;
    let rig = host.start().await;
    rig.double.outage.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let served = rig.get("k0").await.unwrap();
        assert_eq!(served.tier, Tier::Staging);
        same(read(served).await.unwrap(), block(0));
        let whole = rig.store.get_whole(&named("k0"), ReadRequest::default()).await.unwrap();
        assert_eq!(whole.tier, Tier::Staging);
        same(whole.bytes, block(0));
    }
}

#[tokio::test]
async fn a_fill_that_a_write_overtook_is_not_staged() {
    let (host, old, new) = (Host::new(), pattern(300 * KIB, 1), pattern(300 * KIB, 2));
    let rig = host.start().await;
    rig.another().put("k", &old).await;
    rig.double.trick(Trick::WaitAfter(1000));
    let served = rig.get("k").await.unwrap();
    rig.put("k", &new).await;
    staged(&rig, 1).await;
    settle().await;
    rig.double.release();
    same(read(served).await.unwrap(), &old);
    let rig = host.restart(rig).await;
    let served = rig.get("k").await.unwrap();
    assert_eq!(served.tier, Tier::Staging);
    same(read(served).await.unwrap(), new);
}

#[tokio::test]
async fn a_gateway_without_the_block_in_its_table_finds_it_on_the_disk() {
    let host = Host::new();
    let rig = warm(&host, 3).await;
    until(&rig, |stats| stats.block_bytes > 300 * KIB as u64).await;
    // What the index forgets, the log still knows.
    rig.double.outage.store(true, Ordering::SeqCst);
    for n in 0..3 {
        assert_eq!(rig.get(&format!("k{n}")).await.unwrap().tier, Tier::Staging);
    }
}
