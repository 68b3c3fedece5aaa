//! Estimates, prefetches and leases of chains.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{KeyList, MissReason, Tier};
use blockgate_store::{ChainMatch, ChainRequest};

use crate::chains::{chain, chain_in, lookup, plant};
use crate::double::Trick;
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const KIB: usize = 1 << 10;

async fn lease(rig: &Rig, keys: &Arc<KeyList>, lease: Duration) -> ChainMatch {
    let request = ChainRequest { lease: Some(lease), ..ChainRequest::default() };
    rig.store.lookup(keys, request).await.unwrap()
}

async fn prefetch(rig: &Rig, keys: &Arc<KeyList>, lease: Option<Duration>) -> ChainMatch {
    let request = ChainRequest { prefetch: true, lease, ..ChainRequest::default() };
    let found = rig.store.lookup(keys, request).await.unwrap();
    settle().await;
    found
}

async fn within(rig: &Rig, keys: &Arc<KeyList>, deadline: Duration) -> ChainMatch {
    rig.store.lookup(keys, ChainRequest { deadline: Some(deadline), ..ChainRequest::default() }).await.unwrap()
}

/// A gateway with little memory, whose upstream has a chain of 64 KiB blocks.
async fn small(blocks: usize) -> Rig {
    let rig = rig_with(limits(), 1 << 20, Duration::from_secs(3600));
    (0..blocks).for_each(|n| plant(&rig, n, pattern(64 * KIB, n as u64), None, None));
    rig
}

/// Fills memory with something else.
async fn press(rig: &Rig) {
    for n in 0..40 {
        rig.put(&format!("other{n}"), &pattern(64 * KIB, 1000 + n)).await;
    }
}

#[tokio::test]
async fn a_match_is_brought_to_memory() {
    let rig = small(3).await;
    let found = prefetch(&rig, &chain(5), None).await;
    assert_eq!((found.matched, found.tiers.upstream), (3, 3));
    assert_eq!(rig.double.count("get"), 3);
    let found = lookup(&rig, &chain(3)).await;
    assert_eq!((found.matched, found.tiers.memory), (3, 3));
    for n in 0..3 {
        same(rig.bytes(&format!("k{n}")).await, pattern(64 * KIB, n));
    }
    assert_eq!(rig.double.count("get"), 3);
    prefetch(&rig, &chain(3), None).await;
    assert_eq!(rig.double.count("get"), 3, "what is there is not brought again");
}

#[tokio::test]
async fn a_prefetch_is_bounded_and_stops_at_what_is_gone() {
    let rig = small(40).await;
    let found = prefetch(&rig, &chain(40), None).await;
    assert_eq!(found.matched, 40);
    assert_eq!(rig.double.count("get"), 4, "a quarter of memory");
    let rig = small(4).await;
    assert_eq!(lookup(&rig, &chain(4)).await.matched, 4);
    rig.double.steal("k0");
    let found = prefetch(&rig, &chain(4), None).await;
    assert_eq!(found.matched, 4, "as far as this gateway knows");
    let found = lookup(&rig, &chain(4)).await;
    assert_eq!(found.miss, Some((0, MissReason::Absent)), "what was found missing is known");
}

#[tokio::test]
async fn an_answer_never_waits_for_its_prefetch() {
    let rig = small(3).await;
    rig.double.trick(Trick::Silent);
    rig.double.trick(Trick::Silent);
    rig.double.trick(Trick::Silent);
    assert_eq!(prefetch(&rig, &chain(3), Some(SECOND)).await.matched, 3);
    assert_eq!(rig.double.count("get"), 3);
}

#[tokio::test]
async fn eviction_takes_the_tail_of_a_chain_first() {
    let rig = small(6).await;
    for n in 0..6 {
        rig.bytes(&format!("k{n}")).await;
    }
    rig.store.used(&chain(6), 6);
    settle().await;
    for n in 0..11 {
        rig.put(&format!("other{n}"), &pattern(64 * KIB, n)).await;
    }
    assert_eq!(rig.store.memory_stats().blocks, 14);
    let tiers: Vec<Tier> = {
        let mut tiers = Vec::new();
        for n in 0..6 {
            tiers.push(rig.head(&format!("k{n}")).await.unwrap().tier);
        }
        tiers
    };
    assert_eq!(tiers, [Tier::Memory, Tier::Memory, Tier::Memory, Tier::Upstream, Tier::Upstream, Tier::Upstream]);
}

#[tokio::test]
async fn leased_blocks_outlast_pressure_until_the_lease_ends() {
    let rig = small(3).await;
    prefetch(&rig, &chain(3), None).await;
    let found = lease(&rig, &chain(3), 60 * SECOND).await;
    assert_eq!(found.lease_expires_at, Some(rig.double.now() + 60 * SECOND));
    let stats = rig.store.chain_stats();
    assert_eq!((stats.leases, stats.lease_bytes), (3, 3 * 64 * KIB as u64));
    assert_eq!(rig.metric("blockgate_lease_bytes"), 3 * 64 * KIB as u64);
    press(&rig).await;
    let gets = rig.double.count("get");
    let found = lookup(&rig, &chain(3)).await;
    assert_eq!((found.matched, found.tiers.memory), (3, 3));
    for n in 0..3 {
        same(rig.bytes(&format!("k{n}")).await, pattern(64 * KIB, n));
    }
    assert_eq!(rig.double.count("get"), gets);
    rig.double.pass(60 * SECOND);
    assert_eq!(rig.store.chain_stats().leases, 0);
    press(&rig).await;
    assert_eq!(lookup(&rig, &chain(3)).await.tiers.upstream, 3);
}

