//! The first pages of a segment.

use super::fields::{Reader, seal, unseal, write};
use super::{FORMAT_VERSION, Geometry, Nonce, PAGE_BYTES};

/// How often the header is there, one page each.
pub(crate) const COPIES: u32 = 2;

const MAGIC: &[u8; 8] = b"BGSEG1\0\0";

/// What a segment is, for one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) geometry: Geometry,
    /// Its place in the pool.
    pub(crate) number: u32,
    /// Which life: one with a greater sequence began later, whichever the segment.
    pub(crate) sequence: u64,
    pub(crate) nonce: Nonce,
    /// Which log it belongs to.
    pub(crate) log: [u8; 16],
}

/// What lies where a header should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A header.
    Sound(Header),
    /// A segment of ours that says no more.
    Damaged,
    /// A segment of another version of the format.
    OtherVersion(u32),
    /// Zeros: the file was made and never used.
    Blank,
    /// Another program's file.
    Foreign,
}

impl Header {
    /// Writes all copies.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        for page in out.chunks_exact_mut(PAGE_BYTES).take(COPIES as usize) {
            page.fill(0);
            write(
                page,
                &[
                    MAGIC,
                    &FORMAT_VERSION.to_le_bytes(),
                    &self.number.to_le_bytes(),
                    &self.geometry.segment_bytes().to_le_bytes(),
                    &self.sequence.to_le_bytes(),
                    &self.nonce,
                    &self.log,
                ],
            );
            seal(page);
        }
    }

    /// Reads the sound copy; of two, the one of the later life: a write of both was cut between them.
    pub(crate) fn decode(bytes: &[u8]) -> Found {
        let copies = || bytes.chunks(PAGE_BYTES).take(COPIES as usize).map(decode_page);
        let best = copies().max_by_key(|found| match found {
            Found::Sound(header) => (4, header.sequence),
            Found::Damaged => (3, 0),
            Found::OtherVersion(_) => (2, 0),
            Found::Foreign => (1, 0),
            Found::Blank => (0, 0),
        });
        match best {
            // A damaged page says nothing of its version, nor is it another program's for sure: the other page decides.
            Some(Found::Damaged) => {
                copies().find(|found| matches!(found, Found::OtherVersion(_))).unwrap_or(Found::Damaged)
            }
            Some(found) => found,
            None => Found::Blank,
        }
    }
}

fn decode_page(page: &[u8]) -> Found {
    if page.iter().all(|byte| *byte == 0) {
        return Found::Blank;
    }
    let mut fields = Reader(page);
    if fields.array() != Ok(*MAGIC) {
        return Found::Foreign;
    }
    if page.len() != PAGE_BYTES {
        return Found::Damaged;
    }
    match (fields.u32(), unseal(page)) {
        (Ok(FORMAT_VERSION), Ok(body)) => decode_body(Reader(&body[12..])).unwrap_or(Found::Damaged),
        // The page is whole by our rule, or its version is all that can be said.
        (Ok(version), _) if version != FORMAT_VERSION => Found::OtherVersion(version),
        _ => Found::Damaged,
    }
}

fn decode_body(mut fields: Reader<'_>) -> Option<Found> {
    let number = fields.u32().ok()?;
    let geometry = Geometry::new(fields.u64().ok()?)?;
    let (sequence, nonce, log) = (fields.u64().ok()?, fields.array().ok()?, fields.array().ok()?);
    // Sequences are the upper half of versions.
    (sequence <= u64::from(u32::MAX)).then_some(Found::Sound(Header { geometry, number, sequence, nonce, log }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = PAGE_BYTES * COPIES as usize;

    fn header(sequence: u64) -> Header {
        Header { geometry: Geometry::new(1 << 20).unwrap(), number: 7, sequence, nonce: [3; 16], log: [9; 16] }
    }

    fn encoded(sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; LEN];
        header(sequence).encode(&mut bytes);
        bytes
    }

    #[test]
    fn one_damaged_page_loses_nothing() {
        let sound = encoded(5);
        assert_eq!(Header::decode(&sound), Found::Sound(header(5)));
        for at in (0..LEN).step_by(7) {
            let mut bytes = sound.clone();
            bytes[at] ^= 4;
            assert_eq!(Header::decode(&bytes), Found::Sound(header(5)), "{at}");
        }
    }

    #[test]
    fn two_damaged_pages_are_still_ours() {
        for at in 0..100 {
            let mut bytes = encoded(5);
            bytes[at] ^= 1;
            bytes[PAGE_BYTES + 40] ^= 1;
            assert!(matches!(Header::decode(&bytes), Found::Damaged | Found::OtherVersion(_)), "{at}");
        }
    }

    #[test]
    fn a_write_cut_between_the_copies_leaves_the_later_life() {
        let bytes = [&encoded(6)[..PAGE_BYTES], &encoded(5)[PAGE_BYTES..]].concat();
        assert_eq!(Header::decode(&bytes), Found::Sound(header(6)));
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        assert_eq!(Header::decode(&[0; LEN]), Found::Blank);
        assert_eq!(Header::decode(&[]), Found::Blank);
        assert_eq!(Header::decode(&[b'x'; LEN]), Found::Foreign);
        assert_eq!(Header::decode(&encoded(1)[..100]), Found::Damaged);
        let mut other = encoded(1);
        other[8] = 2;
        other[PAGE_BYTES + 8] = 2;
        assert_eq!(Header::decode(&other), Found::OtherVersion(2));
    }
}
