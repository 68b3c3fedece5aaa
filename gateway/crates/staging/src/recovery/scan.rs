//! Reading one segment at a start. Nothing here writes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use blockgate_block::BlockKey;

use crate::format::footer::{Entry, Trailer};
use crate::format::header::{self, Found, Header};
use crate::format::record::{self, HEADER_PAGES_MAX, Record};
use crate::format::state::{self, State};
use crate::format::{Flaw, Geometry, PAGE_BYTES, version_of};
use crate::io::AlignedBuf;
use crate::life::offset;

/// How far is looked for a next record where none begins: one may be damaged, and sound ones follow. Bytes.
const LOOK_AHEAD_BYTES: u64 = 16 << 20;

/// Read at once while looking, in pages.
const LOOK_PAGES: u32 = 256;

/// A segment with a sound header.
pub(crate) struct Scanned {
    pub(crate) header: Header,
    pub(crate) state: State,
    /// Records that begin in these pages may have been removed or changed: their state is not known.
    pub(crate) unknown: Vec<Range<u32>>,
    /// In the order of their pages.
    pub(crate) entries: Vec<Entry>,
    /// Whether a footer said so; else the records were looked for.
    pub(crate) is_sealed: bool,
    /// Pages where a record begins that is not whole.
    pub(crate) damaged: Vec<u32>,
}

impl Scanned {
    /// Whether the record that begins at `page` may have been removed or changed.
    pub(crate) fn is_unknown(&self, page: u32) -> bool {
        self.unknown.iter().any(|pages| pages.contains(&page))
    }
}

/// What a file is.
pub(crate) enum Segment {
    /// A segment with a life.
    Alive(Box<Scanned>),
    /// Nothing that says what it was: never used, or its header is lost.
    Empty(Found),
}

/// Reads a segment: its footer, or record after record where it has none.
pub(crate) fn scan(file: &File) -> io::Result<Segment> {
    let header = match Header::decode(&read(file, 0, header::COPIES)?) {
        Found::Sound(header) => header,
        found => return Ok(Segment::Empty(found)),
    };
    let geometry = header.geometry;
    let state = read(file, geometry.state_page(0), geometry.state_pages() * state::COPIES)?;
    let (state, unknown) = State::decode(geometry, header.nonce, &state);
    let mut scanned = Scanned { header, state, unknown, entries: Vec::new(), is_sealed: true, damaged: Vec::new() };
    match footer(file, header)? {
        Ok(entries) => scanned.entries = entries,
        Err(_) => walk(file, &mut scanned)?,
    }
    Ok(Segment::Alive(Box::new(scanned)))
}

/// Which life it is in; 0 where there is none.
pub(crate) fn sequence(file: &File) -> io::Result<u64> {
    match Header::decode(&read(file, 0, header::COPIES)?) {
        Found::Sound(header) => Ok(header.sequence),
        _ => Ok(0),
    }
}

/// Pages of a file, as many of them as it has.
pub(crate) fn read(file: &File, page: u32, pages: u32) -> io::Result<Vec<u8>> {
    let mut buffer = AlignedBuf::zeroed(pages as usize * PAGE_BYTES);
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset(page) + done as u64) {
            Ok(0) => break,
            // Direct I/O goes on where a page begins; a file that ends within one has no more.
            Ok(read) if !read.is_multiple_of(PAGE_BYTES) => {
                done += read;
                break;
            }
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer[..done].to_vec())
}

fn footer(file: &File, header: Header) -> io::Result<Result<Vec<Entry>, Flaw>> {
    let Header { geometry, nonce, .. } = header;
    let trailer = match Trailer::decode(geometry, nonce, &read(file, geometry.pages() - 1, 1)?) {
        Ok(trailer) => trailer,
        Err(flaw) => return Ok(Err(flaw)),
    };
    Ok(trailer.entries(geometry, &read(file, trailer.first_page(geometry), trailer.entry_pages())?))
}

