//! The end of a full segment: what a start needs to know of each record, so that it reads no record.
//!
//! Entries lie in whole pages before the last one; the last page says where they begin, and vouches for them.

use blockgate_block::{Crc64, Digest};

use super::fields::{Reader, seal, unseal, write};
use super::{Flaw, Geometry, Nonce, PAGE_BYTES, pages_of};
use crate::types::Summary;

const MAGIC: &[u8; 8] = b"BGFOOT1\0";
pub(super) const ENTRY_BYTES: usize = 52;
/// Where the last page says what the checksum of all entries is.
pub(super) const ENTRIES_CRC_AT: usize = 28;
const PENDING: u8 = 1;

/// One record of the log, as far as tables and the index need to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) digest: Digest,
    /// Where it begins.
    pub(crate) page: u32,
    /// Pages before the block.
    pub(crate) header_pages: u8,
    /// Length of the block.
    pub(crate) len_bytes: u32,
    pub(crate) crc64: Crc64,
    pub(crate) fingerprint: u64,
    pub(crate) expires_at_ms: u64,
    /// The upstream did not have it when it was written.
    pub(crate) pending: bool,
}

impl Entry {
    /// Pages of the whole record.
    pub(crate) fn record_pages(&self) -> u64 {
        u64::from(self.header_pages) + pages_of(u64::from(self.len_bytes))
    }

    /// What an index wants to know.
    pub(crate) fn summary(&self, pending: bool, amended: bool) -> Summary {
        Summary {
            len_bytes: u64::from(self.len_bytes),
            crc64: self.crc64,
            expires_at_ms: self.expires_at_ms,
            fingerprint: self.fingerprint,
            pending,
            amended,
        }
    }
}

/// Pages that a footer of `records` takes.
pub(crate) const fn pages_of_footer(records: u64) -> u64 {
    pages_of(records * ENTRY_BYTES as u64) + 1
}

/// The last page of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) records: u32,
    entries_crc64: u64,
}

impl Trailer {
    /// Reads the last page.
    pub(crate) fn decode(geometry: Geometry, nonce: Nonce, page: &[u8]) -> Result<Self, Flaw> {
        let mut fields = Reader(page);
        if fields.array() != Ok(*MAGIC) || fields.array() != Ok(nonce) {
            return Err(Flaw::Foreign);
        }
        unseal(page)?;
        let (records, entries_crc64) = (fields.u32()?, fields.u64()?);
        let is_fit = geometry.fits(geometry.first_record_page(), 0, u64::from(records));
        if is_fit { Ok(Self { records, entries_crc64 }) } else { Err(Flaw::Bounds) }
    }

    /// Where entries begin.
    pub(crate) fn first_page(self, geometry: Geometry) -> u32 {
        geometry.pages() - pages_of_footer(u64::from(self.records)) as u32
    }

    /// Pages of entries, from [`Self::first_page`] up to the last page.
    pub(crate) fn entry_pages(self) -> u32 {
        pages_of_footer(u64::from(self.records)) as u32 - 1
    }

    /// Reads the entries. Each lies where records may, after the one before.
    pub(crate) fn entries(self, geometry: Geometry, bytes: &[u8]) -> Result<Vec<Entry>, Flaw> {
        let bytes = bytes.get(..self.records as usize * ENTRY_BYTES).ok_or(Flaw::Bounds)?;
        if Crc64::of(bytes).to_u64() != self.entries_crc64 {
            return Err(Flaw::Checksum);
        }
        let mut next = u64::from(geometry.first_record_page());
        let end = u64::from(self.first_page(geometry));
        let entry = |bytes: &[u8]| {
            let entry = decode_entry(Reader(bytes))?;
            let start = u64::from(entry.page);
            if start < next || entry.header_pages == 0 || entry.len_bytes == 0 || start + entry.record_pages() > end {
                return Err(Flaw::Bounds);
            }
            next = start + entry.record_pages();
            Ok(entry)
        };
        bytes.chunks_exact(ENTRY_BYTES).map(entry).collect()
    }
}

