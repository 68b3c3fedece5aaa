//! Blocks out.

use std::time::Duration;

use blockgate_api::MissReason;
use blockgate_api::types::{ByteRange, GetMode, GetOrder, GetRequest, Miss, StreamEnd};
use blockgate_upstream::{Fault, Op, UpstreamError};

use crate::support::*;

fn of(keys: &[&str]) -> GetRequest {
    GetRequest { keys: strings(keys), ..GetRequest::default() }
}

fn miss(index: u64, reason: MissReason) -> Miss {
    Miss { index, reason }
}

/// A disk with blocks `0`, `1` and `2` of three lengths.
async fn three() -> (Disk, [Vec<u8>; 3]) {
    let disk = Disk::new().await;
    let blocks = [pattern(100_003, 1), pattern(7, 2), pattern(300_000, 3)];
    disk.gateway().put(&[("0", &blocks[0]), ("1", &blocks[1]), ("2", &blocks[2])]).await;
    (disk, blocks)
}

#[tokio::test]
async fn a_prefix_comes_byte_for_byte_and_as_promised() {
    let (disk, blocks) = three().await;
    let gateway = disk.gateway();
    // Cold, then from memory.
    for _ in 0..2 {
        for order in [GetOrder::Request, GetOrder::Ready] {
            let got = gateway.get(&GetRequest { order, ..of(&["0", "1", "2", "3", "0"]) }).await;
            let bytes: u64 = blocks.iter().map(|block| block.len() as u64).sum();
            assert_eq!(got.promised, [Some(3), Some(bytes)]);
            assert_eq!(got.blocks[..3], blocks);
            assert_eq!(got.misses, [miss(3, MissReason::Absent)]);
            assert_eq!(got.end, StreamEnd { blocks: 3, bytes });
        }
    }
}

#[tokio::test]
async fn all_that_is_there_comes_with_a_miss_for_each_that_is_not() {
    let (disk, blocks) = three().await;
    let gateway = disk.gateway();
    for order in [GetOrder::Request, GetOrder::Ready] {
        let got = gateway.get(&GetRequest { mode: GetMode::All, order, ..of(&["x", "2", "y", "0"]) }).await;
        assert_eq!((got.blocks[1].as_slice(), got.blocks[3].as_slice()), (&blocks[2][..], &blocks[0][..]));
        let mut missed: Vec<u64> = got.misses.iter().map(|miss| miss.index).collect();
        missed.sort_unstable();
        assert_eq!((missed, got.end.blocks), (vec![0, 2], 2));
    }
}

#[tokio::test]
async fn stripes_come_layer_by_layer() {
    let (disk, blocks) = three().await;
    let gateway = disk.gateway();
    let got = gateway.get(&GetRequest { stripes: 4, ..of(&["0", "1", "2"]) }).await;
    assert_eq!(got.blocks, blocks);
    let expected: Vec<(u32, u32)> = (0..4).flat_map(|stripe| (0..3).map(move |index| (index, stripe))).collect();
    assert_eq!(got.order, expected);
    let got = gateway.get(&GetRequest { stripes: 4, mode: GetMode::All, ..of(&["0", "x", "2"]) }).await;
    assert_eq!((got.order.len(), got.end.blocks), (8, 2));
    assert_eq!(got.misses, [miss(1, MissReason::Absent)]);
}

#[tokio::test]
async fn ranges_come_alone() {
    let (disk, blocks) = three().await;
    let gateway = disk.gateway();
    let ranges = Some(vec![ByteRange { offset: 10, length: 5 }, ByteRange { offset: 0, length: 2 }]);
    let got = gateway.get(&GetRequest { ranges: ranges.clone(), ..of(&["0", "2"]) }).await;
    assert_eq!(got.promised, [Some(2), Some(14)]);
    for (index, block) in [(0, &blocks[0]), (1, &blocks[2])] {
        assert_eq!(got.blocks[index], [&block[10..15], &block[0..2]].concat());
    }
    // Block 1 is too short for the first range: it has no such bytes.
    let got = gateway.get(&GetRequest { ranges, ..of(&["0", "1", "2"]) }).await;
    assert_eq!(got.misses, [miss(1, MissReason::Absent)]);
    assert_eq!(got.end.blocks, 1);
}

