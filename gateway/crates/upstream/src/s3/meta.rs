//! How attributes travel in headers, and back.
//!
//! HTTP and the stores change some metadata on the way: non-ASCII values can't be sent, blanks at the ends are trimmed,
//! empty values are dropped (SeaweedFS), `_` in names becomes `-` (radosgw). What is changed by none of them is sent as it is.
//! A value that would be is sent as one RFC 2047 word, as S3 itself shows such values. A name that would be moves, with its
//! value, into [`MORE_META`]. Every map of names and values thus comes back as it was.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blockgate_block::Attributes;
use http::{HeaderName, HeaderValue};

use crate::{Result, UpstreamError};

/// User metadata that holds, as base64 of JSON, the pairs whose names not every store keeps.
pub(super) const MORE_META: &str = "blockgate-more";
/// User metadata that keeps the tags of an upload until it is completed, on stores that would forget them.
pub(super) const TAGS_META: &str = "blockgate-tags";
/// What S3 gives an object that was stored without a type.
const DEFAULT_TYPE: &str = "binary/octet-stream";

const WORD_START: &str = "=?UTF-8?B?";
const WORD_END: &str = "?=";

/// Headers to add to a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    pub(super) fn push(&mut self, name: &str, value: &str) -> Result<()> {
        let invalid = || UpstreamError::InvalidRequest(format!("the header {name:?} can't be sent"));
        let name_parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        self.0.push((name_parsed, HeaderValue::from_str(value).map_err(|_| invalid())?));
        Ok(())
    }

    /// Puts them into a request, in place of what it has under the same names.
    pub(super) fn apply(&self, request: &mut aws_smithy_runtime_api::client::orchestrator::HttpRequest) {
        for (name, value) in &self.0 {
            // Both were checked when they were pushed.
            let _ = request.headers_mut().try_insert(name.clone(), value.clone());
        }
    }
}

/// The headers that give an object these attributes.
pub(super) fn headers_of(attributes: &Attributes) -> Result<Headers> {
    let mut headers = Headers::default();
    headers.push("content-type", attributes.content_type.as_deref().unwrap_or(DEFAULT_TYPE))?;
    for (name, value) in [
        ("content-encoding", &attributes.content_encoding),
        ("content-language", &attributes.content_language),
        ("content-disposition", &attributes.content_disposition),
        ("cache-control", &attributes.cache_control),
        ("expires", &attributes.expires),
    ] {
        if let Some(value) = value {
            headers.push(name, value)?;
        }
    }
    for (name, value) in user_to_wire(&attributes.user) {
        headers.push(&format!("x-amz-meta-{name}"), &value)?;
    }
    Ok(headers)
}

/// Reads the attributes of a `HeadObjectOutput` or a `GetObjectOutput`.
macro_rules! attributes_of {
    ($output:expr) => {
        blockgate_block::Attributes {
            content_type: $crate::s3::meta::content_type_from_wire($output.content_type()),
            content_encoding: $output.content_encoding().map(str::to_owned),
            content_language: $output.content_language().map(str::to_owned),
            content_disposition: $output.content_disposition().map(str::to_owned),
            cache_control: $output.cache_control().map(str::to_owned),
            expires: $output.expires_string().map(str::to_owned),
            user: $crate::s3::meta::user_from_wire($output.metadata()),
        }
    };
}
pub(super) use attributes_of;

pub(super) fn content_type_from_wire(wire: Option<&str>) -> Option<String> {
    wire.filter(|text| *text != DEFAULT_TYPE).map(str::to_owned)
}

/// User metadata as it is sent.
fn user_to_wire(user: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (plain, more): (BTreeMap<_, _>, BTreeMap<_, _>) = user.iter().partition(|(name, _)| name_is_kept(name));
    let mut wire: BTreeMap<_, _> =
        plain.into_iter().map(|(name, value)| (name.clone(), value_to_wire(value))).collect();
    if !more.is_empty() {
        // A map of strings is always JSON.
        let json = serde_json::to_string(&more).unwrap_or_default();
        wire.insert(MORE_META.to_owned(), BASE64.encode(json));
    }
    wire
}

/// User metadata as it was before it was sent.
pub(super) fn user_from_wire(wire: Option<&HashMap<String, String>>) -> BTreeMap<String, String> {
    let mut user = BTreeMap::new();
    for (name, value) in wire.into_iter().flatten() {
        if name == MORE_META {
            let json = BASE64.decode(value).unwrap_or_default();
            user.extend(serde_json::from_slice::<BTreeMap<String, String>>(&json).unwrap_or_default());
        } else if name != TAGS_META {
            user.insert(name.to_ascii_lowercase(), value_from_wire(value));
        }
    }
    user
}

