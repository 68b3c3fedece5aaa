//! stub
#![allow(missing_docs, clippy::todo, unused, clippy::needless_pass_by_value)]
pub mod memory {
    use blockgate_block::{Arena, ArenaStats, BlockBuf, BlockKey, BlockWriter, Digest, ObjectInfo};
    use std::sync::Arc;
    /// A block held in memory.
    #[derive(Clone, Debug)]
    pub struct MemoryBlock {
        pub info: Arc<ObjectInfo>,
        pub bytes: BlockBuf,
    }
    #[derive(Clone, Copy, Debug, Default)]
    pub struct MemoryStats {
        pub arena: ArenaStats,
        pub blocks: u64,
        pub block_bytes: u64,
        pub evictions: u64,
    }
    #[derive(Debug)]
    pub struct MemoryTier;
    impl MemoryTier {
        /// `on_evict` is told of every block that leaves, but not of one replaced by its successor.
        pub fn new(arena: Arena, on_evict: impl Fn(&BlockKey) + Send + Sync + 'static) -> Self {
            todo!()
        }
        /// Room for a block on its way in; evicts the least recently used blocks to make it. None where that fails.
        pub fn allocate(&self, len_bytes: u64) -> Option<BlockWriter> {
            todo!()
        }
        pub fn get(&self, key: &BlockKey) -> Option<MemoryBlock> {
            todo!()
        }
        pub fn insert(&self, key: BlockKey, block: MemoryBlock) {
            todo!()
        }
        pub fn remove(&self, key: &BlockKey) {
            todo!()
        }
        pub fn stats(&self) -> MemoryStats {
            todo!()
        }
    }
}