#[tokio::test]
async fn a_lease_says_when_it_is_not_for_all_that_is_in_memory() {
    let rig = small(9).await;
    for n in 0..6 {
        rig.bytes(&format!("k{n}")).await;
    }
    let found = lease(&rig, &chain(9), SECOND).await;
    assert_eq!(
        (found.matched, found.tiers.memory, found.lease_expires_at),
        (9, 6, None),
        "six are more than a quarter"
    );
    assert_eq!(rig.store.chain_stats().leases, 4);
    rig.double.pass(2 * SECOND);
    let found = lease(&rig, &chain(4), SECOND).await;
    assert_eq!(found.lease_expires_at, Some(rig.double.now() + SECOND));
    let cold = rig.another();
    assert_eq!(lease(&cold, &chain(4), SECOND).await.lease_expires_at, None, "none of them is in memory");
    // At most ten minutes.
    let found = lease(&rig, &chain(4), 10_000 * SECOND).await;
    assert_eq!(found.lease_expires_at, Some(rig.double.now() + 600 * SECOND));
}

#[tokio::test]
async fn what_a_prefetch_brings_is_leased_too() {
    let rig = small(3).await;
    let found = prefetch(&rig, &chain(3), Some(60 * SECOND)).await;
    assert_eq!(found.lease_expires_at, None, "not yet");
    assert_eq!(rig.store.chain_stats().leases, 3);
    press(&rig).await;
    assert_eq!(lookup(&rig, &chain(3)).await.tiers.memory, 3);
}

#[tokio::test]
async fn a_lease_never_keeps_what_was_replaced_deleted_or_has_expired() {
    let rig = rig();
    for n in 0..4 {
        let ttl: &[(&str, &str)] = if n == 3 { &[("kv-ttl", "5")] } else { &[] };
        rig.put_with(&format!("k{n}"), &pattern(100, n), with_meta(ttl)).await.unwrap();
    }
    let found = lease(&rig, &chain(4), 60 * SECOND).await;
    assert_eq!(found.lease_expires_at, Some(rig.double.now() + 5 * SECOND), "no longer than the block itself");
    rig.put("k0", &pattern(100, 77)).await;
    rig.store.delete(&named("k1")).await.unwrap();
    rig.store.set_tags(&named("k2"), tags(&[("kv-ttl", "1000")])).await.unwrap();
    same(rig.bytes("k0").await, pattern(100, 77));
    assert_eq!(missed(rig.get("k1").await), MissReason::Absent);
    rig.double.pass(5 * SECOND);
    assert_eq!(missed(rig.get("k3").await), MissReason::Expired);
    same(rig.bytes("k2").await, pattern(100, 2));
    let found = lookup(&rig, &chain(4)).await;
    assert_eq!(found.miss, Some((1, MissReason::Absent)));
}

#[tokio::test]
async fn what_is_deleted_by_prefix_or_fingerprint_is_leased_no_longer() {
    let rig = rig();
    for n in 0..4 {
        let fingerprint = if n < 2 { "f" } else { "g" };
        rig.put_with(&format!("k{n}"), &pattern(100, n), with_meta(&[("kv-fingerprint", fingerprint)])).await.unwrap();
    }
    lease(&rig, &chain(4), 60 * SECOND).await;
    rig.store.delete_fingerprint("b", "f").await.unwrap();
    rig.store.delete_prefix("b", "k3").await.unwrap();
    assert_eq!(rig.store.chain_stats().leases, 1);
    assert_eq!(rig.store.exists(&chain(4), None, None).await.unwrap(), [false, false, true, false]);
}

#[tokio::test]
async fn a_match_is_what_can_be_delivered_in_time() {
    let rig = small(6).await;
    for n in 0..3 {
        rig.bytes(&format!("k{n}")).await;
    }
    rig.store.exists(&chain(6), None, None).await.unwrap();
    // An upstream that was measured to be quick, and a client that takes a minute a block.
    assert_eq!(within(&rig, &chain(6), 3600 * SECOND).await.matched, 6);
    rig.store.delivered(Tier::Memory, 64 * KIB as u64, 60 * SECOND);
    let found = within(&rig, &chain(6), 150 * SECOND).await;
    assert_eq!((found.matched, found.miss), (2, Some((2, MissReason::Deadline))));
    assert!((120 * SECOND..150 * SECOND).contains(&found.estimate), "{:?}", found.estimate);
    assert_eq!(found.bytes, 2 * 64 * KIB as u64);
    let all = lookup(&rig, &chain(6)).await;
    assert_eq!(all.matched, 6, "without a deadline, all of it");
    assert!(all.estimate >= 360 * SECOND);
    // A bucket whose deadline is over at once.
    rig.put("instant:k0", b"bytes").await;
    let none = lookup(&rig, &chain_in("instant", 1)).await;
    assert_eq!((none.matched, none.miss), (0, Some((0, MissReason::Deadline))));
}

#[tokio::test]
async fn an_upstream_thought_slow_is_tried_again() {
    let rig = small(2).await;
    rig.store.exists(&chain(2), None, None).await.unwrap();
    let found = within(&rig, &chain(2), Duration::ZERO).await;
    assert_eq!((found.matched, found.miss), (0, Some((0, MissReason::Deadline))));
    settle().await;
    assert_eq!(rig.double.count("get"), 1, "one block, to measure it");
    assert_eq!(lookup(&rig, &chain(2)).await.tiers.memory, 1);
}
