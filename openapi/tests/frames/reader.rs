//! A client of `get` and a server of `put`, as short as they can be.

use blockgate_api::Crc64;
use blockgate_api::frame::{Decoder, Event, FrameError};
use blockgate_api::rules::{GetRules, PutRules, PutStep};
use blockgate_api::types::GetRequest;
use bytes::Bytes;

/// Above what any block here has.
pub(crate) const DATA_BYTES_MAX: u64 = 1 << 20;

/// All events of a body that comes in these pieces, pieces of a payload joined.
pub(crate) fn events(pieces: &[&[u8]]) -> Result<Vec<Event>, FrameError> {
    let mut decoder = Decoder::new(DATA_BYTES_MAX);
    let mut events: Vec<Event> = Vec::new();
    for piece in pieces {
        decoder.feed(Bytes::copy_from_slice(piece));
        while let Some(event) = decoder.next()? {
            match (events.last_mut(), event) {
                (Some(Event::Data(payload)), Event::Data(more)) => *payload = [payload.as_ref(), &more].concat().into(),
                (_, event) => events.push(event),
            }
        }
    }
    decoder.finish()?;
    Ok(events)
}

/// What a client has when the body has ended well.
pub(crate) fn get(request: &GetRequest, body: &[u8]) -> Result<Vec<Option<Vec<u8>>>, FrameError> {
    let mut rules = GetRules::new(request);
    let mut blocks = vec![Vec::new(); request.keys.len()];
    read_get(&mut rules, &mut blocks, body)?;
    let whole = |(index, block)| rules.is_whole(index).then_some(block);
    Ok(blocks.into_iter().enumerate().map(whole).collect())
}

/// The same, where what came before an error stays.
pub(crate) fn read_get(rules: &mut GetRules, blocks: &mut [Vec<u8>], body: &[u8]) -> Result<(), FrameError> {
    let mut decoder = Decoder::new(DATA_BYTES_MAX);
    decoder.feed(Bytes::copy_from_slice(body));
    let (mut open, mut payload) = (0, Vec::new());
    while let Some(event) = decoder.next()? {
        match event {
            Event::DataStart(header) => {
                rules.data(&header)?;
                open = header.index as usize;
            }
            Event::Data(bytes) => payload.extend_from_slice(&bytes),
            Event::DataEnd => {
                rules.data_end(Crc64::of(&payload))?;
                blocks[open].append(&mut payload);
            }
            Event::Json(header, json) => {
                rules.json(&header, &json)?;
            }
        }
    }
    decoder.finish()
}

/// A key and its block.
type Sound = (String, Vec<u8>);

/// Keys and blocks of a put that arrived whole and sound, and how the body ended.
pub(crate) fn put(body: &[u8]) -> (Vec<Sound>, Result<(), FrameError>) {
    let mut sound = Vec::new();
    let end = read_put(&mut sound, body);
    (sound, end)
}

fn read_put(sound: &mut Vec<Sound>, body: &[u8]) -> Result<(), FrameError> {
    let (mut decoder, mut rules) = (Decoder::new(DATA_BYTES_MAX), PutRules::default());
    decoder.feed(Bytes::copy_from_slice(body));
    let (mut key, mut payload) = (String::new(), Vec::new());
    let mut broken = Ok(());
    while let Some(event) = decoder.next()? {
        match event {
            Event::DataStart(header) => rules.data(&header)?,
            Event::Data(bytes) => payload.extend_from_slice(&bytes),
            Event::DataEnd if rules.data_end(Crc64::of(&payload))? => {
                sound.push((key.clone(), std::mem::take(&mut payload)));
            }
            Event::DataEnd => {
                broken = Err(FrameError::Checksum { index: 0 });
                payload.clear();
            }
            Event::Json(header, json) => {
                if let PutStep::Block(header) = rules.json(&header, &json)? {
                    key = header.key;
                }
            }
        }
    }
    decoder.finish()?;
    broken
}
