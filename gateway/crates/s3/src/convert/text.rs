//! Text that must pass through XML and URLs unharmed.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What `encoding-type=url` leaves as it is: RFC 3986's unreserved characters and the slash. A space becomes `%20` and a
/// plus `%2B`, so that clients that decode `+` to a space and those that don't read the same key.
const URL_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Whether an XML 1.0 document can carry `text`, be it by reference: control characters and two non-characters can't be
/// written at all.
pub(crate) fn fits_xml(text: &str) -> bool {
    text.chars().all(fits)
}

fn fits(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// `text` as `encoding-type=url` writes it.
pub(crate) fn url_encode(text: &str) -> String {
    utf8_percent_encode(text, URL_ESCAPED).to_string()
}

/// A key as it can stand in an XML answer that knows no `EncodingType`: itself, or URL-encoded where XML can't carry it.
pub(crate) fn xml_key(key: String) -> String {
    if fits_xml(&key) { key } else { url_encode(&key) }
}

/// A message for people, with what XML can't carry taken out.
pub(crate) fn printable(message: &str) -> Cow<'_, str> {
    if fits_xml(message) {
        Cow::Borrowed(message)
    } else {
        Cow::Owned(message.chars().map(|c| if fits(c) { c } else { '\u{fffd}' }).collect())
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_keys_are_readable_when_encoded() {
        assert_eq!(url_encode("model/0-9._~"), "model/0-9._~");
        assert_eq!(url_encode("a b+c@d:%é"), "a%20b%2Bc%40d%3A%25%C3%A9");
    }

    #[test]
    fn what_xml_can_not_carry() {
        for bad in ["\0", "\u{1}", "\u{8}", "\u{b}", "\u{c}", "\u{e}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
            assert!(!fits_xml(bad), "{bad:?}");
            assert!(fits_xml(&printable(bad)) && fits_xml(&xml_key(bad.to_owned())));
        }
        for good in ["", "\t\r\n", " ~\u{7f}\u{80}\u{9f}", "\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}", "<&>\"'"] {
            assert!(fits_xml(good), "{good:?}");
            assert_eq!(printable(good), good);
        }
    }

    proptest! {
        #[test]
        fn an_encoded_key_decodes_to_itself(key in any::<String>()) {
            let encoded = url_encode(&key);
            prop_assert!(encoded.bytes().all(|b| b.is_ascii_graphic() && b != b'+'));
            prop_assert_eq!(percent_decode_str(&encoded).decode_utf8().unwrap(), key);
        }
    }
}
