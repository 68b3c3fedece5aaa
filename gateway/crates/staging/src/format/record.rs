//! One record: a header of whole pages that says everything of a block, then the block.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{Attributes, BlockKey, BlockRecord, Crc64, Crc64Hasher, Digest, ObjectInfo};
use crc_fast::{CrcAlgorithm, Digest as Digest64};
use serde::{Deserialize, Serialize};

use super::fields::{Reader, seal, unseal, write};
use super::footer::Entry;
use super::{Flaw, Nonce, PAGE_BYTES, pages_of};
use crate::types::Version;

const MAGIC: &[u8; 8] = b"BGREC1\0\0";
const KIND_BLOCK: u8 = 1;
const PENDING: u8 = 1;

/// Where nonce and version are, and where what has a fixed place ends.
const NONCE_AT: usize = 8;
const VERSION_AT: usize = 24;
const FIXED_BYTES: usize = 96;

/// Most pages of a header: a key, user metadata and tags at their longest, and more.
pub(crate) const HEADER_PAGES_MAX: u8 = 32;

/// Shortest piece of a block with a checksum of its own, and most such pieces.
const CHUNK_BYTES_MIN: u64 = 64 << 10;
const CHUNKS_MAX: u64 = 64;

/// Length of the pieces of a block that have checksums of their own: a range is checked without the rest.
pub(crate) const fn chunk_bytes(len_bytes: u64) -> u64 {
    let bytes = len_bytes.div_ceil(CHUNKS_MAX).next_power_of_two();
    if bytes < CHUNK_BYTES_MIN { CHUNK_BYTES_MIN } else { bytes }
}

/// The checksums of a block's beginnings, each a piece longer than the one before: the last is the whole block's, and
/// any two neighbours check the piece between them.
pub(crate) fn checksums(bytes: &[u8]) -> Vec<Crc64> {
    let mut hasher = Crc64Hasher::default();
    let next = |piece: &[u8]| {
        hasher.update(piece);
        hasher.finish()
    };
    // A block is in memory: its length is a usize.
    bytes.chunks(chunk_bytes(bytes.len() as u64) as usize).map(next).collect()
}

/// What a record says of its block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) key: BlockKey,
    pub(crate) info: Arc<ObjectInfo>,
    pub(crate) tags: Vec<(String, String)>,
    /// The upstream did not have it when it was written.
    pub(crate) pending: bool,
    pub(crate) len_bytes: u32,
    pub(crate) crc64: Crc64,
    /// As [`checksums`] gives them.
    pub(crate) chunks: Vec<Crc64>,
}

/// What else its header says: which record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) nonce: Nonce,
    pub(crate) version: Version,
    pub(crate) header_pages: u8,
}

impl Record {
    /// As a footer lists it.
    pub(crate) fn entry(&self, page: u32, header_pages: u8) -> Entry {
        Entry {
            digest: self.key.digest(),
            page,
            header_pages,
            len_bytes: self.len_bytes,
            crc64: self.crc64,
            fingerprint: blockgate_block::fingerprint_hash(self.info.fingerprint()),
            expires_at_ms: self.info.expires_at().map_or(0, milliseconds),
            pending: self.pending,
        }
    }

