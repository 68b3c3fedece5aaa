//! The decoder alone.

use blockgate_api::frame::{Decoder, Event, FrameError, FrameHeader, HEADER_BYTES};
use blockgate_api::{Crc64, limits};
use bytes::Bytes;
use proptest::prelude::*;

use crate::bodies::{gets, puts};
use crate::reader::{DATA_BYTES_MAX, events};

fn decode(body: &[u8]) -> Result<Option<Event>, FrameError> {
    let mut decoder = Decoder::new(DATA_BYTES_MAX);
    decoder.feed(Bytes::copy_from_slice(body));
    decoder.next()
}

fn header(flags: u16, len_bytes: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = FrameHeader::data(0, 0, len_bytes, Crc64::of(b"")).encode();
    bytes[10..12].copy_from_slice(&flags.to_le_bytes());
    bytes
}

#[test]
fn the_layout() {
    let bytes =
        FrameHeader::data(0x0403_0201, 0x0807_0605, 0x100f_0e0d_0c0b_0a09, Crc64::from_u64(0x1817_1615_1413_1211));
    let mut expected = b"KVB1\x01\x02\x03\x04\xc8\0\0\0\x05\x06\x07\x08".to_vec();
    expected.extend(9..=24);
    assert_eq!(bytes.encode().as_slice(), expected);
}

#[test]
fn lengths_that_are_refused() {
    let json_max = limits::JSON_FRAME_BYTES_MAX;
    for (flags, len_bytes) in [(0, DATA_BYTES_MAX + 1), (0, u64::MAX), (2, json_max + 1), (3, u64::MAX)] {
        let refused = decode(&header(flags, len_bytes));
        assert!(matches!(refused, Err(FrameError::TooLong { .. })), "{flags} {len_bytes} {refused:?}");
    }
    assert!(matches!(decode(&header(0, DATA_BYTES_MAX)), Ok(Some(Event::DataStart(_)))));
    assert_eq!(decode(&header(2, json_max)), Ok(None));
}

#[test]
fn headers_that_are_refused() {
    for flags in (0..=u16::MAX).filter(|flags| ![0, 2, 3].contains(flags)) {
        assert_eq!(decode(&header(flags, 0)), Err(FrameError::Flags(flags)));
    }
    let mut magic = header(0, 0);
    magic[3] = b'2';
    assert_eq!(decode(&magic), Err(FrameError::Magic(*b"KVB2")));
    for status in (0..=u16::MAX).filter(|status| *status != 200) {
        let mut data = header(0, 0);
        data[8..10].copy_from_slice(&status.to_le_bytes());
        assert_eq!(decode(&data), Err(FrameError::Status(status)));
    }
}

#[test]
fn an_error_stays() {
    let mut decoder = Decoder::new(DATA_BYTES_MAX);
    decoder.feed(Bytes::from(vec![0; HEADER_BYTES]));
    let error = decoder.next();
    assert!(error.is_err());
    decoder.feed(Bytes::copy_from_slice(&header(0, 0)));
    assert_eq!(decoder.next(), error);
    assert_eq!(decoder.finish().map(|()| None), error);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_gives_the_same_events(get in gets(), put in puts(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        for body in [get.frames().concat(), put.1.concat()] {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[&body]));
            let single: Vec<&[u8]> = body.chunks(1).collect();
            prop_assert_eq!(events(&single), events(&[&body]));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..6)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert!(events(&pieces).is_err());
    }

    #[test]
    fn any_header_is_read_without_a_panic(
        index in any::<u32>(), flags in prop_oneof![Just(0u16), Just(2), Just(3)], stripe in any::<u32>(),
        len_bytes in any::<u64>(), payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = header(flags, len_bytes);
        bytes[4..8].copy_from_slice(&index.to_le_bytes());
        bytes[12..16].copy_from_slice(&stripe.to_le_bytes());
        prop_assert!(events(&[&bytes, &payload]).is_err());
    }

    #[test]
    fn bytes_fed_too_early_are_not_lost((_, frames) in puts()) {
        let body = frames.concat();
        let mut decoder = Decoder::new(DATA_BYTES_MAX);
        body.chunks(7).for_each(|piece| decoder.feed(Bytes::copy_from_slice(piece)));
        let mut count = 0;
        while let Some(event) = decoder.next().unwrap() {
            count += usize::from(matches!(event, Event::Json(..) | Event::DataStart(_)));
        }
        prop_assert_eq!((count, decoder.finish()), (frames.len(), Ok(())));
    }
}
