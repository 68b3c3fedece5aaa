//! Handles to one block's bytes in the arena.
//!
//! Every slot has one [`BlockWriter`] at most. It appends, then publishes how far it came; readers look at nothing beyond
//! that mark, and what lies before it never changes while anyone holds the slot. That is all the synchronisation there is.
//! A slot to be filled by a device, a [`SlotTarget`], has no other handle at all until it is a whole block.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use thiserror::Error;

use super::{Arena, GRANULE_BYTES, Shared};

/// What lies behind a block in its slot.
const ZEROS: [u8; GRANULE_BYTES as usize] = [0; GRANULE_BYTES as usize];

/// A part of the arena that nobody else has. Given back when dropped, that is when the last handle goes.
#[derive(Debug)]
struct Slot {
    arena: Arc<Shared>,
    /// Where it begins in the arena.
    offset: usize,
    /// The block's length.
    len: usize,
    /// Bytes written and never to change again, from the start.
    published: AtomicUsize,
}

impl Slot {
    /// The bytes of `range`, which must be published; none where it is not, or where it is no range.
    fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        // Acquire: pairs with the release in `BlockWriter::append`, so that what was written before it is seen here.
        if range.start > range.end || range.end > self.published.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the range is published. Writers write beyond the mark only, and the mark never falls, so that nobody
        // writes the range until the slot is dropped, which outlives the borrow; the acquire orders the writes before.
        Some(unsafe { self.arena.mapping.read(self.offset + range.start, range.len()) })
    }

    /// What the slot takes of the arena: at least its length.
    fn padded_len(&self) -> usize {
        // Within the mapping, as the slot is.
        Arena::slot_bytes(self.len as u64) as usize
    }

    /// Clears what lies behind the block, so that no bytes of others leave with it.
    ///
    /// # Safety
    /// Until this returns, nobody else reads or writes beyond the block's length within the slot.
    unsafe fn clear_padding(&self) {
        // SAFETY: the range lies within this slot, which the free list gave to nobody else; the caller vouches for the rest.
        unsafe { self.arena.mapping.write(self.offset + self.len, &ZEROS[..self.padded_len() - self.len]) };
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.arena.release(self.offset as u64, self.len as u64);
    }
}

/// What a [`Bytes`] made of a slot owns.
struct View {
    slot: Arc<Slot>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // Published when the view was made, and so ever after.
        self.slot.get(self.range.clone()).unwrap_or_default()
    }
}

fn view(slot: &Arc<Slot>, range: Range<u64>) -> Option<Bytes> {
    let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
    slot.get(range.clone())?;
    Some(Bytes::from_owner(View { slot: Arc::clone(slot), range }))
}

/// Bytes were appended beyond a slot's length. None of them was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("more bytes than the block's length")]
pub struct SlotFull;

/// The only writer of a slot. Appended bytes are published to readers at once.
#[derive(Debug)]
pub struct BlockWriter {
    slot: Arc<Slot>,
    /// As published. Only this writer changes it.
    len: usize,
}

impl BlockWriter {
    /// The writer of a slot that the arena's free list has just handed out to the caller alone.
    pub(super) fn new(arena: Arc<Shared>, offset_bytes: u64, len_bytes: u64) -> Self {
        // The slot lies within the mapping, whose length is a `usize`.
        let (offset, len) = (offset_bytes as usize, len_bytes as usize);
        Self { slot: Arc::new(Slot { arena, offset, len, published: AtomicUsize::new(0) }), len: 0 }
    }

