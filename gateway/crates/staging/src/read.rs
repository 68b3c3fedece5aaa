//! Reading records: nothing leaves that was not checked.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use blockgate_block::{BlockBuf, BlockKey, BlockWriter};
use bytes::Bytes;

use crate::blocks::Pinned;
use crate::format::record::{Record, chunk_bytes};
use crate::format::{PAGE_BYTES, pages_of};
use crate::io::{AlignedBuf, Filled, Target};
use crate::life::offset;
use crate::log::Log;
use crate::types::{Entry, ReadError};

/// So many errors one after another, and the disk is not read any more until it was tried again.
const ERRORS_MAX: u32 = 8;

impl Log {
    /// What a block is.
    pub(crate) async fn describe(&self, key: &BlockKey) -> Result<Option<Entry>, ReadError> {
        let Some(found) = self.blocks.find(key.digest()) else { return Ok(None) };
        let header = self.read_pages(&found, key, 0, u64::from(found.place.header_pages)).await?;
        let record = self.record(&found, key, &header)?;
        Ok(record.map(|record| entry(&found, record)))
    }

    /// A block, in a slot that `allocate` gives.
    pub(crate) async fn read(
        &self,
        key: &BlockKey,
        allocate: impl FnOnce(u64) -> Option<BlockWriter> + Send,
    ) -> Result<Option<(Entry, BlockBuf)>, ReadError> {
        let Some(found) = self.blocks.read(key.digest()) else { return Ok(None) };
        let len_bytes = u64::from(found.place.len_bytes);
        let slot = allocate(len_bytes).and_then(|slot| slot.into_target().ok());
        let slot = slot.filter(|slot| slot.len() == len_bytes).ok_or(ReadError::NoRoom)?;
        let header = AlignedBuf::zeroed(usize::from(found.place.header_pages) * PAGE_BYTES);
        let targets = vec![Target::Pages(header), Target::Slot(slot)];
        let filled = self.read_at(&found, key, 0, targets).await?;
        let Ok([Filled::Pages(header), Filled::Block(block)]) = <[Filled; 2]>::try_from(filled) else {
            return Err(ReadError::NoRoom);
        };
        let Some(record) = self.record(&found, key, &header)? else { return Ok(None) };
        if !record.is_sound(0, block.as_slice()) {
            drop(block);
            return Err(self.damaged(&found, key).await);
        }
        Ok(Some((entry(&found, record), block)))
    }

    /// Part of a block. Only the pieces are read that it lies in.
    pub(crate) async fn read_range(
        &self,
        key: &BlockKey,
        range: Range<u64>,
    ) -> Result<Option<(Entry, Bytes)>, ReadError> {
        let Some(found) = self.blocks.read(key.digest()) else { return Ok(None) };
        let len_bytes = u64::from(found.place.len_bytes);
        let range = range.start.min(len_bytes)..range.end.clamp(range.start.min(len_bytes), len_bytes);
        let step = chunk_bytes(len_bytes);
        let pieces = range.start / step * step..range.end.div_ceil(step).saturating_mul(step).min(len_bytes);
        let header_pages = u64::from(found.place.header_pages);
        // A piece begins at a page.
        let first_page = header_pages + pieces.start / PAGE_BYTES as u64;
        let (header, bytes) = futures::try_join!(
            self.read_pages(&found, key, 0, header_pages),
            self.read_pages(&found, key, first_page, pages_of(pieces.end - pieces.start)),
        )?;
        let Some(record) = self.record(&found, key, &header)? else { return Ok(None) };
        let bytes = Bytes::from_owner(bytes).slice(..(pieces.end - pieces.start) as usize);
        if !record.is_sound(pieces.start, &bytes) {
            return Err(self.damaged(&found, key).await);
        }
        let start = (range.start - pieces.start) as usize;
        Ok(Some((entry(&found, record), bytes.slice(start..start + (range.end - range.start) as usize))))
    }

