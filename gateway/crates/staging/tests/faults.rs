//! A disk that fails: nothing acknowledged is lost, nothing else is served, and it comes back.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::sync::Arc;

use blockgate_staging::{Operation, PutError, ReadError, RemoveError};
use common::{Opened, block, bytes, copy, eventually, key, open, settings};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ALWAYS: u64 = u64::MAX;

async fn on_again(log: &Opened) {
    log.faults.heal();
    eventually(|| log.staging.stats().is_on).await;
    log.put("again", &bytes(77, 100), true).await.unwrap();
    assert_eq!(log.get("again").await, Some(bytes(77, 100)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_write_or_flush_turns_it_off_until_the_disk_works() {
    for (operation, errno) in
        [(Operation::Write, EIO), (Operation::Sync, EIO), (Operation::Write, EROFS), (Operation::Write, ENOSPC)]
    {
        let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let log = open(&settings(dir.path(), 8)).await;
        log.put("sound", &bytes(1, 5000), true).await.unwrap();
        log.faults.fail(operation, 0, ALWAYS, errno);
        assert!(matches!(log.put("lost", &bytes(2, 5000), true).await, Err(PutError::Off(_))), "{operation:?}");
        assert!(matches!(log.put("refused", &bytes(3, 5000), true).await, Err(PutError::Off(_))));
        log.staging.offer(block("offered", b"x", false));
        let stats = log.staging.stats();
        assert!(!stats.is_on && stats.io_errors > 0 && stats.refused == 3, "{stats:?}");
        assert_eq!(log.get("sound").await, Some(bytes(1, 5000)));
        assert!(!log.is_there("lost"));

        on_again(&log).await;
        assert_eq!(log.get("sound").await, Some(bytes(1, 5000)));
        copy(dir.path(), left.path());
        let again = open(&settings(left.path(), 8)).await;
        let mut names: Vec<_> = again.pending.iter().map(|block| block.key.key()).collect();
        names.sort_unstable();
        assert_eq!(names, ["again", "sound"], "{operation:?}: what failed is not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_and_lies_on_the_disk_is_ruled_out_before_it_counts_as_removed() {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings_now = settings(dir.path(), 8);
    // Nobody tries the disk meanwhile.
    settings_now.probe_every = std::time::Duration::from_secs(3600);
    let log = open(&settings_now).await;
    log.put("sound", &bytes(1, 100), true).await.unwrap();
    log.faults.fail(Operation::Sync, 0, ALWAYS, EIO);
    assert!(matches!(log.put("ghost", &bytes(2, 100), true).await, Err(PutError::Off(_))));
    assert!(log.staging.remove(&key("ghost")).await.is_err(), "the footer could not be flushed");
    log.faults.heal();
    log.staging.remove(&key("ghost")).await.unwrap();
    copy(dir.path(), left.path());
    let again = open(&settings(left.path(), 8)).await;
    assert_eq!(again.get("ghost").await, None);
    assert_eq!(again.get("sound").await, Some(bytes(1, 100)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_is_not_durable_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("k", &bytes(1, 100), true).await.unwrap();
    log.faults.fail(Operation::Sync, 0, ALWAYS, EIO);
    assert!(matches!(log.staging.remove(&key("k")).await, Err(RemoveError(_))));
    log.faults.heal();
    assert_eq!(log.get("k").await, Some(bytes(1, 100)));
    eventually(|| log.staging.stats().is_on).await;
    log.staging.close().await;
    drop(log);
    let log = open(&settings(dir.path(), 8)).await;
    assert_eq!(log.pending.len(), 1, "it is there after a restart as well");
    log.faults.fail(Operation::Write, 0, ALWAYS, EIO);
    assert!(log.staging.amend(&key("k")).await.is_err());
    log.staging.remove(&key("absent")).await.unwrap();
    log.faults.heal();
    eventually(|| log.staging.stats().is_on).await;
    log.staging.remove(&key("k")).await.unwrap();
    assert_eq!(log.get("k").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_can_not_be_read_is_not_asked_until_it_works() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("k", &bytes(1, 100), true).await.unwrap();
    let read = async || log.staging.read(&key("k"), |len| log.arena.allocate(len)).await;
    log.faults.fail(Operation::Read, 0, 3, EIO);
    for _ in 0..3 {
        assert!(matches!(read().await, Err(ReadError::Io(_))));
    }
    assert!(log.staging.stats().is_on && read().await.unwrap().is_some(), "some errors are endured");
    log.faults.fail(Operation::Read, 0, ALWAYS, EIO);
    for _ in 0..20 {
        assert!(matches!(read().await, Err(ReadError::Io(_))));
    }
    assert!(!log.staging.stats().is_on && log.is_there("k"));
    on_again(&log).await;
    assert_eq!(log.get("k").await, Some(bytes(1, 100)));
    assert_eq!(log.staging.stats().corrupt, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_read_of_the_only_copy_gets_a_second_chance() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("waits", &bytes(1, 100), true).await.unwrap();
    log.put("clean", &bytes(1, 100), false).await.unwrap();
    let read =
        async |name| log.staging.read(&key(name), |len| log.arena.allocate(len)).await.map(|read| read.is_some());
    log.faults.flip(0, 1, 4096 * 8 + 5);
    assert!(matches!(read("waits").await, Err(ReadError::Io(_))));
    assert_eq!(read("waits").await, Ok(true));
    log.faults.flip(0, 1, 4096 * 8 + 5);
    assert_eq!(read("clean").await, Err(ReadError::Corrupt));
    assert_eq!(read("clean").await, Ok(false));
    log.faults.flip(0, ALWAYS, 4096 * 8 + 5);
    assert_eq!(read("waits").await, Err(ReadError::Corrupt));
    assert_eq!(read("waits").await, Ok(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_lived_with_where_some_segments_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 16)).await;
    log.faults.fail(Operation::Allocate, 6, ALWAYS, ENOSPC);
    for i in 0..100 {
        log.put(&format!("b{i}"), &bytes(i, 36_000), false).await.unwrap();
    }
    assert!(log.staging.stats().is_on && log.is_there("b99") && !log.is_there("b0"));
    let files = std::fs::read_dir(dir.path())
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with("segment"));
    assert!((4..=8).contains(&files.count()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_from_the_start_is_off_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let log = {
        let log = open(&settings(dir.path(), 8)).await;
        log.staging.close().await;
        drop(log);
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some() {
                std::fs::remove_file(path).unwrap();
            }
        }
        let log = common::open_failing(&settings(dir.path(), 8), Operation::Allocate, ENOSPC).await;
        eventually(|| !log.staging.stats().is_on).await;
        log
    };
    let tried = log.faults.seen(Operation::Allocate);
    eventually(|| log.faults.seen(Operation::Allocate) > tried + 3).await;
    assert!(!log.staging.stats().is_on, "the disk works, but gives no room");
    assert!(matches!(log.put("k", b"x", true).await, Err(PutError::Off(reason)) if reason.contains("space")));
    on_again(&log).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flush_serves_many() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(open(&settings(dir.path(), 8)).await);
    log.put("first", b"x", true).await.unwrap();
    let before = log.staging.stats().commits;
    log.faults.hold(Operation::Sync);
    let (writes, syncs) = (log.faults.seen(Operation::Write), log.faults.seen(Operation::Sync));
    let puts: Vec<_> = (0..16)
        .map(|i| {
            let log = Arc::clone(&log);
            tokio::spawn(async move { log.put(&format!("k{i}"), &bytes(i, 100), true).await })
        })
        .collect();
    eventually(|| log.faults.seen(Operation::Write) >= writes + 16 && log.faults.seen(Operation::Sync) > syncs).await;
    assert!((0..16).all(|i| !log.is_there(&format!("k{i}"))), "nothing is shown before it is durable");
    log.faults.release();
    for put in puts {
        put.await.unwrap().unwrap();
    }
    let commits = log.staging.stats().commits - before;
    assert!(commits < 16, "{commits}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_nobody_waits_for_happens_whole_and_can_be_removed() {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = open(&settings(dir.path(), 8)).await;
    log.put("first", b"x", true).await.unwrap();
    log.faults.hold(Operation::Write);
    let payload = bytes(1, 5000);
    for name in ["stays", "goes"] {
        let mut put = Box::pin(log.put(name, &payload, true));
        assert!(futures::poll!(put.as_mut()).is_pending());
        drop(put);
    }
    let goes = key("goes");
    let removed = log.staging.remove(&goes);
    let mut removed = Box::pin(removed);
    assert!(futures::poll!(removed.as_mut()).is_pending(), "it waits for what is on its way");
    log.faults.release();
    removed.await.unwrap();
    eventually(|| log.is_there("stays")).await;
    assert_eq!(log.get("stays").await, Some(bytes(1, 5000)));
    assert!(!log.is_there("goes"));
    copy(dir.path(), left.path());
    let again = open(&settings(left.path(), 8)).await;
    assert_eq!((again.pending.len(), again.get("goes").await), (2, None));
}
