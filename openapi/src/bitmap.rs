//! Presence of many keys, one bit each.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bit `i` is bit `i % 8` of byte `i / 8`, least significant first. In JSON base64, padded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap(Vec<u8>);

impl Bitmap {
    /// Whether bit `index` is set; false beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> bool {
        self.0.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// How many bits are set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromIterator<bool> for Bitmap {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut bytes = Vec::new();
        for (index, bit) in bits.into_iter().enumerate() {
            if index % 8 == 0 {
                bytes.push(0);
            }
            if let Some(last) = bytes.last_mut() {
                *last |= u8::from(bit) << (index % 8);
            }
        }
        Self(bytes)
    }
}

impl Serialize for Bitmap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bitmap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn least_significant_first() {
        let bits: Bitmap = [true, false, false, false, false, false, false, false, false, true].into_iter().collect();
        assert_eq!((bits.as_bytes(), bits.count()), ([0b1, 0b10].as_slice(), 2));
        assert_eq!(serde_json::to_string(&bits).unwrap(), "\"AQI=\"");
    }

    proptest! {
        #[test]
        fn every_bit_comes_back(bits in proptest::collection::vec(any::<bool>(), 0..70)) {
            let bitmap: Bitmap = bits.iter().copied().collect();
            let json = serde_json::to_string(&bitmap).unwrap();
            let read: Bitmap = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(&read, &bitmap);
            for (index, bit) in bits.iter().enumerate() {
                prop_assert_eq!(read.get(index), *bit);
            }
            prop_assert!(!read.get(bits.len() + 8));
        }
    }
}
