//! The contract of blockgate's KV extension, for servers and clients alike; no I/O.
//!
//! * [`types`]: what requests and responses hold, as JSON
//! * [`frame`]: how block bytes travel, many in one body
//! * [`rules`]: which frames may follow which
//! * [`keys`]: block keys from token ids, the same in every language
//! * [`ErrorCode`], [`MissReason`], [`Tier`]: how a request or a read ended
//! * [`limits`]: what is refused, and from where on
#![forbid(unsafe_code)]

mod bitmap;
mod checksum;
mod error;
pub mod frame;
pub mod keys;
pub mod limits;
mod object;
mod outcome;
pub mod rules;
pub mod types;

pub use bitmap::Bitmap;
pub use checksum::{Crc64, Crc64Hasher};
pub use error::{ErrorBody, ErrorCode, ErrorDetail};
pub use object::Object;
pub use outcome::{MissReason, Tier};

/// Where the extension lies. `_` begins no bucket's name, so nothing collides.
pub const BASE_PATH: &str = "/_kv/v1";

/// Media type of a body of [`frame`]s.
pub const FRAMES_MEDIA_TYPE: &str = "application/vnd.blockgate.frames";

/// Response header of `get`: how many blocks will be delivered.
pub const MATCHED_HEADER: &str = "x-kv-matched";
/// Response header of `get`: their payload bytes together.
pub const BYTES_HEADER: &str = "x-kv-bytes";
