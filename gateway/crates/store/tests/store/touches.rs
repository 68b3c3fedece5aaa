//! Renewing times to live.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{StoreError, WriteRequest};
use blockgate_upstream::UpstreamError;

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

fn for_a_minute() -> WriteRequest {
    WriteRequest { tags: tags(&[("kv-ttl", "60"), ("t", "u")]), ..with_meta(&[("m", "n"), ("kv-fingerprint", "f")]) }
}

#[tokio::test]
async fn a_block_lives_on_and_its_bytes_stay_in_memory() {
    let rig = rig();
    rig.put_with("k", b"bytes", for_a_minute()).await.unwrap();
    rig.put("l", b"for ever").await;
    rig.double.pass(MINUTE / 2);
    let store = rig.store.clone();
    let keys = key_list(&["k", "l", "absent", "k"]);
    let touched = tokio::spawn(async move { store.touch(&keys, MINUTE).await }).await.unwrap().unwrap();
    assert_eq!(touched, 2, "a key named twice is renewed once");
    let until = rig.double.now() + MINUTE;
    for gateway in [&rig, &rig.another()] {
        for key in ["k", "l"] {
            assert_eq!(gateway.head(key).await.unwrap().info.expires_at(), Some(until));
        }
    }
    let found = rig.head("k").await.unwrap();
    assert_eq!((found.tier, found.info.fingerprint(), found.info.tag_count), (Tier::Memory, Some("f"), 2));
    assert_eq!(rig.get("k").await.unwrap().tier, Tier::Memory);
    assert_eq!((rig.double.count("get"), rig.double.count("put")), (0, 2), "no bytes passed");
    let object = rig.double.object("k").unwrap();
    assert_eq!((object.tags, &*object.attributes.user["m"]), (tags(&[("kv-ttl", "60"), ("t", "u")]), "n"));
    rig.double.pass(MINUTE - Duration::from_millis(1));
    assert_eq!(rig.bytes("k").await, "bytes");
    rig.double.pass(Duration::from_millis(1));
    for gateway in [&rig, &rig.another()] {
        assert_eq!(missed(gateway.get("k").await), MissReason::Expired);
        assert_eq!(missed(gateway.get("l").await), MissReason::Expired);
    }
}

#[tokio::test]
async fn a_life_can_be_shortened() {
    let rig = rig();
    rig.put_with("k", b"bytes", for_a_minute()).await.unwrap();
    assert_eq!(rig.store.touch(&key_list(&["k"]), Duration::from_secs(1)).await.unwrap(), 1);
    rig.double.pass(Duration::from_secs(1));
    assert_eq!(missed(rig.get("k").await), MissReason::Expired);
}

#[tokio::test]
async fn what_is_not_there_is_not_renewed() {
    let rig = rig();
    rig.put_with("expired", b"x", for_a_minute()).await.unwrap();
    rig.double.plant("foreign", "x", meta(&[]));
    rig.double.pass(MINUTE);
    let copies = rig.double.count("copy");
    assert_eq!(rig.store.touch(&key_list(&["expired", "absent", "foreign"]), MINUTE).await.unwrap(), 0);
    assert_eq!(rig.double.count("copy"), copies);
    assert_eq!(missed(rig.get("expired").await), MissReason::Expired);
    assert_eq!(missed(rig.get("absent").await), MissReason::Absent);
    assert_eq!(rig.head("foreign").await.unwrap().info.expires_at(), None);
    // What another gateway removed is no longer believed to be there.
    rig.put("gone", b"x").await;
    rig.double.steal("gone");
    assert_eq!(rig.store.touch(&key_list(&["gone"]), MINUTE).await.unwrap(), 0);
    assert_eq!(missed(rig.get("gone").await), MissReason::Absent);
}

#[tokio::test]
async fn what_another_gateway_overwrote_is_renewed_as_it_is() {
    let rig = rig();
    rig.put_with("k", b"old", for_a_minute()).await.unwrap();
    rig.another().put_with("k", b"new", with_meta(&[("kv-fingerprint", "g")])).await.unwrap();
    assert_eq!(rig.store.touch(&key_list(&["k"]), MINUTE).await.unwrap(), 1);
    assert_eq!(rig.bytes("k").await, "new");
    assert_eq!(rig.head("k").await.unwrap().info.fingerprint(), Some("g"));
}

#[tokio::test]
async fn an_overwrite_between_the_steps_is_not_undone() {
    let rig = rig();
    rig.put_with("k", b"old", for_a_minute()).await.unwrap();
    rig.double.overwrite_before_copy("k", "new", meta(&[]));
    assert_eq!(rig.store.touch(&key_list(&["k"]), MINUTE).await.unwrap(), 0);
    assert_eq!(rig.double.object("k").unwrap().bytes, "new");
    assert_eq!(rig.bytes("k").await, "new");
}

#[tokio::test]
async fn an_upstream_that_is_out_costs_no_block_in_memory() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    rig.put_with("k", b"bytes", for_a_minute()).await.unwrap();
    rig.put("l", b"bytes").await;
    rig.double.fail_heads_of("k");
    let error = refused(rig.store.touch(&key_list(&["k", "l"]), 2 * MINUTE).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::SlowDown)), "{error}");
    assert!(rig.head("l").await.unwrap().info.expires_at().is_some(), "the others are renewed");
    assert_eq!(rig.get("k").await.unwrap().tier, Tier::Memory);
    rig.double.fail_heads_of("");
    // The answer to the copy is lost.
    rig.double.lose_copies.store(1, Ordering::SeqCst);
    assert!(rig.store.touch(&key_list(&["k"]), 2 * MINUTE).await.is_err());
    assert_eq!(rig.get("k").await.unwrap().tier, Tier::Memory);
    rig.double.pass(MINUTE);
    assert_eq!(rig.bytes("k").await, "bytes", "it was renewed, and memory's older knowledge is checked");
}

#[tokio::test]
async fn many_are_renewed_at_a_time_but_not_all() {
    let rig = rig();
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    for key in &keys {
        rig.put(key, b"x").await;
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    rig.double.jitter.store(7, Ordering::SeqCst);
    assert_eq!(rig.store.touch(&key_list(&keys), MINUTE).await.unwrap(), 100);
    let most = rig.double.most_copies.load(Ordering::SeqCst);
    assert!((5..=16).contains(&most), "{most}");
}

#[tokio::test]
async fn acknowledged_blocks_are_renewed_once_they_are_uploaded() {
    let rig = rig();
    rig.put_with("async:k", b"x", for_a_minute()).await.unwrap();
    let keys = blockgate_block::KeyList::new("async", "", "", vec!["k".into()]).unwrap();
    assert_eq!(rig.store.touch(&keys, 2 * MINUTE).await.unwrap(), 1);
    rig.double.pass(MINUTE);
    assert_eq!(rig.bytes("async:k").await, "x");
}

#[tokio::test]
async fn what_is_refused() {
    let rig = rig();
    for ttl in [Duration::ZERO, Duration::from_secs(315_360_001)] {
        let error = refused(rig.store.touch(&key_list(&["k"]), ttl).await);
        assert!(matches!(error, StoreError::InvalidArgument(_)), "{error}");
    }
    let keys = blockgate_block::KeyList::new("past", "", "", vec!["k".into()]).unwrap();
    assert!(refused(rig.store.touch(&keys, MINUTE).await).to_string().contains("passthrough"));
}
