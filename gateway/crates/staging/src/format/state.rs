//! What became of a segment's records: three bits for every place where a record can begin.
//!
//! Bits lie in sectors of 512 bytes, which disks write whole, each with a checksum of its own. They only ever go from 0
//! to 1, so that an old sector, left by a write that never happened, knows less and nothing wrong. All of it is there
//! twice: a damaged sector is read from the other copy.

use std::ops::Range;

use blockgate_block::Crc64Hasher;

use super::{Geometry, Nonce, PAGE_BYTES, RECORD_PAGES_MIN};

/// How often state is there.
pub(crate) const COPIES: u32 = 2;

const SECTOR_BYTES: usize = 512;
/// Of them, bits. The rest is the checksum.
const BITS_BYTES: usize = SECTOR_BYTES - 8;

/// Bits of one record.
const MARKS: u32 = 3;

/// Places whose bits share a sector.
pub(crate) const POSITIONS_PER_SECTOR: u32 = BITS_BYTES as u32 * 8 / MARKS;

/// Sectors of a page.
pub(crate) const SECTORS_PER_PAGE: u32 = (PAGE_BYTES / SECTOR_BYTES) as u32;

/// Something that happened to a record after it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The upstream has it.
    Settled = 0,
    /// It was removed, or another version took its place.
    Dead = 1,
    /// Its description at the upstream changed: only its bytes hold.
    Amended = 2,
}

/// The bits of one segment in one life, and which of them the disk does not have yet.
#[derive(Clone, Debug)]
pub(crate) struct State {
    nonce: Nonce,
    /// [`BITS_BYTES`] for each sector.
    bits: Vec<u8>,
    /// For each page, whether it changed since it was last written.
    changed: Vec<bool>,
}

impl State {
    /// Of a life that begins.
    pub(crate) fn new(geometry: Geometry, nonce: Nonce) -> Self {
        let pages = geometry.state_pages() as usize;
        Self { nonce, bits: vec![0; pages * SECTORS_PER_PAGE as usize * BITS_BYTES], changed: vec![false; pages] }
    }

    /// As its copies lie on the disk; `bytes` may end early. Also gives the pages whose records it says nothing about.
    pub(crate) fn decode(geometry: Geometry, nonce: Nonce, bytes: &[u8]) -> (Self, Vec<Range<u32>>) {
        let mut state = Self::new(geometry, nonce);
        let mut unknown = Vec::new();
        for sector in 0..geometry.state_pages() * SECTORS_PER_PAGE {
            let copies = (0..COPIES).filter_map(|copy| {
                let start =
                    copy as usize * geometry.state_pages() as usize * PAGE_BYTES + sector as usize * SECTOR_BYTES;
                decode_sector(nonce, sector, bytes.get(start..start + SECTOR_BYTES)?)
            });
            // Of two that differ, one was written and the other was not: what either says has happened.
            let sound = copies.map(|bits| state.add(sector, bits)).count() as u32;
            if sound < COPIES {
                state.changed[(sector / SECTORS_PER_PAGE) as usize] = true;
            }
            if sound == 0 {
                unknown.push(pages_of_sector(sector));
            }
        }
        (state, unknown)
    }

    /// Whether the record that begins at `page` has this mark.
    pub(crate) fn has(&self, page: u32, mark: Mark) -> bool {
        let (byte, bit) = place(page, mark);
        self.bits[byte] & bit != 0
    }

    /// Sets or takes back a mark of the record that begins at `page`.
    pub(crate) fn set(&mut self, page: u32, mark: Mark, value: bool) {
        if self.has(page, mark) != value {
            let (byte, bit) = place(page, mark);
            self.bits[byte] ^= bit;
            self.changed[byte / (BITS_BYTES * SECTORS_PER_PAGE as usize)] = true;
        }
    }

    /// Whether the disk lacks something.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.contains(&true)
    }

    /// The pages, counted from the first of state, that the disk lacks; they count as written from now on.
    pub(crate) fn take_changed(&mut self) -> Vec<u32> {
        let changed = (0u32..).zip(&self.changed).filter(|(_, changed)| **changed).map(|(page, _)| page).collect();
        self.changed.fill(false);
        changed
    }

    /// Says that these pages were not written after all.
    pub(crate) fn put_changed_back(&mut self, pages: &[u32]) {
        pages.iter().for_each(|page| self.changed[*page as usize] = true);
    }

    /// Writes the page that is number `page` of state.
    pub(crate) fn encode_page(&self, page: u32, out: &mut [u8]) {
        let sectors = page * SECTORS_PER_PAGE..(page + 1) * SECTORS_PER_PAGE;
        for (sector, out) in sectors.zip(out.chunks_exact_mut(SECTOR_BYTES)) {
            let start = sector as usize * BITS_BYTES;
            let bits = &self.bits[start..start + BITS_BYTES];
            out[..BITS_BYTES].copy_from_slice(bits);
            out[BITS_BYTES..].copy_from_slice(&checksum(self.nonce, sector, bits));
        }
    }

    /// Heap that it takes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bits.capacity() + self.changed.capacity()
    }

    fn add(&mut self, sector: u32, bits: &[u8]) {
        let start = sector as usize * BITS_BYTES;
        self.bits[start..start + BITS_BYTES].iter_mut().zip(bits).for_each(|(to, from)| *to |= from);
    }
}

