//! What is left after a crash, and after worse: what was acknowledged is there, byte for byte, and nothing else passes
//! for it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blockgate_block::Crc64;
use blockgate_staging::{OpenError, ReadError};
use common::{Opened, SEGMENT, bytes, copy, key, open, settings, try_open};
use parking_lot::Mutex;

const PAGE: u64 = 4096;
/// Two pages of header, two of state.
const FIRST_RECORD: u64 = 4 * PAGE;

fn segment(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("segment-{number:08x}.log"))
}

/// Overwrites part of a file.
fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// The segment whose first record is this block's.
fn segment_of(directory: &Path, name: &str) -> PathBuf {
    let holds = |path: &PathBuf| {
        let text = fs::read(path).unwrap();
        // It may have been made just now.
        let Some(head) = text.get(FIRST_RECORD as usize..(FIRST_RECORD + PAGE) as usize) else { return false };
        head.windows(name.len() + 6).any(|window| window == format!("bucket{name}").as_bytes())
    };
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "log")).find(holds).unwrap()
}

/// A log in a new directory, and the directory as a crash leaves it after `work`.
async fn crashed(work: impl AsyncFnOnce(&Opened)) -> tempfile::TempDir {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = open(&settings(dir.path(), 8)).await;
    work(&log).await;
    // One segment is appended to, two are ready, or it was closed: no more are being made.
    let is_enough = |segments| segments >= 3 || !log.staging.stats().is_on;
    common::eventually(|| begun(dir.path()).is_some_and(is_enough)).await;
    copy(dir.path(), left.path());
    left
}

