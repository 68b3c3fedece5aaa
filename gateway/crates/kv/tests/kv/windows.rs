//! Memory is bounded whatever is asked, and free again when the client has gone.

use std::time::Duration;

use blockgate_api::MissReason;
use blockgate_api::types::{GetMode, GetRequest, Miss};
use blockgate_block::BlockKey;
use blockgate_store::BucketPolicy;
use blockgate_upstream::Op;
use http_body_util::BodyExt as _;

use crate::support::*;

const BLOCK_BYTES: usize = 256 << 10;

/// A disk with `count` blocks of [`BLOCK_BYTES`], and their names.
async fn many(count: usize) -> (Disk, Vec<String>) {
    let disk = Disk::new().await;
    let names: Vec<String> = (0..count).map(|index| format!("{index:04}")).collect();
    let block = pattern(BLOCK_BYTES, 1);
    let blocks: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &block[..])).collect();
    disk.gateway().put(&blocks).await;
    (disk, names)
}

#[tokio::test]
async fn no_more_is_fetched_than_the_window_holds() {
    let (disk, keys) = many(80).await;
    let gateway = disk.gateway();
    let before = disk.faults.calls(Op::Get);
    let request = GetRequest { keys, mode: GetMode::All, stripes: 8, ..GetRequest::default() };
    let mut response = gateway.post("get", serde_json::to_vec(&request).unwrap()).await;
    response.body_mut().frame().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let fetched = disk.faults.calls(Op::Get) - before;
    assert!((1..=33).contains(&fetched), "{fetched} blocks were fetched for a client that took one frame");
}

#[tokio::test]
async fn more_stripes_of_more_bytes_than_memory_come_whole() {
    let (disk, keys) = many(40).await;
    // 4 MiB of memory for 10 MiB of blocks, each in four stripes.
    let gateway = disk.gateway_with(4 << 20, BucketPolicy::default());
    let request = GetRequest { keys, mode: GetMode::All, stripes: 4, ..GetRequest::default() };
    let got = gateway.get(&request).await;
    assert_eq!((got.end.blocks, got.misses.len()), (40, 0));
    assert!(got.blocks.iter().all(|block| *block == pattern(BLOCK_BYTES, 1)));
}

#[tokio::test]
async fn a_client_that_vanishes_frees_what_it_held() {
    let (disk, keys) = many(8).await;
    let gateway = disk.gateway();
    let request = GetRequest { keys: keys.clone(), stripes: 2, ..GetRequest::default() };
    let mut response = gateway.post("get", serde_json::to_vec(&request).unwrap()).await;
    for _ in 0..5 {
        response.body_mut().frame().await.unwrap().unwrap();
    }
    for key in &keys {
        gateway.store.delete(&BlockKey::new(BUCKET, key).unwrap()).await.unwrap();
    }
    let used = || gateway.store.memory_stats().arena.used_bytes;
    assert!(used() > 0, "the body holds blocks that are gone from memory");
    drop(response);
    for _ in 0..100 {
        if used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} bytes are still held", used());
}

#[tokio::test]
async fn a_block_that_is_overwritten_between_its_stripes_is_a_miss() {
    let disk = Disk::new().await;
    let blocks: Vec<Vec<u8>> = (0..2).map(|seed| pattern(300_000, seed)).collect();
    // No room to hold blocks between stripes: each stripe is read anew.
    let gateway = disk.gateway_with(1 << 20, BucketPolicy::default());
    gateway.put(&[("0", &blocks[0]), ("1", &blocks[1])]).await;
    let request = GetRequest { keys: strings(&["0", "1"]), stripes: 2, ..GetRequest::default() };
    let mut response = gateway.post("get", serde_json::to_vec(&request).unwrap()).await;
    let mut body = Vec::new();
    for _ in 0..4 {
        body.extend(response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap());
    }
    gateway.put(&[("1", &blocks[0])]).await;
    body.extend(whole(response).await.1);
    let got = Got::read(&request, [None; 2], body.into());
    assert_eq!(got.misses, [Miss { index: 1, reason: MissReason::Absent }]);
    assert_eq!((got.blocks[0].as_slice(), got.end.blocks), (&blocks[0][..], 1));
    assert_eq!(got.blocks[1], blocks[1][..150_000]);
}
