//! A full log makes room: for what, and of what.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use blockgate_staging::{Operation, PutError, Settings};
use common::{Opened, SEGMENT, bytes, copy, eventually, key, open, settings};

/// Bytes of blocks in these tests: 6 to a segment.
const LEN: usize = 36_000;

async fn fill(log: &Opened, prefix: &str, count: u64) {
    for i in 0..count {
        log.put(&format!("{prefix}{i}"), &bytes(i, LEN), false).await.unwrap();
    }
}

fn small(path: &std::path::Path) -> Settings {
    settings(path, 4)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&small(dir.path())).await;
    fill(&log, "b", 100).await;
    assert!(!log.is_there("b0") && log.is_there("b99") && log.is_there("b94"));
    assert!(!log.there.lock()[&key("b0").digest()]);
    let stats = log.staging.stats();
    assert!(stats.reclaimed_segments >= 12, "{stats:?}");
    assert_eq!(stats.rewritten_bytes, 0);
    assert_eq!(stats.blocks, log.there.lock().values().filter(|is_there| **is_there).count() as u64);
    let files: u64 = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(files <= 4 * SEGMENT);
    for i in 80..100 {
        if log.is_there(&format!("b{i}")) {
            assert_eq!(log.get(&format!("b{i}")).await, Some(bytes(i, LEN)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_stays_up_to_a_share() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&small(dir.path())).await;
    log.put("hot", &bytes(500, LEN), false).await.unwrap();
    for round in 0..20 {
        assert_eq!(log.get("hot").await, Some(bytes(500, LEN)), "round {round}");
        fill(&log, &format!("b{round}-"), 6).await;
    }
    assert!(log.staging.stats().rewritten_bytes > 0);
    // Read too: everything. No more is written again than a third of what is written.
    for i in 0..200u64 {
        let name = format!("c{i}");
        log.put(&name, &bytes(i, LEN), false).await.unwrap();
        assert_eq!(log.get(&name).await, Some(bytes(i, LEN)));
    }
    let stats = log.staging.stats();
    assert!(stats.rewritten_bytes * 3 <= stats.written_bytes, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_found_after_a_crash_and_its_original_is_not() {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = open(&small(dir.path())).await;
    log.put("hot", &bytes(500, LEN), false).await.unwrap();
    log.get("hot").await.unwrap();
    fill(&log, "b", 24).await;
    assert!(log.is_there("hot"));
    assert!(log.staging.stats().rewritten_bytes > 0);
    copy(dir.path(), left.path());
    let again = open(&small(left.path())).await;
    assert_eq!(again.get("hot").await, Some(bytes(500, LEN)));
    again.staging.remove(&key("hot")).await.unwrap();
    assert_eq!(again.get("hot").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_never_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&small(dir.path())).await;
    let mut versions = Vec::new();
    let refused = loop {
        let i = versions.len() as u64;
        match log.put(&format!("w{i}"), &bytes(i, LEN), true).await {
            Ok(version) => versions.push(version),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, PutError::Full);
    assert_eq!(log.put("clean", &bytes(1, LEN), false).await, Err(PutError::Full));
    assert_eq!(log.staging.stats().pending_blocks, versions.len() as u64);
    for i in 0..versions.len() as u64 {
        assert_eq!(log.get(&format!("w{i}")).await, Some(bytes(i, LEN)));
    }
    assert!(versions.is_sorted());
    for (i, version) in versions.iter().enumerate() {
        log.staging.uploaded(&key(&format!("w{i}")), *version);
    }
    let log = &log;
    // Room comes by itself now.
    loop {
        match log.put("next", &bytes(7, LEN), true).await {
            Ok(_) => break,
            Err(error) => assert_eq!(error, PutError::Full),
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(log.get("next").await, Some(bytes(7, LEN)));
    assert_eq!(log.staging.stats().pending_blocks, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_waits_than_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&Settings { pending_bytes_max: 2 * LEN as u64, ..small(dir.path()) }).await;
    let version = log.put("a", &bytes(1, LEN), true).await.unwrap();
    log.put("b", &bytes(2, LEN), true).await.unwrap();
    assert_eq!(log.put("c", &bytes(3, LEN), true).await, Err(PutError::Full));
    log.put("clean", &bytes(3, LEN), false).await.unwrap();
    log.staging.uploaded(&key("a"), version);
    log.put("c", &bytes(3, LEN), true).await.unwrap();
    log.staging.remove(&key("b")).await.unwrap();
    log.put("d", &bytes(3, LEN), true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_version_does_not_rise_when_the_newer_is_reclaimed() {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = open(&small(dir.path())).await;
    // The segment of the old versions stays: something in it waits.
    log.put("overwritten", &bytes(1, 5000), false).await.unwrap();
    log.put("removed", &bytes(2, 5000), false).await.unwrap();
    let waits = log.put("waits", &bytes(3, 5000), true).await.unwrap();
    fill(&log, "b", 6).await;
    log.put("overwritten", &bytes(11, 5000), false).await.unwrap();
    log.put("removed", &bytes(12, 5000), false).await.unwrap();
    log.staging.remove(&key("removed")).await.unwrap();
    let mut i = 0;
    while log.is_there("overwritten") {
        log.put(&format!("c{i}"), &bytes(i, LEN), false).await.unwrap();
        i += 1;
    }
    assert!(log.is_there("waits"));
    copy(dir.path(), left.path());
    let again = open(&small(left.path())).await;
    assert_eq!(again.get("overwritten").await, None);
    assert_eq!(again.get("removed").await, None);
    assert_eq!(again.pending.len(), 1);
    assert_eq!(again.pending[0].entry.staged.version, waits);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_segments_go_before_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("first", &bytes(1, LEN), false).await.unwrap();
    for _ in 0..200 {
        log.put("again", &bytes(2, LEN), false).await.unwrap();
    }
    assert!(log.is_there("first") && log.is_there("again"));
    assert!(log.staging.stats().reclaimed_segments > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_capacity_drops_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 12)).await;
    fill(&log, "b", 60).await;
    log.staging.close().await;
    drop(log);
    let log = open(&small(dir.path())).await;
    let bytes_of_files =
        || -> u64 { std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum() };
    eventually(|| bytes_of_files() <= 4 * SEGMENT).await;
    assert!(!log.is_there("b0"));
    log.put("new", &bytes(1, LEN), false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_go_on_holds_up_nobody_and_reads_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&small(dir.path())).await;
    log.put("read", &bytes(1, LEN), false).await.unwrap();
    log.faults.hold(Operation::Read);
    let name = key("read");
    let read = log.staging.read(&name, |len| log.arena.allocate(len));
    let mut read = Box::pin(read);
    assert!(futures::poll!(read.as_mut()).is_pending());
    // Footers can't be read either: the table knows which blocks go.
    log.faults.fail(Operation::Read, 0, 1000, 5);
    log.faults.release();
    fill(&log, "b", 60).await;
    assert!(!log.is_there("read") && log.staging.stats().reclaimed_segments > 5);
    let (_, block) = read.await.unwrap().unwrap();
    assert!(block.as_slice() == bytes(1, LEN));
    log.faults.heal();
    fill(&log, "c", 30).await;
    assert_eq!(log.get("c29").await, Some(bytes(29, LEN)));
}
