//! Multipart uploads.

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, EncodingType};
use blockgate_block::{Attributes, BlockRecord, RECORD_META, RESERVED_PREFIX};

use super::S3Upstream;
use super::error::{Subject, unquoted};
use super::meta::{TAGS_META, form_decode, headers_of, tags_from_wire, tags_to_wire};
use super::object::{RequestBody, WriteConditions, time};
use crate::{
    Conditions, CopyRequest, MultipartRequest, PartInfo, PartList, PartRef, Payload, Result, Stored, UploadInfo,
    UploadList, UploadListRequest, UpstreamError,
};

/// Most bytes that one CopyObject takes.
const COPY_BYTES_MAX: u64 = 5 << 30;
/// The last part number.
const PARTS_MAX: i32 = 10_000;
/// No store's upload ids are longer.
const UPLOAD_ID_BYTES_MAX: usize = 1024;
/// Most unfinished uploads that are put into order for a listing.
const UPLOADS_MAX: usize = 100_000;

/// What Complete is asked to do, in a form that outlives who asked.
struct Completion {
    bucket: String,
    key: String,
    upload_id: String,
    parts: Vec<CompletedPart>,
    conditions: WriteConditions,
    record: Option<(Attributes, u64)>,
}

impl S3Upstream {
    pub(super) async fn begin_upload(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        let mut headers = headers_of(&request.attributes)?;
        if !request.tags.is_empty() {
            let tags = tags_to_wire(&request.tags);
            let keeps_tags = self.abilities(bucket).await?.upload_tags;
            headers.push(if keeps_tags { "x-amz-tagging" } else { TAGS_HEADER }, &tags)?;
        }
        let create = self.sdk().create_multipart_upload().bucket(bucket).key(key).customize();
        let create = create.mutate_request(move |request| headers.apply(request));
        let output = self.call(Subject::Bucket, create.send()).await?;
        self.saw(bucket);
        output.upload_id.ok_or_else(|| UpstreamError::Unavailable("the store named no upload".to_owned()))
    }

