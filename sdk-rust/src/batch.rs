//! Long lists of keys, in requests that the contract accepts.

use std::ops::Range;

use blockgate_api::limits::{JSON_BYTES_MAX, KEYS_MAX};

/// What a request holds beside its keys, amply: prefix, suffix, fingerprint and ranges.
const REST_BYTES: usize = 64 << 10;

/// The positions of each request's keys.
pub(crate) fn batches(keys: &[String]) -> Vec<Range<usize>> {
    batches_within(keys, KEYS_MAX, JSON_BYTES_MAX - REST_BYTES)
}

fn batches_within(keys: &[String], keys_max: usize, bytes_max: usize) -> Vec<Range<usize>> {
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, key) in keys.iter().enumerate() {
        let key_bytes = json_bytes(key);
        if index > start && (index - start == keys_max || bytes + key_bytes > bytes_max) {
            batches.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += key_bytes;
    }
    if start < keys.len() {
        batches.push(start..keys.len());
    }
    batches
}

/// Length of a key in JSON, with its quotes and comma; no less than what serde_json writes.
fn json_bytes(key: &str) -> usize {
    let byte_len = |byte| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    key.bytes().map(byte_len).sum::<usize>() + 3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_limits_are_kept() {
        assert_eq!(batches(&[]), []);
        let short = vec![String::new(); KEYS_MAX + 1];
        assert_eq!(batches(&short), [0..KEYS_MAX, KEYS_MAX..KEYS_MAX + 1]);
        let long = vec!["\u{1}".repeat(1024); 2000];
        for batch in batches(&long) {
            assert!(serde_json::to_vec(&long[batch]).unwrap().len() < JSON_BYTES_MAX);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_key_once_in_order(lengths in proptest::collection::vec(0usize..40, 0..40)) {
            let keys: Vec<String> = lengths.iter().map(|len| "k".repeat(*len)).collect();
            let all: Vec<usize> = batches_within(&keys, 5, 100).into_iter().flatten().collect();
            prop_assert_eq!(all, (0..keys.len()).collect::<Vec<_>>());
        }

        #[test]
        fn no_shorter_than_what_is_written(key in any::<String>()) {
            prop_assert!(json_bytes(&key) > serde_json::to_string(&key).unwrap().len());
        }
    }
}
