//! The examples of `docs/protocol.md` are true.

#![allow(clippy::unwrap_used)]

use std::num::NonZero;

use blockgate_api::frame::{self, FrameHeader};
use blockgate_api::keys::{ChainSeed, compute_keys};
use blockgate_api::types::{PutHeader, StreamEnd};
use blockgate_api::{Crc64, MissReason, limits};

const PAGE: &str = include_str!("../../docs/protocol.md");

/// The text of the fenced block that begins with this line.
fn fenced(name: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{name}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// The bytes of a block whose lines are hex, two spaces, and what they are.
fn bytes(name: &str) -> Vec<u8> {
    let digits = |line: &str| line.split("  ").next().unwrap_or_default().replace(' ', "");
    hex::decode(fenced(name).lines().map(digits).collect::<String>()).unwrap()
}

fn hello(index: u32) -> Vec<u8> {
    let header = FrameHeader::data(index, 0, 5, Crc64::of(b"hello"));
    [header.encode().as_slice(), b"hello"].concat()
}

/// Lines as the page has them, for whoever has to mend it.
fn dump(frames: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for frame in frames {
        let (header, payload) = frame.split_at(32);
        let spaced = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        text += &format!("{}\n{}\n", spaced(&header[..16]), spaced(&header[16..]));
        for line in payload.chunks(16) {
            text += &format!("{}  {}\n", spaced(line), String::from_utf8_lossy(line));
        }
    }
    text
}

#[test]
fn answer_to_a_get() {
    let frames =
        [hello(0), frame::miss(1, MissReason::Absent).into(), frame::end(StreamEnd { blocks: 1, bytes: 5 }).into()];
    assert_eq!(bytes("hex get"), frames.concat(), "the page should have:\n{}", dump(&frames));
}

#[test]
fn body_of_a_put() {
    let header = PutHeader { key: "a".into(), ttl_s: Some(3600), fingerprint: None };
    let frames = [frame::put_header(0, &header).into(), hello(0), frame::end(StreamEnd { blocks: 1, bytes: 5 }).into()];
    assert_eq!(bytes("hex put"), frames.concat(), "the page should have:\n{}", dump(&frames));
}

#[test]
fn keys() {
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8];
    let block_size = NonZero::new(4).unwrap();
    let mut expected = String::new();
    let seeds = [
        ("blockgate", ChainSeed::new("tenant-a", "llama-3.1-8b/bf16/tp1")),
        ("vLLM", ChainSeed::vllm(ChainSeed::VLLM_DEFAULT_HASH_SEED)),
    ];
    for (name, seed) in seeds {
        expected += &format!("{name:10} seed    {}\n", seed.hash());
        for (index, key) in compute_keys(&seed, &tokens, block_size).into_iter().enumerate() {
            expected += &format!("{name:10} hash {index}  {key}\n");
        }
    }
    assert_eq!(fenced("keys"), expected, "the page should have:\n{expected}");
}

#[test]
fn limits_are_the_crates() {
    let (_, rest) = PAGE.split_once("## Limits").unwrap();
    let rows = [
        ("keys of a request, blocks of a `put`", limits::KEYS_MAX as u64),
        ("blocks of a `put` with `group=true`", limits::GROUP_BLOCKS_MAX as u64),
        ("bytes of a key in full", limits::KEY_BYTES_MAX as u64),
        ("bytes of a fingerprint", limits::FINGERPRINT_BYTES_MAX as u64),
        ("bytes of a JSON body", limits::JSON_BYTES_MAX as u64),
        ("depth of a JSON body", limits::JSON_DEPTH_MAX as u64),
        ("bytes of a JSON frame", limits::JSON_FRAME_BYTES_MAX),
        ("`ranges` of a `get`", limits::RANGES_MAX as u64),
        ("`stripes` of a `get`", limits::STRIPES_MAX.into()),
        ("`ttl_s`", limits::TTL_S_MAX),
        ("`lease_ms`", limits::LEASE_MS_MAX),
        ("`deadline_ms`", limits::DEADLINE_MS_MAX),
    ];
    let expected: String = rows.iter().map(|(name, limit)| format!("| {name} | {limit} |\n")).collect();
    assert!(rest.contains(&expected), "the page should have:\n{expected}");
    assert_eq!(limits::KEYS_MAX, limits::PUT_BLOCKS_MAX);
}
