//! What a write replaces, removes or describes anew never comes back from the disk.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{CompletePart, CopyObject, ReadRequest, Store, WriteRequest};
use blockgate_upstream::{Conditions, Payload};
use bytes::Bytes;

use super::{asked, block, warm};
use crate::host::{Host, staged, until};
use crate::support::*;

/// Ways to change what is at `k0`.
const CHANGES: [&str; 14] = [
    "overwrite",
    "overwrite if it is there",
    "overwrite with as many bytes",
    "overwrite with a large object",
    "delete",
    "delete many",
    "delete by prefix",
    "delete by fingerprint",
    "copy onto",
    "complete an upload",
    "store a group",
    "touch",
    "tag",
    "describe anew",
];

async fn change(rig: &Rig, how: &str) {
    let (store, key) = (&rig.store, named("k0"));
    let other = block(7);
    match how {
        "overwrite" => drop(rig.put("k0", &other).await),
        "overwrite if it is there" => {
            let conditions = Conditions { if_match: Some("*".into()), ..Conditions::default() };
            let request = WriteRequest { conditions, ..WriteRequest::default() };
            rig.put_with("k0", &other, request).await.unwrap();
        }
        "overwrite with as many bytes" => drop(rig.put("k0", &pattern(block(0).len(), 99)).await),
        "overwrite with a large object" => drop(rig.put("k0", &pattern(BLOCK_MAX + 1, 3)).await),
        "delete" => store.delete(&key).await.unwrap(),
        "delete many" => assert_eq!(store.delete_keys(&key_list(&["k0", "none"])).await.unwrap(), 2),
        "delete by prefix" => assert_eq!(store.delete_prefix("b", "k0").await.unwrap(), 1),
        "delete by fingerprint" => assert_eq!(store.delete_fingerprint("b", "f").await.unwrap(), 1),
        "copy onto" => {
            rig.put("source", &other).await;
            store.copy(copy("source", "k0")).await.unwrap();
        }
        "complete an upload" => complete(store, &other).await,
        "store a group" => {
            let body = store.take_in("b", payload(&other)).await.unwrap();
            store.put_group(vec![(key, WriteRequest::default(), body)]).await.unwrap();
        }
        "touch" => assert_eq!(store.touch(&key_list(&["k0"]), Duration::from_secs(9)).await.unwrap(), 1),
        "tag" => store.set_tags(&key, tags(&[("kv-ttl", "9")])).await.unwrap(),
        "describe anew" => {
            let described = CopyObject { attributes: Some(meta(&[("kv-fingerprint", "g")])), ..copy("k0", "k0") };
            store.copy(described).await.unwrap();
        }
        _ => unreachable!("{how}"),
    }
}

async fn complete(store: &Store, bytes: &[u8]) {
    let key = named("k0");
    let id = store.create_multipart(&key, WriteRequest::default()).await.unwrap();
    let etag = store.upload_part(&key, &id, 1, payload(bytes)).await.unwrap();
    let parts = vec![CompletePart { number: 1, etag }];
    store.complete_multipart(&key, &id, parts, WriteRequest::default()).await.unwrap();
}