    pub(super) async fn put_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        may_name_upload(upload_id)?;
        let (attempt, operation) = self.upload_patience(payload.len_bytes());
        let body = RequestBody::of(payload).await?;
        let length = i64::try_from(body.len_bytes).map_err(|_| UpstreamError::EntityTooLarge)?;
        let part = self.sdk().upload_part().bucket(bucket).key(key).upload_id(upload_id);
        let part = part.part_number(part_number(number)?).body(body.stream).content_length(length);
        let send = part.customize().disable_payload_signing().config_override(self.patience(attempt, operation)).send();
        let output = self.upload(Subject::Upload, send, body.progress).await?;
        Ok(unquoted(output.e_tag().unwrap_or_default()))
    }

    pub(super) async fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        parts: &[PartRef],
        conditions: &Conditions,
        record: Option<(&Attributes, BlockRecord)>,
    ) -> Result<Stored> {
        may_name_upload(upload_id)?;
        if parts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
            return Err(UpstreamError::InvalidPartOrder);
        }
        let conditions = WriteConditions::of(conditions)?;
        if conditions.any() && !self.abilities(bucket).await?.conditional_complete {
            return Err(UpstreamError::NotSupported("conditional CompleteMultipartUpload"));
        }
        let part = |part: &PartRef| {
            let number = part_number(part.number)?;
            Ok(CompletedPart::builder().part_number(number).e_tag(format!("\"{}\"", part.etag)).build())
        };
        let completion = Completion {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            upload_id: upload_id.to_owned(),
            parts: parts.iter().map(part).collect::<Result<_>>()?,
            conditions,
            record: record.map(|(attributes, record)| (with_record(attributes, record), record.len_bytes)),
        };
        // On its own, so that the object gets its record although who asked went away.
        let this = self.clone();
        let task = tokio::spawn(async move { this.complete(completion).await });
        task.await.map_err(|error| UpstreamError::Unavailable(format!("Complete failed: {error}")))?
    }

    async fn complete(&self, completion: Completion) -> Result<Stored> {
        let Completion { bucket, key, upload_id, parts, conditions, record } = completion;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = self.sdk().complete_multipart_upload().bucket(&bucket).key(&key).upload_id(&upload_id);
        let complete = complete
            .multipart_upload(parts)
            .set_if_match(conditions.if_match)
            .set_if_none_match(conditions.if_none_match);
        let send = complete.customize().config_override(self.slow_once()).send();
        let output = match self.call(Subject::Upload, send).await {
            Err(UpstreamError::Unavailable(words)) if words.contains("already in progress") => {
                // radosgw says so of an upload that was aborted, too.
                self.stored_parts(&bucket, &key, &upload_id, 0, 1).await?;
                return Err(UpstreamError::Unavailable(words));
            }
            result => result?,
        };
        let mut etag = unquoted(output.e_tag().unwrap_or_default());
        let keeps_tags = self.abilities(&bucket).await.unwrap_or_default().upload_tags;
        let mut tags = Vec::new();
        if etag.is_empty() || !keeps_tags {
            let head = self.sdk().head_object().bucket(&bucket).key(&key).send();
            let head = self.call(Subject::Object, head).await?;
            etag = unquoted(head.e_tag().unwrap_or_default());
            let kept = head.metadata().and_then(|metadata| metadata.get(TAGS_META));
            tags = kept.map(|wire| tags_from_wire(wire)).unwrap_or_default();
        }
        let mut stored = Stored { upstream_etag: etag, stored_at: self.inner.clock.now() };
        if let Some((attributes, len_bytes)) = record.filter(|(_, len_bytes)| *len_bytes <= COPY_BYTES_MAX) {
            match self.give_record(&bucket, &key, &stored.upstream_etag, attributes).await {
                Ok(copied) => stored = copied,
                // The object stands, without the record: it will be served, only not as a block.
                Err(error) => {
                    tracing::warn!(bucket, key = %key.escape_debug(), len_bytes, %error, "an upload was completed without its record");
                }
            }
        }
        if !tags.is_empty() {
            self.set_object_tags(&bucket, &key, &tags).await?;
        }
        Ok(stored)
    }

    /// Copies a finished object onto itself, which is how S3 changes metadata.
    async fn give_record(&self, bucket: &str, key: &str, etag: &str, attributes: Attributes) -> Result<Stored> {
        let source_conditions = Conditions { if_match: Some(etag.to_owned()), ..Conditions::default() };
        let request = CopyRequest {
            source_bucket: bucket.to_owned(),
            source_key: key.to_owned(),
            source_conditions,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            attributes,
            tags: None,
        };
        self.copy_object(request).await
    }

    pub(super) async fn abort_upload(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        may_name_upload(upload_id)?;
        let abort = self.sdk().abort_multipart_upload().bucket(bucket).key(key).upload_id(upload_id);
        self.call(Subject::Upload, abort.send()).await.map(drop)
    }

    pub(super) async fn stored_parts(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        after: u32,
        limit: u32,
    ) -> Result<PartList> {
        may_name_upload(upload_id)?;
        let list = self.sdk().list_parts().bucket(bucket).key(key).upload_id(upload_id);
        let list = list.part_number_marker(after.to_string()).max_parts(i32::try_from(limit).unwrap_or(i32::MAX));
        let output = self.call(Subject::Upload, list.send()).await?;
        let mut parts: Vec<PartInfo> = Vec::new();
        for part in output.parts() {
            let part = PartInfo {
                number: part.part_number().and_then(|number| number.try_into().ok()).unwrap_or(0),
                etag: unquoted(part.e_tag().unwrap_or_default()),
                size_bytes: part.size().and_then(|size| size.try_into().ok()).unwrap_or(0),
                last_modified: time(part.last_modified()),
            };
            match parts.last_mut().filter(|last| last.number == part.number) {
                // SeaweedFS lists a part that was replaced, too.
                Some(last) if last.last_modified <= part.last_modified => *last = part,
                Some(_) => {}
                None => parts.push(part),
            }
        }
        Ok(PartList { parts, truncated: output.is_truncated == Some(true) })
    }

    /// All are read and put into order here: stores order uploads of one key by time, and radosgw orders keys by what follows
    /// them in its own names.
    pub(super) async fn unfinished_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        let mut uploads = self.every_upload(bucket, &request.prefix).await?;
        uploads.retain(|upload| {
            let own = upload.key.starts_with(RESERVED_PREFIX) && !request.prefix.starts_with(RESERVED_PREFIX);
            let seen = request.after.as_ref().is_some_and(|(key, id)| match id {
                Some(id) => (&upload.key, &upload.upload_id) <= (key, id),
                None => &upload.key <= key,
            });
            !own && !seen && upload.key.starts_with(&request.prefix)
        });
        uploads.sort_by(|a, b| (&a.key, &a.upload_id).cmp(&(&b.key, &b.upload_id)));
        let truncated = uploads.len() > request.limit as usize;
        uploads.truncate(request.limit as usize);
        Ok(UploadList { uploads, truncated })
    }

    async fn every_upload(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        let mut uploads = Vec::new();
        let (mut key_marker, mut id_marker) = (None, None);
        loop {
            let list = self.sdk().list_multipart_uploads().bucket(bucket).encoding_type(EncodingType::Url);
            let list = list.set_prefix((!prefix.is_empty()).then(|| prefix.to_owned()));
            let output = self
                .call(Subject::Bucket, list.set_key_marker(key_marker).set_upload_id_marker(id_marker).send())
                .await?;
            let encoded = output.encoding_type() == Some(&EncodingType::Url);
            let decode = |text: &str| if encoded { form_decode(text).unwrap_or_default() } else { text.to_owned() };
            uploads.extend(output.uploads().iter().map(|upload| UploadInfo {
                key: decode(upload.key().unwrap_or_default()),
                upload_id: upload.upload_id().unwrap_or_default().to_owned(),
                initiated_at: time(upload.initiated()),
            }));
            if output.is_truncated != Some(true) || output.next_key_marker.is_none() {
                return Ok(uploads);
            }
            if uploads.len() >= UPLOADS_MAX {
                return Err(UpstreamError::NotSupported("listing so many unfinished uploads"));
            }
            key_marker = output.next_key_marker.as_deref().map(decode);
            id_marker = output.next_upload_id_marker;
        }
    }
}

const TAGS_HEADER: &str = "x-amz-meta-blockgate-tags";

fn with_record(attributes: &Attributes, record: BlockRecord) -> Attributes {
    let mut attributes = attributes.clone();
    attributes.user.insert(RECORD_META.to_owned(), record.to_string());
    attributes
}

/// Stores answer in many ways to ids that might be paths.
pub(super) fn may_name_upload(id: &str) -> Result<()> {
    let odd =
        id.is_empty() || id.len() > UPLOAD_ID_BYTES_MAX || id.contains(['/', '\\']) || id.contains(char::is_control);
    if odd { Err(UpstreamError::NoSuchUpload) } else { Ok(()) }
}

pub(super) fn part_number(number: u32) -> Result<i32> {
    let number = i32::try_from(number).ok().filter(|number| (1..=PARTS_MAX).contains(number));
    number.ok_or_else(|| UpstreamError::InvalidRequest(format!("part numbers are 1 to {PARTS_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_travel_as_metadata_that_is_not_shown() {
        assert_eq!(TAGS_HEADER, format!("x-amz-meta-{TAGS_META}"));
    }
}
