//! Server-side copies.

use aws_sdk_s3::types::{MetadataDirective, TaggingDirective};

use super::S3Upstream;
use super::error::{Subject, unquoted};
use super::meta::{headers_of, tags_to_wire};
use super::multipart::{may_name_upload, part_number};
use super::object::{range_header, time};
use crate::{Conditions, CopyRequest, PartCopyRequest, Result, Stored, UpstreamError};

impl S3Upstream {
    pub(super) async fn copy_object(&self, request: CopyRequest) -> Result<Stored> {
        let abilities = self.abilities(&request.bucket).await?;
        let (from, to) = ((&*request.source_bucket, &*request.source_key), (&*request.bucket, &*request.key));
        let conditions = self.source_conditions(from, request.source_conditions).await?;
        let tags_after = match &request.tags {
            _ if abilities.copy_tags => None,
            Some(tags) => Some(tags.clone()),
            None => Some(self.object_tags(from.0, from.1).await?),
        };
        let headers = headers_of(&request.attributes)?;
        let copy = self.sdk().copy_object().copy_source(source(from.0, from.1)).bucket(to.0).key(to.1);
        let copy = copy
            .metadata_directive(MetadataDirective::Replace)
            .set_copy_source_if_match(conditions.if_match)
            .set_copy_source_if_none_match(conditions.if_none_match)
            .set_copy_source_if_modified_since(conditions.if_modified_since.map(Into::into))
            .set_copy_source_if_unmodified_since(conditions.if_unmodified_since.map(Into::into));
        let copy = match &request.tags {
            Some(tags) if tags.is_empty() => copy.tagging_directive(TaggingDirective::Replace),
            Some(tags) => copy.tagging_directive(TaggingDirective::Replace).tagging(tags_to_wire(tags)),
            None => copy.tagging_directive(TaggingDirective::Copy),
        };
        let copy = copy.customize().mutate_request(move |request| headers.apply(request));
        let output = self.call(Subject::Object, copy.config_override(self.slow_once()).send()).await?;
        if let Some(tags) = tags_after.filter(|tags| !tags.is_empty()) {
            self.set_object_tags(to.0, to.1, &tags).await?;
        }
        let result = output.copy_object_result();
        let etag = result.and_then(|result| result.e_tag()).unwrap_or_default();
        Ok(Stored { upstream_etag: unquoted(etag), stored_at: time(result.and_then(|result| result.last_modified())) })
    }

    pub(super) async fn copy_part(&self, request: PartCopyRequest) -> Result<Stored> {
        may_name_upload(&request.upload_id)?;
        let from = (&*request.source_bucket, &*request.source_key);
        let conditions = self.source_conditions(from, request.source_conditions).await?;
        let copy = self.sdk().upload_part_copy().copy_source(source(from.0, from.1)).bucket(&request.bucket);
        let copy = copy
            .key(&request.key)
            .upload_id(&request.upload_id)
            .part_number(part_number(request.number)?)
            .set_copy_source_range(request.source_range.as_ref().map(range_header))
            .set_copy_source_if_match(conditions.if_match)
            .set_copy_source_if_none_match(conditions.if_none_match)
            .set_copy_source_if_modified_since(conditions.if_modified_since.map(Into::into))
            .set_copy_source_if_unmodified_since(conditions.if_unmodified_since.map(Into::into));
        // radosgw demands a length, though there is no body.
        let copy = copy.customize().mutate_request(|request| drop(request.headers_mut().insert("content-length", "0")));
        let output = self.call(Subject::Object, copy.config_override(self.slow_once()).send()).await?;
        let result = output.copy_part_result();
        let etag = result.and_then(|result| result.e_tag()).unwrap_or_default();
        Ok(Stored { upstream_etag: unquoted(etag), stored_at: time(result.and_then(|result| result.last_modified())) })
    }

    /// Conditions to send with a copy. Those that the store would ignore or misread are judged by a HEAD before: what the
    /// source is then is what was asked about, even if it changes before it is copied.
    async fn source_conditions(&self, from: (&str, &str), conditions: Conditions) -> Result<Conditions> {
        if conditions.is_empty() {
            return Ok(conditions);
        }
        let any = |etag: &Option<String>| etag.as_deref() == Some("*");
        let judged_here =
            any(&conditions.if_match) || any(&conditions.if_none_match) || !self.abilities(from.0).await?.copy_if_match;
        if judged_here {
            return match self.head_object(from.0, from.1, &conditions).await {
                Ok(_) => Ok(Conditions::default()),
                Err(UpstreamError::NotModified { .. }) => Err(UpstreamError::PreconditionFailed),
                Err(error) => Err(error),
            };
        }
        let quoted = |etag: Option<String>| etag.map(|etag| format!("\"{etag}\""));
        Ok(Conditions {
            if_match: quoted(conditions.if_match),
            if_none_match: quoted(conditions.if_none_match),
            ..conditions
        })
    }
}

/// The source of a copy, as its header names it.
pub(super) fn source(bucket: &str, key: &str) -> String {
    let mut out = format!("{bucket}/");
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_escaped() {
        assert_eq!(source("b", "a/ b+%é?"), "b/a/%20b%2B%25%C3%A9%3F");
    }
}
