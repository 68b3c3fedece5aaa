//! `loadtest stage`: fills a staging log with small blocks, as a gateway would in hours.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{Attributes, BlockKey, BlockRecord, Crc64, ObjectInfo};
use blockgate_staging::{Bytes4k, Engine, NewBlock, Settings, Staging};
use bytes::Bytes;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};

use crate::Result;

/// The bucket that the blocks belong to.
const BUCKET: &str = "kv-staged";
/// Blocks on their way to the disk at one time.
const PUTS_AT_ONCE: usize = 4096;
/// The least that a record takes: a page of header, a page of bytes.
const RECORD_BYTES_MIN: u64 = 8 << 10;
const PAGE_BYTES: u64 = 4 << 10;
/// Segments beyond those that the blocks fill: a log keeps some free.
const SEGMENTS_SPARE: u64 = 4;

/// A log full of small blocks.
#[derive(Clone, Debug, Args)]
pub(crate) struct Log {
    /// Directory of the log.
    #[arg(long)]
    pub(crate) log: PathBuf,
    /// Blocks in it.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) blocks: u64,
    /// Bytes of each.
    #[arg(long, default_value_t = 1024)]
    pub(crate) bytes: usize,
    /// MiB of each segment.
    #[arg(long, default_value_t = 256)]
    pub(crate) segment_mib: u64,
}

impl Log {
    /// How a gateway has to be told to keep it: most bytes, and bytes of a segment.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let record = RECORD_BYTES_MIN.max(PAGE_BYTES + (self.bytes as u64).next_multiple_of(PAGE_BYTES));
        let segment = self.segment_mib << 20;
        // Marks and footer of a segment take less than a sixteenth of it.
        let full = (self.blocks * record).div_ceil(segment / 16 * 15);
        ((full + SEGMENTS_SPARE) * segment, segment)
    }
}

/// What to write.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    log: Log,
    /// Number of the first block to write.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many; all if absent.
    #[arg(long)]
    count: Option<u64>,
    /// Ends as a crash would: the last segment is not sealed.
    #[arg(long)]
    crash: bool,
}

/// Fills the log.
pub(crate) async fn stage(options: Options) -> Result<()> {
    let (capacity_bytes, segment_bytes) = options.log.sizes();
    let settings = Settings {
        path: options.log.log.clone(),
        capacity_bytes,
        segment_bytes,
        engine: Engine::Auto,
        daily_write_bytes: None,
        pending_bytes_max: capacity_bytes,
        probe_every: Duration::from_secs(5),
    };
    let (staging, _) = Staging::open(settings, Arc::new(SystemTime::now), Arc::new(|_, _| ()), &mut |_, _| ())?;
    let end = options.first + options.count.unwrap_or(options.log.blocks);
    stream::iter(options.first..end)
        .map(|number| {
            let (staging, block) = (staging.clone(), block(number, options.log.bytes));
            async move { staging.put(block?).await.map_err(Into::<Box<dyn std::error::Error + Send + Sync>>::into) }
        })
        .buffer_unordered(PUTS_AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    if !options.crash {
        staging.close().await;
    }
    println!("{} blocks are staged", staging.stats().blocks);
    Ok(())
}

/// A block that the upstream is said to have. No two are alike.
fn block(number: u64, len_bytes: usize) -> Result<NewBlock> {
    let bytes: Bytes = number.to_le_bytes().into_iter().cycle().take(len_bytes).collect();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().try_into()?;
    let stored_at = UNIX_EPOCH + Duration::from_millis(now_ms);
    let record = BlockRecord {
        crc64: Crc64::of(&bytes),
        len_bytes: bytes.len() as u64,
        stored_at,
        expires_at: None,
        group: None,
        tenant: None,
    };
    let info = ObjectInfo {
        size_bytes: record.len_bytes,
        etag: record.etag().to_string(),
        upstream_etag: record.etag().to_string(),
        last_modified: stored_at,
        attributes: Attributes::default(),
        record: Some(record),
        tag_count: 0,
        parts_count: None,
    };
    Ok(NewBlock {
        key: BlockKey::new(BUCKET, &format!("model/{number:016x}"))?,
        info: Arc::new(info),
        tags: Vec::new(),
        bytes: Bytes4k::Heap(bytes),
        pending: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_room_for_its_blocks() {
        let log = Log { log: PathBuf::new(), blocks: 1_000_000, bytes: 5000, segment_mib: 64 };
        let (capacity, segment) = log.sizes();
        assert_eq!(segment, 64 << 20);
        assert_eq!(capacity % segment, 0);
        assert!(capacity > 1_000_000 * (12 << 10) + 4 * segment);
    }
}
