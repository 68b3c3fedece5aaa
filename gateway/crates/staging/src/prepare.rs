//! Records that have no place yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::footer::Entry;
use crate::format::record::{Record, checksums};
use crate::format::{Geometry, PAGE_BYTES};
use crate::io::Source;
use crate::life::aligned;
use crate::offer::Withdrawn;
use crate::types::{Bytes4k, NewBlock, PutError};

/// A block with its checksums, ready to take any place.
pub(crate) struct Prepared {
    pub(crate) header: Vec<u8>,
    /// Its page is not known yet.
    pub(crate) entry: Entry,
    pub(crate) payload: Source,
    /// Set where it can be withdrawn until it is appended.
    pub(crate) withdrawn: Option<Withdrawn>,
}

impl Prepared {
    /// # Errors
    /// [`PutError::Unfit`] where no record can be made of it, or none that fits an empty segment.
    pub(crate) fn new(block: &NewBlock, segment: Geometry) -> Result<Self, PutError> {
        let bytes: &[u8] = match &block.bytes {
            Bytes4k::Arena(block) => block.as_slice(),
            Bytes4k::Heap(bytes) => bytes,
        };
        let unfit = || PutError::Unfit(bytes.len() as u64);
        let len_bytes = u32::try_from(bytes.len()).ok().filter(|len| *len > 0).ok_or_else(unfit)?;
        let described =
            block.info.record.filter(|record| record.len_bytes == u64::from(len_bytes)).ok_or_else(unfit)?;
        let chunks = checksums(bytes);
        if chunks.last() != Some(&described.crc64) {
            tracing::error!(key = %block.key, "a block was not staged: its bytes are not those of its checksum");
            return Err(unfit());
        }
        let payload = match &block.bytes {
            Bytes4k::Arena(block) => Source::Block(block.clone()),
            Bytes4k::Heap(bytes) => Source::Pages(Arc::new(aligned(bytes))),
        };
        let record = Record {
            key: block.key.clone(),
            info: Arc::clone(&block.info),
            tags: block.tags.clone(),
            pending: block.pending,
            len_bytes,
            crc64: described.crc64,
            chunks,
        };
        Self::of(&record, payload, segment).ok_or_else(unfit)
    }

    /// Of a record whose payload is known to be its own. None where it doesn't fit.
    pub(crate) fn of(record: &Record, payload: Source, segment: Geometry) -> Option<Self> {
        let header = record.encode()?;
        let entry = record.entry(0, u8::try_from(header.len() / PAGE_BYTES).ok()?);
        let fits = segment.fits(segment.first_record_page(), entry.record_pages(), 1);
        fits.then_some(Self { header, entry, payload, withdrawn: None })
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        self.withdrawn.as_ref().is_some_and(|withdrawn| withdrawn.load(Ordering::Acquire))
    }

    /// What it takes of the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.entry.record_pages() * PAGE_BYTES as u64
    }
}
