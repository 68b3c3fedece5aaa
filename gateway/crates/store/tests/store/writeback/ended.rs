//! How blocks end that wait for their upload, other than by being uploaded.

use super::*;

/// A gateway that was killed while blocks waited: `k`, of these bytes and time to live.
async fn killed_with(bytes: &[u8], ttl_s: &str) -> Back {
    let back = back().await;
    back.rig.put("bucket", b"known").await;
    back.rig.store.drain().await;
    back.outage(true);
    back.rig.put_with("k", bytes, with_meta(&[("kv-ttl", ttl_s)])).await.unwrap();
    back
}

#[tokio::test]
async fn what_is_there_already_is_not_uploaded_again() {
    let back = back().await;
    // Its upload lands, and the gateway does not live to hear of it.
    back.rig.double.lose_puts_from(0, true);
    back.rig.double.fail_heads_of("k");
    back.rig.put("k", b"block").await;
    while back.rig.double.object("k").is_none() {
        settle().await;
    }
    let back = back.restart().await;
    assert_eq!(back.rig.metric("blockgate_pending_upload_blocks "), 1);
    back.rig.double.fail_heads_of("");
    back.rig.store.drain().await;
    assert_eq!((back.puts(), back.uploads("ok")), (1, 1));
    same(back.rig.bytes("k").await, "block");
    same(back.elsewhere().bytes("k").await, "block");
}

#[tokio::test]
async fn a_newer_one_of_another_gateway_stays() {
    let back = killed_with(b"older", "3600").await;
    back.rig.double.pass(Duration::from_secs(1));
    back.outage(false);
    let elsewhere = back.elsewhere();
    back.outage(true);
    let disk_only = back.restart().await;
    disk_only.outage(true);
    same(disk_only.rig.bytes("k").await, "older");
    disk_only.outage(false);
    // Whoever comes first: it is newer by the upstream's clock.
    elsewhere.put("k", b"newer").await;
    disk_only.rig.store.drain().await;
    settle().await;
    same(elsewhere.another().bytes("k").await, "newer");
    let back = disk_only.restart().await;
    back.rig.store.drain().await;
    same(back.rig.bytes("k").await, "newer");
}

#[tokio::test]
async fn an_older_one_of_another_gateway_is_overwritten() {
    let back = back().await;
    back.elsewhere().put("k", b"older").await;
    back.rig.double.pass(Duration::from_secs(1));
    back.rig.put("bucket", b"known").await;
    back.rig.store.drain().await;
    back.outage(true);
    back.rig.put("k", b"newer").await;
    let back = back.restart().await;
    back.outage(false);
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("k").await, "newer");
}

#[tokio::test]
async fn what_expired_meanwhile_is_not_uploaded() {
    let back = killed_with(b"block", "10").await;
    back.rig.double.pass(Duration::from_secs(10));
    assert_eq!(missed(back.rig.get("k").await), MissReason::Expired);
    back.outage(false);
    back.rig.store.drain().await;
    assert_eq!((back.rig.double.keys(), back.uploads("expired")), (vec!["bucket".to_owned()], 1));
    let back = killed_with(b"block", "10").await;
    back.rig.double.pass(Duration::from_secs(10));
    let back = back.restart().await;
    assert!(back.rig.get("k").await.is_err());
    back.outage(false);
    back.rig.store.drain().await;
    assert_eq!((back.rig.double.keys(), back.uploads("expired")), (vec!["bucket".to_owned()], 1));
    assert!(back.rig.get("k").await.is_err());
}

#[tokio::test]
async fn what_expired_meanwhile_does_not_bring_back_what_it_overwrote() {
    let back = back().await;
    back.rig.put("k", b"overwritten").await;
    back.rig.store.drain().await;
    back.rig.double.pass(Duration::from_secs(1));
    back.outage(true);
    back.rig.put_with("k", b"block", with_meta(&[("kv-ttl", "10")])).await.unwrap();
    back.rig.double.pass(Duration::from_secs(10));
    back.outage(false);
    back.rig.store.drain().await;
    assert_eq!(missed(back.rig.get("k").await), MissReason::Expired);
    assert_eq!(missed(back.elsewhere().get("k").await), MissReason::Expired);
    let back = back.restart().await;
    assert_eq!(missed(back.rig.get("k").await), MissReason::Expired);
}

#[tokio::test]
async fn blocks_of_a_bucket_that_is_gone_wait_until_it_is_back() {
    let back = killed_with(b"block", "3600").await;
    back.rig.double.bucket_is_gone.store(true, Ordering::SeqCst);
    back.outage(false);
    while back.uploads("refused") < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(back.rig.store.lost_blocks(), 0);
    same(back.rig.bytes("k").await, "block");
    back.rig.double.bucket_is_gone.store(false, Ordering::SeqCst);
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("k").await, "block");
}

#[tokio::test]
async fn a_block_of_a_bucket_that_is_gone_can_be_let_go() {
    let back = killed_with(b"block", "3600").await;
    back.rig.double.bucket_is_gone.store(true, Ordering::SeqCst);
    back.outage(false);
    // The breaker has closed.
    while back.uploads("refused") < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(matches!(back.rig.store.delete(&named("k")).await, Err(StoreError::Upstream(UpstreamError::NoSuchBucket))));
    back.rig.store.drain().await;
    assert_eq!(back.rig.store.pending_bytes(), 0);
    back.rig.double.bucket_is_gone.store(false, Ordering::SeqCst);
    let back = back.restart().await;
    assert_eq!(missed(back.rig.get("k").await), MissReason::Absent);
}