    /// The header, in whole pages, still without its place. None where it is too long for a record.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let meta = serde_json::to_vec(&Meta::of(&self.info, &self.tags)).ok()?;
        let chunks: Vec<u8> = self.chunks.iter().flat_map(|crc| crc.to_u64().to_le_bytes()).collect();
        let (bucket, key) = (self.key.bucket().as_bytes(), self.key.key().as_bytes());
        let len = FIXED_BYTES + chunks.len() + bucket.len() + key.len() + meta.len() + 8;
        let header_pages = u8::try_from(pages_of(len as u64)).ok().filter(|pages| *pages <= HEADER_PAGES_MAX)?;
        let entry = self.entry(0, header_pages);
        let mut out = vec![0; usize::from(header_pages) * PAGE_BYTES];
        write(
            &mut out,
            &[
                MAGIC,
                &Nonce::default(),
                &0u64.to_le_bytes(),
                &u16::from(header_pages).to_le_bytes(),
                &[KIND_BLOCK, if self.pending { PENDING } else { 0 }],
                &(self.chunks.len() as u32).to_le_bytes(),
                &u64::from(self.len_bytes).to_le_bytes(),
                &self.crc64.to_u64().to_le_bytes(),
                &entry.fingerprint.to_le_bytes(),
                &entry.expires_at_ms.to_le_bytes(),
                &entry.digest.0.to_le_bytes(),
                &u16::try_from(bucket.len()).ok()?.to_le_bytes(),
                &u16::try_from(key.len()).ok()?.to_le_bytes(),
                &u32::try_from(meta.len()).ok()?.to_le_bytes(),
                &chunks,
                bucket,
                key,
                &meta,
            ],
        );
        Some(out)
    }

    /// Reads a header; bytes beyond it do not matter.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Place, Self), Flaw> {
        let header_pages = header_pages(bytes).ok_or(Flaw::Foreign)?;
        let bytes = bytes.get(..usize::from(header_pages) * PAGE_BYTES).ok_or(Flaw::Bounds)?;
        let mut fields = Reader(&unseal(bytes)?[NONCE_AT..]);
        let (nonce, version) = (fields.array()?, Version(fields.u64()?));
        let (_, kind, flags, chunks) = (fields.u16()?, fields.u8()?, fields.u8()?, u64::from(fields.u32()?));
        let (len_bytes, crc64) = (fields.u64()?, Crc64::from_u64(fields.u64()?));
        let (_fingerprint, _expires_at_ms, digest) = (fields.u64()?, fields.u64()?, Digest(fields.u128()?));
        let (bucket, key, meta) = (fields.u16()?, fields.u16()?, fields.u32()?);
        if kind != KIND_BLOCK || len_bytes == 0 || chunks != len_bytes.div_ceil(chunk_bytes(len_bytes)) {
            return Err(Flaw::Bounds);
        }
        let chunks = (0..chunks).map(|_| fields.u64().map(Crc64::from_u64)).collect::<Result<Vec<_>, _>>()?;
        let (bucket, key) = (fields.text(usize::from(bucket))?, fields.text(usize::from(key))?);
        let key = BlockKey::new(bucket, key).map_err(|_| Flaw::Bounds)?;
        let meta: Meta = serde_json::from_slice(fields.bytes(meta as usize)?).map_err(|_| Flaw::Bounds)?;
        let (info, tags) = meta.parts(len_bytes).ok_or(Flaw::Bounds)?;
        let record = Self {
            key,
            info: Arc::new(info),
            tags,
            pending: flags & PENDING != 0,
            len_bytes: u32::try_from(len_bytes).map_err(|_| Flaw::Bounds)?,
            crc64,
            chunks,
        };
        if record.key.digest() != digest || record.info.crc64() != Some(crc64) || record.chunks.last() != Some(&crc64) {
            return Err(Flaw::Bounds);
        }
        Ok((Place { nonce, version, header_pages }, record))
    }

    /// Whether these are the block's bytes, from `start` on: whole pieces, or up to the block's end.
    pub(crate) fn is_sound(&self, start: u64, bytes: &[u8]) -> bool {
        let step = chunk_bytes(u64::from(self.len_bytes));
        let Some(first) = usize::try_from(start / step).ok().filter(|_| start.is_multiple_of(step)) else {
            return false;
        };
        let expected = self.chunks.get(first..).unwrap_or_default();
        let pieces = bytes.chunks(step as usize);
        if pieces.len() > expected.len() {
            return false;
        }
        let before = first.checked_sub(1).and_then(|before| self.chunks.get(before)).copied();
        let mut digest = digest_after(before.unwrap_or(Crc64::of(b"")));
        pieces.zip(expected).all(|(piece, crc)| {
            digest.update(piece);
            digest.finalize() == crc.to_u64()
        })
    }
}

