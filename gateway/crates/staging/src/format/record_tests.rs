use proptest::prelude::*;

use super::*;

const NONCE: Nonce = [5; 16];

/// A description of a block with these bytes.
fn info(bytes: &[u8], expires_at_ms: Option<u64>, texts: &[String]) -> ObjectInfo {
    let record = BlockRecord {
        crc64: Crc64::of(bytes),
        len_bytes: bytes.len() as u64,
        stored_at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        expires_at: expires_at_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
        group: None,
        tenant: None,
    };
    let text = |index: usize| texts.get(index).cloned();
    ObjectInfo {
        size_bytes: record.len_bytes,
        etag: record.etag().to_string(),
        upstream_etag: text(0).unwrap_or_default(),
        last_modified: record.stored_at,
        attributes: Attributes {
            content_type: text(1),
            content_encoding: text(2),
            expires: text(3),
            user: texts.iter().map(|text| (text.to_lowercase(), text.clone())).collect(),
            ..Attributes::default()
        },
        record: Some(record),
        tag_count: texts.len() as u32,
        parts_count: text(4).map(|text| text.len() as u32),
    }
}

fn record(key: &str, bytes: &[u8], pending: bool, expires_at_ms: Option<u64>, texts: &[String]) -> Record {
    Record {
        key: BlockKey::new("bucket", key).unwrap(),
        info: Arc::new(info(bytes, expires_at_ms, texts)),
        tags: texts.iter().map(|text| (text.clone(), text.clone())).collect(),
        pending,
        len_bytes: bytes.len() as u32,
        crc64: Crc64::of(bytes),
        chunks: checksums(bytes),
    }
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = record.encode().unwrap();
    place(&mut bytes, NONCE, Version(77));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]
    #[test]
    fn roundtrip_and_damage(
        key in "[^\0]{1,80}",
        len in 1usize..200_000,
        pending in any::<bool>(),
        expires in proptest::option::of(0u64..1 << 45),
        texts in proptest::collection::vec("\\PC{0,300}", 0..30),
        at in any::<proptest::sample::Index>(),
        bit in 0u32..8,
    ) {
        prop_assume!(!key.starts_with(".blockgate/"));
        let payload = vec![7; len];
        let record = record(&key, &payload, pending, expires, &texts);
        let bytes = encoded(&record);
        prop_assert!(may_begin(&bytes, NONCE, Version(77)));
        prop_assert!(!may_begin(&bytes, [6; 16], Version(77)) && !may_begin(&bytes, NONCE, Version(78)));
        let (place, read) = Record::decode(&[&bytes[..], &payload].concat()).unwrap();
        prop_assert_eq!(usize::from(place.header_pages) * PAGE_BYTES, bytes.len());
        prop_assert_eq!((place.nonce, place.version), (NONCE, Version(77)));
        prop_assert_eq!(&read, &record);
        prop_assert!(read.is_sound(0, &payload));

        let at = at.index(bytes.len());
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        prop_assert!(Record::decode(&damaged).is_err());
        prop_assert!(Record::decode(&bytes[..at]).is_err());
    }

    #[test]
    fn noise_is_no_record(bytes in proptest::collection::vec(any::<u8>(), 0..9000), sealed in any::<bool>()) {
        let mut bytes = bytes;
        if sealed && bytes.len() >= PAGE_BYTES {
            // Whoever knows the format can make a checksum fit: what is behind it must be looked at all the same.
            write(&mut bytes, &[MAGIC]);
            write(&mut bytes[VERSION_AT + 8..], &[&1u16.to_le_bytes(), &[KIND_BLOCK]]);
            seal(&mut bytes[..PAGE_BYTES]);
        }
        prop_assert!(Record::decode(&bytes).is_err());
    }
}

#[test]
fn any_damage_to_a_block_is_seen() {
    let payload: Vec<u8> = (0..150_000u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let record = record("k", &payload, false, None, &[]);
    assert_eq!(record.chunks.len(), 3);
    assert_eq!(record.chunks[0], Crc64::of(&payload[..65_536]));
    assert_eq!(record.chunks[2], record.crc64);
    for at in [0, 65_535, 65_536, 149_999] {
        let mut damaged = payload.clone();
        damaged[at] ^= 1;
        assert!(!record.is_sound(0, &damaged));
    }
    assert!(record.is_sound(65_536, &payload[65_536..131_072]));
    assert!(record.is_sound(131_072, &payload[131_072..]));
    assert!(!record.is_sound(0, &payload[65_536..131_072]), "another piece");
    assert!(!record.is_sound(0, &payload[..1000]), "not a whole piece");
    assert!(!record.is_sound(1, &payload[1..65_537]), "not where a piece begins");
    assert!(!record.is_sound(196_608, &payload[..1]), "beyond the end");
}

#[test]
fn tables_of_checksums_are_short() {
    assert_eq!(chunk_bytes(1), 64 << 10);
    assert_eq!(chunk_bytes(4 << 20), 64 << 10);
    assert_eq!(chunk_bytes((4 << 20) + 1), 128 << 10);
    for len in [1, 4 << 20, 5 << 20, 64 << 20, u64::from(u32::MAX)] {
        assert!(len.div_ceil(chunk_bytes(len)) <= CHUNKS_MAX, "{len}");
    }
}

#[test]
fn what_fits_no_header_is_refused() {
    let long = vec!["x".repeat(10_000); 20];
    assert!(record("k", b"abc", true, None, &long).encode().is_none());
    let bytes = encoded(&record("k", b"abc", true, None, &["y".repeat(9000)]));
    assert!(bytes.len() > 2 * PAGE_BYTES, "more than one page");
}

#[test]
fn a_record_must_be_that_of_its_block() {
    let mut other = record("k", b"abc", false, None, &[]);
    other.crc64 = Crc64::of(b"abd");
    assert_eq!(Record::decode(&encoded(&other)).err(), Some(Flaw::Bounds));
    let mut other = record("k", b"abc", false, None, &[]);
    other.chunks = vec![Crc64::of(b"abd")];
    assert_eq!(Record::decode(&encoded(&other)).err(), Some(Flaw::Bounds));
    let mut other = record("k", b"abc", false, None, &[]);
    other.chunks.push(Crc64::of(b""));
    assert_eq!(Record::decode(&encoded(&other)).err(), Some(Flaw::Bounds));
    let mut other = record("k", b"abc", false, None, &[]);
    other.len_bytes = 4;
    assert_eq!(Record::decode(&encoded(&other)).err(), Some(Flaw::Bounds));
}
