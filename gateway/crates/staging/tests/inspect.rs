//! What operators see of a log that is not open.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::os::unix::fs::FileExt;

use blockgate_staging::{OpenError, SegmentState, Tally, inspect, verify};
use common::{bytes, key, open, settings};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_tells_what_is_in_it_and_what_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("clean", &bytes(1, 5000), false).await.unwrap();
    log.put("waits", &bytes(2, 4096), true).await.unwrap();
    log.put("again", &bytes(3, 100), false).await.unwrap();
    log.put("again", &bytes(4, 100), false).await.unwrap();
    log.put("gone", &bytes(5, 100), true).await.unwrap();
    log.staging.remove(&key("gone")).await.unwrap();
    assert!(matches!(inspect(dir.path()), Err(OpenError::InUse(_))));
    assert!(matches!(verify(dir.path(), &mut |_, _| ()), Err(OpenError::InUse(_))));
    log.staging.close().await;
    drop(log);
    common::eventually(|| inspect(dir.path()).is_ok()).await;

    let seen = inspect(dir.path()).unwrap();
    let tally = |records, pages: u64| Tally { records, bytes: pages * 4096 };
    assert_eq!(seen.records.live, tally(3, 7));
    assert_eq!(seen.records.pending, tally(1, 2));
    assert_eq!(seen.records.dead, tally(2, 4));
    let sealed: Vec<_> = seen.segments.iter().filter(|segment| segment.state == SegmentState::Sealed).collect();
    assert_eq!((sealed.len(), sealed[0].records), (1, seen.records));

    let mut told = Vec::new();
    let sound = verify(dir.path(), &mut |done, of| told.push((done, of))).unwrap();
    assert_eq!((sound.read, sound.damaged), (tally(5, 11), 0));
    assert_eq!((told.len(), told.last()), (5, Some(&(11 * 4096, 11 * 4096))));

    // The second record: its header is one page, then its block.
    let file = std::fs::OpenOptions::new().write(true).open(&sealed[0].path).unwrap();
    let first = 4 * 4096;
    file.write_all_at(b"!", first + 4 * 4096 + 7).unwrap();
    let damaged = verify(dir.path(), &mut |_, _| ()).unwrap();
    assert_eq!(damaged.damaged, 1);
    assert_eq!((damaged.damages[0].page, damaged.damages[0].pending), (7, true));
    assert_eq!(damaged.damages[0].key.as_ref(), Some(&key("waits")));
    // And the header of the first.
    file.write_all_at(b"!", first + 77).unwrap();
    let damaged = verify(dir.path(), &mut |_, _| ()).unwrap();
    assert_eq!((damaged.damaged, damaged.damages[0].key.as_ref()), (2, None));
}

#[tokio::test]
async fn files_that_are_not_ours_are_named() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(inspect(dir.path()).unwrap(), Default::default());
    std::fs::write(dir.path().join("segment-00000003.log"), [7; 9000]).unwrap();
    std::fs::write(dir.path().join("segment-3.log"), [7; 9000]).unwrap();
    let seen = inspect(dir.path()).unwrap();
    assert_eq!(seen.segments.len(), 1);
    assert!(matches!(&seen.segments[0].state, SegmentState::Unreadable(why) if why.contains("another program")));
    let seen = verify(dir.path(), &mut |_, _| ()).unwrap();
    assert_eq!(seen.unreadable.len(), 1);
}
