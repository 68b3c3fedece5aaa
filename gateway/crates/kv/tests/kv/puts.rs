//! Blocks in.

use std::convert::Infallible;

use axum::body::Body;
use blockgate_api::frame::{self, FrameHeader};
use blockgate_api::types::{GetMode, GetRequest, PutHeader, PutResponse, StreamEnd};
use blockgate_api::{Crc64, FRAMES_MEDIA_TYPE};
use blockgate_upstream::{Fault, Op, UpstreamError};
use bytes::Bytes;

use crate::support::*;

async fn outcomes(gateway: &Gateway, body: Vec<u8>) -> Vec<(u16, Option<String>)> {
    let (status, bytes) = whole(gateway.put_frames("", body).await).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
    let response: PutResponse = serde_json::from_slice(&bytes).unwrap();
    let results = response.results.into_iter();
    results.map(|result| (result.status, result.code.map(|code| code.as_str().to_owned()))).collect()
}

/// Which of the keys `0` … are there, with the right bytes.
async fn there(gateway: &Gateway, blocks: &[(&str, &[u8])]) -> Vec<bool> {
    let keys = blocks.iter().map(|(key, _)| (*key).to_owned()).collect();
    let got = gateway.get(&GetRequest { keys, mode: GetMode::All, ..GetRequest::default() }).await;
    let missed: Vec<u64> = got.misses.iter().map(|miss| miss.index).collect();
    for (index, (_, bytes)) in blocks.iter().enumerate() {
        assert!(missed.contains(&(index as u64)) || got.blocks[index] == *bytes, "block {index} has other bytes");
    }
    (0..blocks.len() as u64).map(|index| !missed.contains(&index)).collect()
}

#[tokio::test]
async fn blocks_come_back_from_every_gateway() {
    let disk = Disk::new().await;
    let blocks = [pattern(200_000, 1), Vec::new(), pattern(1, 3), pattern(4 << 20, 4)];
    let named: Vec<(&str, &[u8])> = ["0", "1", "2", "3"].into_iter().zip(blocks.iter().map(Vec::as_slice)).collect();
    let gateway = disk.gateway();
    gateway.put(&named).await;
    for gateway in [&gateway, &disk.gateway()] {
        assert_eq!(there(gateway, &named).await, [true; 4]);
    }
    gateway.put(&[]).await;
}

#[tokio::test]
async fn a_broken_block_is_its_own_outcome() {
    let gateway = Disk::new().await.gateway();
    let blocks: [(&str, &[u8]); 3] = [("0", b"zero"), ("1", b"one"), ("2", b"two")];
    let mut body = Vec::new();
    for (index, (key, bytes)) in blocks.iter().enumerate() {
        let header = PutHeader { key: (*key).to_owned(), ..PutHeader::default() };
        body.extend(block_frames(index as u32, &header, bytes));
        if index == 1 {
            *body.last_mut().unwrap() ^= 1;
        }
    }
    body.extend(end_of(&blocks));
    let expected = [(200, None), (400, Some("BadDigest".to_owned())), (200, None)];
    assert_eq!(outcomes(&gateway, body).await, expected);
    assert_eq!(there(&gateway, &blocks).await, [true, false, true]);
}

#[tokio::test]
async fn a_header_that_is_not_accepted_is_its_blocks_outcome() {
    let gateway = Disk::new().await.gateway();
    let mut body = Vec::new();
    let bad = [
        PutHeader { key: String::new(), ..PutHeader::default() },
        PutHeader { key: ".blockgate/x".into(), ..PutHeader::default() },
        PutHeader { key: "a".into(), ttl_s: Some(0), ..PutHeader::default() },
        PutHeader { key: "a".into(), fingerprint: Some("a\nb".into()), ..PutHeader::default() },
    ];
    for (index, header) in bad.iter().enumerate() {
        body.extend(block_frames(index as u32, header, b"x"));
    }
    body.extend(block_frames(4, &PutHeader { key: "good".into(), ..PutHeader::default() }, b"x"));
    body.extend(frame::end(StreamEnd { blocks: 5, bytes: 5 }));
    let outcomes = outcomes(&gateway, body).await;
    assert_eq!(outcomes.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [400, 400, 400, 400, 200]);
    assert_eq!(there(&gateway, &[("a", b"x"), ("good", b"x")]).await, [false, true]);
}

/// Cuts a body at every place that means something, in small and large pieces.
#[tokio::test]
async fn a_cut_body_leaves_the_blocks_that_came_whole() {
    let disk = Disk::new().await;
    let blocks: [(&str, &[u8]); 2] = [("0", b"zero zero zero"), ("1", b"one")];
    let body = frames_of(&blocks);
    let first = block_frames(0, &PutHeader { key: "0".into(), ..PutHeader::default() }, blocks[0].1).len();
    let second = first + block_frames(1, &PutHeader { key: "1".into(), ..PutHeader::default() }, blocks[1].1).len();
    let gateway = disk.gateway();
    for at in 0..body.len() {
        let answer = refused(gateway.put_frames("", body[..at].to_vec()).await).await;
        assert_eq!(answer, (400, "IncompleteBody".to_owned()), "cut at {at}");
        assert_eq!(there(&gateway, &blocks).await, [at >= first, at >= second], "cut at {at}");
        for key in ["0", "1"] {
            let key = blockgate_block::BlockKey::new(BUCKET, key).unwrap();
            gateway.store.delete(&key).await.unwrap();
        }
    }
}