fn name_is_kept(name: &str) -> bool {
    let kept = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.bytes().all(kept) && name != MORE_META && name != TAGS_META
}

fn value_is_kept(value: &str) -> bool {
    let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let blanks = value.starts_with(' ') || value.ends_with(' ') || value.contains("  ");
    !value.is_empty() && printable && !blanks && !value.starts_with(WORD_START)
}

fn value_to_wire(value: &str) -> String {
    if value_is_kept(value) { value.to_owned() } else { format!("{WORD_START}{}{WORD_END}", BASE64.encode(value)) }
}

fn value_from_wire(wire: &str) -> String {
    wire.strip_prefix(WORD_START)
        .and_then(|rest| rest.strip_suffix(WORD_END))
        .and_then(|word| BASE64.decode(word).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| wire.to_owned())
}

/// Tags as one header carries them.
pub(super) fn tags_to_wire(tags: &[(String, String)]) -> String {
    let escape = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
            out
        })
    };
    let pairs: Vec<_> = tags.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Tags as one header carried them.
pub(super) fn tags_from_wire(wire: &str) -> Vec<(String, String)> {
    let part = |text: &str| form_decode(text).unwrap_or_default();
    wire.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (part(name), part(value)))
        .collect()
}

/// Undoes the URL encoding of listings and of tags: `%XX`, and `+` for a blank. `None` for what is no UTF-8 text.
pub(super) fn form_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(digits[0])? << 4 | digit(digits[1])?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn roundtrip(user: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let wire = user_to_wire(user);
        for (name, value) in &wire {
            assert!(name_is_kept(name) || name == MORE_META, "{name:?}");
            assert!(value_is_kept(value) || value.starts_with(WORD_START), "{value:?}");
            assert!(value.bytes().all(|byte| matches!(byte, b'!'..=b'~' | b' ')));
        }
        user_from_wire(Some(&wire.into_iter().collect()))
    }

    #[test]
    fn ordinary_metadata_is_sent_as_it_is() {
        let user: BTreeMap<_, _> =
            [("kv-ttl".to_owned(), "60".to_owned()), ("a.b".into(), "c, \"d\" %41".into())].into();
        assert_eq!(user_to_wire(&user), user);
    }

    #[test]
    fn odd_metadata_comes_back() {
        let pairs =
            [("a_b", "1"), ("a-b", "2"), ("e", ""), ("u", "é"), ("w", "=?UTF-8?B?w6k=?="), ("t", " x\t"), ("!", "")];
        let user = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(roundtrip(&user), user);
    }

    #[test]
    fn words_written_by_others_are_shown_as_they_are() {
        assert_eq!(value_from_wire("=?UTF-8?Q?=C3=A9?="), "=?UTF-8?Q?=C3=A9?=");
        assert_eq!(value_from_wire("=?UTF-8?B?*?="), "=?UTF-8?B?*?=");
    }

    #[test]
    fn the_default_type_is_no_type() {
        let headers = headers_of(&Attributes::default()).unwrap();
        assert_eq!(headers.0[0].1, DEFAULT_TYPE);
        assert_eq!(content_type_from_wire(Some(DEFAULT_TYPE)), None);
        assert_eq!(content_type_from_wire(Some("a/b")).as_deref(), Some("a/b"));
    }

    #[test]
    fn headers_that_can_not_be_sent_are_refused() {
        let attributes = Attributes { cache_control: Some("a\r\nb: c".to_owned()), ..Attributes::default() };
        assert!(matches!(headers_of(&attributes), Err(UpstreamError::InvalidRequest(_))));
    }

    #[test]
    fn form_decoding() {
        assert_eq!(form_decode("a+b%2B%C3%A9").as_deref(), Some("a b+é"));
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(form_decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_metadata_comes_back(user in prop::collection::btree_map("[a-z0-9_.!-]{1,8}", "\\PC{0,12}|[ -~]{0,12}", 0..6)) {
            prop_assert_eq!(roundtrip(&user), user);
        }

        #[test]
        fn tags_come_back(tags in prop::collection::vec(("\\PC{1,9}", "\\PC{0,9}"), 0..5)) {
            prop_assert_eq!(tags_from_wire(&tags_to_wire(&tags)), tags);
        }
    }
}
