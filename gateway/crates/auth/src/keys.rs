//! Access keys: which there are, and what each may do.

use std::collections::HashMap;
use std::sync::Arc;

use blockgate_block::glob_matches;
use thiserror::Error;

use crate::Secret;

/// Lengths of an access key that clients accept.
const ACCESS_KEY_LEN: std::ops::RangeInclusive<usize> = 3..=128;
/// Shortest secret: what can be guessed is not taken.
const SECRET_KEY_LEN_MIN: usize = 8;
/// Longest secret.
const SECRET_KEY_LEN_MAX: usize = 256;

/// Length of a generated access key, prefix included: that of AWS.
const GENERATED_ACCESS_KEY_LEN: usize = 20;
/// Length of a generated secret: that of AWS, 238 bits of chance.
const GENERATED_SECRET_KEY_LEN: usize = 40;
const GENERATED_PREFIX: &str = "BG";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const MIXED: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// What an access key may do with the buckets that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// GET, HEAD, lists and settings.
    Read,
    /// Everything that changes a bucket or what is in it.
    Write,
}

/// One access key.
#[derive(Clone, Debug)]
pub struct AccessKey {
    /// The public half, sent with every request.
    pub access_key: String,
    /// The half that signs.
    pub secret_key: Secret,
    /// Whom its use is counted for.
    pub tenant: Option<String>,
    /// Bucket patterns (`*` and `?`); all buckets when empty.
    pub buckets: Vec<String>,
    /// What is permitted; all when empty.
    pub permissions: Vec<Permission>,
}

impl AccessKey {
    /// Whether this key may do `permission` to `bucket`.
    #[must_use]
    pub fn allows(&self, bucket: &str, permission: Permission) -> bool {
        let bucket_fits = self.buckets.is_empty() || self.buckets.iter().any(|pattern| glob_matches(pattern, bucket));
        bucket_fits && (self.permissions.is_empty() || self.permissions.contains(&permission))
    }
}

/// Why a set of access keys is refused. No message shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Two entries have the same access key.
    #[error("access_key {0:?} is given twice")]
    Doubled(String),
    /// The access key can't stand in a credential scope.
    #[error("access_key {0:?} must be 3 to 128 letters, digits or any of -._")]
    AccessKey(String),
    /// The secret is too short, too long, or holds blanks or control characters.
    #[error("secret_key of access_key {0:?} must be 8 to 256 printable ASCII characters without blanks")]
    SecretKey(String),
}

/// All access keys. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AccessKeys {
    by_id: Arc<HashMap<String, AccessKey>>,
}

impl AccessKeys {
    /// Takes the keys that there are.
    ///
    /// # Errors
    /// When one is doubled or malformed.
    pub fn new(keys: Vec<AccessKey>) -> Result<Self, KeyError> {
        let mut by_id = HashMap::with_capacity(keys.len());
        for key in keys {
            check(&key)?;
            if let Some(earlier) = by_id.insert(key.access_key.clone(), key) {
                return Err(KeyError::Doubled(earlier.access_key));
            }
        }
        Ok(Self { by_id: Arc::new(by_id) })
    }

    /// The key of this name.
    #[must_use]
    pub fn find(&self, access_key: &str) -> Option<&AccessKey> {
        self.by_id.get(access_key)
    }

    /// Whether the key of this name may do `permission` to `bucket`; a key that isn't there may nothing.
    #[must_use]
    pub fn allows(&self, access_key: &str, bucket: &str, permission: Permission) -> bool {
        self.find(access_key).is_some_and(|key| key.allows(bucket, permission))
    }

    /// A new random access key and secret, for every bucket.
    ///
    /// # Panics
    /// When the operating system has no randomness to give: nothing safe could follow.
    #[must_use]
    pub fn generate() -> AccessKey {
        let random_len = GENERATED_ACCESS_KEY_LEN - GENERATED_PREFIX.len();
        AccessKey {
            access_key: format!("{GENERATED_PREFIX}{}", random_text(UPPER, random_len)),
            secret_key: Secret::new(random_text(MIXED, GENERATED_SECRET_KEY_LEN)),
            tenant: None,
            buckets: Vec::new(),
            permissions: Vec::new(),
        }
    }
}