/// Looks for records one after another. One is believed only if all of it is there: a crash leaves torn ones.
fn walk(file: &File, scanned: &mut Scanned) -> io::Result<()> {
    scanned.is_sealed = false;
    let geometry = scanned.header.geometry;
    let mut page = geometry.first_record_page();
    while let Some(found) = look(file, scanned.header, page)? {
        match record_at(file, scanned.header, found)? {
            Some(entry) => {
                // Where the one before should have ended, nothing began that could be read.
                scanned.damaged.extend((found != page).then_some(page));
                // It fits the segment: it was read.
                page = found + entry.record_pages() as u32;
                scanned.entries.push(entry);
            }
            None => {
                scanned.damaged.push(found);
                page = found + 1;
            }
        }
    }
    Ok(())
}

/// The first page from `page` on where a record of this life may begin.
fn look(file: &File, header: Header, page: u32) -> io::Result<Option<u32>> {
    let ahead = u32::try_from(LOOK_AHEAD_BYTES / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    let end = page.saturating_add(ahead).min(header.geometry.pages());
    let mut start = page;
    // Most often it is right there.
    let mut step = 1;
    while start < end {
        let bytes = read(file, start, step.min(end - start))?;
        let begins =
            |(at, page): &(u32, &[u8])| record::may_begin(page, header.nonce, version_of(header.sequence, *at));
        if let Some((at, _)) = (start..).zip(bytes.chunks_exact(PAGE_BYTES)).find(begins) {
            return Ok(Some(at));
        }
        start += step;
        step = LOOK_PAGES;
    }
    Ok(None)
}

/// The record that begins at a page, if header and block are sound.
fn record_at(file: &File, header: Header, page: u32) -> io::Result<Option<Entry>> {
    let geometry = header.geometry;
    let head = read(file, page, u32::from(HEADER_PAGES_MAX).min(geometry.pages() - page))?;
    let Ok((place, record)) = Record::decode(&head) else { return Ok(None) };
    let entry = record.entry(page, place.header_pages);
    let is_sound =
        is_its(place, header, page) && is_within(geometry, &entry) && is_payload_sound(file, &record, &entry)?;
    Ok(is_sound.then_some(entry))
}

fn is_its(place: record::Place, header: Header, page: u32) -> bool {
    place.nonce == header.nonce && place.version == version_of(header.sequence, page)
}

fn is_payload_sound(file: &File, record: &Record, entry: &Entry) -> io::Result<bool> {
    let header_pages = u32::from(entry.header_pages);
    let payload = read(file, entry.page + header_pages, entry.record_pages() as u32 - header_pages)?;
    Ok(payload.get(..entry.len_bytes as usize).is_some_and(|bytes| record.is_sound(0, bytes)))
}

/// Reads a record that a footer lists. The error says what is wrong, and of which block where that is known.
pub(crate) fn read_record(file: &File, header: Header, entry: &Entry) -> Result<(), (Option<BlockKey>, String)> {
    let failed = |error: io::Error| (None, error.to_string());
    let head = read(file, entry.page, u32::from(entry.header_pages)).map_err(failed)?;
    let (place, record) = Record::decode(&head).map_err(|flaw| (None, format!("its header: {flaw}")))?;
    let listed = Entry { pending: record.pending, ..*entry };
    if !is_its(place, header, entry.page) || record.entry(entry.page, place.header_pages) != listed {
        return Err((Some(record.key), "its header is not that of the record that was written there".to_owned()));
    }
    match is_payload_sound(file, &record, entry) {
        Ok(true) => Ok(()),
        Ok(false) => Err((Some(record.key), "its bytes are not those of its checksum".to_owned())),
        Err(error) => Err((Some(record.key), error.to_string())),
    }
}

/// The key of a record that a footer lists, by its header alone.
pub(crate) fn key_of(file: &File, header: Header, entry: &Entry) -> Option<BlockKey> {
    let head = read(file, entry.page, u32::from(entry.header_pages)).ok()?;
    let (place, record) = Record::decode(&head).ok()?;
    is_its(place, header, entry.page).then_some(record.key)
}

fn is_within(geometry: Geometry, entry: &Entry) -> bool {
    u64::from(entry.page) + entry.record_pages() <= u64::from(geometry.pages())
}
