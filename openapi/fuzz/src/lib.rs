//! What each target does with its bytes. A target panics when a decoder's promise is broken.

mod rules;

use std::num::NonZero;

use blockgate_api::frame::{Decoder, Event, FrameError};
use blockgate_api::keys::{Chain, ChainSeed, ExtraKey, compute_keys_with};
use blockgate_api::types::{DeleteRequest, ExistsRequest, GetRequest, LookupRequest, PutHeader, TouchRequest};
use blockgate_api::{Bitmap, Object};
use blockgate_block::BlockRecord;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use rules::{get_rules, put_rules};

const DATA_BYTES_MAX: u64 = 1 << 20;

/// Frames, cut as the first byte says: the same events as in one piece, or the same error.
pub fn frames(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let whole = events(body, body.len().max(1));
    let pieces = events(body, usize::from(*cut) + 1);
    assert_eq!(whole, pieces);
}

fn events(body: &[u8], piece: usize) -> (Vec<Event>, Result<(), FrameError>) {
    let mut decoder = Decoder::new(DATA_BYTES_MAX);
    let mut events: Vec<Event> = Vec::new();
    for piece in body.chunks(piece) {
        decoder.feed(Bytes::copy_from_slice(piece));
        loop {
            match (events.last_mut(), decoder.next()) {
                (_, Ok(None)) => break,
                (_, Err(error)) => return (events, Err(error)),
                (Some(Event::Data(payload)), Ok(Some(Event::Data(more)))) => {
                    *payload = [payload.as_ref(), &more].concat().into();
                }
                (_, Ok(Some(event))) => events.push(event),
            }
        }
    }
    (events, decoder.finish())
}

/// JSON of every request, which is an object: what is read is written and read again as the same.
pub fn requests(data: &[u8]) {
    object::<LookupRequest>(data);
    object::<ExistsRequest>(data);
    object::<GetRequest>(data);
    object::<DeleteRequest>(data);
    object::<TouchRequest>(data);
    object::<PutHeader>(data);
}

fn object<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(Object(value)) = serde_json::from_slice::<Object<T>>(data) {
        assert!(data.trim_ascii().starts_with(b"{"));
        there_and_back::<T>(&serde_json::to_vec(&value).expect("what was read can be written"));
    }
}

/// The bitmap of `exists`.
pub fn bitmap(data: &[u8]) {
    there_and_back::<Bitmap>(data);
    if let Ok(bitmap) = serde_json::from_slice::<Bitmap>(data) {
        let bits = (0..bitmap.as_bytes().len() * 8).map(|index| bitmap.get(index));
        assert_eq!(bits.clone().filter(|bit| *bit).count(), bitmap.count());
        assert_eq!(bits.collect::<Bitmap>(), bitmap);
    }
}

fn there_and_back<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(data) {
        let written = serde_json::to_vec(&value).expect("what was read can be written");
        assert_eq!(serde_json::from_slice::<T>(&written).expect("what was written can be read"), value);
    }
}

/// A chain that grows in any steps has the keys of one that was there at once. Bytes: block size, step, then tokens.
pub fn keys(data: &[u8]) {
    let [block_size, step, tokens @ ..] = data else { return };
    let Some(block_size) = NonZero::new(usize::from(*block_size)) else { return };
    let tokens: Vec<u32> =
        tokens.chunks_exact(4).map(|token| u32::from_le_bytes([token[0], token[1], token[2], token[3]])).collect();
    let seed = ChainSeed::new("fuzz", "fuzz");
    let extra =
        |block: usize| if block % 2 == 0 { Vec::new() } else { vec![ExtraKey::multimodal("m", -(block as i64))] };
    let whole = compute_keys_with(&seed, &tokens, block_size, extra);
    assert_eq!(whole.len(), tokens.len() / block_size);
    let mut chain = Chain::new(&seed, block_size);
    let grown: Vec<_> =
        tokens.chunks(usize::from(*step) + 1).flat_map(|tokens| chain.extend_with(tokens, extra)).collect();
    assert_eq!(grown, whole);
    for key in whole {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}

/// The record that is stored with a block.
pub fn record(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(record) = BlockRecord::parse(text) {
        assert_eq!(BlockRecord::parse(&record.to_string()).expect("what was written can be read"), record);
    }
}

/// What lies in the staging log: headers, records, footers, state.
pub fn staging(data: &[u8]) {
    blockgate_staging::fuzz::anything(data);
}
