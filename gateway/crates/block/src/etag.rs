//! The ETag of a block.

use std::fmt;

use blockgate_api::Crc64;

/// The ETag of a block: checksum and length, with a `-1` suffix so that no client takes it for an MD5.
///
/// Equal bytes have equal ETags, on every tier and every gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct BlockEtag {
    /// Checksum of the whole block.
    pub crc64: Crc64,
    /// Length of the whole block.
    pub len_bytes: u64,
}

impl fmt::Display for BlockEtag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}-1", self.crc64, self.len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_is_never_an_md5() {
        let etag = BlockEtag { crc64: Crc64::of(b"x"), len_bytes: 1 }.to_string();
        assert_eq!(etag.len(), 34);
        assert!(etag.ends_with("0000000000000001-1"));
    }
}
