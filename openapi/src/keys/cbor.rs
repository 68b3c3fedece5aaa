//! As much canonical CBOR (RFC 8949, 4.2) as the hash chain needs, written and never read.

/// Writes values one after the other; what is inside an array is written after its head.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

/// Major types, shifted to where they stand in the first byte.
const UNSIGNED: u8 = 0 << 5;
const NEGATIVE: u8 = 1 << 5;
const BYTES: u8 = 2 << 5;
const TEXT: u8 = 3 << 5;
const ARRAY: u8 = 4 << 5;
const NULL: u8 = 0xf6;

impl Writer {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn null(&mut self) {
        self.0.push(NULL);
    }

    pub(super) fn unsigned(&mut self, value: u64) {
        self.head(UNSIGNED, value);
    }

    pub(super) fn integer(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.head(UNSIGNED, value),
            // -1 - value, which no negative number overflows.
            Err(_) => self.head(NEGATIVE, value.unsigned_abs() - 1),
        }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.head(BYTES, value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.head(TEXT, value.len() as u64);
        self.0.extend_from_slice(value.as_bytes());
    }

    pub(super) fn array(&mut self, len: usize) {
        self.head(ARRAY, len as u64);
    }

    /// A major type and its argument in as few bytes as hold it.
    fn head(&mut self, major: u8, argument: u64) {
        let bytes = argument.to_be_bytes();
        let (additional, skip) = match argument {
            0..=23 => (bytes[7], 8),
            24..=0xff => (24, 7),
            0x100..=0xffff => (25, 6),
            0x1_0000..=0xffff_ffff => (26, 4),
            _ => (27, 0),
        };
        self.0.push(major | additional);
        self.0.extend_from_slice(&bytes[skip..]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What [`read`] found.
    #[derive(Clone, Debug, PartialEq)]
    enum Item {
        Integer(i64),
        Bytes(Vec<u8>),
        Text(String),
        Array(Vec<Item>),
        Null,
    }

    fn write(item: &Item, writer: &mut Writer) {
        match item {
            Item::Integer(value) => writer.integer(*value),
            Item::Bytes(value) => writer.bytes(value),
            Item::Text(value) => writer.text(value),
            Item::Array(items) => {
                writer.array(items.len());
                items.iter().for_each(|item| write(item, writer));
            }
            Item::Null => writer.null(),
        }
    }

    /// Reads an item as RFC 8949 says; panics where a head is not the shortest.
    fn read(bytes: &mut &[u8]) -> Item {
        let take = |bytes: &mut &[u8], len: usize| bytes.split_off(..len).unwrap().to_vec();
        let first = take(bytes, 1)[0];
        if first == NULL {
            return Item::Null;
        }
        let more = match first & 31 {
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => 0,
        };
        let argument = match more {
            0 => u64::from(first & 31),
            more => take(bytes, more).into_iter().fold(0, |value, byte| value << 8 | u64::from(byte)),
        };
        assert!(more == 0 || argument >= [24, 1 << 8, 1 << 16, 1 << 32][more.ilog2() as usize], "not the shortest");
        match first >> 5 {
            0 => Item::Integer(argument.try_into().unwrap()),
            1 => Item::Integer(-1 - i64::try_from(argument).unwrap()),
            2 => Item::Bytes(take(bytes, argument as usize)),
            3 => Item::Text(String::from_utf8(take(bytes, argument as usize)).unwrap()),
            4 => Item::Array((0..argument).map(|_| read(bytes)).collect()),
            other => panic!("major type {other}"),
        }
    }

    fn items() -> impl Strategy<Value = Item> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Item::Integer),
            (-300i64..300).prop_map(Item::Integer),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Item::Bytes),
            ".{0,40}".prop_map(Item::Text),
            Just(Item::Null),
        ];
        leaf.prop_recursive(4, 40, 30, |item| proptest::collection::vec(item, 0..30).prop_map(Item::Array))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_is_read(item in items()) {
            let mut writer = Writer::default();
            write(&item, &mut writer);
            let mut bytes = writer.as_bytes();
            prop_assert_eq!(read(&mut bytes), item);
            prop_assert!(bytes.is_empty());
        }
    }

    fn hex(write: impl FnOnce(&mut Writer)) -> String {
        let mut writer = Writer::default();
        write(&mut writer);
        hex::encode(writer.as_bytes())
    }

    #[test]
    fn examples_of_the_rfc() {
        // RFC 8949, appendix A.
        let integers: [(i64, &str); 14] = [
            (0, "00"),
            (23, "17"),
            (24, "1818"),
            (100, "1864"),
            (255, "18ff"),
            (256, "190100"),
            (1000, "1903e8"),
            (65_536, "1a00010000"),
            (1_000_000, "1a000f4240"),
            (1_000_000_000_000, "1b000000e8d4a51000"),
            (-1, "20"),
            (-100, "3863"),
            (-1000, "3903e7"),
            (i64::MIN, "3b7fffffffffffffff"),
        ];
        for (value, expected) in integers {
            assert_eq!(hex(|writer| writer.integer(value)), expected, "{value}");
        }
        assert_eq!(hex(|writer| writer.unsigned(u64::MAX)), "1bffffffffffffffff");
        assert_eq!(hex(Writer::null), "f6");
        assert_eq!(hex(|writer| writer.bytes(&[1, 2, 3, 4])), "4401020304");
        assert_eq!(hex(|writer| writer.text("\u{6c34}")), "63e6b0b4");
        assert_eq!(hex(|writer| writer.array(25)), "9819");
    }
}
