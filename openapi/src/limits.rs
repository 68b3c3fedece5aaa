//! What is refused, and from where on. Every refusal names the limit.

/// Most keys of one request.
pub const KEYS_MAX: usize = 65_536;
/// Longest key in full, prefix and suffix included, in bytes (S3's own limit).
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest fingerprint in bytes.
pub const FINGERPRINT_BYTES_MAX: usize = 512;
/// Largest JSON body in bytes: [`KEYS_MAX`] keys of some 120 bytes.
pub const JSON_BYTES_MAX: usize = 8 << 20;
/// Deepest nesting of a JSON body.
pub const JSON_DEPTH_MAX: usize = 8;
/// Most ranges of one `get`; each is taken of every block.
pub const RANGES_MAX: usize = 256;
/// Most stripes of one `get`.
pub const STRIPES_MAX: u32 = 1024;
/// Longest time to live: ten years, in seconds.
pub const TTL_S_MAX: u64 = 10 * 365 * 24 * 60 * 60;
/// Longest lease: ten minutes, in milliseconds.
pub const LEASE_MS_MAX: u64 = 600_000;
/// Longest deadline: one hour, in milliseconds.
pub const DEADLINE_MS_MAX: u64 = 3_600_000;
/// Most blocks of one `put`.
pub const PUT_BLOCKS_MAX: usize = 65_536;
/// Most blocks of one `put` with `group=true`.
pub const GROUP_BLOCKS_MAX: usize = 4_096;
/// Largest JSON frame (a block's header, a miss, the end) in bytes.
pub const JSON_FRAME_BYTES_MAX: u64 = 8 << 10;
