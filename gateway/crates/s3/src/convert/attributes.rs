//! What a client attaches to an object: standard headers and user metadata.

use std::collections::BTreeMap;

use blockgate_block::{Attributes, RECORD_META};
use http::{HeaderName, HeaderValue};
use s3s::dto::Metadata;
use s3s::{S3Result, s3_error};

/// The most that names and values of user metadata may take together (S3's own limit).
const METADATA_BYTES_MAX: usize = 2048;

/// The attributes of a PUT, a POST, a copy or a new upload, as they were sent.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) content_type: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_language: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) cache_control: Option<String>,
    pub(crate) expires: Option<String>,
    pub(crate) metadata: Option<Metadata>,
}

/// Takes the attributes out of any input that has them.
macro_rules! sent_attributes {
    ($input:expr) => {
        $crate::convert::attributes::Sent {
            content_type: $input.content_type.take(),
            content_encoding: $input.content_encoding.take(),
            content_language: $input.content_language.take(),
            content_disposition: $input.content_disposition.take(),
            cache_control: $input.cache_control.take(),
            expires: $input.expires.take(),
            metadata: $input.metadata.take(),
        }
    };
}
pub(crate) use sent_attributes;

impl Sent {
    /// The attributes to store.
    ///
    /// # Errors
    /// When a value could not be sent back as a header, or the metadata is too large or not the client's to set.
    pub(crate) fn check(self) -> S3Result<Attributes> {
        Ok(Attributes {
            content_type: header("Content-Type", self.content_type)?,
            content_encoding: header("Content-Encoding", self.content_encoding.and_then(without_aws_chunked))?,
            content_language: header("Content-Language", self.content_language)?,
            content_disposition: header("Content-Disposition", self.content_disposition)?,
            cache_control: header("Cache-Control", self.cache_control)?,
            expires: header("Expires", self.expires)?,
            user: self.metadata.map(user_metadata).transpose()?.unwrap_or_default(),
        })
    }
}

/// `aws-chunked` describes how the request was framed, not the object.
fn without_aws_chunked(value: String) -> Option<String> {
    let is_framing = |coding: &str| coding.trim().eq_ignore_ascii_case("aws-chunked");
    if !value.split(',').any(is_framing) {
        return Some(value);
    }
    let kept: Vec<&str> = value.split(',').filter(|coding| !is_framing(coding)).map(str::trim).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// Form fields (POST) may hold what no header can.
fn header(name: &str, value: Option<String>) -> S3Result<Option<String>> {
    match value {
        Some(text) if !is_header_value(&text) => {
            Err(s3_error!(InvalidArgument, "The {name} can't be sent as a header."))
        }
        value => Ok(value.filter(|text| !text.is_empty())),
    }
}

fn is_header_value(text: &str) -> bool {
    HeaderValue::from_str(text).is_ok()
}

fn user_metadata(metadata: Metadata) -> S3Result<BTreeMap<String, String>> {
    let size_bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size_bytes > METADATA_BYTES_MAX {
        return Err(s3_error!(MetadataTooLarge));
    }
    if metadata.contains_key(RECORD_META) {
        return Err(s3_error!(InvalidArgument, "x-amz-meta-{RECORD_META} is blockgate's own."));
    }
    // Values may come encoded (RFC 2047) and hold control characters once decoded: they could not be sent back.
    let sound = |(name, value): (&String, &String)| {
        HeaderName::from_bytes(name.as_bytes()).is_ok_and(|parsed| parsed.as_str() == name)
            && value.chars().all(|c| c == '\t' || !c.is_control())
    };
    if !metadata.iter().all(sound) {
        return Err(s3_error!(InvalidArgument, "User metadata must be of header names and printable text."));
    }
    Ok(metadata.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> Sent {
        let map = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Sent { metadata: Some(map), ..Sent::default() }
    }

    fn code(sent: Sent) -> String {
        sent.check().unwrap_err().code().as_str().to_owned()
    }

    #[test]
    fn attributes_are_kept_as_sent() {
        let sent = Sent {
            content_type: Some("text/plain".into()),
            content_encoding: Some("gzip".into()),
            expires: Some("whenever".into()),
            cache_control: Some(String::new()),
            ..metadata(&[("kv-ttl", "60"), ("name", "wert é")])
        };
        let attributes = sent.check().unwrap();
        assert_eq!(attributes.content_type.as_deref(), Some("text/plain"));
        assert_eq!(attributes.content_encoding.as_deref(), Some("gzip"));
        assert_eq!(attributes.expires.as_deref(), Some("whenever"));
        assert_eq!(attributes.cache_control, None);
        assert_eq!(attributes.user["name"], "wert é");
    }

    #[test]
    fn framing_is_not_an_encoding() {
        for (sent, kept) in [
            ("aws-chunked", None),
            ("AWS-Chunked", None),
            ("aws-chunked,gzip", Some("gzip")),
            ("gzip, aws-chunked", Some("gzip")),
            ("gzip, br", Some("gzip, br")),
        ] {
            assert_eq!(without_aws_chunked(sent.to_owned()).as_deref(), kept, "{sent}");
        }
    }

    #[test]
    fn metadata_has_a_limit() {
        assert!(metadata(&[("k", &"v".repeat(METADATA_BYTES_MAX - 1))]).check().is_ok());
        assert_eq!(code(metadata(&[("k", &"v".repeat(METADATA_BYTES_MAX))])), "MetadataTooLarge");
    }

    #[test]
    fn what_could_not_be_sent_back_is_refused() {
        assert_eq!(code(metadata(&[(RECORD_META, "v=1")])), "InvalidArgument");
        assert_eq!(code(metadata(&[("a b", "v")])), "InvalidArgument");
        assert_eq!(code(metadata(&[("Upper", "v")])), "InvalidArgument");
        assert_eq!(code(metadata(&[("k", "a\nb")])), "InvalidArgument");
        assert_eq!(code(Sent { content_type: Some("a\r\nb: c".into()), ..Sent::default() }), "InvalidArgument");
    }
}
