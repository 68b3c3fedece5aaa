//! How the log lies on the disk. Pure: bytes in, bytes out.
//!
//! A directory holds `LOCK` and segments, `segment-<number>.log`, files of one size that are used again and again.
//! Integers are little-endian, a page is 4 KiB, every piece carries a CRC64NVME of itself. A segment is:
//!
//! | pages | what |
//! | --- | --- |
//! | 2 | its [header](header), twice: one damaged page loses nothing |
//! | some | the [state](state) of its records, twice: three bits each |
//! | most | [records](record), one after another: a header of whole pages, the block, padding to a page |
//! | at the end, once it is full | the [footer](footer): what a start needs to know of each record |
//!
//! A segment lives many times. Each life has a nonce at random, which every piece names, so that neither what an
//! earlier life left behind nor what a client put into a block can pass for a piece of this one; and a sequence, which
//! grows over all lives of all segments. A record's [version](version_of) is the sequence of its segment and its place
//! in it: versions grow in the order of the log, and nothing has to be kept to know them.

mod fields;
pub(crate) mod footer;
pub mod fuzz;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod state;

use thiserror::Error;

use crate::types::Version;

/// What everything is aligned to, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Version of this format. Another one is refused.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Fewest pages of a record: a header and a block.
pub(crate) const RECORD_PAGES_MIN: u32 = 2;

/// Largest segment.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 16 << 30;

/// Smallest segment: header, state, a few records, a footer.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Tells one life of a segment from another.
pub(crate) type Nonce = [u8; 16];

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Flaw {
    /// They begin otherwise, or are of another life.
    #[error("something else lies there")]
    Foreign,
    /// Their checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// The checksum is right, but they make no sense.
    #[error("a field is out of its bounds")]
    Bounds,
}

/// How many pages hold `bytes`.
pub(crate) const fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES as u64)
}

/// The version of the record at `page` of the life with this sequence.
pub(crate) const fn version_of(sequence: u64, page: u32) -> Version {
    Version(sequence << 32 | page as u64)
}

/// Where the pieces of a segment of some size are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pages: u32,
}

impl Geometry {
    /// None where a segment can't have this size.
    pub(crate) fn new(segment_bytes: u64) -> Option<Self> {
        let is_fit = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            && segment_bytes.is_multiple_of(PAGE_BYTES as u64);
        let pages = u32::try_from(segment_bytes / PAGE_BYTES as u64).ok()?;
        is_fit.then_some(Self { pages })
    }

    /// All of it.
    pub(crate) const fn pages(self) -> u32 {
        self.pages
    }

    /// All of it.
    pub(crate) const fn segment_bytes(self) -> u64 {
        self.pages as u64 * PAGE_BYTES as u64
    }

    /// Pages of one copy of state.
    pub(crate) const fn state_pages(self) -> u32 {
        let positions = self.pages.div_ceil(RECORD_PAGES_MIN);
        positions.div_ceil(state::POSITIONS_PER_SECTOR).div_ceil(state::SECTORS_PER_PAGE)
    }

    /// Where a copy of state begins; there are [`state::COPIES`].
    pub(crate) const fn state_page(self, copy: u32) -> u32 {
        header::COPIES + copy * self.state_pages()
    }

    /// Where records begin.
    pub(crate) const fn first_record_page(self) -> u32 {
        self.state_page(state::COPIES)
    }

    /// Whether a record of `record_pages` at `page`, and a footer of `records` records, both fit.
    pub(crate) fn fits(self, page: u32, record_pages: u64, records: u64) -> bool {
        u64::from(page) + record_pages + footer::pages_of_footer(records) <= u64::from(self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_segment_do_not_overlap() {
        for segment_bytes in [SEGMENT_BYTES_MIN, 1 << 20, 64 << 20, 1 << 30, SEGMENT_BYTES_MAX] {
            let geometry = Geometry::new(segment_bytes).unwrap();
            assert_eq!(geometry.segment_bytes(), segment_bytes);
            let positions = u64::from(geometry.pages()).div_ceil(2);
            let places = u64::from(geometry.state_pages() * state::SECTORS_PER_PAGE * state::POSITIONS_PER_SECTOR);
            assert!(places >= positions);
            assert!(geometry.fits(geometry.first_record_page(), 2, 1), "{segment_bytes}");
        }
        for segment_bytes in [0, 4096, (1 << 20) + 1, SEGMENT_BYTES_MAX + 4096, u64::MAX] {
            assert_eq!(Geometry::new(segment_bytes), None);
        }
    }

    #[test]
    fn versions_grow_in_the_order_of_the_log() {
        assert!(version_of(1, u32::MAX) < version_of(2, 0));
        assert!(version_of(2, 5) < version_of(2, 7));
    }
}
