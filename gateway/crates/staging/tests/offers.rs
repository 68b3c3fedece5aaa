//! Blocks that are staged if they can be.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use blockgate_staging::{Operation, PutError, Settings};
use common::{block, bytes, eventually, key, open, settings};

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_is_staged() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.staging.offer(block("k", &bytes(1, 5000), false));
    eventually(|| log.is_there("k")).await;
    assert_eq!(log.get("k").await, Some(bytes(1, 5000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_gives_way_to_all_that_comes_later() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("first", b"x", false).await.unwrap();
    log.faults.hold(Operation::Write);
    // More than are written at once, so that some are in hand, some on their way, some in the queue.
    for i in 0..30 {
        log.staging.offer(block(&format!("k{i}"), b"offered", false));
    }
    let removals: Vec<_> = (0..15)
        .map(|i| {
            let staging = log.staging.clone();
            tokio::spawn(async move { staging.remove(&key(&format!("k{i}"))).await })
        })
        .collect();
    let puts: Vec<_> = (15..30)
        .map(|i| {
            let staging = log.staging.clone();
            tokio::spawn(async move { staging.put(block(&format!("k{i}"), b"put", true)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    log.faults.release();
    for removal in removals {
        removal.await.unwrap().unwrap();
    }
    for put in puts {
        put.await.unwrap().unwrap();
    }
    // What would still come comes before this.
    log.staging.offer(block("last", b"x", false));
    eventually(|| log.is_there("last")).await;
    for i in 0..30 {
        let expected = (i >= 15).then(|| b"put".to_vec());
        assert_eq!(log.get(&format!("k{i}")).await, expected, "k{i}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_does_not_replace_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    let version = log.put("k", b"waits", true).await.unwrap();
    log.staging.offer(block("k", b"offered", false));
    log.staging.offer(block("last", b"x", false));
    eventually(|| log.is_there("last") && log.staging.stats().refused == 1).await;
    assert_eq!(log.get("k").await.as_deref(), Some(&b"waits"[..]));
    log.staging.uploaded(&key("k"), version);
    log.staging.offer(block("k", b"offered", false));
    eventually(|| log.staging.find(key("k").digest()).unwrap().len_bytes == 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.faults.hold(Operation::Write);
    for i in 0..1100 {
        log.staging.offer(block(&format!("k{i}"), b"x", false));
    }
    assert!(log.staging.stats().refused >= 1100 - 1024 - 8);
    log.faults.release();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spent_budget_takes_only_what_is_wanted_again() {
    let dir = tempfile::tempdir().unwrap();
    // Each block is two pages: three blocks are this hour's share.
    let daily_write_bytes = Some(24 * 3 * 8192);
    let log = open(&Settings { daily_write_bytes, ..settings(dir.path(), 8) }).await;
    for i in 0..3 {
        log.put(&format!("k{i}"), b"x", false).await.unwrap();
    }
    assert_eq!(log.put("k3", b"x", false).await, Err(PutError::Budget));
    log.put("k3", b"x", false).await.unwrap();
    log.put("waits", b"x", true).await.unwrap();
    log.staging.offer(block("k4", b"x", false));
    eventually(|| log.staging.stats().refused == 2).await;
    log.staging.offer(block("k4", b"x", false));
    eventually(|| log.is_there("k4")).await;
}
