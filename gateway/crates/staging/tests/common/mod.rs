//! What tests of the log share.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{Arena, Attributes, BlockKey, BlockRecord, Crc64, Digest, ObjectInfo};
use blockgate_staging::{
    Bytes4k, Engine, Faults, Io, NewBlock, OpenError, Operation, PendingBlock, PutError, Settings, Staging, Summary,
    Version,
};
use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes of a segment in most tests: room for some dozens of small blocks.
pub(crate) const SEGMENT: u64 = 256 << 10;

pub(crate) fn settings(path: &Path, segments: u64) -> Settings {
    Settings {
        path: path.to_owned(),
        capacity_bytes: segments * SEGMENT,
        segment_bytes: SEGMENT,
        engine: Engine::Auto,
        daily_write_bytes: None,
        pending_bytes_max: u64::MAX,
        probe_every: Duration::from_millis(10),
    }
}

/// A log with everything that was said of it.
pub(crate) struct Opened {
    pub(crate) staging: Arc<Staging>,
    pub(crate) pending: Vec<PendingBlock>,
    /// What an index would say is there.
    pub(crate) there: Arc<Mutex<BTreeMap<Digest, bool>>>,
    pub(crate) found: BTreeMap<Digest, Summary>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) arena: Arena,
}

/// Opens a log; one that was dropped a moment ago may still be ending what it did.
pub(crate) async fn open(settings: &Settings) -> Opened {
    for _ in 0..1000 {
        match try_open(settings) {
            Err(OpenError::InUse(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Ok(opened) => return opened,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the log stays in use");
}

/// Opens a log whose disk fails from the first operation of a kind on.
pub(crate) async fn open_failing(settings: &Settings, operation: Operation, errno: i32) -> Opened {
    loop {
        let faults = Arc::new(Faults::default());
        faults.fail(operation, 0, u64::MAX, errno);
        match open_with(settings, faults) {
            Err(OpenError::InUse(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Ok(opened) => return opened,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn try_open(settings: &Settings) -> Result<Opened, OpenError> {
    open_with(settings, Arc::new(Faults::default()))
}

fn open_with(settings: &Settings, faults: Arc<Faults>) -> Result<Opened, OpenError> {
    let io = Io::start(settings.engine).unwrap().with_faults(Arc::clone(&faults));
    let there = Arc::new(Mutex::new(BTreeMap::new()));
    let told = Arc::clone(&there);
    let told = Arc::new(move |digest, is_there| {
        told.lock().insert(digest, is_there);
    });
    let mut found = BTreeMap::new();
    let clock = Arc::new(SystemTime::now);
    let opened = Staging::open_with(settings.clone(), io, clock, told, &mut |digest, summary| {
        assert!(found.insert(digest, summary).is_none(), "a block was found twice");
    });
    let (staging, pending) = opened?;
    Ok(Opened { staging, pending, there, found, faults, arena: Arena::new(8 << 20).unwrap() })
}

impl Opened {
    pub(crate) async fn put(&self, name: &str, bytes: &[u8], pending: bool) -> Result<Version, PutError> {
        self.staging.put(block(name, bytes, pending)).await
    }

    /// The bytes of a block, if it is there. Panics where reading fails.
    pub(crate) async fn get(&self, name: &str) -> Option<Vec<u8>> {
        let read = self.staging.read(&key(name), |len| self.arena.allocate(len)).await.unwrap();
        read.map(|(entry, bytes)| {
            assert_eq!(entry.info.record.unwrap().crc64, Crc64::of(bytes.as_slice()));
            bytes.as_slice().to_vec()
        })
    }

    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.staging.find(key(name).digest()).is_some()
    }
}

pub(crate) fn key(name: &str) -> BlockKey {
    BlockKey::new("bucket", name).unwrap()
}

/// Bytes that no other seed has.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

pub(crate) fn block(name: &str, bytes: &[u8], pending: bool) -> NewBlock {
    let record = BlockRecord {
        crc64: Crc64::of(bytes),
        len_bytes: bytes.len() as u64,
        stored_at: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        expires_at: None,
        group: None,
        tenant: None,
    };
    let info = ObjectInfo {
        size_bytes: record.len_bytes,
        etag: record.etag().to_string(),
        upstream_etag: String::new(),
        last_modified: record.stored_at,
        attributes: Attributes { content_type: Some("x/y".into()), ..Attributes::default() },
        record: Some(record),
        tag_count: 1,
        parts_count: None,
    };
    NewBlock {
        key: key(name),
        info: Arc::new(info),
        tags: vec![("a".into(), "b".into())],
        bytes: Bytes4k::Heap(Bytes::copy_from_slice(bytes)),
        pending,
    }
}

/// Copies a log as a crash would leave it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Waits for what a background task does.
pub(crate) async fn eventually(is_so: impl Fn() -> bool) {
    for _ in 0..4000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never became so");
}