    /// Adds bytes at the end: the one copy of their way through the gateway.
    ///
    /// # Errors
    /// When they do not all fit; then none is written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), SlotFull> {
        if bytes.len() > self.slot.len - self.len {
            return Err(SlotFull);
        }
        // SAFETY: the target lies within this slot, which the free list gave to nobody else, and beyond the published
        // mark, where nobody reads; `&mut self` of the only writer excludes another write.
        unsafe { self.slot.arena.mapping.write(self.slot.offset + self.len, bytes) };
        self.len += bytes.len();
        // Release: whoever sees the new mark sees the bytes before it.
        self.slot.published.store(self.len, Ordering::Release);
        Ok(())
    }

    /// How many bytes were written.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block's length: how many bytes it takes to be whole.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slot.len as u64
    }

    /// Reads what has been published while the writer goes on.
    #[must_use]
    pub fn reader(&self) -> BlockReader {
        BlockReader { slot: Arc::clone(&self.slot) }
    }

    /// The block, once it is whole.
    ///
    /// # Errors
    /// The writer back where `len < capacity`.
    pub fn finish(self) -> Result<BlockBuf, Self> {
        if self.len != self.slot.len {
            return Err(self);
        }
        // SAFETY: what lies behind the block is read through a `BlockBuf` only, and there is none yet.
        unsafe { self.slot.clear_padding() };
        Ok(BlockBuf { slot: self.slot })
    }

    /// The slot for a device to fill at once, in place of appending.
    ///
    /// # Errors
    /// The writer back where something was written, or where a [`BlockReader`] of it lives: so nobody sees what the device
    /// wrote before it was checked.
    pub fn into_target(mut self) -> Result<SlotTarget, Self> {
        if self.len == 0 && Arc::get_mut(&mut self.slot).is_some() {
            Ok(SlotTarget { slot: self.slot })
        } else {
            Err(self)
        }
    }
}

/// A slot that nobody else can reach, to be filled by a device through its address. Dropped, it is free again: whoever gave
/// the address away keeps this until the device is done.
#[derive(Debug)]
pub struct SlotTarget {
    slot: Arc<Slot>,
}

impl SlotTarget {
    /// Where it begins: aligned to 4 KiB, initialised, valid for reads and writes of [`SlotTarget::capacity`] bytes while
    /// this lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.slot.arena.mapping.address(self.slot.offset, self.slot.padded_len())
    }

    /// How many bytes may be written: the block's length rounded up to whole granules of 4 KiB.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slot.padded_len() as u64
    }

    /// The block's length.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.slot.len as u64
    }

    /// Whether the block has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot.len == 0
    }

    /// The block that was written there. What was written behind it is cleared.
    ///
    /// # Safety
    /// Nobody writes through the address any more, and what was written happened before this call.
    #[must_use]
    pub unsafe fn filled(self) -> BlockBuf {
        // SAFETY: no other handle to the slot was ever there since it became a target, and the device is done with it.
        unsafe { self.slot.clear_padding() };
        self.slot.published.store(self.slot.len, Ordering::Release);
        BlockBuf { slot: self.slot }
    }
}

/// Sees a block's bytes while they arrive. Keeps the slot; knows nothing of whether the writer still lives.
#[derive(Clone, Debug)]
pub struct BlockReader {
    slot: Arc<Slot>,
}

impl BlockReader {
    /// How many bytes have arrived. Never falls.
    #[must_use]
    pub fn published_bytes(&self) -> u64 {
        self.slot.published.load(Ordering::Acquire) as u64
    }

    /// A view of published bytes, without a copy. None where the range is not all published yet.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Option<Bytes> {
        view(&self.slot, range)
    }
}

/// A whole block in the arena. The slot is free again when the last handle to it, or [`Bytes`] made of it, goes.
#[derive(Clone, Debug)]
pub struct BlockBuf {
    slot: Arc<Slot>,
}

impl BlockBuf {
    /// The block's length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.slot.len as u64
    }

    /// Whether the block has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot.len == 0
    }

    /// Where the block begins in the arena and in its file.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.slot.offset as u64
    }

    /// A reader of it, to which all of it has arrived.
    #[must_use]
    pub fn reader(&self) -> BlockReader {
        BlockReader { slot: Arc::clone(&self.slot) }
    }

    /// Whether anyone else holds the slot just now, so that dropping this handle would not free it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // A whole block is published whole.
        self.slot.get(0..self.slot.len).unwrap_or_default()
    }

    /// The bytes and zeros behind them up to a multiple of 4 KiB, at an address that is one too: what direct I/O writes.
    #[must_use]
    pub fn padded(&self) -> &[u8] {
        // SAFETY: the block is published whole, its padding was cleared before there was a `BlockBuf`, and nobody writes
        // either until the slot is dropped, which outlives the borrow.
        unsafe { self.slot.arena.mapping.read(self.slot.offset, self.slot.padded_len()) }
    }

    /// A part of the block, without a copy. None where the range is not within it.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Option<Bytes> {
        view(&self.slot, range)
    }

    /// The block, without a copy.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        view(&self.slot, 0..self.len()).unwrap_or_default()
    }
}
