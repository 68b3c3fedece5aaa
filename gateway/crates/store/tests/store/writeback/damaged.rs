//! Blocks on their way to the upstream whose record in the log was damaged.

use std::path::PathBuf;

use super::*;

/// The segments of the log.
fn segments(back: &Back) -> Vec<PathBuf> {
    let files = std::fs::read_dir(back.disk.path().join("staging")).unwrap();
    files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|is| is == "log")).collect()
}

/// Changes one bit of a block wherever it lies in the log.
fn damage(back: &Back, bytes: &[u8]) {
    let mut found = 0;
    for path in segments(back) {
        let mut content = std::fs::read(&path).unwrap();
        let places = content.windows(64).enumerate().filter(|(_, window)| *window == &bytes[..64]);
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        for &at in &places {
            content[at + bytes.len() / 2] ^= 1;
        }
        if !places.is_empty() {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).unwrap();
            file.sync_all().unwrap();
        }
        found += places.len();
    }
    assert_eq!(found, 1, "it lies in the log once");
}

/// `k`, overwritten during an outage, then a restart: only the log has what was stored last.
async fn only_in_the_log(setup: Setup, newer: &[u8]) -> Back {
    let back = back_with(Setup::default()).await;
    back.rig.put("k", b"older").await;
    back.rig.store.drain().await;
    back.outage(true);
    back.rig.put("k", newer).await;
    back.rig.put("l", b"sound").await;
    Back { setup, ..back }.restart().await
}

#[tokio::test]
async fn what_the_upstream_has_is_older_and_not_served() {
    let newer = pattern(50_000, 2);
    let limits = Limits { uploads_at_once: 0, ..Setup::default().limits };
    let back = only_in_the_log(Setup { limits, ..Setup::default() }, &newer).await;
    damage(&back, &newer);
    back.outage(false);
    assert_eq!(missed(back.rig.get("k").await), MissReason::UpstreamUnavailable);
    assert_eq!(missed(back.rig.head("k").await), MissReason::UpstreamUnavailable);
    assert_eq!(back.rig.metric("blockgate_corrupt_blocks_total{tier=\"staging\"}"), 1);
    same(back.rig.bytes("l").await, "sound");
}

#[tokio::test]
async fn one_that_can_not_be_read_is_lost_and_counted_and_the_others_go_up() {
    let newer = pattern(50_000, 2);
    let back = only_in_the_log(Setup::default(), &newer).await;
    damage(&back, &newer);
    back.outage(false);
    back.rig.store.drain().await;
    assert_eq!((back.uploads("lost"), back.rig.store.pending_bytes()), (1, 0));
    same(back.elsewhere().bytes("l").await, "sound");
    same(back.elsewhere().bytes("k").await, "older");
}

#[tokio::test]
async fn memory_helps_out() {
    let back = back().await;
    back.rig.put("bucket", b"known").await;
    back.rig.store.drain().await;
    back.outage(true);
    let bytes = pattern(50_000, 2);
    back.rig.put("k", &bytes).await;
    damage(&back, &bytes);
    back.outage(false);
    back.rig.store.drain().await;
    assert_eq!(back.uploads("lost"), 0);
    same(back.elsewhere().bytes("k").await, &bytes);
}
