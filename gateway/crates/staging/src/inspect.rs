//! A log that nobody has open, for operators: what is in it, and whether all of it is sound. Nothing is written.

use std::collections::{BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use blockgate_block::{BlockKey, Digest};

use crate::directory;
use crate::format::footer::Entry;
use crate::format::header::Found;
use crate::format::state::Mark;
use crate::format::{FORMAT_VERSION, PAGE_BYTES};
use crate::io::open_direct;
use crate::recovery::{Scanned, Segment, key_of, read_record, scan};
use crate::types::OpenError;

/// Most damaged records that are listed; more are only counted.
const DAMAGES_MAX: usize = 1000;

/// Records, and what they take of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub records: u64,
    /// Their headers and blocks, in bytes.
    pub bytes: u64,
}

/// Records of a segment or of a log, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Blocks that can be read, those that are pending too.
    pub live: Tally,
    /// Blocks that the upstream does not have yet.
    pub pending: Tally,
    /// Removed, or superseded by a later record.
    pub dead: Tally,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// It holds no records.
    Empty,
    /// It has its footer.
    Sealed,
    /// It has none: it was appended to when the log was last open, or the footer is damaged. Its records were looked
    /// for.
    Unsealed,
    /// It can't be used, and why.
    Unreadable(String),
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its number.
    pub number: u32,
    /// Its file.
    pub path: PathBuf,
    /// Length of the file.
    pub file_bytes: u64,
    /// What it is.
    pub state: SegmentState,
    /// Which life: greater ones began later. 0 where it has none.
    pub sequence: u64,
    /// What it holds.
    pub records: Records,
    /// Records of which it is not known any more whether they were removed.
    pub unknown: u64,
    /// Pages where a record begins that is torn or damaged. After a crash the last ones are torn: they were never
    /// acknowledged.
    pub torn: Vec<u32>,
}

/// A log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Its segments, by number.
    pub segments: Vec<SegmentReport>,
    /// All of them together.
    pub records: Records,
}

/// A record that is not what was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of its segment.
    pub segment: u32,
    /// Its first page there.
    pub page: u32,
    /// Its key, where the header is sound.
    pub key: Option<BlockKey>,
    /// The upstream does not have it, and it was not removed: it is lost.
    pub pending: bool,
    /// What is wrong.
    pub what: String,
}

/// What [`verify`] saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// What was read.
    pub read: Tally,
    /// Damaged records. Only the first of them are listed.
    pub damaged: u64,
    /// Those that are listed.
    pub damages: Vec<Damage>,
    /// Segments that can't be read at all, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A segment that was read.
struct Opened {
    report: SegmentReport,
    file: Option<File>,
    scanned: Option<Scanned>,
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Live,
    Pending,
    Dead,
}

/// Looks into a log.
///
/// # Errors
/// When a gateway has it open, or its directory can't be read.
pub fn inspect(path: &Path) -> Result<Inspection, OpenError> {
    let _lock = directory::lock_existing(path)?;
    let mut inspection = Inspection::default();
    for_each_segment(path, |opened, _| {
        inspection.records.add(&opened.report.records);
        inspection.segments.push(opened.report);
    })?;
    inspection.segments.sort_by_key(|segment| segment.number);
    Ok(inspection)
}

/// The buckets of the blocks that wait for their upload. One whose header is damaged has none that could be told.
///
/// # Errors
/// As [`inspect`].
pub fn pending_buckets(path: &Path) -> Result<BTreeSet<String>, OpenError> {
    let _lock = directory::lock_existing(path)?;
    let mut buckets = BTreeSet::new();
    for_each_segment(path, |opened, fates| {
        let (Some(file), Some(scanned)) = (&opened.file, &opened.scanned) else { return };
        let pending = scanned.entries.iter().zip(fates).filter(|(_, fate)| **fate == Fate::Pending);
        let keys = pending.filter_map(|(entry, _)| key_of(file, scanned.header, entry));
        buckets.extend(keys.map(|key| key.bucket().to_owned()));
    })?;
    Ok(buckets)
}

/// Reads everything in a log, and checks it. `progress` is told the bytes read so far, and of how many.
///
/// # Errors
/// When a gateway has it open, or its directory can't be read. What is damaged is no error.
pub fn verify(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification, OpenError> {
    let _lock = directory::lock_existing(path)?;
    let mut total = 0;
    for_each_segment(path, |opened, _| {
        let records = opened.report.records;
        total += records.live.bytes + records.dead.bytes;
    })?;
    let mut seen = Verification::default();
    for_each_segment(path, |opened, fates| {
        if let SegmentState::Unreadable(why) = &opened.report.state {
            seen.unreadable.push((opened.report.path.clone(), why.clone()));
        }
        let (Some(file), Some(scanned)) = (&opened.file, &opened.scanned) else { return };
        for page in &opened.report.torn {
            let what = "no whole record: torn by a crash and never acknowledged, or damaged".to_owned();
            seen.note(Damage { segment: opened.report.number, page: *page, key: None, pending: false, what });
        }
        for (entry, fate) in scanned.entries.iter().zip(fates) {
            if let Err((key, what)) = read_record(file, scanned.header, entry) {
                let pending = *fate == Fate::Pending;
                seen.note(Damage { segment: opened.report.number, page: entry.page, key, pending, what });
            }
            seen.read.add(entry);
            progress(seen.read.bytes, total);
        }
    })?;
    Ok(seen)
}

impl Verification {
    fn note(&mut self, damage: Damage) {
        self.damaged += 1;
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(damage);
        }
    }
}

