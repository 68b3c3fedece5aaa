//! Reading one segment at a start. Nothing here writes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use blockgate_block::BlockKey;

use crate::format::footer::{Entry, Trailer};
use crate::format::header::{self, Found, Header};
use crate::format::record::{self, Record};
use crate::format::state::{self, State};
use crate::format::{Flaw, PAGE_BYTES, pages_of, version_of};
use crate::io::AlignedBuf;
use crate::life::offset;

/// How far is looked for a next record where none begins: one may be damaged, and sound ones follow. 16 MiB.
const LOOK_AHEAD_PAGES: u32 = 4096;

/// Read at once while looking, 1 MiB.
const WINDOW_PAGES: u32 = 256;

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
    let header = scanned.header;
    let mut window = Window { file, pages: header.geometry.pages(), first: 0, bytes: Vec::new() };
    let mut page = header.geometry.first_record_page();
    while let Some(found) = look(&mut window, header, page)? {
        match record_at(&mut window, header, found)? {
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

/// Part of a file, so that small records are read many at once.
struct Window<'a> {
    file: &'a File,
    /// Of the whole segment.
    pages: u32,
    first: u32,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// So many pages from `page` on, fewer where the file ends.
    fn get(&mut self, page: u32, pages: u32) -> io::Result<&[u8]> {
        let end = self.first + (self.bytes.len() / PAGE_BYTES) as u32;
        if page < self.first || page + pages > end {
            let wanted = pages.max(WINDOW_PAGES).min(self.pages.saturating_sub(page));
            (self.first, self.bytes) = (page, read(self.file, page, wanted)?);
        }
        let start = (page - self.first) as usize * PAGE_BYTES;
        let end = self.bytes.len().min(start + pages as usize * PAGE_BYTES);
        Ok(self.bytes.get(start..end).unwrap_or_default())
    }
}

/// The first page from `page` on where a record of this life may begin.
fn look(window: &mut Window<'_>, header: Header, page: u32) -> io::Result<Option<u32>> {
    let end = page.saturating_add(LOOK_AHEAD_PAGES).min(header.geometry.pages());
    for at in page..end {
        if record::may_begin(window.get(at, 1)?, header.nonce, version_of(header.sequence, at)) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The record that begins at a page, if header and block are sound.
fn record_at(window: &mut Window<'_>, header: Header, page: u32) -> io::Result<Option<Entry>> {
    let Some(header_pages) = record::header_pages(window.get(page, 1)?) else { return Ok(None) };
    let Ok((place, record)) = Record::decode(window.get(page, u32::from(header_pages))?) else { return Ok(None) };
    let entry = record.entry(page, header_pages);
    if !is_its(place, header, page) || u64::from(page) + entry.record_pages() > u64::from(header.geometry.pages()) {
        return Ok(None);
    }
    let payload = window.get(page + u32::from(header_pages), payload_pages(&entry))?;
    Ok(is_payload_sound(&record, payload).then_some(entry))
}

fn payload_pages(entry: &Entry) -> u32 {
    // A length of 32 bits has fewer pages.
    pages_of(u64::from(entry.len_bytes)) as u32
}

fn is_payload_sound(record: &Record, pages: &[u8]) -> bool {
    pages.get(..record.len_bytes as usize).is_some_and(|bytes| record.is_sound(0, bytes))
}

fn is_its(place: record::Place, header: Header, page: u32) -> bool {
    place.nonce == header.nonce && place.version == version_of(header.sequence, page)
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
    match read(file, entry.page + u32::from(entry.header_pages), payload_pages(entry)) {
        Ok(pages) if is_payload_sound(&record, &pages) => Ok(()),
        Ok(_) => Err((Some(record.key), "its bytes are not those of its checksum".to_owned())),
        Err(error) => Err((Some(record.key), error.to_string())),
    }
}

/// The key of a record that a footer lists, by its header alone.
pub(crate) fn key_of(file: &File, header: Header, entry: &Entry) -> Option<BlockKey> {
    let head = read(file, entry.page, u32::from(entry.header_pages)).ok()?;
    let (place, record) = Record::decode(&head).ok()?;
    is_its(place, header, entry.page).then_some(record.key)
}
