//! Percent escapes, read strictly.

use std::borrow::Cow;

/// Why a text can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeError {
    /// `%` without two hex digits.
    Escape,
    /// What it decodes to is not UTF-8.
    Utf8,
    /// It holds a NUL.
    Nul,
}

/// Decodes percent escapes; `+` stands for itself, or for a blank where `plus_is_blank`.
pub(crate) fn unescape(text: &str, plus_is_blank: bool) -> Result<Cow<'_, str>, EscapeError> {
    let special = |b: u8| b == b'%' || b == 0 || (plus_is_blank && b == b'+');
    let Some(first) = text.bytes().position(special) else { return Ok(Cow::Borrowed(text)) };
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(&text.as_bytes()[..first]);
    let mut bytes = text.as_bytes()[first..].iter();
    while let Some(&byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|&b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return Err(EscapeError::Escape) };
                // Two hex digits fit a byte.
                u8::try_from(high * 16 + low).map_err(|_| EscapeError::Escape)?
            }
            b'+' if plus_is_blank => b' ',
            other => other,
        };
        if byte == 0 {
            return Err(EscapeError::Nul);
        }
        decoded.push(byte);
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| EscapeError::Utf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes() {
        for (text, decoded) in [
            ("plain", Ok("plain")),
            ("a%40b%2Fc%5c", Ok("a@b/c\\")),
            ("%e2%82%ac", Ok("€")),
            ("a+b", Ok("a+b")),
            ("%", Err(EscapeError::Escape)),
            ("a%4", Err(EscapeError::Escape)),
            ("%zz", Err(EscapeError::Escape)),
            ("%+1", Err(EscapeError::Escape)),
            ("%00", Err(EscapeError::Nul)),
            ("a\0b", Err(EscapeError::Nul)),
            ("%ff", Err(EscapeError::Utf8)),
            ("%c0%ae", Err(EscapeError::Utf8)),
            ("%ed%a0%80", Err(EscapeError::Utf8)),
        ] {
            assert_eq!(unescape(text, false).as_deref().map_err(|e| *e), decoded, "{text}");
        }
        assert_eq!(unescape("a+b%2B", true).unwrap(), "a b+");
    }

    proptest! {
        #[test]
        fn every_escaped_text_comes_back(text in "[^\0]{0,40}") {
            let escaped: String = text.bytes().map(|b| format!("%{b:02X}")).collect();
            prop_assert_eq!(unescape(&escaped, false).unwrap(), text);
        }
    }
}
