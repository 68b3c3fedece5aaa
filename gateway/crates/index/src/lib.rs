//! stub
#![allow(missing_docs, clippy::todo, unused)]
use blockgate_block::{BlockKey, Crc64, Digest, Tier};
use std::time::{Duration, SystemTime};

/// What the index knows of a block. Times are milliseconds since 1970 by the upstream's clock, 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub len_bytes: u64,
    pub crc64: Crc64,
    pub expires_at_ms: u64,
    pub fingerprint: u64,
    pub in_memory: bool,
    pub in_staging: bool,
    pub in_upstream: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present(Record),
    /// known not to be there (within negative_ttl)
    Absent,
    Unknown,
}
#[derive(Debug)]
pub struct Index;
impl Index {
    pub fn new(entries_max: u64, negative_ttl: Duration) -> Self {
        todo!()
    }
    pub fn get(&self, digest: Digest, now: SystemTime) -> Presence {
        todo!()
    }
    pub fn insert(&self, digest: Digest, record: Record) {
        todo!()
    }
    pub fn remove(&self, digest: Digest) {
        todo!()
    }
    pub fn mark_absent(&self, digest: Digest, now: SystemTime) {
        todo!()
    }
    /// Called by the memory tier's eviction.
    pub fn left_memory(&self, digest: Digest) {
        todo!()
    }
    pub fn len(&self) -> u64 {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