#[tokio::test]
async fn empty_blocks_and_no_keys() {
    let gateway = Disk::new().await.gateway();
    gateway.put(&[("empty", b"")]).await;
    for stripes in [1, 3] {
        let got = gateway.get(&GetRequest { stripes, ..of(&["empty"]) }).await;
        assert_eq!(got.end, StreamEnd { blocks: 1, bytes: 0 });
        let got = gateway.get(&GetRequest { stripes, ..of(&[]) }).await;
        assert_eq!((got.end, got.misses.len()), (StreamEnd::default(), 0));
        let got = gateway.get(&GetRequest { stripes, ..of(&["nope"]) }).await;
        assert_eq!((got.end, got.misses), (StreamEnd::default(), vec![miss(0, MissReason::Absent)]));
    }
}

#[tokio::test]
async fn another_fingerprint_is_a_miss() {
    let gateway = Disk::new().await.gateway();
    let header = blockgate_api::types::PutHeader { key: "a".into(), fingerprint: Some("f1".into()), ttl_s: None };
    let body = [block_frames(0, &header, b"bytes"), end_of(&[("a", b"bytes")]).to_vec()].concat();
    assert_eq!(whole(gateway.put_frames("", body).await).await.0, 200);
    let with = |fingerprint: &str| GetRequest { fingerprint: Some(fingerprint.into()), ..of(&["a"]) };
    assert_eq!(gateway.get(&with("f1")).await.blocks, [b"bytes"]);
    assert_eq!(gateway.get(&with("f2")).await.misses, [miss(0, MissReason::Fingerprint)]);
}

#[tokio::test]
async fn what_cannot_be_delivered_ends_the_stream_with_its_reason() {
    let (disk, blocks) = three().await;
    for (fault, reason) in [
        (Fault::Fail(UpstreamError::Unavailable("gone".into())), MissReason::UpstreamUnavailable),
        (Fault::Hang, MissReason::Deadline),
        (Fault::FlipBit(8 * 3), MissReason::Corrupt),
    ] {
        let gateway = disk.gateway();
        // Promised, and then not to be had.
        let found: blockgate_api::types::LookupResponse = gateway.ask("lookup", r#"{"keys":["0","1","2"]}"#).await;
        assert_eq!(found.matched, 3);
        disk.faults.always(Op::Get, fault);
        for order in [GetOrder::Request, GetOrder::Ready] {
            let request = GetRequest { order, deadline_ms: Some(150), ..of(&["0", "1", "2"]) };
            let got = gateway.get(&request).await;
            assert_eq!(got.misses, [miss(0, reason)], "{order:?}");
            assert_eq!(got.end, StreamEnd::default());
            let request = GetRequest { mode: GetMode::All, stripes: 2, ..request };
            let got = gateway.get(&request).await;
            assert_eq!(got.misses.len(), 3);
        }
        disk.faults.heal();
    }
    let got = disk.gateway().get(&of(&["0", "1", "2"])).await;
    assert_eq!(got.blocks, blocks);
}

#[tokio::test]
async fn a_gap_that_the_lookup_did_not_see_ends_the_prefix() {
    let (disk, blocks) = three().await;
    let got = disk.gateway().get(&of(&["0", "1", "gap", "2"])).await;
    assert_eq!(got.blocks[..2], blocks[..2]);
    assert_eq!(got.misses, [miss(2, MissReason::Absent)]);
    assert_eq!(got.end.blocks, 2);
}

#[tokio::test]
async fn a_block_in_memory_comes_while_the_next_one_hangs() {
    let (disk, blocks) = three().await;
    let gateway = disk.gateway();
    gateway.get(&of(&["0"])).await;
    gateway.ask::<blockgate_api::types::LookupResponse>("lookup", r#"{"keys":["0","1","2"]}"#).await;
    disk.faults.always(Op::Get, Fault::Hang);
    let got = gateway.get(&GetRequest { deadline_ms: Some(200), ..of(&["0", "1", "2"]) }).await;
    assert_eq!(got.blocks[0], blocks[0]);
    assert_eq!(got.misses, [miss(1, MissReason::Deadline)]);
    assert_eq!(got.end.blocks, 1);
}

#[tokio::test]
async fn ready_blocks_do_not_wait_for_slow_ones() {
    let (disk, blocks) = three().await;
    let gateway = disk.gateway();
    gateway.get(&of(&["1", "2"])).await;
    disk.faults.always(Op::Get, Fault::Delay(Duration::from_millis(50)));
    let request = GetRequest { mode: GetMode::All, order: GetOrder::Ready, ..of(&["0", "1", "2"]) };
    let got = gateway.get(&request).await;
    assert_eq!(got.blocks, blocks);
    assert_eq!(got.order.last(), Some(&(0, 0)));
}
