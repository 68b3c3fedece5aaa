//! Lookups of staged blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::MissReason;
use blockgate_store::ChainRequest;

use super::{asked, block, warm};
use crate::chains::{chain, ends, lookup, plant};
use crate::host::{Host, staged};
use crate::support::*;

#[tokio::test]
async fn a_lookup_right_after_a_restart_needs_no_upstream() {
    let host = Host::new();
    let rig = warm(&host, 40).await;
    rig.double.outage.store(true, Ordering::SeqCst);
    let before = asked(&rig);
    let found = lookup(&rig, &chain(40)).await;
    assert_eq!(ends(&found), (40, None));
    assert_eq!((found.tiers.memory, found.tiers.staging, found.tiers.upstream), (0, 40, 0));
    assert_eq!(found.bytes, (0..40).map(|n| block(n).len() as u64).sum::<u64>());
    assert!(found.estimate > Duration::ZERO);
    assert_eq!(rig.store.exists(&chain(40), None, None).await.unwrap(), vec![true; 40]);
    assert_eq!(asked(&rig), before);
    // Where the chain ends, only the upstream could say.
    assert_eq!(ends(&lookup(&rig, &chain(41)).await), (40, Some(MissReason::UpstreamUnavailable)));
}

#[tokio::test]
async fn an_index_too_small_for_the_disk_costs_no_question_to_the_upstream() {
    let mut host = Host::new();
    host.index_entries = 4;
    let rig = warm(&host, 40).await;
    assert!(rig.store.index_len() <= 4);
    rig.double.outage.store(true, Ordering::SeqCst);
    let found = lookup(&rig, &chain(40)).await;
    assert_eq!(ends(&found), (40, None));
    assert_eq!(rig.store.exists(&chain(40), None, None).await.unwrap(), vec![true; 40]);
}

#[tokio::test]
async fn a_prefetch_brings_blocks_from_the_disk() {
    let host = Host::new();
    let rig = warm(&host, 5).await;
    rig.double.outage.store(true, Ordering::SeqCst);
    let keys = chain(5);
    let lease = Some(Duration::from_secs(60));
    let request = ChainRequest { prefetch: true, lease, ..ChainRequest::default() };
    let found = rig.store.lookup(&keys, request).await.unwrap();
    assert_eq!((found.matched, found.tiers.staging), (5, 5));
    while rig.store.chain_stats().leases < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let found = lookup(&rig, &keys).await;
    assert_eq!((found.tiers.memory, found.tiers.staging), (5, 0));
    let speed = rig.store.chain_stats().staging.unwrap();
    assert!(speed.bytes_per_second > 0 && speed.latency > Duration::ZERO);
}

#[tokio::test]
async fn a_lookup_says_of_what_is_in_several_tiers_where_it_is_nearest() {
    let host = Host::new();
    let rig = warm(&host, 3).await;
    rig.bytes("k0").await;
    plant(&rig, 3, block(3), None, None);
    assert_eq!(lookup(&rig, &chain(4)).await.tiers.upstream, 1);
    let found = lookup(&rig, &chain(4)).await;
    assert_eq!((found.tiers.memory, found.tiers.staging, found.tiers.upstream), (1, 2, 1));
    // One that goes from the disk is still at the upstream.
    rig.store.touch(&key_list(&["k1"]), Duration::from_secs(60)).await.unwrap();
    rig.store.delete(&named("k2")).await.unwrap();
    let found = lookup(&rig, &chain(4)).await;
    assert_eq!((found.matched, found.tiers.staging), (2, 1));
}

#[tokio::test]
async fn the_index_knows_who_is_staged_whatever_it_forgot_before() {
    let host = Host::new();
    let rig = host.start().await;
    let keys = Arc::clone(&chain(2));
    for _ in 0..3 {
        rig.put("k0", &block(0)).await;
        rig.put("k1", &block(1)).await;
        staged(&rig, 2).await;
        // Read past the tiers, found to be another one: forgotten, and learned anew.
        assert_eq!(lookup(&rig, &keys).await.matched, 2);
        rig.store.delete(&named("k0")).await.unwrap();
        staged(&rig, 1).await;
        assert_eq!(ends(&lookup(&rig, &keys).await), (0, Some(MissReason::Absent)));
    }
}
