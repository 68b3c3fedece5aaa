//! What is worth keeping of a segment that is reclaimed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;

use crate::append::{Purpose, Refusal};
use crate::format::footer::{Entry, Trailer};
use crate::format::{PAGE_BYTES, record::Record};
use crate::io::{AlignedBuf, Filled, Source, Target};
use crate::life::{Life, aligned, offset};
use crate::log::Log;
use crate::prepare::Prepared;

/// Of each reclaimed segment, one part in so many is written again at most: no byte is written more than 1 1/3 times.
const KEEP_PART: u64 = 4;

/// Blocks that are written again at the same time.
const COPIES_MAX: usize = 8;

impl Log {
    /// The records of a sealed segment, by its footer.
    pub(crate) async fn records_of(&self, life: &Life) -> io::Result<Vec<Entry>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let geometry = life.geometry();
        let last = self.read_raw(life, geometry.pages() - 1, 1).await?;
        let trailer = Trailer::decode(geometry, life.header.nonce, &last).map_err(invalid)?;
        if trailer.records == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.read_raw(life, trailer.first_page(geometry), u64::from(trailer.entry_pages())).await?;
        trailer.entries(geometry, &bytes).map_err(invalid)
    }

    async fn read_raw(&self, life: &Life, page: u32, pages: u64) -> io::Result<AlignedBuf> {
        let buffer = AlignedBuf::zeroed(pages as usize * PAGE_BYTES);
        let filled = self.io.read(&life.file, offset(page), vec![Target::Pages(buffer)]).await;
        if filled.is_err() {
            self.counters.io_errors.fetch_add(1, Ordering::Relaxed);
        }
        match filled?.into_iter().next() {
            Some(Filled::Pages(pages)) => Ok(pages),
            _ => Err(io::Error::other("nothing was read")),
        }
    }

    /// Writes blocks again that were read since they were written, as long as their share lasts. Those that can't be
    /// kept are not: they are at the upstream.
    pub(crate) async fn keep_hot(self: &Arc<Self>, victim: &Life, entries: &[Entry]) {
        let now_ms = self.now_ms();
        let mut left = victim.geometry().segment_bytes() / KEEP_PART;
        let mut hot = Vec::new();
        for entry in entries {
            let is_valid = entry.expires_at_ms == 0 || entry.expires_at_ms > now_ms;
            let bytes = entry.record_pages() * PAGE_BYTES as u64;
            let is_wanted = is_valid && bytes <= left && self.blocks.is_hot(victim, entry);
            if is_wanted && self.budget.spend(entry.digest, bytes, self.opened.elapsed()) {
                left -= bytes;
                hot.push(*entry);
            }
        }
        let keep = async |entry: Entry| self.keep(victim, entry).await;
        // Each one says by itself what went wrong.
        futures::stream::iter(hot).map(keep).buffer_unordered(COPIES_MAX).for_each(|()| std::future::ready(())).await;
    }

    async fn keep(self: &Arc<Self>, victim: &Life, entry: Entry) {
        let Ok(bytes) = self.read_raw(victim, entry.page, entry.record_pages()).await else { return };
        let (header, payload) = bytes.split_at(usize::from(entry.header_pages) * PAGE_BYTES);
        let payload = payload.get(..entry.len_bytes as usize).unwrap_or_default();
        let record = Record::decode(header).ok().filter(|(place, record)| {
            place.nonce == victim.header.nonce
                && place.version == victim.version(entry.page)
                && record.len_bytes == entry.len_bytes
                && record.is_sound(0, payload)
        });
        let Some((_, mut record)) = record else {
            self.counters.corrupt.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(segment = victim.number(), page = entry.page, "a staged block is damaged and was not kept");
            return;
        };
        // It was uploaded since.
        record.pending = false;
        let source = Source::Pages(Arc::new(aligned(payload)));
        let Some(prepared) = Prepared::of(&record, source, self.geometry) else { return };
        let purpose = Purpose::Copy(victim.number(), entry.page);
        match self.append(&prepared, purpose, &mut None) {
            // Whatever became of it, it is over.
            Ok(answer) => drop(answer.await),
            Err(Refusal::NoRoom | Refusal::Superseded | Refusal::Put(_)) => {}
        }
    }
}