    /// Reads pages of a record, counted from its start.
    async fn read_pages(&self, found: &Pinned, key: &BlockKey, page: u64, pages: u64) -> Result<AlignedBuf, ReadError> {
        let buffer = AlignedBuf::zeroed(pages as usize * PAGE_BYTES);
        if pages == 0 {
            return Ok(buffer);
        }
        let filled = self.read_at(found, key, page, vec![Target::Pages(buffer)]).await?;
        match filled.into_iter().next() {
            Some(Filled::Pages(pages)) => Ok(pages),
            _ => Err(ReadError::NoRoom),
        }
    }

    async fn read_at(
        &self,
        found: &Pinned,
        key: &BlockKey,
        page: u64,
        targets: Vec<Target>,
    ) -> Result<Vec<Filled>, ReadError> {
        if self.reads.are_off.load(Ordering::Acquire) {
            return Err(ReadError::Io("the disk can't be read".to_owned()));
        }
        let at = offset(found.place.page) + page * PAGE_BYTES as u64;
        let read = self.io.read(&found.life.file, at, targets).await;
        match read {
            Ok(filled) => {
                self.reads.errors_in_a_row.store(0, Ordering::Relaxed);
                Ok(filled)
            }
            // The file was cut: not the disk's fault.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.drop_damaged(found, key);
                Err(ReadError::Corrupt)
            }
            Err(error) => Err(self.cannot_read(&error)),
        }
    }

    fn cannot_read(&self, error: &io::Error) -> ReadError {
        self.counters.io_errors.fetch_add(1, Ordering::Relaxed);
        let errors = self.reads.errors_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if errors >= ERRORS_MAX && !self.reads.are_off.swap(true, Ordering::AcqRel) {
            let path = self.settings.path.display();
            tracing::warn!(%path, %error, "staging is not read any more: {errors} errors in a row");
            self.turn_off(format!("reading: {error}"));
        }
        ReadError::Io(error.to_string())
    }

    /// Reads a header. None where it is another block's, whose digest is the same; an error, and the record is gone,
    /// where it is not what was written there.
    fn record(&self, found: &Pinned, key: &BlockKey, header: &[u8]) -> Result<Option<Record>, ReadError> {
        match sound(found, header) {
            Some(record) => Ok((record.key == *key).then_some(record)),
            None => {
                self.drop_damaged(found, key);
                Err(ReadError::Corrupt)
            }
        }
    }

    /// What is to be said of a block that was read and is not sound. One that nobody else has gets a second chance: the
    /// disk may have it right, and only this read was wrong.
    async fn damaged(&self, found: &Pinned, key: &BlockKey) -> ReadError {
        if found.place.is_pending() && self.is_sound(found, key).await {
            return ReadError::Io("what was read was not what is on the disk".to_owned());
        }
        self.drop_damaged(found, key);
        ReadError::Corrupt
    }

    async fn is_sound(&self, found: &Pinned, key: &BlockKey) -> bool {
        let header_pages = u64::from(found.place.header_pages);
        let pages = header_pages + pages_of(u64::from(found.place.len_bytes));
        let Ok(bytes) = self.read_pages(found, key, 0, pages).await else { return false };
        let (header, payload) = bytes.split_at(header_pages as usize * PAGE_BYTES);
        sound(found, header).is_some_and(|record| record.is_sound(0, &payload[..record.len_bytes as usize]))
    }

    pub(crate) fn drop_damaged(&self, found: &Pinned, key: &BlockKey) {
        self.counters.corrupt.fetch_add(1, Ordering::Relaxed);
        let (segment, page) = (found.life.number(), found.place.page);
        if found.place.is_pending() {
            tracing::error!(%key, segment, page, "a staged block is damaged, and the upstream does not have it: it is lost");
        } else {
            tracing::warn!(%key, segment, page, "a staged block is damaged and was dropped");
        }
        self.blocks.remove(key.digest(), segment, page, true);
    }
}

/// The record that was written there.
pub(crate) fn sound(found: &Pinned, header: &[u8]) -> Option<Record> {
    let (place, record) = Record::decode(header).ok()?;
    let is_it = place.nonce == found.life.header.nonce
        && place.version == found.life.version(found.place.page)
        && record.len_bytes == found.place.len_bytes;
    is_it.then_some(record)
}

fn entry(found: &Pinned, record: Record) -> Entry {
    Entry { staged: found.staged(), info: Arc::clone(&record.info), tags: record.tags }
}
