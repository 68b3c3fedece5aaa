//! What is put is there, and is what it was; also after a restart.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use blockgate_staging::{Bytes4k, PutError};
use common::{Opened, block, bytes, key, open, settings};

#[tokio::test(flavor = "multi_thread")]
async fn a_block_is_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    for (name, len) in [("one", 1), ("page", 4096), ("more", 4097), ("pieces", 150_000)] {
        let payload = bytes(len as u64, len);
        let new = block(name, &payload, false);
        let info = new.info.clone();
        let version = log.staging.put(new).await.unwrap();

        let staged = log.staging.find(key(name).digest()).unwrap();
        assert_eq!(
            (staged.version, staged.len_bytes, staged.pending, staged.amended),
            (version, len as u64, false, false)
        );
        let entry = log.staging.describe(&key(name)).await.unwrap().unwrap();
        assert_eq!((entry.staged, entry.info, entry.tags), (staged, info, vec![("a".into(), "b".into())]));
        assert_eq!(log.get(name).await.as_deref(), Some(&*payload));
        for range in
            [0..1, 0..len, len - 1..len, len / 2..len, 0..usize::MAX, len..len + 5, 65_536..65_537, 70_000..140_000]
        {
            let (_, part) =
                log.staging.read_range(&key(name), range.start as u64..range.end as u64).await.unwrap().unwrap();
            let expected = &payload[range.start.min(len)..range.end.min(len).max(range.start.min(len))];
            assert!(part == expected, "{name} {range:?}");
        }
    }
    assert_eq!(log.get("other").await, None);
    assert_eq!(log.there.lock().len(), 4);
    let stats = log.staging.stats();
    assert_eq!((stats.blocks, stats.block_bytes, stats.pending_blocks), (4, 158_194, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_in_the_arena_is_written_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    let payload = bytes(7, 10_000);
    let mut slot = log.arena.allocate(10_000).unwrap();
    slot.append(&payload).unwrap();
    let mut new = block("k", &payload, false);
    new.bytes = Bytes4k::Arena(slot.finish().unwrap());
    log.staging.put(new).await.unwrap();
    assert_eq!(log.get("k").await, Some(payload));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    assert_eq!(log.put("empty", b"", false).await, Err(PutError::Unfit(0)));
    assert_eq!(log.put("large", &bytes(1, 256 << 10), true).await, Err(PutError::Unfit(256 << 10)));
    let mut wrong = block("k", &bytes(1, 100), false);
    wrong.bytes = Bytes4k::Heap(bytes(2, 100).into());
    assert_eq!(log.staging.put(wrong).await, Err(PutError::Unfit(100)));
    let mut other = block("k", &bytes(1, 100), false);
    other.bytes = Bytes4k::Heap(bytes(1, 99).into());
    assert_eq!(log.staging.put(other).await, Err(PutError::Unfit(99)));
}

async fn written(log: &Opened) {
    for i in 0..20u64 {
        log.put(&format!("clean{i}"), &bytes(i, 5000 + i as usize), false).await.unwrap();
        log.put(&format!("waits{i}"), &bytes(100 + i, 3000), true).await.unwrap();
    }
    log.put("clean3", &bytes(203, 777), false).await.unwrap();
    log.staging.remove(&key("clean4")).await.unwrap();
    log.staging.remove(&key("waits4")).await.unwrap();
    log.staging.amend(&key("clean5")).await.unwrap();
    let version = log.staging.find(key("waits6").digest()).unwrap().version;
    log.staging.uploaded(&key("waits6"), version);
}

async fn found_again(log: &Opened, is_uploaded_known: bool) {
    for i in 0..20u64 {
        let clean = match i {
            3 => Some(bytes(203, 777)),
            4 => None,
            _ => Some(bytes(i, 5000 + i as usize)),
        };
        assert_eq!(log.get(&format!("clean{i}")).await, clean, "clean{i}");
        let waits = (i != 4).then(|| bytes(100 + i, 3000));
        assert_eq!(log.get(&format!("waits{i}")).await, waits, "waits{i}");
    }
    let names: Vec<_> = log.pending.iter().map(|block| block.key.key().to_owned()).collect();
    let is_pending = |i: &u64| *i != 4 && !(*i == 6 && is_uploaded_known);
    let expected: Vec<_> = (0..20).filter(is_pending).map(|i| format!("waits{i}")).collect();
    assert_eq!(names, expected);
    assert!(log.pending.iter().all(|block| block.entry.staged.pending && block.entry.tags.len() == 1));
    assert_eq!(log.found.len(), 38);
    assert!(log.found[&key("clean5").digest()].amended && !log.found[&key("clean6").digest()].amended);
    assert!(log.staging.find(key("clean5").digest()).unwrap().amended);
    assert_eq!(log.found.values().filter(|found| found.pending).count(), expected.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_found_again_after_a_clean_end() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path(), 8);
    let log = open(&settings).await;
    written(&log).await;
    log.staging.close().await;
    assert!(matches!(log.put("late", b"x", false).await, Err(PutError::Off(_))));
    drop(log);
    found_again(&open(&settings).await, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_found_again_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    written(&log).await;
    common::copy(dir.path(), crashed.path());
    let again = open(&settings(crashed.path(), 8)).await;
    found_again(&again, false).await;
    // And once more: what was found unsealed was sealed.
    again.staging.close().await;
    drop(again);
    found_again(&open(&settings(crashed.path(), 8)).await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time_has_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path(), 8);
    let log = open(&settings).await;
    assert!(matches!(common::try_open(&settings), Err(blockgate_staging::OpenError::InUse(_))));
    drop(log);
    open(&settings).await;
}
