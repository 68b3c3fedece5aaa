//! One life of a segment: from its header to the next one.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::format::footer::{self, Entry};
use crate::format::header::Header;
use crate::format::state::{self, Mark, State};
use crate::format::{Geometry, PAGE_BYTES, version_of};
use crate::io::{AlignedBuf, Io, Source};
use crate::types::Version;

/// A segment, as long as its records are these. Whoever reads or writes it holds this: only when nobody does, the file
/// is written anew.
pub(crate) struct Life {
    pub(crate) header: Header,
    pub(crate) file: Arc<File>,
    /// Its file is not as new ones are: it is removed rather than used again.
    pub(crate) is_odd: bool,
    records: Mutex<Records>,
    marks: Mutex<Marks>,
    /// Held while state, or the header of the next life, is written: never two such writes at once.
    marks_io: tokio::sync::Mutex<()>,
    /// Whether something is marked that ought to reach the disk soon, though nobody waits for it.
    is_flush_wanted: AtomicBool,
    counts: Counts,
    /// Is told when the last one lets go.
    gone: Arc<Notify>,
}

/// What of it can be read.
#[derive(Default)]
struct Counts {
    blocks: AtomicU32,
    pending: AtomicU32,
}

struct Records {
    /// Those that were acknowledged, until the footer lists them.
    entries: Vec<Entry>,
    /// Appends that are not acknowledged yet, nor given up.
    under_way: u32,
    stage: Stage,
}

/// How far a life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Records are appended, or will be.
    Open,
    /// No more are. Its footer is to be written.
    Closed,
    /// It has its footer.
    Sealed,
}

struct Marks {
    state: State,
    /// Counts changes, and how many of them the disk has.
    changes: u64,
    durable: u64,
    /// The next life's header is on the disk: this one's state does not matter any more.
    is_erased: bool,
}

impl Life {
    pub(crate) fn new(header: Header, file: Arc<File>, state: State, gone: Arc<Notify>) -> Self {
        // What is wrong on the disk is put right when it is next written.
        let changes = u64::from(state.is_changed());
        Self {
            header,
            file,
            is_odd: false,
            records: Mutex::new(Records { entries: Vec::new(), under_way: 0, stage: Stage::Open }),
            marks: Mutex::new(Marks { state, changes, durable: 0, is_erased: false }),
            marks_io: tokio::sync::Mutex::new(()),
            is_flush_wanted: AtomicBool::new(false),
            counts: Counts::default(),
            gone,
        }
    }

    /// As it was found: nothing more is appended to it.
    pub(crate) fn found(mut self, entries: Vec<Entry>, is_sealed: bool, is_odd: bool) -> Self {
        let (entries, stage) = if is_sealed { (Vec::new(), Stage::Sealed) } else { (entries, Stage::Closed) };
        self.records = Mutex::new(Records { entries, under_way: 0, stage });
        self.is_odd = is_odd;
        self
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.header.geometry
    }

    pub(crate) fn number(&self) -> u32 {
        self.header.number
    }

    /// The version of the record at `page`.
    pub(crate) fn version(&self, page: u32) -> Version {
        version_of(self.header.sequence, page)
    }

    pub(crate) fn stage(&self) -> Stage {
        self.records.lock().stage
    }

