//! The objects that every server serves: numbered, distinct, of one size.

use bytes::Bytes;

/// `count` distinct objects of `size_bytes`; the same on every call, so that what is read can be checked by its length and
/// what differs is the server.
pub(crate) fn objects(count: usize, size_bytes: usize) -> Vec<Bytes> {
    (0..count).map(|number| object(number, size_bytes)).collect()
}

/// Object `number`: bytes that neither repeat in short distance nor compress.
pub(crate) fn object(number: usize, size_bytes: usize) -> Bytes {
    let mut state = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(size_bytes.next_multiple_of(8));
    while bytes.len() < size_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size_bytes);
    bytes.into()
}

/// The number in a path's last segment: `/bucket/17` names object 17.
pub(crate) fn number_in(path: &str) -> Option<usize> {
    path.rsplit('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_distinct_and_of_their_size() {
        let objects = objects(3, 1021);
        assert!(objects.iter().all(|object| object.len() == 1021));
        assert!(objects[0] != objects[1] && objects[1] != objects[2]);
        assert_eq!(objects[2], object(2, 1021));
    }

    #[test]
    fn paths_name_objects() {
        assert_eq!(number_in("/bench-4m/17"), Some(17));
        assert_eq!(number_in("/17"), Some(17));
        assert_eq!(number_in("/bench/x"), None);
    }
}
