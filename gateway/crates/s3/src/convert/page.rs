//! What listings have in common: limits, markers, and how names are written.

use blockgate_block::KEY_BYTES_MAX;
use s3s::dto::{CommonPrefix, EncodingType};
use s3s::{S3Result, s3_error};

use super::text;

/// The most entries on a page (S3's own limit).
pub(crate) const PAGE_MAX: u32 = 1000;

/// How many entries a page may hold; `name` is the parameter.
pub(crate) fn limit(name: &str, asked: Option<i32>) -> S3Result<u32> {
    match asked.map(u32::try_from) {
        None => Ok(PAGE_MAX),
        Some(Ok(asked)) => Ok(asked.min(PAGE_MAX)),
        Some(Err(_)) => Err(s3_error!(InvalidArgument, "Argument {name} must be an integer between 0 and 2147483647")),
    }
}

/// A limit as answers repeat it.
pub(crate) fn shown(limit: u32) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}

/// A prefix, delimiter or marker that has a meaning: not empty, and one that a key can hold.
pub(crate) fn text_of(name: &str, asked: Option<String>) -> S3Result<Option<String>> {
    match asked {
        Some(text) if text.len() > KEY_BYTES_MAX => Err(s3_error!(KeyTooLongError)),
        Some(text) if text.contains('\0') => Err(s3_error!(InvalidArgument, "The {name} holds a NUL byte.")),
        asked => Ok(asked.filter(|text| !text.is_empty())),
    }
}

/// How a page writes names.
///
/// A page of names that XML can't carry is URL-encoded even when the client didn't ask, and says so in `EncodingType`:
/// what AWS sends then (`&#x1;`) is not XML, and no parser reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    url: bool,
}

impl Names {
    /// Decides for all `names` that a page shows.
    pub(crate) fn new<'a>(asked: Option<&EncodingType>, mut names: impl Iterator<Item = &'a str>) -> S3Result<Self> {
        match asked.map(EncodingType::as_str) {
            None => Ok(Self { url: !names.all(text::fits_xml) }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    /// A name as this page writes it.
    pub(crate) fn write(self, name: String) -> String {
        if self.url { text::url_encode(&name) } else { name }
    }

    /// A common prefix as this page writes it.
    pub(crate) fn common_prefix(self, prefix: String) -> CommonPrefix {
        CommonPrefix { prefix: Some(self.write(prefix)) }
    }

    /// What the page says about its names.
    pub(crate) fn encoding_type(self) -> Option<EncodingType> {
        self.url.then(|| EncodingType::from_static(EncodingType::URL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(limit("max-keys", None).unwrap(), 1000);
        assert_eq!(limit("max-keys", Some(0)).unwrap(), 0);
        assert_eq!(limit("max-keys", Some(7)).unwrap(), 7);
        assert_eq!(limit("max-keys", Some(i32::MAX)).unwrap(), 1000);
        assert!(limit("max-keys", Some(-1)).is_err());
    }

    #[test]
    fn markers() {
        assert_eq!(text_of("prefix", Some(String::new())).unwrap(), None);
        assert_eq!(text_of("prefix", Some("a".into())).unwrap().as_deref(), Some("a"));
        assert!(text_of("prefix", Some("a\0".into())).is_err());
        assert!(text_of("prefix", Some("k".repeat(1025))).is_err());
    }

    #[test]
    fn names_are_encoded_when_asked_or_when_xml_can_not_carry_them() {
        let url = EncodingType::from_static(EncodingType::URL);
        let write = |asked: Option<&EncodingType>, name: &str| {
            let names = Names::new(asked, [name].into_iter()).unwrap();
            (names.write(name.to_owned()), names.encoding_type().is_some())
        };
        assert_eq!(write(None, "a b<"), ("a b<".to_owned(), false));
        assert_eq!(write(None, "a\u{1}"), ("a%01".to_owned(), true));
        assert_eq!(write(Some(&url), "a b"), ("a%20b".to_owned(), true));
        assert!(Names::new(Some(&EncodingType::from("base64".to_owned())), std::iter::empty()).is_err());
    }
}