    /// Blocks of it that can be read, and of them those that wait for their upload.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.counts.blocks.load(Ordering::Acquire), self.counts.pending.load(Ordering::Acquire))
    }

    pub(crate) fn count_in(&self, pending: bool) {
        self.counts.blocks.fetch_add(1, Ordering::AcqRel);
        self.counts.pending.fetch_add(u32::from(pending), Ordering::AcqRel);
    }

    pub(crate) fn count_out(&self, pending: bool) {
        self.counts.blocks.fetch_sub(1, Ordering::AcqRel);
        self.count_settled(pending);
    }

    pub(crate) fn count_settled(&self, pending: bool) {
        self.counts.pending.fetch_sub(u32::from(pending), Ordering::AcqRel);
    }

    /// An append begins.
    pub(crate) fn begin_append(&self) {
        self.records.lock().under_way += 1;
    }

    /// An append ended, with its entry if it is acknowledged.
    pub(crate) fn end_append(&self, entry: Option<Entry>) {
        let mut records = self.records.lock();
        records.under_way -= 1;
        records.entries.extend(entry);
    }

    /// No append begins any more.
    pub(crate) fn close(&self) {
        let mut records = self.records.lock();
        records.stage = records.stage.max(Stage::Closed);
    }

    /// Whether [`Self::seal`] has something to do and may do it.
    pub(crate) fn is_to_be_sealed(&self) -> bool {
        let records = self.records.lock();
        records.stage == Stage::Closed && records.under_way == 0
    }

    /// Writes the footer, so that a start reads no record of it, and believes in none beyond those acknowledged.
    pub(crate) async fn seal(&self, io: &Io) -> io::Result<()> {
        if !self.is_to_be_sealed() {
            return Ok(());
        }
        let (page, bytes) = footer::encode(self.geometry(), self.header.nonce, &self.records.lock().entries);
        self.write(io, page, aligned(&bytes)).await?;
        io.sync(&self.file).await?;
        let mut records = self.records.lock();
        records.stage = Stage::Sealed;
        records.entries = Vec::new();
        Ok(())
    }

    /// Sets or takes back a mark, in memory. Returns what to give [`Self::flush`] so that it becomes durable.
    pub(crate) fn mark(&self, page: u32, mark: Mark, value: bool) -> u64 {
        let mut marks = self.marks.lock();
        if marks.state.has(page, mark) != value {
            marks.state.set(page, mark, value);
            marks.changes += 1;
        }
        marks.changes
    }

    /// Whether a record has a mark.
    pub(crate) fn has(&self, page: u32, mark: Mark) -> bool {
        self.marks.lock().state.has(page, mark)
    }

    /// Asks for a flush some time soon.
    pub(crate) fn want_flush(&self) {
        self.is_flush_wanted.store(true, Ordering::Release);
    }

    /// Whether that was asked since the last time this was.
    pub(crate) fn take_flush_wanted(&self) -> bool {
        self.is_flush_wanted.swap(false, Ordering::AcqRel)
    }

    /// What to give [`Self::flush`] so that all marks become durable. None where they are.
    pub(crate) fn unflushed(&self) -> Option<u64> {
        let marks = self.marks.lock();
        (marks.changes > marks.durable && !marks.is_erased).then_some(marks.changes)
    }

    /// Makes the marks up to `change` durable. One write serves all who wait for it. Must not be dropped midway.
    pub(crate) async fn flush(&self, io: &Io, change: u64) -> io::Result<()> {
        let _writing = self.marks_io.lock().await;
        let (pages, changes) = {
            let mut marks = self.marks.lock();
            if marks.durable >= change || marks.is_erased {
                return Ok(());
            }
            (marks.state.take_changed(), marks.changes)
        };
        let written = self.write_state(io, &pages).await;
        let mut marks = self.marks.lock();
        match written {
            Ok(()) => marks.durable = changes,
            Err(_) => marks.state.put_changed_back(&pages),
        }
        written
    }

    async fn write_state(&self, io: &Io, pages: &[u32]) -> io::Result<()> {
        for page in pages {
            let mut bytes = AlignedBuf::zeroed(PAGE_BYTES);
            self.marks.lock().state.encode_page(*page, &mut bytes);
            for copy in 0..state::COPIES {
                self.write(io, self.geometry().state_page(copy) + page, bytes.clone()).await?;
            }
        }
        io.sync(&self.file).await
    }

    /// Ends this life on the disk: `erase` writes over its header, or removes the file. Nothing of it is found by a
    /// start any more once this returns, while everything can still be read by who holds it.
    pub(crate) async fn erase(&self, erase: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        let _writing = self.marks_io.lock().await;
        erase.await?;
        self.marks.lock().is_erased = true;
        Ok(())
    }

    /// Heap of its state and entries.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let entries = self.records.lock().entries.capacity() * size_of::<Entry>();
        (entries + self.marks.lock().state.heap_bytes() + size_of::<Self>()) as u64
    }

    /// Writes pages of it.
    pub(crate) async fn write(&self, io: &Io, page: u32, bytes: AlignedBuf) -> io::Result<()> {
        io.write(&self.file, offset(page), vec![Source::Pages(Arc::new(bytes))]).await
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

/// Writes what a life begins with, and waits until it is durable: the life before is over then.
pub(crate) async fn begin(io: &Io, file: &Arc<File>, header: Header) -> io::Result<()> {
    let geometry = header.geometry;
    let mut bytes = AlignedBuf::zeroed(geometry.first_record_page() as usize * PAGE_BYTES);
    header.encode(&mut bytes);
    let state = State::new(geometry, header.nonce);
    let pages = bytes.chunks_exact_mut(PAGE_BYTES).skip(geometry.state_page(0) as usize);
    (0u32..).zip(pages).for_each(|(page, out)| state.encode_page(page % geometry.state_pages(), out));
    io.write(file, 0, vec![Source::Pages(Arc::new(bytes))]).await?;
    io.sync(file).await
}

/// Where a page is in its file.
pub(crate) fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

/// A copy that a disk can read.
pub(crate) fn aligned(bytes: &[u8]) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(bytes.len());
    buffer[..bytes.len()].copy_from_slice(bytes);
    buffer
}

/// Counts of the whole log.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) blocks: AtomicU64,
    pub(crate) block_bytes: AtomicU64,
    pub(crate) pending_blocks: AtomicU64,
    pub(crate) pending_bytes: AtomicU64,
}
