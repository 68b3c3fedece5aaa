//! Finding again what was acknowledged.
//!
//! Segments are read by several threads, from their footers; those without, record by record. Then they are taken in
//! one after another, the latest life first and each from its end: so the first record of a block that is met is its
//! newest one, and decides: alive, it is the block; removed, there is none. All others are dead.

mod scan;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use blockgate_block::Digest;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::scan::read;
pub(crate) use self::scan::{Scanned, Segment, key_of, read_record, scan, sequence};
use crate::blocks::Blocks;
use crate::directory;
use crate::format::footer::Entry;
use crate::format::header::Found;
use crate::format::record::Record;
use crate::format::state::Mark;
use crate::format::{FORMAT_VERSION, Geometry};
use crate::keeper::Stock;
use crate::life::Life;
use crate::read::sound;
use crate::types::{self, OpenError, PendingBlock, Summary};

/// Threads that read segments.
const THREADS_MAX: usize = 16;

/// Segments that are read before they are taken in: bounds what is held at once.
const BATCH: usize = 64;

/// What was found.
pub(crate) struct Recovered {
    pub(crate) stock: Stock,
    /// Lives whose footer is to be written.
    pub(crate) closed: Vec<Arc<Life>>,
    pub(crate) pending: Vec<PendingBlock>,
    pub(crate) id: [u8; 16],
    /// What was not what it should be.
    pub(crate) damaged: u64,
}

/// A segment's file.
struct Opened {
    number: u32,
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
}

/// Reads all segments of a directory into the table.
pub(crate) fn recover(
    path: &Path,
    geometry: Geometry,
    blocks: &Blocks,
    found: &mut dyn FnMut(Digest, Summary),
) -> Result<Recovered, OpenError> {
    let mut recovery = Recovery {
        geometry,
        blocks,
        found,
        dead: HashSet::new(),
        waiting: Vec::new(),
        unwanted: Vec::new(),
        closed: Vec::new(),
        id: None,
        damaged: 0,
        stock: Stock { idle: Vec::new(), files: BTreeMap::new(), next_sequence: 1, gone: Arc::new(Notify::new()) },
    };
    let opened = recovery.open_all(path)?;
    recovery.take_all(opened)?;
    recovery.finish()
}

struct Recovery<'a> {
    geometry: Geometry,
    blocks: &'a Blocks,
    found: &'a mut dyn FnMut(Digest, Summary),
    /// Blocks whose newest record is dead.
    dead: HashSet<Digest>,
    waiting: Vec<(Digest, u64)>,
    /// Files that hold nothing and are not used again.
    unwanted: Vec<(u32, PathBuf)>,
    closed: Vec<Arc<Life>>,
    id: Option<([u8; 16], PathBuf)>,
    damaged: u64,
    stock: Stock,
}

