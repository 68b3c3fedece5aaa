//! What names a block.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use thiserror::Error;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The longest key, in bytes (S3's own limit).
pub const KEY_BYTES_MAX: usize = 1024;

/// Keys that begin so belong to blockgate itself: clients can neither name nor list them.
pub const RESERVED_PREFIX: &str = ".blockgate/";

/// Why a key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No bytes at all.
    #[error("the key is empty")]
    Empty,
    /// More than [`KEY_BYTES_MAX`].
    #[error("the key is longer than {KEY_BYTES_MAX} bytes")]
    TooLong,
    /// A NUL byte, which no store keeps.
    #[error("the key holds a NUL byte")]
    Nul,
    /// The key begins with [`RESERVED_PREFIX`].
    #[error("keys under {RESERVED_PREFIX} are reserved")]
    Reserved,
}

/// A 128-bit digest of bucket and key: an address in tables, never a proof of identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub u128);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A bucket and an object key: the full name of a block. Cheap to clone; hashes by [`Digest`], equal only by full text.
#[derive(Clone)]
pub struct BlockKey(Arc<Inner>);

struct Inner {
    digest: Digest,
    bucket: Box<str>,
    key: Box<str>,
}

impl BlockKey {
    /// Names the object `key` in `bucket`.
    ///
    /// # Errors
    /// When the key is not one that a client may use; see [`KeyError`].
    pub fn new(bucket: &str, key: &str) -> Result<Self, KeyError> {
        Self::validate(key)?;
        Ok(Self::trusted(bucket, key.into(), digest(bucket, &[key])))
    }

    /// A key that was validated, and its digest.
    pub(crate) fn trusted(bucket: &str, key: Box<str>, digest: Digest) -> Self {
        Self(Arc::new(Inner { digest, bucket: bucket.into(), key }))
    }

    /// Checks a key without naming a bucket.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn validate(key: &str) -> Result<(), KeyError> {
        validate(&[key])
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.0.bucket
    }

    /// The object key, exactly as the client wrote it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// The digest of bucket and key.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }
}

/// Checks the key that `parts` are together.
pub(crate) fn validate(parts: &[&str]) -> Result<(), KeyError> {
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let begin = || parts.iter().flat_map(|part| part.bytes()).take(RESERVED_PREFIX.len());
    if len == 0 {
        Err(KeyError::Empty)
    } else if len > KEY_BYTES_MAX {
        Err(KeyError::TooLong)
    } else if parts.iter().any(|part| part.contains('\0')) {
        Err(KeyError::Nul)
    } else if begin().eq(RESERVED_PREFIX.bytes()) {
        Err(KeyError::Reserved)
    } else {
        Ok(())
    }
}

/// The digest of `bucket`, NUL and the key that `parts` are together. A bucket name holds no NUL, so the pair is written
/// unambiguously.
pub(crate) fn digest(bucket: &str, parts: &[&str]) -> Digest {
    // Most names fit the buffer, where one pass is fastest.
    let len = bucket.len() + 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut stack = [0u8; 256];
    if len <= stack.len() {
        let mut at = 0;
        let mut append = |bytes: &[u8]| {
            stack[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        append(bucket.as_bytes());
        append(b"\0");
        parts.iter().for_each(|part| append(part.as_bytes()));
        return Digest(xxh3_128(&stack[..len]));
    }
    let mut hasher = Xxh3::new();
    hasher.update(bucket.as_bytes());
    hasher.update(b"\0");
    parts.iter().for_each(|part| hasher.update(part.as_bytes()));
    Digest(hasher.digest128())
}

impl PartialEq for BlockKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.digest == other.0.digest && self.0.key == other.0.key && self.0.bucket == other.0.bucket)
    }
}

impl Eq for BlockKey {}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

impl fmt::Display for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.bucket, self.0.key.escape_debug())
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_store_keeps_are_refused() {
        assert_eq!(BlockKey::validate(""), Err(KeyError::Empty));
        assert_eq!(BlockKey::validate(&"k".repeat(1025)), Err(KeyError::TooLong));
        assert_eq!(BlockKey::validate("a\0b"), Err(KeyError::Nul));
        assert_eq!(BlockKey::validate(".blockgate/ledger"), Err(KeyError::Reserved));
        for key in ["/", "//", "..", ".", "a/../b", "%2e", "\\", &"k".repeat(1024), ".blockgate"] {
            assert_eq!(BlockKey::validate(key), Ok(()), "{key:?}");
        }
    }

    #[test]
    fn bucket_and_key_do_not_run_together() {
        let long = "x".repeat(300);
        for (a, b) in [(("ab", "c"), ("a", "bc")), (("a", long.as_str()), ("aa", &long[1..]))] {
            assert_ne!(BlockKey::new(a.0, a.1), BlockKey::new(b.0, b.1));
            assert_ne!(digest(a.0, &[a.1]), digest(b.0, &[b.1]));
        }
    }
}