#[tokio::test]
async fn any_pieces_are_the_same_body() {
    let gateway = Disk::new().await.gateway();
    let (one, two) = (pattern(10_000, 1), pattern(333, 2));
    let blocks: [(&str, &[u8]); 2] = [("0", &one), ("1", &two)];
    for piece in [1, 31, 32, 33, 4096] {
        let pieces: Vec<_> =
            frames_of(&blocks).chunks(piece).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
        let body = Body::from_stream(futures::stream::iter(pieces));
        assert_eq!(whole(gateway.put_frames("", body).await).await.0, 200, "{piece}");
        assert_eq!(there(&gateway, &blocks).await, [true, true]);
    }
}

#[tokio::test]
async fn frames_that_cannot_be_are_refused() {
    let gateway = Disk::new().await.gateway();
    let header =
        |index: u32, key: &str| frame::put_header(index, &PutHeader { key: key.into(), ..PutHeader::default() });
    let data = |index: u32, len: u64| FrameHeader::data(index, 0, len, Crc64::of(b"x")).encode();
    let end = |blocks, bytes| frame::end(StreamEnd { blocks, bytes });
    for (what, body, status, code) in [
        ("nothing", vec![], 400, "IncompleteBody"),
        ("no magic", b"KVB2".repeat(8), 400, "InvalidFrame"),
        ("data first", [&data(0, 1)[..], b"x"].concat(), 400, "InvalidFrame"),
        ("another index", [&header(1, "a")[..], &data(1, 1), b"x"].concat(), 400, "InvalidFrame"),
        ("data of another", [&header(0, "a")[..], &data(1, 1), b"x"].concat(), 400, "InvalidFrame"),
        ("two headers", [&header(0, "a")[..], &header(0, "a")].concat(), 400, "InvalidFrame"),
        ("header and end", [&header(0, "a")[..], &end(0, 0)].concat(), 400, "InvalidFrame"),
        ("miscounted", [&header(0, "a")[..], &data(0, 1), b"x", &end(2, 1)].concat(), 400, "InvalidFrame"),
        ("a tail", [&end(0, 0)[..], b"x"].concat(), 400, "InvalidFrame"),
        ("too large", [&header(0, "a")[..], &data(0, (4 << 20) + 1)].concat(), 413, "EntityTooLarge"),
    ] {
        let answer = refused(gateway.put_frames("", body).await).await;
        assert_eq!(answer, (status, code.to_owned()), "{what}");
    }
    let json = post_request("kv-bucket/put", "application/json", frames_of(&[]));
    assert_eq!(refused(gateway.send(json, ADMIN, false).await).await.0, 415);
}

#[tokio::test]
async fn where_the_whole_body_was_promised_nothing_is_stored_before_its_end() {
    let gateway = Disk::new().await.gateway();
    let blocks: [(&str, &[u8]); 2] = [("0", b"zero"), ("1", b"one")];
    // The guard ends a body that breaks its promise with an error, here after everything came.
    let broken = Body::from_stream(futures::stream::iter([
        Ok(Bytes::from(frames_of(&blocks))),
        Err(std::io::Error::other("another digest")),
    ]));
    let request = post_request("kv-bucket/put", FRAMES_MEDIA_TYPE, broken);
    assert_eq!(refused(gateway.send(request, ADMIN, true).await).await.0, 400);
    assert_eq!(there(&gateway, &blocks).await, [false, false]);
    let request = post_request("kv-bucket/put", FRAMES_MEDIA_TYPE, frames_of(&blocks));
    assert_eq!(whole(gateway.send(request, ADMIN, true).await).await.0, 200);
    assert_eq!(there(&gateway, &blocks).await, [true, true]);
}

#[tokio::test]
async fn what_must_wait_is_bounded() {
    let disk = Disk::new().await;
    let gateway = disk.gateway_with(8 << 20, Default::default());
    let block = pattern(1 << 20, 1);
    let names: Vec<String> = (0..3).map(|index| index.to_string()).collect();
    let blocks: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &block[..])).collect();
    let request = post_request("kv-bucket/put", FRAMES_MEDIA_TYPE, frames_of(&blocks));
    assert_eq!(refused(gateway.send(request, ADMIN, true).await).await, (507, "InsufficientStorage".to_owned()));
    let request = post_request("kv-bucket/put", FRAMES_MEDIA_TYPE, frames_of(&blocks[..2]));
    assert_eq!(whole(gateway.send(request, ADMIN, true).await).await.0, 200);
}

#[tokio::test]
async fn an_upstream_that_fails_is_the_blocks_outcome() {
    let disk = Disk::new().await;
    let gateway = disk.gateway();
    for (error, status, code) in [
        (UpstreamError::Full, 507, "InsufficientStorage"),
        (UpstreamError::Unavailable("gone".into()), 503, "UpstreamUnavailable"),
        (UpstreamError::NoSuchBucket, 404, "NoSuchBucket"),
    ] {
        disk.faults.always(Op::Put, Fault::Fail(error));
        assert_eq!(outcomes(&gateway, frames_of(&[("a", b"x")])).await, [(status, Some(code.to_owned()))]);
        disk.faults.heal();
    }
}
