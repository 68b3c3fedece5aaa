//! Object tags.

use percent_encoding::percent_decode_str;
use s3s::dto::Tag;
use s3s::{S3Error, S3Result, s3_error};

use crate::refusal::refusal;

/// The most tags an object has (S3's own limit).
const TAGS_MAX: usize = 10;
/// The longest name of a tag, in characters.
const NAME_CHARS_MAX: usize = 128;
/// The longest value of a tag, in characters.
const VALUE_CHARS_MAX: usize = 256;

/// Tags in order.
pub(crate) type Tags = Vec<(String, String)>;

/// Reads the header `x-amz-tagging`: `name=value` pairs as in a query string.
pub(crate) fn of_header(header: &str) -> S3Result<Tags> {
    let pairs = header.split('&').filter(|pair| !pair.is_empty());
    let tags = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((form_decode(name)?, form_decode(value)?))
    });
    check(tags.collect::<S3Result<_>>()?)
}

/// Reads the tags of a PutObjectTagging.
pub(crate) fn of_xml(tags: Vec<Tag>) -> S3Result<Tags> {
    let pairs = tags.into_iter().map(|tag| match (tag.key, tag.value) {
        (Some(name), Some(value)) => Ok((name, value)),
        _ => Err(s3_error!(MalformedXML)),
    });
    check(pairs.collect::<S3Result<_>>()?)
}

/// Tags as GetObjectTagging shows them.
pub(crate) fn to_xml(tags: Tags) -> Vec<Tag> {
    tags.into_iter().map(|(name, value)| Tag { key: Some(name), value: Some(value) }).collect()
}

fn form_decode(text: &str) -> S3Result<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().map(String::from).map_err(|_| invalid("The tagging header is not UTF-8."))
}

fn check(tags: Tags) -> S3Result<Tags> {
    if tags.len() > TAGS_MAX {
        return Err(refusal("BadRequest", format!("Object tags cannot be greater than {TAGS_MAX}")));
    }
    for (at, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !allowed(name) || name.starts_with("aws:") {
            return Err(invalid("The TagKey you have provided is invalid"));
        }
        if value.chars().count() > VALUE_CHARS_MAX || !allowed(value) {
            return Err(invalid("The TagValue you have provided is invalid"));
        }
        if tags[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(invalid("Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(tags)
}

/// S3 allows letters, digits, spaces and `+ - = . _ : / @`.
fn allowed(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == ' ' || "+-=._:/@".contains(c))
}

fn invalid(message: &'static str) -> S3Error {
    s3_error!(InvalidTag, "{message}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::convert::text::url_encode;

    fn code(result: S3Result<Tags>) -> String {
        result.unwrap_err().code().as_str().to_owned()
    }

    fn xml(pairs: &[(&str, &str)]) -> S3Result<Tags> {
        of_xml(to_xml(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()))
    }

    #[test]
    fn headers() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(of_header("").unwrap(), []);
        assert_eq!(of_header("kv-ttl=60").unwrap(), [pair("kv-ttl", "60")]);
        assert_eq!(of_header("a=b%2Bc&d+e=f%20g&h").unwrap(), [pair("a", "b+c"), pair("d e", "f g"), pair("h", "")]);
        assert_eq!(code(of_header("a=%FF")), "InvalidTag");
        assert_eq!(code(of_header("=v")), "InvalidTag");
        assert_eq!(code(of_header("a=1&a=2")), "InvalidTag");
    }

    #[test]
    fn limits() {
        let many: String = (0..11).map(|i| format!("k{i}=v&")).collect();
        assert_eq!(code(of_header(&many)), "BadRequest");
        assert!(xml(&[(&"é".repeat(NAME_CHARS_MAX), &"é".repeat(VALUE_CHARS_MAX))]).is_ok());
        assert_eq!(code(xml(&[(&"k".repeat(NAME_CHARS_MAX + 1), "")])), "InvalidTag");
        assert_eq!(code(xml(&[("k", &"v".repeat(VALUE_CHARS_MAX + 1))])), "InvalidTag");
        assert_eq!(code(xml(&[("", "v")])), "InvalidTag");
        assert_eq!(code(xml(&[("aws:x", "v")])), "InvalidTag");
        assert_eq!(code(xml(&[("k", "\u{1}")])), "InvalidTag");
        assert_eq!(code(of_xml(vec![Tag { key: Some("k".into()), value: None }])), "MalformedXML");
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_written(name in "[a-zA-Z0-9+=._:/@é-]{1,20}", value in "[a-zA-Z0-9 +=._:/@é-]{0,20}") {
            prop_assume!(!name.starts_with("aws:"));
            let header = format!("{}={}", url_encode(&name), url_encode(&value));
            prop_assert_eq!(of_header(&header).unwrap(), vec![(name, value)]);
        }

        #[test]
        fn hostile_headers_do_not_panic(text in any::<String>()) {
            let _ = of_header(&text);
        }
    }
}