/// How many segments have begun; none while one is not there in full.
fn begun(directory: &Path) -> Option<usize> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some()).map(|path| fs::read(path).unwrap());
    texts
        .map(|text| (text.len() as u64 == SEGMENT && text.starts_with(b"BGSEG1")).then_some(()))
        .collect::<Option<Vec<_>>>()
        .map(|all| all.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_cut_anywhere_loses_only_what_was_cut() {
    let sizes = [100usize, 5000, 4096, 12_000];
    let left = crashed(async |log| {
        for (i, size) in sizes.iter().enumerate() {
            log.put(&format!("b{i}"), &bytes(i as u64, *size), i % 2 == 0).await.unwrap();
        }
    })
    .await;
    let whole = segment_of(left.path(), "b0");
    let ends: Vec<u64> = sizes
        .iter()
        .scan(FIRST_RECORD, |end, size| {
            *end += PAGE + (*size as u64).next_multiple_of(PAGE);
            Some(*end)
        })
        .collect();
    for cut in (FIRST_RECORD..=ends[3]).step_by(PAGE as usize) {
        for garbage in [0u8, 0xa5] {
            let torn = tempfile::tempdir().unwrap();
            copy(left.path(), torn.path());
            let file = torn.path().join(whole.file_name().unwrap());
            overwrite(&file, cut, &vec![garbage; (ends[3] - cut) as usize]);
            let log = open(&settings(torn.path(), 8)).await;
            for (i, size) in sizes.iter().enumerate() {
                let expected = (ends[i] <= cut).then(|| bytes(i as u64, *size));
                assert_eq!(log.get(&format!("b{i}")).await, expected, "b{i} cut at {cut}");
            }
            assert_eq!(log.pending.len(), [0, 2].iter().filter(|i| ends[**i] <= cut).count());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_cut_short_keeps_what_it_has() {
    let left = crashed(async |log| {
        for i in 0..5 {
            log.put(&format!("b{i}"), &bytes(i, 4096), true).await.unwrap();
        }
        log.staging.close().await;
    })
    .await;
    let file = segment_of(left.path(), "b0");
    // Its footer is gone, and half of the third record.
    OpenOptions::new().write(true).open(&file).unwrap().set_len(FIRST_RECORD + 5 * PAGE + 100).unwrap();
    let log = open(&settings(left.path(), 8)).await;
    for i in 0..5 {
        assert_eq!(log.get(&format!("b{i}")).await.is_some(), i < 2, "b{i}");
    }
    log.put("new", b"x", true).await.unwrap();
    log.staging.close().await;
    drop(log);
    let log = open(&settings(left.path(), 8)).await;
    assert_eq!((log.found.len(), log.pending.len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_the_midst_loses_only_what_it_hit() {
    let left = crashed(async |log| {
        for i in 0..6 {
            log.put(&format!("b{i}"), &bytes(i, 4096), true).await.unwrap();
        }
    })
    .await;
    let file = segment_of(left.path(), "b0");
    overwrite(&file, FIRST_RECORD + 2 * PAGE + 50, b"header of b1");
    overwrite(&file, FIRST_RECORD + 7 * PAGE + 50, b"bytes of b3");
    let log = open(&settings(left.path(), 8)).await;
    for i in 0..6 {
        assert_eq!(log.get(&format!("b{i}")).await.is_some(), i != 1 && i != 3, "b{i}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_within_a_block_is_not_believed() {
    // As whoever knows the format, but not the segment's nonce, would write it: a record of another log, with its
    // segment's nonce, at every page of the block.
    let other = crashed(async |log| {
        log.put("victim", b"forged", true).await.unwrap();
    })
    .await;
    let text = fs::read(segment_of(other.path(), "victim")).unwrap();
    let record = &text[FIRST_RECORD as usize..(FIRST_RECORD + 2 * PAGE) as usize];
    let forged = record.repeat(10);
    let left = crashed(async |log| {
        log.put("carrier", &forged, true).await.unwrap();
        log.put("after", b"sound", true).await.unwrap();
    })
    .await;
    // The carrier's own header is lost, so that its bytes are looked through for the next record.
    overwrite(&segment_of(left.path(), "carrier"), FIRST_RECORD, &[0; 64]);
    let log = open(&settings(left.path(), 8)).await;
    assert_eq!(log.get("victim").await, None);
    assert_eq!(log.get("after").await.as_deref(), Some(&b"sound"[..]));
    assert_eq!(log.found.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_copied_to_another_place_is_not_believed() {
    let left = crashed(async |log| {
        for i in 0..4 {
            log.put(&format!("b{i}"), &bytes(i, 4096), true).await.unwrap();
        }
    })
    .await;
    let file = segment_of(left.path(), "b0");
    let text = fs::read(&file).unwrap();
    let record = |i: u64| &text[(FIRST_RECORD + 2 * i * PAGE) as usize..(FIRST_RECORD + 2 * (i + 1) * PAGE) as usize];
    overwrite(&file, FIRST_RECORD + 4 * PAGE, record(0));
    overwrite(&file, FIRST_RECORD + 8 * PAGE, record(1));
    let log = open(&settings(left.path(), 8)).await;
    assert_eq!(log.get("b2").await, None);
    assert_eq!(log.found.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_superseded_does_not_rise_when_the_newer_is_damaged() {
    let left = crashed(async |log| {
        log.put("k", b"old", false).await.unwrap();
        log.put("k", b"new", false).await.unwrap();
        log.put("other", b"sound", false).await.unwrap();
    })
    .await;
    overwrite(&segment_of(left.path(), "k"), FIRST_RECORD + 3 * PAGE, b"xxx");
    let log = open(&settings(left.path(), 8)).await;
    assert_eq!(log.get("k").await, None);
    assert_eq!(log.get("other").await.as_deref(), Some(&b"sound"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_damaged_state_only_what_waits_is_believed_and_not_without_asking() {
    let left = crashed(async |log| {
        log.put("clean", b"clean", false).await.unwrap();
        log.put("waits", b"waits", true).await.unwrap();
        log.staging.close().await;
    })
    .await;
    // One copy is enough.
    overwrite(&segment_of(left.path(), "clean"), 2 * PAGE + 30, b"!");
    let log = open(&settings(left.path(), 8)).await;
    assert_eq!((log.found.len(), log.found[&key("waits").digest()].amended), (2, false));
    log.staging.close().await;
    drop(log);
    for page in [2, 3] {
        overwrite(&segment_of(left.path(), "clean"), page * PAGE + 30, b"!");
    }
    for _ in 0..2 {
        let log = open(&settings(left.path(), 8)).await;
        assert_eq!(log.get("clean").await, None, "it may have been removed");
        assert_eq!(log.get("waits").await.as_deref(), Some(&b"waits"[..]));
        assert!(log.pending[0].entry.staged.amended && log.found[&key("waits").digest()].amended);
        // What was decided is written down.
        log.staging.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_bit_may_flip_and_no_byte_is_wrong() {
    let sizes = [100usize, 70_000, 4096, 9000];
    for is_closed in [true, false] {
        let left = crashed(async |log| {
            for (i, size) in sizes.iter().enumerate() {
                log.put(&format!("b{i}"), &bytes(i as u64, *size), i % 2 == 0).await.unwrap();
            }
            log.put("b0", &bytes(50, 100), true).await.unwrap();
            log.staging.remove(&key("b2")).await.unwrap();
            if is_closed {
                log.staging.close().await;
            }
        })
        .await;
        let name = segment_of(left.path(), "b0").file_name().unwrap().to_owned();
        // All of the header, state and the first records, and the footer, by a stride that meets every byte of a page.
        let ends = (SEGMENT - 2 * PAGE..SEGMENT).step_by(401);
        for (turn, at) in (0..FIRST_RECORD + 10 * PAGE).step_by(797).chain(ends).enumerate() {
            let damaged = tempfile::tempdir().unwrap();
            copy(left.path(), damaged.path());
            let file = damaged.path().join(&name);
            let mut byte = [0];
            OpenOptions::new().read(true).open(&file).unwrap().read_exact_at(&mut byte, at).unwrap();
            overwrite(&file, at, &[byte[0] ^ (1 << (turn % 8))]);
            let log = open(&settings(damaged.path(), 8)).await;
            for (i, size) in sizes.iter().enumerate() {
                let expected = if i == 0 { bytes(50, 100) } else { bytes(i as u64, *size) };
                let read = log.staging.read(&key(&format!("b{i}")), |len| log.arena.allocate(len)).await;
                match read {
                    Ok(Some((_, read))) => assert!(read.as_slice() == expected && i != 2, "b{i}, bit at {at}"),
                    Ok(None) | Err(ReadError::Corrupt) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_while_the_log_is_open_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&settings(dir.path(), 8)).await;
    log.put("k", &bytes(1, 150_000), false).await.unwrap();
    log.put("sound", &bytes(2, 100), false).await.unwrap();
    overwrite(&segment_of(dir.path(), "k"), FIRST_RECORD + PAGE + 100_000, b"!");
    // The piece that is damaged is not asked for.
    let (_, part) = log.staging.read_range(&key("k"), 10..20).await.unwrap().unwrap();
    assert_eq!(part, bytes(1, 150_000)[10..20]);
    assert_eq!(log.staging.read_range(&key("k"), 99_000..99_001).await.unwrap_err(), ReadError::Corrupt);
    assert!(!log.is_there("k") && !log.there.lock()[&key("k").digest()]);
    assert_eq!(log.get("k").await, None);
    assert_eq!(log.get("sound").await, Some(bytes(2, 100)));
    assert_eq!(log.staging.stats().corrupt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_this_logs_are_refused_and_left_alone() {
    let foreign = |directory: &Path| fs::write(segment(directory, 9), vec![7; 10_000]).unwrap();
    let other_version = |directory: &Path| {
        for at in [8, PAGE + 8] {
            overwrite(&segment(directory, 0), at, &9u32.to_le_bytes());
        }
    };
    let renamed = |directory: &Path| fs::rename(segment(directory, 0), segment(directory, 9)).unwrap();
    type Spoil<'a> = &'a dyn Fn(&Path);
    let cases: [(Spoil, &str); 3] =
        [(&foreign, "is no segment"), (&other_version, "format version 9"), (&renamed, "is segment 00000000")];
    for (spoil, expected) in cases {
        let left = crashed(async |log| {
            log.put("k", b"x", true).await.unwrap();
        })
        .await;
        spoil(left.path());
        let crc = || -> Vec<_> {
            let paths = fs::read_dir(left.path()).unwrap().map(|entry| entry.unwrap().path());
            let mut all: Vec<_> = paths.map(|path| (Crc64::of(&fs::read(&path).unwrap()).to_u64(), path)).collect();
            all.sort();
            all
        };
        let before = crc();
        match try_open(&settings(left.path(), 8)) {
            Err(OpenError::Settings(text)) => assert!(text.contains(expected), "{text}"),
            other => panic!("{:?}", other.map(|log| log.found)),
        }
        assert!(before == crc());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_of_another_log_is_refused() {
    let one = crashed(async |log| {
        log.put("k", b"one", true).await.unwrap();
    })
    .await;
    let two = crashed(async |log| {
        log.put("k", b"two", true).await.unwrap();
    })
    .await;
    let number = |directory: &Path| segment_of(directory, "k").file_name().unwrap().to_owned();
    let (from, to) = (one.path().join(number(one.path())), two.path().join(number(one.path())));
    fs::copy(from, to).unwrap();
    match try_open(&settings(two.path(), 8)) {
        Err(OpenError::Settings(text)) => assert!(text.contains("two different logs"), "{text}"),
        other => panic!("{:?}", other.map(|log| log.found)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_settings_read_what_is_there() {
    let left = crashed(async |log| {
        for i in 0..40 {
            log.put(&format!("b{i}"), &bytes(i, 20_000), i < 3).await.unwrap();
        }
        log.staging.close().await;
    })
    .await;
    let mut other = settings(left.path(), 8);
    other.segment_bytes = SEGMENT / 2;
    let log = open(&other).await;
    assert_eq!((log.found.len(), log.pending.len()), (40, 3));
    for i in 0..3 {
        assert_eq!(log.get(&format!("b{i}")).await, Some(bytes(i, 20_000)));
    }
    // Segments of the old size go as they are reclaimed; what waits stays.
    for i in 0..60 {
        log.put(&format!("c{i}"), &bytes(100 + i, 20_000), false).await.unwrap();
    }
    for i in 0..3 {
        assert_eq!(log.get(&format!("b{i}")).await, Some(bytes(i, 20_000)));
    }
    let sizes: Vec<u64> =
        fs::read_dir(left.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.iter().sum::<u64>() <= other.capacity_bytes, "{sizes:?}");
    assert_eq!(sizes.iter().filter(|len| **len == SEGMENT).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_moment_of_a_crash_what_was_acknowledged_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(open(&settings(dir.path(), 64)).await);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let writers: Vec<_> = (0..8u64)
        .map(|writer| {
            let (log, acknowledged) = (Arc::clone(&log), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                for i in 0..25 {
                    let seed = writer * 1000 + i;
                    log.put(&format!("b{seed}"), &bytes(seed, 1 + seed as usize * 4 % 30_000), true).await.unwrap();
                    acknowledged.lock().push(seed);
                }
            })
        })
        .collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        let left = tempfile::tempdir().unwrap();
        let before = acknowledged.lock().clone();
        copy(dir.path(), left.path());
        let again = open(&settings(left.path(), 64)).await;
        for seed in before {
            let name = format!("b{seed}");
            assert!(again.get(&name).await == Some(bytes(seed, 1 + seed as usize * 4 % 30_000)), "{name}");
        }
        // What was not acknowledged is whole, if it is there.
        for block in &again.pending {
            assert!(again.get(block.key.key()).await.is_some());
        }
        assert_eq!(again.staging.stats().corrupt, 0);
    }
    for writer in writers {
        writer.await.unwrap();
    }
}
