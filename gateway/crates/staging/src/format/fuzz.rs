//! Each decoder of the format on bytes that may be anything, for the fuzzer. A function panics when a decoder's promise is broken.
//!
//! Checksums would keep a fuzzer out of everything behind them. So each decoder also gets its bytes with checksums that fit, as
//! somebody who knows the format could write them.

use blockgate_block::Crc64;

use super::fields::{seal, write};
use super::footer::{self, Entry, Trailer, pages_of_footer};
use super::header::{COPIES, Found, Header};
use super::record::{self, HEADER_PAGES_MAX, Record};
use super::state::{Mark, State};
use super::{Geometry, Nonce, PAGE_BYTES};

const NONCE: Nonce = [5; 16];
const SEGMENT_BYTES: u64 = 1 << 20;

/// Whatever lies in a directory of a log. The first byte says what it is taken for.
///
/// # Panics
/// Where a decoder breaks its promise.
pub fn anything(data: &[u8]) {
    let (Some((what, data)), Some(geometry)) = (data.split_first(), Geometry::new(SEGMENT_BYTES)) else { return };
    match what % 4 {
        0 => headers(data),
        1 => records(data),
        2 => footers(geometry, data),
        _ => states(geometry, data),
    }
}

fn headers(data: &[u8]) {
    header(data);
    let mut pages = padded(data, COPIES as usize);
    pages.chunks_exact_mut(PAGE_BYTES).for_each(seal);
    header(&pages);
}

/// What is read is written and read again as the same.
fn header(bytes: &[u8]) {
    if let Found::Sound(header) = Header::decode(bytes) {
        let mut out = vec![0; COPIES as usize * PAGE_BYTES];
        header.encode(&mut out);
        assert_eq!(Header::decode(&out), Found::Sound(header));
    }
}

fn records(data: &[u8]) {
    record(data);
    let pages = record::header_pages(data).unwrap_or(1);
    let mut bytes = padded(data, usize::from(pages));
    seal(&mut bytes);
    record(&bytes);
}

/// What is read is written and read again as the same, and says of no bytes that they are not its own.
fn record(bytes: &[u8]) {
    let Ok((place, record)) = Record::decode(bytes) else { return };
    assert!((1..=HEADER_PAGES_MAX).contains(&place.header_pages));
    assert!(record::may_begin(bytes, place.nonce, place.version));
    assert!(record.is_sound(0, b"") && !record.is_sound(u64::MAX, b"x"));
    // What was written otherwise than we do may be longer as we do.
    let Some(mut header) = record.encode() else { return };
    record::place(&mut header, place.nonce, place.version);
    let again = Record::decode(&header).map(|(again, same)| (again.nonce, again.version, same));
    assert_eq!(again, Ok((place.nonce, place.version, record)));
}

fn footers(geometry: Geometry, data: &[u8]) {
    footer(geometry, data);
    // A sound footer of as many entries as there are bytes for, then these bytes in their place.
    let nothing = Entry {
        digest: blockgate_block::Digest(0),
        page: 0,
        header_pages: 0,
        len_bytes: 0,
        crc64: Crc64::of(b""),
        fingerprint: 0,
        expires_at_ms: 0,
        pending: false,
    };
    let records = data.len() / footer::ENTRY_BYTES;
    if !geometry.fits(0, 0, records as u64) {
        return;
    }
    let (_, mut bytes) = footer::encode(geometry, NONCE, &vec![nothing; records]);
    let entries = records * footer::ENTRY_BYTES;
    write(&mut bytes, &[&data[..entries]]);
    let crc64 = Crc64::of(&bytes[..entries]).to_u64();
    let last = bytes.len() - PAGE_BYTES;
    write(&mut bytes[last + footer::ENTRIES_CRC_AT..], &[&crc64.to_le_bytes()]);
    seal(&mut bytes[last..]);
    footer(geometry, &bytes);
}

/// Entries lie within the segment, one after another, and are written and read again as the same.
fn footer(geometry: Geometry, bytes: &[u8]) {
    let Some(at) = bytes.len().checked_sub(PAGE_BYTES) else { return };
    let Ok(trailer) = Trailer::decode(geometry, NONCE, &bytes[at..]) else { return };
    let Ok(entries) = trailer.entries(geometry, &bytes[..at]) else { return };
    let mut next = u64::from(geometry.first_record_page());
    for entry in &entries {
        assert!(u64::from(entry.page) >= next);
        next = u64::from(entry.page) + entry.record_pages();
    }
    assert!(next + pages_of_footer(entries.len() as u64) <= u64::from(geometry.pages()));
    let (page, written) = footer::encode(geometry, NONCE, &entries);
    let (written, last) = written.split_at(written.len() - PAGE_BYTES);
    assert_eq!(page, trailer.first_page(geometry));
    let again = Trailer::decode(geometry, NONCE, last).and_then(|trailer| trailer.entries(geometry, written));
    assert_eq!(again, Ok(entries));
}

fn states(geometry: Geometry, data: &[u8]) {
    let (_, unknown) = State::decode(geometry, NONCE, data);
    assert!(!unknown.is_empty() || data.len() >= PAGE_BYTES);
    // Marks, three bytes each; what was set is found again.
    let mut state = State::new(geometry, NONCE);
    let mut marks = Vec::new();
    for mark in data.chunks_exact(3) {
        let page = u32::from(u16::from_le_bytes([mark[0], mark[1]])) % geometry.pages();
        let mark = [Mark::Settled, Mark::Dead, Mark::Amended][usize::from(mark[2]) % 3];
        state.set(page, mark, true);
        marks.push((page, mark));
    }
    let mut bytes = vec![0; geometry.state_pages() as usize * PAGE_BYTES];
    (0u32..).zip(bytes.chunks_exact_mut(PAGE_BYTES)).for_each(|(page, out)| state.encode_page(page, out));
    let (read, unknown) = State::decode(geometry, NONCE, &bytes);
    assert!(unknown.is_empty() && marks.iter().all(|&(page, mark)| read.has(page, mark)));
}

/// As many pages, of these bytes and then zeros.
fn padded(data: &[u8], pages: usize) -> Vec<u8> {
    let mut bytes = data[..data.len().min(pages * PAGE_BYTES)].to_vec();
    bytes.resize(pages * PAGE_BYTES, 0);
    bytes
}