impl Tally {
    fn add(&mut self, entry: &Entry) {
        self.records += 1;
        self.bytes += entry.record_pages() * PAGE_BYTES as u64;
    }

    fn add_all(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

impl Records {
    fn add(&mut self, other: &Self) {
        self.live.add_all(&other.live);
        self.pending.add_all(&other.pending);
        self.dead.add_all(&other.dead);
    }
}

/// Shows each segment and the fate of its records, the latest life first: what comes first of a block decides.
fn for_each_segment(path: &Path, mut look: impl FnMut(Opened, &[Fate])) -> Result<(), OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), source };
    let mut order = Vec::new();
    for number in directory::segments(path).map_err(failed)? {
        let path = directory::segment_path(path, number);
        let sequence = open(&path).and_then(|(file, _)| crate::recovery::sequence(&file)).unwrap_or_default();
        order.push((sequence, number, path));
    }
    order.sort_unstable_by(|a, b| b.cmp(a));
    let mut decided = HashSet::new();
    for (sequence, number, path) in order {
        let mut opened = read(number, path, sequence);
        let fates = match &opened.scanned {
            Some(scanned) => fates(scanned, &mut decided),
            None => Vec::new(),
        };
        for (entry, fate) in opened.scanned.iter().flat_map(|scanned| &scanned.entries).zip(&fates) {
            let records = &mut opened.report.records;
            match fate {
                Fate::Live => records.live.add(entry),
                Fate::Pending => {
                    records.live.add(entry);
                    records.pending.add(entry);
                }
                Fate::Dead => records.dead.add(entry),
            }
        }
        look(opened, &fates);
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true);
    let (file, _) = open_direct(&options, path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn read(number: u32, path: PathBuf, sequence: u64) -> Opened {
    let mut report = SegmentReport {
        number,
        path,
        file_bytes: 0,
        state: SegmentState::Empty,
        sequence,
        records: Records::default(),
        unknown: 0,
        torn: Vec::new(),
    };
    let segment = open(&report.path).and_then(|(file, bytes)| {
        report.file_bytes = bytes;
        Ok((scan(&file)?, file))
    });
    match segment {
        Ok((Segment::Alive(scanned), file)) => {
            report.state = match (scanned.entries.is_empty(), scanned.is_sealed) {
                (true, _) => SegmentState::Empty,
                (false, true) => SegmentState::Sealed,
                (false, false) => SegmentState::Unsealed,
            };
            let is_unknown = |entry: &&Entry| scanned.is_unknown(entry.page);
            report.unknown = scanned.entries.iter().filter(is_unknown).count() as u64;
            report.torn.clone_from(&scanned.damaged);
            Opened { report, file: Some(file), scanned: Some(*scanned) }
        }
        Ok((Segment::Empty(found), _)) => {
            report.state = match found {
                Found::Blank | Found::Sound(_) => SegmentState::Empty,
                Found::Damaged => SegmentState::Unreadable("its header is damaged".to_owned()),
                Found::Foreign => SegmentState::Unreadable("it is another program's file".to_owned()),
                Found::OtherVersion(version) => SegmentState::Unreadable(format!(
                    "it has format version {version}, this program reads {FORMAT_VERSION}"
                )),
            };
            Opened { report, file: None, scanned: None }
        }
        Err(error) => {
            report.state = SegmentState::Unreadable(error.to_string());
            Opened { report, file: None, scanned: None }
        }
    }
}

/// As a start would see them, in the order of the records.
fn fates(scanned: &Scanned, decided: &mut HashSet<Digest>) -> Vec<Fate> {
    let fate = |entry: &Entry| {
        let is_newest = decided.insert(entry.digest);
        let has = |mark| scanned.state.has(entry.page, mark);
        let is_pending = entry.pending && !has(Mark::Settled);
        match (is_newest && !has(Mark::Dead), is_pending) {
            (true, true) => Fate::Pending,
            (true, false) if !scanned.is_unknown(entry.page) => Fate::Live,
            _ => Fate::Dead,
        }
    };
    let mut fates: Vec<_> = scanned.entries.iter().rev().map(fate).collect();
    fates.reverse();
    fates
}
