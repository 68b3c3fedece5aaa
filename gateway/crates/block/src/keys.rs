//! Many keys of one bucket, as a request names them.

use std::fmt;

use crate::key::{BlockKey, Digest, KeyError, digest, validate};

/// Keys of one bucket: `prefix + key + suffix` each. Validated once; nothing is concatenated until it is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyList {
    bucket: String,
    prefix: String,
    suffix: String,
    keys: Vec<String>,
}

impl KeyList {
    /// Names objects in `bucket`, in the order of `keys`.
    ///
    /// # Errors
    /// The position of the first key that a client may not use, and why; see [`KeyError`].
    pub fn new(bucket: &str, prefix: &str, suffix: &str, keys: Vec<String>) -> Result<Self, (usize, KeyError)> {
        for (index, key) in keys.iter().enumerate() {
            validate(&[prefix, key, suffix]).map_err(|error| (index, error))?;
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned(), suffix: suffix.to_owned(), keys })
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The same as `get(index).digest()`, without allocating.
    ///
    /// # Panics
    /// Where there is no such position.
    #[must_use]
    pub fn digest(&self, index: usize) -> Digest {
        digest(&self.bucket, &[&self.prefix, &self.keys[index], &self.suffix])
    }

    /// The key at a position.
    ///
    /// # Panics
    /// Where there is no such position.
    #[must_use]
    pub fn get(&self, index: usize) -> BlockKey {
        let key = [self.prefix.as_str(), &self.keys[index], &self.suffix].concat();
        BlockKey::trusted(&self.bucket, key.into(), self.digest(index))
    }
}

impl fmt::Debug for KeyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyList({} keys in {})", self.len(), self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{KEY_BYTES_MAX, RESERVED_PREFIX};

    fn list(prefix: &str, suffix: &str, keys: &[&str]) -> Result<KeyList, (usize, KeyError)> {
        KeyList::new("bucket", prefix, suffix, keys.iter().map(|&key| key.to_owned()).collect())
    }

    #[test]
    fn the_first_bad_key_is_named_whatever_the_parts() {
        assert_eq!(list("", "", &["a", "", "b\0"]), Err((1, KeyError::Empty)));
        assert!(list("p", "", &[""]).is_ok());
        assert_eq!(list("p", "s", &["a", "b\0"]), Err((1, KeyError::Nul)));
        assert_eq!(list("p\0", "", &["a"]), Err((0, KeyError::Nul)));
        assert_eq!(list("", "\0", &["a"]), Err((0, KeyError::Nul)));
        let long = "k".repeat(KEY_BYTES_MAX - 2);
        assert!(list("p", "s", &[&long]).is_ok());
        assert_eq!(list("p", "ss", &[&long]), Err((0, KeyError::TooLong)));
        for at in 0..=RESERVED_PREFIX.len() {
            let (begin, end) = RESERVED_PREFIX.split_at(at);
            assert_eq!(list(begin, end, &[""]), Err((0, KeyError::Reserved)));
            assert_eq!(list(begin, "", &[end]), Err((0, KeyError::Reserved)));
            assert_eq!(list("", end, &[begin]), Err((0, KeyError::Reserved)));
        }
        assert!(list(".blockgate", "", &["x"]).is_ok());
        assert!(list("", "", &[]).is_ok_and(|keys| keys.is_empty()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn keys_are_what_their_parts_are_together(
            prefix in "[a-z/]{0,300}", suffix in "[a-z/]{0,9}", keys in proptest::collection::vec("[a-z/é]{1,200}", 1..4),
        ) {
            let list = KeyList::new("bucket", &prefix, &suffix, keys.clone()).expect("legal keys");
            prop_assert_eq!(list.len(), keys.len());
            for (index, key) in keys.iter().enumerate() {
                let whole = BlockKey::new("bucket", &format!("{prefix}{key}{suffix}")).expect("a legal key");
                prop_assert_eq!(list.digest(index), whole.digest());
                prop_assert_eq!(list.get(index), whole);
            }
        }

        #[test]
        fn keys_are_refused_as_they_would_be_whole(prefix in "[.a\0]{0,2}", key in "[.a\0]{0,3}", suffix in "(blockgate/)?a?") {
            let whole = BlockKey::validate(&format!("{prefix}{key}{suffix}"));
            let parts = KeyList::new("bucket", &prefix, &suffix, vec![key]).map(|_| ()).map_err(|(_, error)| error);
            prop_assert_eq!(parts, whole);
        }
    }
}
