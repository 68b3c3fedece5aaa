//! Where blocks are kept near the gateway, each tier by itself.
//!
//! * [`memory`]: blocks in the arena, the least recently used evicted first
#![forbid(unsafe_code)]

pub mod memory;