/// The footer, pages of entries and the last page, and the page where it belongs.
pub(crate) fn encode(geometry: Geometry, nonce: Nonce, entries: &[Entry]) -> (u32, Vec<u8>) {
    let mut out = vec![0; pages_of_footer(entries.len() as u64) as usize * PAGE_BYTES];
    for (entry, out) in entries.iter().zip(out.chunks_exact_mut(ENTRY_BYTES)) {
        encode_entry(entry, out);
    }
    let entries_crc64 = Crc64::of(&out[..entries.len() * ENTRY_BYTES]).to_u64();
    // A segment has fewer pages, and so fewer records, than fit 32 bits.
    let trailer = Trailer { records: entries.len() as u32, entries_crc64 };
    let last = out.len() - PAGE_BYTES;
    let page = &mut out[last..];
    write(page, &[MAGIC, &nonce, &trailer.records.to_le_bytes(), &entries_crc64.to_le_bytes()]);
    seal(page);
    (trailer.first_page(geometry), out)
}

fn encode_entry(entry: &Entry, out: &mut [u8]) {
    write(
        out,
        &[
            &entry.digest.0.to_le_bytes(),
            &entry.page.to_le_bytes(),
            &entry.len_bytes.to_le_bytes(),
            &[entry.header_pages, if entry.pending { PENDING } else { 0 }, 0, 0],
            &entry.crc64.to_u64().to_le_bytes(),
            &entry.fingerprint.to_le_bytes(),
            &entry.expires_at_ms.to_le_bytes(),
        ],
    );
}

fn decode_entry(mut fields: Reader<'_>) -> Result<Entry, Flaw> {
    let (digest, page, len_bytes) = (Digest(fields.u128()?), fields.u32()?, fields.u32()?);
    let [header_pages, flags, _, _] = fields.array()?;
    Ok(Entry {
        digest,
        page,
        header_pages,
        len_bytes,
        crc64: Crc64::from_u64(fields.u64()?),
        fingerprint: fields.u64()?,
        expires_at_ms: fields.u64()?,
        pending: flags & PENDING != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONCE: Nonce = [5; 16];

    fn geometry() -> Geometry {
        Geometry::new(1 << 20).unwrap()
    }

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let one = (any::<u128>(), 1u8..3, 1u32..9000, any::<u64>(), any::<(u64, u64, bool)>());
        proptest::collection::vec(one, 0..60).prop_map(|raw| {
            let mut page = geometry().first_record_page();
            let entry = |(digest, header_pages, len_bytes, crc, (fingerprint, expires_at_ms, pending))| {
                let crc64 = Crc64::from_u64(crc);
                let digest = Digest(digest);
                let entry = Entry { digest, page, header_pages, len_bytes, crc64, fingerprint, expires_at_ms, pending };
                page += entry.record_pages() as u32;
                entry
            };
            raw.into_iter().map(entry).collect()
        })
    }

    fn read(nonce: Nonce, page: u32, bytes: &[u8]) -> Result<Vec<Entry>, Flaw> {
        let (body, last) = bytes.split_at(bytes.len() - PAGE_BYTES);
        let trailer = Trailer::decode(geometry(), nonce, last)?;
        assert_eq!(trailer.first_page(geometry()), page);
        trailer.entries(geometry(), &body[..trailer.entry_pages() as usize * PAGE_BYTES])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
        #[test]
        fn roundtrip_and_damage(entries in entries(), at in any::<proptest::sample::Index>(), bit in 0u32..8) {
            let (page, mut bytes) = encode(geometry(), NONCE, &entries);
            prop_assert_eq!(read(NONCE, page, &bytes), Ok(entries.clone()));
            prop_assert_eq!(read([6; 16], page, &bytes), Err(Flaw::Foreign));

            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let is_padding = (entries.len() * ENTRY_BYTES..bytes.len() - PAGE_BYTES).contains(&at);
            prop_assert_eq!(read(NONCE, page, &bytes).is_ok(), is_padding);
        }
    }

    #[test]
    fn entries_stay_within_the_segment() {
        let sound = Entry {
            digest: Digest(1),
            page: geometry().first_record_page(),
            header_pages: 1,
            len_bytes: 1,
            crc64: Crc64::of(b""),
            fingerprint: 0,
            expires_at_ms: 0,
            pending: false,
        };
        for entry in [
            Entry { page: 0, ..sound },
            Entry { page: geometry().pages() - 3, ..sound },
            Entry { header_pages: 0, ..sound },
            Entry { len_bytes: 0, ..sound },
            Entry { len_bytes: u32::MAX, ..sound },
        ] {
            let (page, bytes) = encode(geometry(), NONCE, &[entry]);
            assert_eq!(read(NONCE, page, &bytes), Err(Flaw::Bounds), "{entry:?}");
        }
        let (page, bytes) = encode(geometry(), NONCE, &[sound, sound]);
        assert_eq!(read(NONCE, page, &bytes), Err(Flaw::Bounds), "two records in one place");
    }
}
