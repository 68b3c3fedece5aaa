//! The mapped memory. Nothing else touches it by pointer, but devices that fill a [`SlotTarget`](super::SlotTarget).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// Zeroed memory, readable and writable for as long as this lives, moved and resized by nobody.
///
/// No reference to it is kept here: bytes are reached by [`Mapping::write`], [`Mapping::read`] and [`Mapping::address`]
/// alone, whose callers promise not to read what is being written.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    #[cfg(not(miri))]
    memfd: std::os::fd::OwnedFd,
}

// SAFETY: `base` points to memory that belongs to this value and to no thread in particular; it is accessed through
// `write` and `read` only, whose contracts exclude data races.
unsafe impl Send for Mapping {}
// SAFETY: as above: `&Mapping` gives access through `write` and `read` only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The length in bytes.
    pub(super) fn len_bytes(&self) -> u64 {
        self.len as u64
    }

    /// Copies `bytes` to `offset`. Panics where that is out of bounds.
    ///
    /// # Safety
    /// Until this returns, nobody else reads or writes the range; nor does anyone hold a slice of it.
    pub(super) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        let target = self.pointer(offset, bytes.len());
        // SAFETY: `pointer` checked the bounds; the caller vouches that nobody else accesses the target, so that `bytes`
        // can't overlap it either.
        unsafe { target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) }
    }

    /// The `len` bytes at `offset`. Panics where they are out of bounds.
    ///
    /// # Safety
    /// Nobody writes the range for as long as the slice lives, and what was written to it happened before this call.
    pub(super) unsafe fn read(&self, offset: usize, len: usize) -> &[u8] {
        let start = self.pointer(offset, len);
        // SAFETY: `pointer` checked the bounds; the memory is initialised, as it began as zeros; `u8` has no alignment;
        // it stays mapped while `self` is borrowed; the caller vouches that nobody writes it meanwhile.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Where the `len` bytes at `offset` are. Panics where they are out of bounds. To use it takes the promises of
    /// [`Mapping::write`] and [`Mapping::read`].
    pub(super) fn address(&self, offset: usize, len: usize) -> *mut u8 {
        self.pointer(offset, len).as_ptr()
    }

    fn pointer(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset} of an arena of {}", self.len);
        // SAFETY: `offset` was just checked to be at most the length of the mapping, which is one allocation.
        unsafe { self.base.add(offset) }
    }
}

fn usable_len(len_bytes: u64) -> io::Result<usize> {
    usize::try_from(len_bytes)
        .ok()
        .filter(|&len| len > 0 && isize::try_from(len).is_ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("an arena can't have {len_bytes} bytes")))
}

#[cfg(not(miri))]
mod mapped {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    use super::*;

    impl Mapping {
        /// Maps `len_bytes` of a new memfd, huge pages where the system allows them for shared memory.
        pub(in super::super) fn new(len_bytes: u64) -> io::Result<Self> {
            let len = usable_len(len_bytes)?;
            let memfd = memfd_create("blockgate-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&memfd, len_bytes)?;
            // SAFETY: without FIXED, the kernel chooses an address that nothing else uses.
            let base = unsafe {
                mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &memfd, 0)?
            };
            let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
            let mapping = Self { base, len, memfd };
            // A truncated file would kill the gateway by SIGBUS, a writable mapping elsewhere would break the promise that
            // published bytes never change. The last seal is of Linux 5.1.
            fcntl_add_seals(&mapping.memfd, SealFlags::GROW | SealFlags::SHRINK)?;
            let _ = fcntl_add_seals(&mapping.memfd, SealFlags::FUTURE_WRITE);
            // SAFETY: the range is our own mapping, and the advice changes no contents.
            let _ = unsafe { madvise(mapping.base.as_ptr().cast(), len, Advice::LinuxHugepage) };
            Ok(mapping)
        }

        /// Faults a range in, so that its first writer need not. It may be in use.
        pub(in super::super) fn prefault(&self, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
            let (Ok(offset), Ok(len)) = (usize::try_from(offset_bytes), usize::try_from(len_bytes)) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let start = self.pointer(offset, len);
            // SAFETY: the range is within our own mapping, and the advice changes no contents.
            Ok(unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }?)
        }

        pub(in super::super) fn memfd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.memfd.as_fd())
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the range was mapped by `new`, and whoever could reach it borrowed or shared this value.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

/// Miri knows no memfd: the same contract on ordinary memory, so that it can check what lies above.
#[cfg(miri)]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::*;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 4096).expect("the length was checked")
    }

    impl Mapping {
        pub(in super::super) fn new(len_bytes: u64) -> io::Result<Self> {
            let len = usable_len(len_bytes)?;
            // SAFETY: the layout's size is not 0.
            let base = unsafe { alloc_zeroed(layout(len)) };
            Ok(Self { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, len })
        }

        pub(in super::super) fn prefault(&self, _offset_bytes: u64, _len_bytes: u64) -> io::Result<()> {
            Ok(())
        }

        pub(in super::super) fn memfd(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: allocated by `new` with the same layout.
            unsafe { dealloc(self.base.as_ptr(), layout(self.len)) }
        }
    }
}