fn check(key: &AccessKey) -> Result<(), KeyError> {
    let id = &key.access_key;
    // `/` and `,` would end the field in a credential scope or an Authorization header.
    let id_byte = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if !ACCESS_KEY_LEN.contains(&id.len()) || !id.bytes().all(id_byte) {
        return Err(KeyError::AccessKey(id.clone()));
    }
    let secret = key.secret_key.expose();
    let secret_len = SECRET_KEY_LEN_MIN..=SECRET_KEY_LEN_MAX;
    if !secret_len.contains(&secret.len()) || !secret.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(KeyError::SecretKey(id.clone()));
    }
    Ok(())
}

/// `len` characters, each of `alphabet` equally likely.
fn random_text(alphabet: &[u8], len: usize) -> String {
    // Bytes at or above the largest multiple of the alphabet's length would favour its first letters.
    let fair = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(len);
    let mut bytes = [0; 64];
    while text.len() < len {
        #[allow(clippy::expect_used)] // No credentials can be made without randomness.
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        let letters = bytes.iter().map(|&b| usize::from(b)).filter(|&b| b < fair);
        text.extend(letters.map(|b| char::from(alphabet[b % alphabet.len()])).take(len - text.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, buckets: &[&str], permissions: &[Permission]) -> AccessKey {
        AccessKey {
            access_key: id.to_owned(),
            secret_key: Secret::new("a-long-secret".to_owned()),
            tenant: None,
            buckets: buckets.iter().map(|&b| b.to_owned()).collect(),
            permissions: permissions.to_vec(),
        }
    }

    #[test]
    fn a_key_may_what_it_names_and_nothing_else() {
        let keys = AccessKeys::new(vec![
            key("all", &[], &[]),
            key("team", &["kv-team-*", "shared"], &[]),
            key("reader", &["kv-*"], &[Permission::Read]),
        ])
        .unwrap();
        for (id, bucket, permission, allowed) in [
            ("all", "anything", Permission::Write, true),
            ("team", "kv-team-a", Permission::Write, true),
            ("team", "shared", Permission::Read, true),
            ("team", "shared2", Permission::Read, false),
            ("reader", "kv-x", Permission::Read, true),
            ("reader", "kv-x", Permission::Write, false),
            ("reader", "other", Permission::Read, false),
            ("nobody", "kv-x", Permission::Read, false),
        ] {
            assert_eq!(keys.allows(id, bucket, permission), allowed, "{id} {bucket} {permission:?}");
        }
    }

    #[test]
    fn doubled_and_malformed_keys_are_refused_without_showing_a_secret() {
        assert_eq!(
            AccessKeys::new(vec![key("one", &[], &[]), key("one", &["b"], &[])]).unwrap_err(),
            KeyError::Doubled("one".to_owned())
        );
        for id in ["", "ab", "a/b", "a,bc", "a bc", "ключ", &"x".repeat(129)] {
            assert_eq!(AccessKeys::new(vec![key(id, &[], &[])]).unwrap_err(), KeyError::AccessKey(id.to_owned()));
        }
        for secret in ["short", "has a blank in it", "tab\tinside-it", &"s".repeat(257)] {
            let mut entry = key("one", &[], &[]);
            entry.secret_key = Secret::new(secret.to_owned());
            let error = AccessKeys::new(vec![entry]).unwrap_err();
            assert_eq!(error, KeyError::SecretKey("one".to_owned()));
            assert!(!error.to_string().contains(secret));
        }
    }

    #[test]
    fn generated_keys_are_well_formed_and_never_the_same() {
        let (one, two) = (AccessKeys::generate(), AccessKeys::generate());
        assert_ne!(one.access_key, two.access_key);
        assert_ne!(one.secret_key.expose(), two.secret_key.expose());
        assert_eq!(one.access_key.len(), GENERATED_ACCESS_KEY_LEN);
        assert!(one.access_key.starts_with("BG"));
        assert!(one.access_key.bytes().all(|b| UPPER.contains(&b)));
        assert_eq!(one.secret_key.expose().len(), GENERATED_SECRET_KEY_LEN);
        assert!(one.secret_key.expose().bytes().all(|b| MIXED.contains(&b)));
        assert!(AccessKeys::new(vec![one, two]).is_ok());
    }

    #[test]
    fn random_text_uses_the_whole_alphabet() {
        let text = random_text(UPPER, 4_000);
        assert_eq!(text.len(), 4_000);
        assert!(UPPER.iter().all(|&b| text.contains(char::from(b))));
    }
}
