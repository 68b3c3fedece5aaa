//! Deleting by keys, by prefix and by fingerprint.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::MissReason;
use blockgate_store::StoreError;
use blockgate_upstream::UpstreamError;

use crate::support::*;

async fn put_for(rig: &Rig, key: &str, fingerprint: &str) {
    rig.put_with(key, key.as_bytes(), with_meta(&[("kv-fingerprint", fingerprint)])).await.unwrap();
}

#[tokio::test]
async fn keys_are_deleted_in_batches_and_counted() {
    let rig = rig();
    for key in ["a", "b", "c"] {
        rig.put(key, b"x").await;
    }
    let mut keys: Vec<String> = (0..2500).map(|n| format!("absent{n}")).collect();
    keys.extend(["a", "b", "a", "locked"].map(str::to_owned));
    let keys = blockgate_block::KeyList::new("b", "", "", keys).unwrap();
    // A spawned task, as a face has it.
    let store = rig.store.clone();
    let deleted = tokio::spawn(async move { store.delete_keys(&keys).await }).await.unwrap().unwrap();
    assert_eq!((deleted, rig.double.count("delete_many")), (2502, 3));
    assert_eq!(rig.double.keys(), ["c"]);
    for key in ["a", "b"] {
        assert_eq!(missed(rig.get(key).await), MissReason::Absent);
    }
    assert_eq!((rig.double.count("get"), rig.bytes("c").await.len()), (0, 1));
}

#[tokio::test]
async fn a_prefix_is_deleted_page_by_page() {
    let rig = rig();
    let other = rig.another();
    for n in 0..1200 {
        other.put(&format!("p/{n:04}"), b"x").await;
    }
    for key in ["p", "p0", "q/1", "past:p/1"] {
        rig.put(key, b"kept").await;
    }
    rig.bytes("p/0007").await;
    let store = rig.store.clone();
    let deleted = tokio::spawn(async move { store.delete_prefix("b", "p/").await }).await.unwrap().unwrap();
    assert_eq!(deleted, 1200);
    assert_eq!(rig.double.keys(), ["p", "p0", "q/1"]);
    assert_eq!(missed(rig.get("p/0007").await), MissReason::Absent);
    assert_eq!(rig.store.delete_prefix("b", "p/").await.unwrap(), 0);
    assert_eq!(rig.store.delete_prefix("past", "p").await.unwrap(), 1);
}

#[tokio::test]
async fn what_memory_alone_still_has_goes_too() {
    let rig = rig();
    put_for(&rig, "p/1", "f").await;
    put_for(&rig, "p/2", "f").await;
    rig.double.steal("p/1");
    rig.double.steal("p/2");
    assert!(rig.get("p/1").await.is_ok(), "memory has it");
    rig.store.delete_prefix("b", "p/1").await.unwrap();
    assert_eq!(missed(rig.get("p/1").await), MissReason::Absent);
    assert_eq!(rig.store.delete_fingerprint("b", "f").await.unwrap(), 0);
    assert_eq!(missed(rig.get("p/2").await), MissReason::Absent);
}

#[tokio::test]
async fn acknowledged_blocks_are_deleted_before_they_are_uploaded_or_after() {
    for by_fingerprint in [false, true] {
        let rig = rig();
        rig.double.hold_puts.store(true, Ordering::SeqCst);
        put_for(&rig, "async:p/1", "f").await;
        put_for(&rig, "async:q/1", "g").await;
        assert_eq!(rig.store.pending_bytes(), 18);
        let deleting = async {
            if by_fingerprint {
                rig.store.delete_fingerprint("async", "f").await
            } else {
                rig.store.delete_prefix("async", "p/").await
            }
        };
        let releasing = async {
            for _ in 0..3 {
                settle().await;
                rig.double.release();
            }
        };
        let (deleted, ()) = tokio::join!(deleting, releasing);
        assert_eq!(deleted.unwrap(), 1);
        rig.store.drain().await;
        assert_eq!(missed(rig.get("async:p/1").await), MissReason::Absent);
        assert_eq!(rig.bytes("async:q/1").await, "async:q/1");
        assert_eq!(missed(rig.another().get("async:p/1").await), MissReason::Absent);
    }
}

#[tokio::test]
async fn a_failure_is_told_after_all_the_rest_is_gone() {
    let rig = rig();
    for key in ["locked/1", "l", "m"] {
        rig.put(key, b"x").await;
    }
    let error = refused(rig.store.delete_prefix("b", "").await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::AccessDenied(_))), "{error}");
    assert_eq!(rig.double.keys(), ["locked/1"]);
    assert_eq!(rig.bytes("locked/1").await, "x");
}

#[tokio::test]
async fn a_fingerprint_is_deleted_wherever_it_was_stored() {
    let rig = rig();
    let other = rig.another();
    for n in 0..50 {
        put_for(&rig, &format!("a{n}"), ["f", "g"][n % 2]).await;
        put_for(&other, &format!("b{n}"), ["f", "g"][n % 2]).await;
    }
    rig.put("none", b"x").await;
    put_for(&rig, "past:a", "f").await;
    let heads = rig.double.count("head");
    let store = rig.store.clone();
    let deleted = tokio::spawn(async move { store.delete_fingerprint("b", "f").await }).await.unwrap().unwrap();
    assert_eq!(deleted, 50);
    // Its own are known: one look before each deletion. All others are asked about, and those of `f` once more.
    assert_eq!(rig.double.count("head") - heads, 25 + 76 + 25);
    assert_eq!(rig.double.keys().len(), 51);
    for n in 0..50 {
        for key in [format!("a{n}"), format!("b{n}")] {
            assert_eq!(rig.get(&key).await.is_ok(), n % 2 == 1, "{key}");
        }
    }
    assert!(refused(rig.store.delete_fingerprint("past", "f").await).to_string().contains("passthrough"));
}

#[tokio::test]
async fn a_block_that_another_gateway_overwrote_for_another_fingerprint_stays() {
    let rig = rig();
    put_for(&rig, "k", "f").await;
    put_for(&rig.another(), "k", "g").await;
    put_for(&rig, "l", "g").await;
    put_for(&rig.another(), "l", "f").await;
    assert_eq!(rig.store.delete_fingerprint("b", "f").await.unwrap(), 1);
    assert_eq!(rig.double.keys(), ["k"]);
    assert_eq!(rig.head("k").await.unwrap().info.fingerprint(), Some("g"), "what was known of it is forgotten");
    assert_eq!(missed(rig.get("l").await), MissReason::Absent);
}

#[tokio::test]
async fn a_block_whose_fingerprint_cannot_be_learned_stays() {
    let rig = rig();
    put_for(&rig.another(), "k", "f").await;
    put_for(&rig, "l", "f").await;
    rig.double.fail_heads_of("k");
    let error = refused(rig.store.delete_fingerprint("b", "f").await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::SlowDown)), "{error}");
    assert_eq!(rig.double.keys(), ["k"]);
}

#[tokio::test]
async fn expired_blocks_are_deleted_too() {
    let rig = rig();
    rig.put_with("k", b"x", with_meta(&[("kv-ttl", "1"), ("kv-fingerprint", "f")])).await.unwrap();
    rig.put_with("l", b"x", with_meta(&[("kv-ttl", "1"), ("kv-fingerprint", "f")])).await.unwrap();
    rig.double.pass(Duration::from_secs(2));
    assert_eq!(rig.store.delete_prefix("b", "k").await.unwrap(), 1);
    assert_eq!(rig.store.delete_fingerprint("b", "f").await.unwrap(), 1);
    assert_eq!(rig.double.keys(), Vec::<String>::new());
}
