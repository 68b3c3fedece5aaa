//! What goes into the log and what comes out of it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{BlockBuf, BlockKey, Crc64, ObjectInfo};
use bytes::Bytes;
use thiserror::Error;

/// How the log speaks to its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// A pool of threads.
    Threads,
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its directory, created if it is not there. One process at a time has it.
    pub path: PathBuf,
    /// Most bytes that its segments take together.
    pub capacity_bytes: u64,
    /// Bytes of one segment: a multiple of 4 KiB. No record is larger.
    pub segment_bytes: u64,
    /// How it speaks to the disk.
    pub engine: Engine,
    /// Most bytes written a day (any 24 hours) for blocks that the upstream has; none is no limit.
    pub daily_write_bytes: Option<u64>,
    /// Most bytes of blocks that the upstream does not have yet: over it [`PutError::Full`].
    pub pending_bytes_max: u64,
    /// How often a disk that failed is tried again.
    pub probe_every: Duration,
}

/// Names one record of the log. A later one is greater, also after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Bytes of a block.
#[derive(Clone, Debug)]
pub enum Bytes4k {
    /// In the arena: written from where they are.
    Arena(BlockBuf),
    /// Elsewhere: copied once, to be aligned.
    Heap(Bytes),
}

/// A block to be staged.
#[derive(Clone, Debug)]
pub struct NewBlock {
    /// Its key.
    pub key: BlockKey,
    /// What it is, a record among it; `upstream_etag` is empty where the upstream does not have it yet.
    pub info: Arc<ObjectInfo>,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// All its bytes; at least one.
    pub bytes: Bytes4k,
    /// The upstream does not have it: it must not be reclaimed before [`crate::Staging::uploaded`].
    pub pending: bool,
}

/// What the log says of a block without reading the disk. By its digest alone: not yet known to be this key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Which record.
    pub version: Version,
    /// Length of the block.
    pub len_bytes: u64,
    /// The upstream does not have it yet.
    pub pending: bool,
    /// Its description at the upstream changed since: only its bytes, checksum and length hold.
    pub amended: bool,
}

/// A record as it was read: of the key that was asked for, and sound.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What is known without the disk.
    pub staged: Staged,
    /// What it was when it was staged.
    pub info: Arc<ObjectInfo>,
    /// Its tags then.
    pub tags: Vec<(String, String)>,
}

/// What an index needs to know of a block that was found when the log was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Length in bytes.
    pub len_bytes: u64,
    /// Checksum of the whole block.
    pub crc64: Crc64,
    /// When it must no longer be served: milliseconds since 1970 by the upstream's clock, 0 is never.
    pub expires_at_ms: u64,
    /// [`blockgate_block::fingerprint_hash`] of the fingerprint.
    pub fingerprint: u64,
    /// The upstream does not have it yet.
    pub pending: bool,
    /// As [`Staged::amended`].
    pub amended: bool,
}

/// A block that was acknowledged and not uploaded when the log was last open.
#[derive(Clone, Debug)]
pub struct PendingBlock {
    /// Its key.
    pub key: BlockKey,
    /// Its record.
    pub entry: Entry,
}

/// Why a log can't be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{0} is in use by another process (its LOCK is held)")]
    InUse(PathBuf),
    /// The settings do not fit.
    #[error("{0}")]
    Settings(String),
    /// The disk.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What.
        source: io::Error,
    },
}

/// Why a block was not staged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PutError {
    /// The tier is off: its disk failed or is full. It comes back by itself.
    #[error("staging is off: {0}")]
    Off(String),
    /// Everything that could be reclaimed waits for its upload, or more waits than is allowed.
    #[error("staging is full of blocks that wait for their upload")]
    Full,
    /// It fits in no segment, or is empty.
    #[error("a block of {0} bytes is not staged")]
    Unfit(u64),
    /// It is not worth its write just now.
    #[error("the daily write budget is spent")]
    Budget,
}

/// Why a staged block can't be read. It is not in the log any more, except after [`ReadError::Io`] and
/// [`ReadError::NoRoom`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// What lies there is not what was stored.
    #[error("the staged bytes are not those that were stored")]
    Corrupt,
    /// No room was given for it.
    #[error("no room for the block")]
    NoRoom,
    /// The disk.
    #[error("{0}")]
    Io(String),
}

/// A removal could not be made durable: after a restart the block might be found again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("staging could not record that a block is gone: {0}")]
pub struct RemoveError(pub String);

/// How the log stands. Sums count since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Most bytes of segments.
    pub capacity_bytes: u64,
    /// Bytes of segments that hold records.
    pub used_bytes: u64,
    /// Blocks that can be read.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Of them, blocks that wait for their upload.
    pub pending_blocks: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Heap taken by the table of blocks.
    pub table_bytes: u64,
    /// Bytes written for blocks that were put.
    pub written_bytes: u64,
    /// Bytes written again when their segment was reclaimed.
    pub rewritten_bytes: u64,
    /// Segments reclaimed.
    pub reclaimed_segments: u64,
    /// Group commits.
    pub commits: u64,
    /// Blocks dropped because what lay on the disk was not what was stored.
    pub corrupt: u64,
    /// Blocks refused for the daily write budget, for a full queue, or while off.
    pub refused: u64,
    /// Reads and writes that failed.
    pub io_errors: u64,
    /// Whether blocks are taken in.
    pub is_on: bool,
}
