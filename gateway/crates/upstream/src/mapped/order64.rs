//! Base64 that keeps order: bytes that sort before others do so encoded, too.

/// The 64 characters in ASCII order, all of them unreserved in URLs.
const ALPHABET: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// Encodes, without padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(chars_of(bytes.len()));
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    out
}

/// Decodes what [`encode`] wrote, and nothing else.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for at in 0..4 {
            let digit = match chunk.get(at) {
                Some(byte) => ALPHABET.binary_search(byte).ok()?,
                None => 0,
            };
            bits = bits << 6 | u32::try_from(digit).ok()?;
        }
        let [_, first, second, third] = bits.to_be_bytes();
        match chunk.len() {
            4 => out.extend([first, second, third]),
            3 if third == 0 => out.extend([first, second]),
            2 if second == 0 && third == 0 => out.push(first),
            _ => return None,
        }
    }
    Some(out)
}

/// How many characters so many bytes become.
pub(super) const fn chars_of(bytes: usize) -> usize {
    (bytes * 8).div_ceil(6)
}

/// How many characters are settled by so many bytes, whatever follows them.
pub(super) const fn whole_chars_of(bytes: usize) -> usize {
    bytes * 8 / 6
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_alphabet_is_in_order() {
        assert!(ALPHABET.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn only_what_was_encoded_is_decoded() {
        assert_eq!(encode(b"/a"), "Aq3");
        for bad in ["A", "Aq4", "Aq3=", "A/", "AAAAA", "é"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn roundtrip_and_order(a in prop::collection::vec(any::<u8>(), 0..20), b in prop::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(decode(&encode(&a)), Some(a.clone()));
            prop_assert_eq!(encode(&a).len(), chars_of(a.len()));
            prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
        }

        #[test]
        fn a_prefix_settles_characters(a in prop::collection::vec(any::<u8>(), 0..20), b in prop::collection::vec(any::<u8>(), 0..20)) {
            let whole = whole_chars_of(a.len());
            prop_assert_eq!(&encode(&[&*a, &*b].concat())[..whole], &encode(&a)[..whole]);
        }

        #[test]
        fn decoding_is_injective(text in "[-0-9A-Z_a-z]{0,12}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