fn payload(bytes: &[u8]) -> Payload {
    Payload::Bytes(Bytes::copy_from_slice(bytes))
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

/// A gateway that has `k0`, stored for fingerprint `f`, on its disk, and has just been started on it or not.
async fn begin(host: &Host, is_restarted: bool) -> Rig {
    let rig = host.start().await;
    rig.put_with("k0", &block(0), with_meta(&[("kv-fingerprint", "f"), ("kv-ttl", "60")])).await.unwrap();
    staged(&rig, 1).await;
    if is_restarted { host.restart(rig).await } else { rig }
}

/// Asserts that a gateway with a disk says of `k0` what one without says.
async fn agrees(rig: &Rig, how: &str) {
    let truth = rig.another();
    match (truth.get("k0").await, rig.get("k0").await) {
        (Ok(expected), Ok(served)) => {
            let (seen, known) = (&served.info, &expected.info);
            assert_eq!((&seen.etag, seen.expires_at()), (&known.etag, known.expires_at()), "{how}");
            assert_eq!(seen.fingerprint(), known.fingerprint(), "{how}");
            same(read(served).await.unwrap(), read(expected).await.unwrap());
        }
        (expected, served) => assert_eq!(missed(served), missed(expected), "{how}"),
    }
    let of = |fingerprint: &str| ReadRequest { fingerprint: Some(fingerprint.into()), ..ReadRequest::default() };
    for fingerprint in ["f", "g"] {
        let expected = truth.store.head(&named("k0"), of(fingerprint)).await;
        let found = rig.store.head(&named("k0"), of(fingerprint)).await;
        assert_eq!(found.is_ok(), expected.is_ok(), "{how} {fingerprint}");
        let listed = rig.store.exists(&std::sync::Arc::new(key_list(&["k0"])), Some(fingerprint), None).await.unwrap();
        assert_eq!(listed, [expected.is_ok()], "{how} {fingerprint}");
    }
}

#[tokio::test]
async fn a_change_holds_at_once_and_after_a_restart_and_after_a_crash() {
    for how in CHANGES {
        for is_restarted in [false, true] {
            let host = Host::new();
            let rig = begin(&host, is_restarted).await;
            change(&rig, how).await;
            agrees(&rig, how).await;
            let rig = host.crash(rig).await;
            agrees(&rig, how).await;
            let rig = host.restart(rig).await;
            agrees(&rig, how).await;
        }
    }
}

#[tokio::test]
async fn a_change_holds_after_a_crash_while_the_upstream_is_out() {
    for how in CHANGES {
        let host = Host::new();
        let rig = begin(&host, true).await;
        change(&rig, how).await;
        let truth = rig.another();
        let expected = match truth.get("k0").await {
            Ok(served) => Some((served.info.etag.clone(), served.info.expires_at())),
            Err(_) => None,
        };
        let rig = host.crash(rig).await;
        rig.double.outage.store(true, Ordering::SeqCst);
        match rig.get("k0").await {
            Ok(served) => assert_eq!(Some((served.info.etag.clone(), served.info.expires_at())), expected, "{how}"),
            Err(_) => assert_eq!(missed(rig.get("k0").await), MissReason::UpstreamUnavailable, "{how}"),
        }
        rig.double.outage.store(false, Ordering::SeqCst);
        agrees(&rig, how).await;
    }
}

#[tokio::test]
async fn a_block_that_lives_on_is_described_by_the_upstream_and_read_from_the_disk() {
    for how in ["touch", "tag", "describe anew"] {
        let host = Host::new();
        let rig = begin(&host, true).await;
        change(&rig, how).await;
        let rig = host.restart(rig).await;
        let before = (rig.double.count("get"), rig.double.count("head"));
        assert_eq!(rig.head("k0").await.unwrap().tier, Tier::Staging, "{how}");
        let served = rig.get("k0").await.unwrap();
        assert_eq!(served.tier, Tier::Staging, "{how}");
        same(read(served).await.unwrap(), block(0));
        assert_eq!((rig.double.count("get"), rig.double.count("head")), (before.0, before.1 + 1), "{how}");
    }
}

#[tokio::test]
async fn what_another_gateway_renewed_is_read_from_the_disk() {
    let host = Host::new();
    let rig = begin(&host, true).await;
    let other = rig.another();
    rig.double.pass(Duration::from_secs(30));
    other.store.touch(&key_list(&["k0"]), Duration::from_secs(600)).await.unwrap();
    rig.double.pass(Duration::from_secs(60));
    let gets = rig.double.count("get");
    let served = rig.get("k0").await.unwrap();
    assert_eq!(served.info.expires_at(), other.head("k0").await.unwrap().info.expires_at());
    assert_eq!(served.tier, Tier::Staging);
    same(read(served).await.unwrap(), block(0));
    assert_eq!(rig.double.count("get"), gets);
}

#[tokio::test]
async fn what_another_gateway_overwrote_or_removed_is_found_out_where_the_upstream_is_asked() {
    for is_removed in [false, true] {
        let host = Host::new();
        let rig = begin(&host, true).await;
        change(&rig, "touch").await;
        let rig = host.restart(rig).await;
        if is_removed {
            rig.double.steal("k0");
            assert_eq!(missed(rig.get("k0").await), MissReason::Absent);
            until(&rig, |stats| stats.blocks == 0).await;
        } else {
            rig.another().put("k0", &block(5)).await;
            let served = rig.get("k0").await.unwrap();
            assert_eq!(served.tier, Tier::Upstream);
            same(read(served).await.unwrap(), block(5));
        }
        agrees(&host.crash(rig).await, "by another gateway").await;
    }
}

#[tokio::test]
async fn a_bucket_that_was_not_cached_meanwhile_shows_nothing_old() {
    let host = Host::new();
    let rig = host.start().await;
    rig.put("k0", &block(0)).await;
    staged(&rig, 1).await;
    // As if its mode had been changed between two starts: the same object, written past the tiers.
    let key = named("past:k0");
    rig.store.put(&key, WriteRequest::default(), payload(&block(1))).await.unwrap();
    rig.store.delete(&key).await.unwrap();
    assert_eq!(rig.store.staging_stats().unwrap().blocks, 1, "another key's");
}

#[tokio::test]
async fn a_write_that_fails_leaves_the_truth() {
    let host = Host::new();
    let rig = warm(&host, 2).await;
    rig.double.failing_puts.store(1, Ordering::SeqCst);
    assert!(rig.put_with("k0", &block(7), WriteRequest::default()).await.is_err());
    let conditions = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let request = WriteRequest { conditions, ..WriteRequest::default() };
    assert!(rig.put_with("k1", &block(7), request).await.is_err());
    let rig = host.crash(rig).await;
    for n in 0..2 {
        same(rig.bytes(&format!("k{n}")).await, block(n));
    }
    let before = asked(&rig);
    same(rig.bytes("k0").await, block(0));
    assert_eq!(asked(&rig), before);
}
