//! The staging tier: blocks on local NVMe, in an append-only log of fixed-size segments.
//!
//! It is a cache of what the upstream has, and a buffer of what the upstream does not have yet. What [`Staging::put`]
//! acknowledged survives a crash. Whatever is read is checked: its key in full, its checksums, that its segment still
//! is the one it was written to; what fails is dropped and counted.

mod append;
mod blocks;
mod budget;
mod directory;
mod format;
mod health;
mod inspect;
mod io;
mod keep;
mod keeper;
mod life;
mod log;
mod marks;
mod offer;
mod prepare;
mod read;
mod recovery;
mod staging;
mod types;

#[doc(hidden)]
pub use format::fuzz;
pub use inspect::{
    Damage, Inspection, Records, SegmentReport, SegmentState, Tally, Verification, inspect, pending_buckets, verify,
};
#[doc(hidden)]
pub use io::{Faults, Io, Operation};
pub use staging::{Clock, Staging, Told};
pub use types::{
    Bytes4k, Engine, Entry, NewBlock, OpenError, PendingBlock, PutError, ReadError, RemoveError, Settings, Staged,
    Stats, Summary, Version,
};
