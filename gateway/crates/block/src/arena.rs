//! stub
#![allow(missing_docs, clippy::todo)]
use std::io;
use std::ops::Range;

use bytes::Bytes;

#[derive(Clone, Debug)]
pub struct Arena;
#[derive(Clone, Copy, Debug, Default)]
pub struct ArenaStats {
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub largest_free_bytes: u64,
}
impl Arena {
    pub fn new(_capacity_bytes: u64) -> io::Result<Self> {
        todo!()
    }
    /// A slot for exactly `len_bytes`, or none where no free run is long enough.
    pub fn allocate(&self, _len_bytes: u64) -> Option<BlockWriter> {
        todo!()
    }
    pub fn stats(&self) -> ArenaStats {
        todo!()
    }
    /// What a slot for `len_bytes` takes of the arena.
    pub fn slot_bytes(_len_bytes: u64) -> u64 {
        todo!()
    }
}
/// The only writer of a slot. Appended bytes are published to readers at once.
#[derive(Debug)]
pub struct BlockWriter;
impl BlockWriter {
    /// Panics never: bytes beyond the slot's length are refused.
    pub fn append(&mut self, _bytes: &[u8]) -> Result<(), SlotFull> {
        todo!()
    }
    pub fn len(&self) -> u64 {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn capacity(&self) -> u64 {
        todo!()
    }
    /// Reads what has been published while the writer goes on.
    pub fn reader(&self) -> BlockReader {
        todo!()
    }
    /// The block, once it is whole (`len == capacity`); otherwise the writer back.
    pub fn finish(self) -> Result<BlockBuf, Self> {
        todo!()
    }
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotFull;
#[derive(Clone, Debug)]
pub struct BlockReader;
impl BlockReader {
    pub fn published_bytes(&self) -> u64 {
        todo!()
    }
    /// A view of published bytes, zero-copy. None where the range is not yet all published.
    pub fn slice(&self, _range: Range<u64>) -> Option<Bytes> {
        todo!()
    }
}
/// A whole block in the arena; the slot is free again when the last handle (or `Bytes` made of it) goes.
#[derive(Clone, Debug)]
pub struct BlockBuf;
impl BlockBuf {
    pub fn len(&self) -> u64 {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn as_slice(&self) -> &[u8] {
        todo!()
    }
    pub fn slice(&self, _range: Range<u64>) -> Option<Bytes> {
        todo!()
    }
    pub fn to_bytes(&self) -> Bytes {
        todo!()
    }
}