/// Of bits, and of where and when they are valid.
fn checksum(nonce: Nonce, sector: u32, bits: &[u8]) -> [u8; 8] {
    let mut hasher = Crc64Hasher::default();
    hasher.update(&nonce);
    hasher.update(&sector.to_le_bytes());
    hasher.update(bits);
    hasher.finish().to_u64().to_le_bytes()
}

/// The bits of a sector, if they are what was written there in this life.
fn decode_sector(nonce: Nonce, sector: u32, bytes: &[u8]) -> Option<&[u8]> {
    let (bits, crc) = bytes.split_last_chunk::<8>()?;
    (*crc == checksum(nonce, sector, bits)).then_some(bits)
}

/// The records that begin here have their bits in this sector.
fn pages_of_sector(sector: u32) -> Range<u32> {
    let pages = POSITIONS_PER_SECTOR * RECORD_PAGES_MIN;
    sector * pages..(sector + 1) * pages
}

/// Which byte, and which bit of it.
fn place(page: u32, mark: Mark) -> (usize, u8) {
    let position = page / RECORD_PAGES_MIN;
    let bit = position % POSITIONS_PER_SECTOR * MARKS + mark as u32;
    let byte = (position / POSITIONS_PER_SECTOR) as usize * BITS_BYTES + (bit / 8) as usize;
    (byte, 1 << (bit % 8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARKS_ALL: [Mark; 3] = [Mark::Settled, Mark::Dead, Mark::Amended];
    const NONCE: Nonce = [7; 16];

    /// More than one page of state.
    fn geometry() -> Geometry {
        Geometry::new(128 << 20).unwrap()
    }

    /// Both copies.
    fn encode(state: &State) -> Vec<u8> {
        let mut bytes = vec![0; geometry().state_pages() as usize * PAGE_BYTES];
        (0u32..).zip(bytes.chunks_exact_mut(PAGE_BYTES)).for_each(|(page, out)| state.encode_page(page, out));
        bytes.repeat(2)
    }

    #[test]
    fn every_record_has_bits_of_its_own() {
        let mut state = State::new(geometry(), NONCE);
        let mut seen = std::collections::HashSet::new();
        for page in (0..geometry().pages()).step_by(2) {
            assert!(MARKS_ALL.iter().all(|mark| seen.insert(place(page, *mark))), "{page}");
            assert_eq!(place(page, Mark::Dead), place(page + 1, Mark::Dead));
        }
        state.set(geometry().pages() - 2, Mark::Amended, true);
        assert_eq!(state.take_changed(), [geometry().state_pages() - 1]);
        assert!(!state.is_changed());
        state.set(geometry().pages() - 2, Mark::Amended, true);
        assert!(!state.is_changed(), "nothing new");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
        #[test]
        fn roundtrip_and_damage(marks in proptest::collection::vec((0u32..16_384, 0usize..3), 0..200), at in any::<proptest::sample::Index>(), bit in 0u32..8) {
            let mut state = State::new(geometry(), NONCE);
            marks.iter().for_each(|(position, mark)| state.set(position * 2, MARKS_ALL[*mark], true));
            let mut bytes = encode(&state);
            let (read, unknown) = State::decode(geometry(), NONCE, &bytes);
            prop_assert_eq!(&read.bits, &state.bits);
            prop_assert!(unknown.is_empty());

            let copy = bytes.len() / 2;
            let at = at.index(copy);
            bytes[at] ^= 1 << bit;
            let (read, unknown) = State::decode(geometry(), NONCE, &bytes);
            prop_assert_eq!(&read.bits, &state.bits);
            prop_assert!(unknown.is_empty() && read.is_changed());
            bytes[copy + at / SECTOR_BYTES * SECTOR_BYTES] ^= 1;
            let (_, unknown) = State::decode(geometry(), NONCE, &bytes);
            prop_assert_eq!(unknown, vec![pages_of_sector((at / SECTOR_BYTES) as u32)]);
        }
    }

    #[test]
    fn of_two_copies_either_is_believed() {
        let mut newer = State::new(geometry(), NONCE);
        newer.set(40, Mark::Dead, true);
        let (old, new) = (encode(&State::new(geometry(), NONCE)), encode(&newer));
        let half = old.len() / 2;
        for bytes in [[&old[..half], &new[half..]].concat(), [&new[..half], &old[half..]].concat()] {
            let (read, unknown) = State::decode(geometry(), NONCE, &bytes);
            assert!(read.has(40, Mark::Dead) && unknown.is_empty());
        }
    }

    #[test]
    fn sectors_of_another_place_or_life_say_nothing() {
        let both = encode(&State::new(geometry(), NONCE));
        let bytes = &both[..both.len() / 2];
        let sectors = (geometry().state_pages() * SECTORS_PER_PAGE) as usize;
        assert_eq!(State::decode(geometry(), [8; 16], &both).1.len(), sectors);
        let mut swapped = bytes.to_vec();
        swapped.copy_within(0..SECTOR_BYTES, SECTOR_BYTES);
        assert_eq!(State::decode(geometry(), NONCE, &swapped).1, [pages_of_sector(1)]);
        assert_eq!(State::decode(geometry(), NONCE, &bytes[..SECTOR_BYTES]).1.len(), sectors - 1);
        assert_eq!(State::decode(geometry(), NONCE, &vec![0; both.len()]).1.len(), sectors);
    }
}
