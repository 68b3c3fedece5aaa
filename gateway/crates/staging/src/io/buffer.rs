//! Memory that disks read and write: whole pages at addresses of pages.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use blockgate_block::{BlockBuf, SlotTarget};

/// What direct I/O is aligned to: addresses, lengths and offsets.
pub(super) const PAGE_BYTES: usize = 4096;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Whole pages on the heap, at the address of a page. Zeros at first.
///
/// Behind a `Vec`, whose memory stays where it is and may be written by address when the handle moves.
#[derive(Clone)]
pub(crate) struct AlignedBuf(Vec<Page>);

impl AlignedBuf {
    /// `len_bytes`, rounded up to whole pages.
    pub(crate) fn zeroed(len_bytes: usize) -> Self {
        Self(vec![Page([0; PAGE_BYTES]); len_bytes.div_ceil(PAGE_BYTES)])
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Page` is an array of bytes and nothing else, without padding, so that so many of them are initialised
        // bytes in one allocation; they are borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * PAGE_BYTES) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes others; any bytes make a `Page`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * PAGE_BYTES) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len())
    }
}

/// Where a read puts bytes: as many as it takes.
#[derive(Debug)]
pub(crate) enum Target {
    /// Pages on the heap.
    Pages(AlignedBuf),
    /// A slot of the arena, whole granules of it.
    Slot(SlotTarget),
}

/// A [`Target`] once all of it was read.
#[derive(Debug)]
pub(crate) enum Filled {
    /// Of [`Target::Pages`].
    Pages(AlignedBuf),
    /// Of [`Target::Slot`]. Nobody has seen it yet: it can be checked before anyone does.
    Block(BlockBuf),
}

/// What a write takes bytes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Pages on the heap.
    Pages(Arc<AlignedBuf>),
    /// A block in the arena, padded with zeros to whole pages.
    Block(BlockBuf),
}

/// A piece of memory, laid out as the kernel's `struct iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Span {
    pub(super) start: *mut u8,
    pub(super) len: usize,
}

impl Target {
    /// All of it, to be written.
    pub(super) fn span(&mut self) -> Span {
        match self {
            Self::Pages(pages) => Span { start: pages.as_mut_ptr(), len: pages.len() },
            // A slot lies within a mapping, whose length is a `usize`.
            Self::Slot(slot) => Span { start: slot.as_ptr(), len: slot.capacity() as usize },
        }
    }

    /// Makes a bit wrong, as a bad disk would.
    ///
    /// # Safety
    /// The kernel is done with [`Target::span`], and the bit is within it.
    pub(super) unsafe fn flip(&mut self, bit: usize) {
        // SAFETY: within memory that is initialised and reached through `self` alone, as the caller vouches.
        unsafe { *self.span().start.add(bit / 8) ^= 1 << (bit % 8) };
    }

    /// As it was read.
    ///
    /// # Safety
    /// The kernel is done with [`Target::span`].
    pub(super) unsafe fn filled(self) -> Filled {
        match self {
            Self::Pages(pages) => Filled::Pages(pages),
            // SAFETY: the caller vouches that nobody writes there any more; that it had the system call's or the ring's
            // answer orders what was written before this.
            Self::Slot(slot) => Filled::Block(unsafe { slot.filled() }),
        }
    }
}

impl Source {
    /// All of it. To be read only.
    pub(super) fn span(&self) -> Span {
        let bytes: &[u8] = match self {
            Self::Pages(pages) => pages,
            Self::Block(block) => block.padded(),
        };
        Span { start: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }
}
