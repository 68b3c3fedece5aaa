//! Frame headers in any order, of right checksums: what the rules let through is what they promise.

use std::collections::BTreeMap;

use blockgate_api::frame::{Decoder, Event, FrameHeader, end, miss, put_header};
use blockgate_api::rules::{GetRules, GetStep, PutRules, PutStep};
use blockgate_api::types::{ByteRange, GetMode, GetOrder, GetRequest, PutHeader, StreamEnd};
use blockgate_api::{Crc64, MissReason};
use bytes::Bytes;

/// A frame as four bytes make it.
enum Made {
    Data(FrameHeader),
    Json(FrameHeader, Bytes),
}

fn json(frame: Bytes) -> Made {
    let mut decoder = Decoder::new(0);
    decoder.feed(frame);
    match decoder.next() {
        Ok(Some(Event::Json(header, payload))) => Made::Json(header, payload),
        other => panic!("no JSON frame: {other:?}"),
    }
}

fn made(bytes: &[u8]) -> Made {
    let (kind, index, stripe, len) = (bytes[0], bytes[1].into(), bytes[2].into(), bytes[3].into());
    match kind % 4 {
        0 => Made::Data(FrameHeader::data(index, stripe, len, Crc64::of(b""))),
        1 => json(miss(index, MissReason::Absent)),
        2 => json(put_header(index, &PutHeader::default())),
        _ => json(end(StreamEnd { blocks: index.into(), bytes: u64::from(stripe) << 8 | len })),
    }
}

/// Bytes: keys, mode, order and cut, then frames of four bytes each.
pub fn get_rules(data: &[u8]) {
    let [keys, how, parts, frames @ ..] = data else { return };
    let parts = u32::from(parts % 4 + 1);
    let range = |part| ByteRange { offset: 0, length: part };
    let request = GetRequest {
        keys: vec![String::new(); usize::from(keys % 8)],
        mode: if how & 1 == 0 { GetMode::Prefix } else { GetMode::All },
        order: if how & 2 == 0 { GetOrder::Request } else { GetOrder::Ready },
        stripes: if how & 4 == 0 { parts } else { 1 },
        ranges: (how & 4 != 0).then(|| (0..parts.into()).map(range).collect()),
        ..GetRequest::default()
    };
    let mut rules = GetRules::new(&request);
    let mut came: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut missed = Vec::new();
    let mut bytes = 0;
    for frame in frames.chunks_exact(4) {
        assert!(!rules.ended());
        match made(frame) {
            Made::Data(header) => {
                if rules.data(&header).is_err() || rules.data_end(Crc64::of(b"")).is_err() {
                    break;
                }
                came.entry(header.index).or_default().push(header.stripe);
                bytes += header.len_bytes;
            }
            Made::Json(header, payload) => match rules.json(&header, &payload) {
                Ok(GetStep::Miss(miss)) => missed.push(miss.index),
                Ok(GetStep::End(end)) => {
                    assert_eq!(end.bytes, bytes);
                    break;
                }
                Err(_) => break,
            },
        }
    }
    let all: Vec<u32> = (0..parts).collect();
    for index in 0..request.keys.len() as u32 {
        let stripes = came.remove(&index).unwrap_or_default();
        assert!(all.starts_with(&stripes), "each part once, in order");
        if rules.is_whole(index as usize) {
            assert!(stripes == all && !missed.contains(&index.into()));
        }
        if rules.ended() && request.mode == GetMode::All {
            assert!(rules.is_whole(index as usize) != missed.contains(&index.into()));
        }
    }
    assert!(came.is_empty(), "no index that was not asked for");
    assert!(rules.prefix() <= request.keys.len());
}

/// Bytes: frames of four bytes each.
pub fn put_rules(data: &[u8]) {
    let mut rules = PutRules::default();
    let (mut announced, mut blocks) = (0, 0);
    for frame in data.chunks_exact(4) {
        match made(frame) {
            Made::Data(header) => {
                if rules.data(&header).is_err() {
                    break;
                }
                assert_eq!(u64::from(header.index), blocks);
                assert_eq!(rules.data_end(Crc64::of(b"")), Ok(true));
                blocks += 1;
            }
            Made::Json(header, payload) => match rules.json(&header, &payload) {
                Ok(PutStep::Block(_)) => announced += 1,
                Ok(PutStep::End(end)) => {
                    assert_eq!(end.blocks, blocks);
                    assert!(rules.ended());
                }
                Err(_) => break,
            },
        }
        assert!(announced == blocks || announced == blocks + 1);
    }
    assert!(!rules.ended() || announced == blocks);
}
