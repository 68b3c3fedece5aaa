//! What the index keeps of a block, and how it is packed.

use std::time::{SystemTime, UNIX_EPOCH};

use blockgate_block::{Crc64, Digest};

/// What the index knows of a block. Times are milliseconds since 1970 by the upstream's clock, 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Length in bytes, less than 2^48.
    pub len_bytes: u64,
    /// Checksum of the whole block.
    pub crc64: Crc64,
    /// When it must no longer be served.
    pub expires_at_ms: u64,
    /// Digest of the fingerprint that it was stored for, 0 for none.
    pub fingerprint: u64,
    /// It is in host memory: a hint, see `blockgate_tier::memory`.
    pub in_memory: bool,
    /// It is on local NVMe: a hint, as `in_memory`.
    pub in_staging: bool,
    /// It is in the shared store.
    pub in_upstream: bool,
}

/// What the index knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A block is stored. Its time may be over: see [`Record::expires_at_ms`].
    Present(Record),
    /// Nothing was stored when last asked, less than the negative TTL ago.
    Absent,
    /// Nothing was stored when last asked, longer ago: ask the upstream, and suppose nothing.
    WasAbsent,
    /// Ask the upstream.
    Unknown,
}

/// Milliseconds since 1970, 0 for times before.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// An entry of the table: 48 bytes, whose tables are 7/16 to 7/8 full, so 56 to 112 bytes an entry, control byte included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    digest: u128,
    crc64: u64,
    fingerprint: u64,
    /// Of a present block: when it expires. Of an absence: until when it is believed.
    until_ms: u64,
    /// Length in the low 48 bits, flags above.
    len_and_flags: u64,
}

const LEN_MASK: u64 = (1 << 48) - 1;
const ABSENT: u64 = 1 << 48;
const IN_MEMORY: u64 = 1 << 49;
const IN_STAGING: u64 = 1 << 50;
const IN_UPSTREAM: u64 = 1 << 51;

impl Slot {
    pub(crate) fn present(digest: Digest, record: &Record) -> Self {
        debug_assert!(record.len_bytes <= LEN_MASK);
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(record.in_memory, IN_MEMORY)
            | flag(record.in_staging, IN_STAGING)
            | flag(record.in_upstream, IN_UPSTREAM);
        Self {
            digest: digest.0,
            crc64: record.crc64.to_u64(),
            fingerprint: record.fingerprint,
            until_ms: record.expires_at_ms,
            len_and_flags: record.len_bytes.min(LEN_MASK) | flags,
        }
    }

    pub(crate) fn absent(digest: Digest, until_ms: u64) -> Self {
        Self { digest: digest.0, crc64: 0, fingerprint: 0, until_ms, len_and_flags: ABSENT }
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest(self.digest)
    }

    /// The record of a present block; of an absence, nothing of use.
    pub(crate) fn record(&self) -> Record {
        Record {
            len_bytes: self.len_and_flags & LEN_MASK,
            crc64: Crc64::from_u64(self.crc64),
            expires_at_ms: self.until_ms,
            fingerprint: self.fingerprint,
            in_memory: self.is_in_memory(),
            in_staging: self.is_in_staging(),
            in_upstream: self.has(IN_UPSTREAM),
        }
    }

    /// Until when the absence is believed; none for a present block.
    pub(crate) fn absent_until_ms(&self) -> Option<u64> {
        self.is_absent().then_some(self.until_ms)
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.has(ABSENT)
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.has(IN_MEMORY)
    }

    pub(crate) fn is_in_staging(&self) -> bool {
        self.has(IN_STAGING)
    }

    /// Says where a present block is; an absence stays one.
    pub(crate) fn set_in_memory(&mut self, in_memory: bool) {
        self.set(IN_MEMORY, in_memory);
    }

    /// As [`Self::set_in_memory`].
    pub(crate) fn set_in_staging(&mut self, in_staging: bool) {
        self.set(IN_STAGING, in_staging);
    }

    fn set(&mut self, flag: u64, is_there: bool) {
        self.len_and_flags &= !flag;
        if is_there && !self.is_absent() {
            self.len_and_flags |= flag;
        }
    }

    fn has(&self, flag: u64) -> bool {
        self.len_and_flags & flag != 0
    }
}
