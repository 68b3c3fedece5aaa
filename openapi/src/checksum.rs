//! CRC64NVME, the block checksum everywhere.

use std::fmt;
use std::str::FromStr;

use crc_fast::{CrcAlgorithm, checksum_combine, crc64_nvme};

/// A CRC64NVME of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crc64(u64);

impl Crc64 {
    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc64_nvme(bytes))
    }

    /// A checksum received from elsewhere.
    #[must_use]
    pub const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    /// The checksum as a number.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// The checksum as S3 writes it before base64: 8 bytes, most significant first.
    #[must_use]
    pub const fn to_be_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The checksum of these bytes followed by `len_bytes` more whose checksum is `next`.
    #[must_use]
    pub fn followed_by(self, next: Self, len_bytes: u64) -> Self {
        Self(checksum_combine(CrcAlgorithm::Crc64Nvme, self.0, next.0, len_bytes))
    }
}

impl fmt::Display for Crc64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Crc64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crc64({:016x})", self.0)
    }
}

impl FromStr for Crc64 {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// A [`Crc64`] computed while bytes arrive.
#[derive(Debug)]
pub struct Crc64Hasher {
    digest: crc_fast::Digest,
    len_bytes: u64,
}

impl Default for Crc64Hasher {
    fn default() -> Self {
        Self { digest: crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme), len_bytes: 0 }
    }
}

impl Crc64Hasher {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.len_bytes += bytes.len() as u64;
    }

    /// How many bytes were taken in.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The checksum of all bytes taken in so far.
    #[must_use]
    pub fn finish(&self) -> Crc64 {
        Crc64(self.digest.finalize())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_vector() {
        // The check value of CRC-64/NVME for "123456789".
        assert_eq!(Crc64::of(b"123456789").to_u64(), 0xae8b_1486_0a79_9888);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_checksum(bytes in proptest::collection::vec(any::<u8>(), 0..600), cut in 0usize..600) {
            let cut = cut.min(bytes.len());
            let (head, tail) = bytes.split_at(cut);
            let mut hasher = Crc64Hasher::default();
            hasher.update(head);
            hasher.update(tail);
            prop_assert_eq!(hasher.finish(), Crc64::of(&bytes));
            prop_assert_eq!(Crc64::of(head).followed_by(Crc64::of(tail), tail.len() as u64), Crc64::of(&bytes));
            prop_assert_eq!(Crc64::of(&bytes).to_string().parse::<Crc64>(), Ok(Crc64::of(&bytes)));
        }
    }
}
