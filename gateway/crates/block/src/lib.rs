//! The nouns of blockgate, without I/O: what names a block, what describes it, what can be wrong with it.
//!
//! * [`BlockKey`], [`KeyList`], [`Digest`]: names
//! * [`Crc64`], [`BlockEtag`]: identity of bytes
//! * [`Attributes`], [`ObjectInfo`], [`BlockRecord`]: what is known of an object
//! * [`MissReason`], [`Tier`]: how a read ended
//! * [`Arena`], [`BlockBuf`]: the memory that block bytes live in
#![deny(unsafe_code)]

mod arena;
mod etag;
mod glob;
mod info;
mod key;
mod keys;

pub use arena::{Arena, ArenaStats, BlockBuf, BlockReader, BlockWriter, SlotFull, SlotTarget};
pub use blockgate_api::{Crc64, Crc64Hasher, MissReason, Tier};
pub use etag::BlockEtag;
pub use glob::glob_matches;
pub use info::{
    Attributes, BlockRecord, FINGERPRINT_META, GroupId, ObjectInfo, RECORD_META, RecordError, TTL_META, TTL_TAG,
    TenantId, fingerprint_hash,
};
pub use key::{BlockKey, Digest, KEY_BYTES_MAX, KeyError, RESERVED_PREFIX};
pub use keys::KeyList;
