//! Where block bytes live: one region of memory, mapped and faulted in once, cut into slots.
//!
//! Fresh pages cost far more to fault in than to fill, so a gateway maps its memory tier once and never gives pages
//! back. Bytes are appended to a slot by its only [`BlockWriter`], seen by any number of [`BlockReader`]s while they
//! arrive, and leave as [`Bytes`](bytes::Bytes) that point into the arena: no copy on the way out.
//!
//! # Allocation
//! Best fit over free extents, with coalescing, in granules of 4 KiB. A block takes its length rounded up to a granule:
//! 64 KiB, 2 MiB, 28 MiB and 32 MiB blocks waste nothing, where a buddy allocator would spend 32 MiB on 28. Blocks of one
//! model have one length, so a hole left by one is filled exactly by the next and there is little to fragment. A 1 KiB
//! block wastes 3 KiB; its entries in the tables above cost about as much, and page-aligned slots are what direct I/O,
//! mapping by another process and registering with a GPU need.

mod extents;
mod mapping;
mod slot;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::extents::Extents;
use self::mapping::Mapping;
pub use self::slot::{BlockBuf, BlockReader, BlockWriter, SlotFull, SlotTarget};

/// What slots are rounded up to: the page size, which is also the alignment of every slot.
const GRANULE_BYTES: u64 = 4096;

/// How much is faulted in by one system call: small enough that a dropped arena is soon let go.
const PREFAULT_STEP_BYTES: u64 = 64 << 20;

/// Most threads that fault the arena in.
const PREFAULT_THREADS_MAX: usize = 8;

/// The memory that blocks live in. Clones share it; it is unmapped when the last handle to it or to a slot goes.
#[derive(Clone, Debug)]
pub struct Arena(Arc<Shared>);

/// How full an [`Arena`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// All of it, in bytes.
    pub capacity_bytes: u64,
    /// In slots that someone holds, rounding included.
    pub used_bytes: u64,
    /// The longest free run: the largest block that can be allocated now.
    pub largest_free_bytes: u64,
    /// Already faulted in. What is not costs its first user a page fault every 4 KiB.
    pub prefaulted_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    free: Mutex<Extents>,
    prefaulted_bytes: AtomicU64,
}

impl Arena {
    /// Maps an arena of `capacity_bytes`, rounded down to a granule of 4 KiB.
    ///
    /// Its pages are faulted in by background threads, lowest first; slots can be had at once.
    ///
    /// # Errors
    /// Where the system has no such memory to map, or `capacity_bytes` is less than a granule.
    pub fn new(capacity_bytes: u64) -> io::Result<Self> {
        let capacity_bytes = capacity_bytes / GRANULE_BYTES * GRANULE_BYTES;
        let shared = Arc::new(Shared {
            mapping: Mapping::new(capacity_bytes)?,
            free: Mutex::new(Extents::new(capacity_bytes)),
            prefaulted_bytes: AtomicU64::new(0),
        });
        spawn_prefault(&shared);
        Ok(Self(shared))
    }

    /// A slot for exactly `len_bytes`, or none where no free run is long enough.
    #[must_use]
    pub fn allocate(&self, len_bytes: u64) -> Option<BlockWriter> {
        let offset_bytes = self.0.free.lock().take(Self::slot_bytes(len_bytes))?;
        Some(BlockWriter::new(Arc::clone(&self.0), offset_bytes, len_bytes))
    }

    /// What a slot for `len_bytes` takes of the arena. An empty block takes a granule too, so that nothing is free of
    /// charge in tables weighed by bytes.
    #[must_use]
    pub const fn slot_bytes(len_bytes: u64) -> u64 {
        match len_bytes.checked_next_multiple_of(GRANULE_BYTES) {
            Some(0) => GRANULE_BYTES,
            Some(bytes) => bytes,
            None => u64::MAX,
        }
    }

    /// How full it is.
    #[must_use]
    pub fn stats(&self) -> ArenaStats {
        let capacity_bytes = self.0.mapping.len_bytes();
        let free = self.0.free.lock();
        ArenaStats {
            capacity_bytes,
            used_bytes: capacity_bytes - free.free_bytes(),
            largest_free_bytes: free.largest_bytes(),
            prefaulted_bytes: self.0.prefaulted_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether nobody holds any of this range now. An empty range is free.
    #[must_use]
    pub fn is_free(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.0.free.lock().contains(range)
    }

    /// The file that the arena is mapped from, to be shared with readers in other processes.
    ///
    /// It is sealed: nobody can resize it, nor map it for writing once the arena is. None under Miri, where the arena
    /// is ordinary memory.
    #[must_use]
    pub fn memfd(&self) -> Option<BorrowedFd<'_>> {
        self.0.mapping.memfd()
    }
}

impl Shared {
    fn release(&self, offset_bytes: u64, len_bytes: u64) {
        self.free.lock().give(offset_bytes, Arena::slot_bytes(len_bytes));
    }
}

/// Faults the arena in from its start, where allocation starts too. The threads end early when the arena is dropped.
fn spawn_prefault(shared: &Arc<Shared>) {
    let threads = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() / 2).clamp(1, PREFAULT_THREADS_MAX);
    let next_bytes = Arc::new(AtomicU64::new(0));
    for _ in 0..threads {
        let (shared, next_bytes) = (Arc::downgrade(shared), Arc::clone(&next_bytes));
        let prefault = move || {
            while let Some(shared) = shared.upgrade() {
                let start = next_bytes.fetch_add(PREFAULT_STEP_BYTES, Ordering::Relaxed);
                let len = PREFAULT_STEP_BYTES.min(shared.mapping.len_bytes().saturating_sub(start));
                if len == 0 || shared.mapping.prefault(start, len).is_err() {
                    return;
                }
                shared.prefaulted_bytes.fetch_add(len, Ordering::Relaxed);
            }
        };
        // Without the thread, pages are faulted in by whoever writes them first: slower, not wrong.
        drop(std::thread::Builder::new().name("arena-prefault".into()).spawn(prefault));
    }
}

#[cfg(test)]
mod tests;