/// Goes on after bytes that have this checksum.
fn digest_after(crc: Crc64) -> Digest64 {
    // CRC64NVME inverts its state at the end.
    Digest64::new_with_init_state(CrcAlgorithm::Crc64Nvme, !crc.to_u64())
}

/// How many pages the header has that begins here, by its first page. None where none does.
pub(crate) fn header_pages(page: &[u8]) -> Option<u8> {
    let mut fields = Reader(page);
    (fields.array() == Ok(*MAGIC)).then_some(())?;
    fields.bytes(VERSION_AT).ok()?;
    let pages = u8::try_from(fields.u16().ok()?).ok()?;
    (1..=HEADER_PAGES_MAX).contains(&pages).then_some(pages)
}

/// Whether a header of this place may begin here, by its first page: cheap, and no proof.
pub(crate) fn may_begin(page: &[u8], nonce: Nonce, version: Version) -> bool {
    header_pages(page).is_some()
        && page.get(NONCE_AT..VERSION_AT) == Some(&nonce)
        && page.get(VERSION_AT..VERSION_AT + 8) == Some(&version.0.to_le_bytes())
}

/// Gives a header that was encoded its place, and seals it.
pub(crate) fn place(header: &mut [u8], nonce: Nonce, version: Version) {
    write(&mut header[NONCE_AT..], &[&nonce, &version.0.to_le_bytes()]);
    seal(header);
}

/// A description, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    etag: String,
    upstream_etag: String,
    /// Nanoseconds since 1970.
    last_modified_ns: u64,
    record: String,
    tag_count: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    parts_count: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    tags: Vec<(String, String)>,
    /// Standard headers by their names.
    #[serde(skip_serializing_if = "Texts::is_empty", default)]
    attributes: Texts,
    #[serde(skip_serializing_if = "Texts::is_empty", default)]
    user: Texts,
}

type Texts = std::collections::BTreeMap<String, String>;

impl Meta {
    fn of(info: &ObjectInfo, tags: &[(String, String)]) -> Self {
        let mut attributes = info.attributes.clone();
        let standard = standard(&mut attributes).into_iter();
        Self {
            etag: info.etag.clone(),
            upstream_etag: info.upstream_etag.clone(),
            last_modified_ns: nanoseconds(info.last_modified),
            record: info.record.map_or_else(String::new, |record| record.to_string()),
            tag_count: info.tag_count,
            parts_count: info.parts_count,
            tags: tags.to_vec(),
            attributes: standard.filter_map(|(name, value)| Some((name.to_owned(), value.take()?))).collect(),
            user: info.attributes.user.clone(),
        }
    }

    /// None where it is no description of a block of this length.
    fn parts(mut self, len_bytes: u64) -> Option<(ObjectInfo, Vec<(String, String)>)> {
        let record = BlockRecord::parse(&self.record).ok().filter(|record| record.len_bytes == len_bytes)?;
        let mut attributes = Attributes { user: self.user, ..Attributes::default() };
        for (name, value) in standard(&mut attributes) {
            *value = self.attributes.remove(name);
        }
        let info = ObjectInfo {
            size_bytes: len_bytes,
            etag: self.etag,
            upstream_etag: self.upstream_etag,
            last_modified: UNIX_EPOCH.checked_add(Duration::from_nanos(self.last_modified_ns))?,
            attributes,
            record: Some(record),
            tag_count: self.tag_count,
            parts_count: self.parts_count,
        };
        Some((info, self.tags))
    }
}

fn standard(attributes: &mut Attributes) -> [(&'static str, &mut Option<String>); 6] {
    [
        ("content-type", &mut attributes.content_type),
        ("content-encoding", &mut attributes.content_encoding),
        ("content-language", &mut attributes.content_language),
        ("content-disposition", &mut attributes.content_disposition),
        ("cache-control", &mut attributes.cache_control),
        ("expires", &mut attributes.expires),
    ]
}

fn nanoseconds(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