impl Recovery<'_> {
    fn open_all(&mut self, path: &Path) -> Result<Vec<Opened>, OpenError> {
        let numbers = directory::segments(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let mut opened = Vec::new();
        let mut is_direct = true;
        for number in numbers {
            let path = directory::segment_path(path, number);
            let open = || {
                let (file, direct) = directory::open_segment(&path, false)?;
                let bytes = file.metadata()?.len();
                Ok((file, direct, bytes))
            };
            let (file, direct, bytes) = open().map_err(|source| OpenError::Io { path: path.clone(), source })?;
            is_direct &= direct;
            self.stock.files.insert(number, bytes);
            opened.push(Opened { number, path, file: Arc::new(file), bytes });
        }
        directory::warn_unless_direct(is_direct, path);
        Ok(opened)
    }

    /// Headers first, so that the latest life is taken in first; then the rest.
    fn take_all(&mut self, opened: Vec<Opened>) -> Result<(), OpenError> {
        let sequences = in_parallel(&opened, |opened| sequence(&opened.file));
        let mut order: Vec<_> = opened.into_iter().zip(sequences).collect();
        order.sort_by_key(|(_, sequence)| std::cmp::Reverse(sequence.as_ref().ok().copied()));
        let order: Vec<_> = order.into_iter().map(|(opened, _)| opened).collect();
        for batch in order.chunks(BATCH) {
            let scanned = in_parallel(batch, |opened| scan(&opened.file));
            for (opened, segment) in batch.iter().zip(scanned) {
                match segment {
                    Ok(Segment::Alive(scanned)) => self.take(opened, *scanned)?,
                    Ok(Segment::Empty(found)) => self.take_empty(opened, found)?,
                    Err(error) => {
                        self.damaged += 1;
                        let path = opened.path.display();
                        tracing::error!(%path, %error, "a staging segment can't be read: its blocks are missing, it is left alone");
                    }
                }
            }
        }
        Ok(())
    }

    fn take_empty(&mut self, opened: &Opened, found: Found) -> Result<(), OpenError> {
        let path = opened.path.display();
        match found {
            Found::Foreign => {
                return Err(OpenError::Settings(format!(
                    "{path} is no segment of blockgate's: move it away, or set another path"
                )));
            }
            Found::OtherVersion(version) => {
                return Err(OpenError::Settings(format!(
                    "{path} has format version {version}, this program reads {FORMAT_VERSION}: drain staging with the program that \
                     wrote it, or remove its directory if nothing in it waits for its upload"
                )));
            }
            Found::Damaged => {
                self.damaged += 1;
                tracing::error!(%path, "the header of a staging segment is damaged: its blocks are lost, and it is used anew");
            }
            Found::Blank | Found::Sound(_) => {}
        }
        self.idle(opened);
        Ok(())
    }

    /// A file to be used as if it were new, or removed where it has another size.
    fn idle(&mut self, opened: &Opened) {
        if opened.bytes == self.geometry.segment_bytes() {
            self.stock.idle.push((opened.number, Arc::clone(&opened.file)));
        } else {
            self.unwanted.push((opened.number, opened.path.clone()));
        }
    }

    fn take(&mut self, opened: &Opened, scanned: Scanned) -> Result<(), OpenError> {
        let header = scanned.header;
        self.check(opened, &scanned)?;
        self.stock.next_sequence = self.stock.next_sequence.max(header.sequence + 1);
        if !scanned.damaged.is_empty() {
            let (path, records) = (opened.path.display(), scanned.damaged.len());
            if scanned.is_sealed || opened.bytes < header.geometry.segment_bytes() {
                tracing::warn!(%path, records, "a staging segment is damaged: records of it are lost");
            } else {
                tracing::info!(%path, records, "torn or damaged records at the end of the staging log were left out");
            }
        }
        if scanned.entries.is_empty() {
            self.idle(opened);
            return Ok(());
        }
        if !scanned.unknown.is_empty() {
            self.damaged += 1;
            let path = opened.path.display();
            tracing::warn!(%path, "part of a staging segment's state is damaged: what may have been removed is dropped");
        }
        let is_odd = opened.bytes != header.geometry.segment_bytes();
        let Scanned { state, unknown, entries, is_sealed, .. } = scanned;
        let life = Life::new(header, Arc::clone(&opened.file), state, Arc::clone(&self.stock.gone));
        let life = Arc::new(life.found(entries.clone(), is_sealed, is_odd));
        self.blocks.add_life(Arc::clone(&life));
        for entry in entries.iter().rev() {
            let is_unknown = unknown.iter().any(|pages| pages.contains(&entry.page));
            self.take_record(&life, entry, is_unknown);
        }
        if !is_sealed {
            self.closed.push(life);
        }
        Ok(())
    }

    fn check(&mut self, opened: &Opened, scanned: &Scanned) -> Result<(), OpenError> {
        let (header, path) = (scanned.header, opened.path.display());
        if header.number != opened.number {
            let number = header.number;
            return Err(OpenError::Settings(format!(
                "{path} is segment {number:08x} by its header: give it its name back, or move it away"
            )));
        }
        let (id, first) = self.id.get_or_insert_with(|| (header.log, opened.path.clone()));
        if *id == header.log {
            return Ok(());
        }
        let first = first.display();
        Err(OpenError::Settings(format!(
            "{path} and {first} belong to two different logs: move the one away that is not of this directory"
        )))
    }

    /// `is_unknown`: it may have been removed or changed since.
    fn take_record(&mut self, life: &Arc<Life>, entry: &Entry, is_unknown: bool) {
        let digest = entry.digest;
        let has = |mark| life.has(entry.page, mark);
        let is_superseded = self.dead.contains(&digest) || self.blocks.contains(digest);
        if is_superseded || has(Mark::Dead) {
            life.mark(entry.page, Mark::Dead, true);
            if !is_superseded {
                self.dead.insert(digest);
            }
            return;
        }
        let pending = entry.pending && !has(Mark::Settled);
        if is_unknown && !pending {
            life.mark(entry.page, Mark::Dead, true);
            self.dead.insert(digest);
            return;
        }
        let amended = is_unknown || has(Mark::Amended);
        if is_unknown {
            life.mark(entry.page, Mark::Amended, true);
        }
        self.blocks.publish(life, &Entry { pending, ..*entry }, amended, None);
        if pending {
            self.waiting.push((digest, life.header.sequence << 32 | u64::from(entry.page)));
        }
        (self.found)(digest, entry.summary(pending, amended));
    }

    fn finish(mut self) -> Result<Recovered, OpenError> {
        self.waiting.sort_unstable_by_key(|(_, version)| *version);
        let blocks = self.blocks;
        let read = in_parallel(&self.waiting, |(digest, _)| read_pending(blocks, *digest));
        let mut pending = Vec::with_capacity(read.len());
        for ((digest, _), read) in self.waiting.iter().zip(read) {
            match read {
                Ok(block) => pending.push(block),
                Err(error) => {
                    self.damaged += 1;
                    tracing::error!(?digest, %error, "a staged block that waits for its upload can't be read: it is lost");
                    if let Some(found) = self.blocks.find(*digest) {
                        self.blocks.remove(*digest, found.life.number(), found.place.page, true);
                    }
                }
            }
        }
        // Only now: where the log can't be opened, everything stays as it was.
        for (number, path) in &self.unwanted {
            if std::fs::remove_file(path).is_ok() {
                self.stock.files.remove(number);
            }
        }
        let id = match self.id {
            Some((id, _)) => id,
            None => new_id()?,
        };
        Ok(Recovered { stock: self.stock, closed: self.closed, pending, id, damaged: self.damaged })
    }
}

fn read_pending(blocks: &Blocks, digest: Digest) -> io::Result<PendingBlock> {
    let found = blocks.find(digest).ok_or(io::ErrorKind::NotFound)?;
    let header = read(&found.life.file, found.place.page, u32::from(found.place.header_pages))?;
    let record: Record = sound(&found, &header).ok_or(io::ErrorKind::InvalidData)?;
    let entry = types::Entry { staged: found.staged(), info: Arc::clone(&record.info), tags: record.tags };
    Ok(PendingBlock { key: record.key, entry })
}

fn new_id() -> Result<[u8; 16], OpenError> {
    let mut id = [0; 16];
    let failed = |error| OpenError::Io { path: PathBuf::from("/dev/urandom"), source: io::Error::other(error) };
    getrandom::fill(&mut id).map_err(failed)?;
    Ok(id)
}

/// Does something with each of them, several at a time. The outcomes are in their order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let outcome = work(item);
            done.lock().push((index, outcome));
        }
    };
    std::thread::scope(|scope| {
        let helpers = THREADS_MAX.min(items.len()).saturating_sub(1);
        (0..helpers).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests;
