//! CopyObject and UploadPartCopy.

use blockgate_block::BlockKey;
use blockgate_store::{CopyObject, PartCopy, StoreError};
use blockgate_upstream::UpstreamError;
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, MetadataDirective, TaggingDirective,
    UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key, part_number};
use crate::convert::attributes::sent_attributes;
use crate::convert::{checksum, condition, copy_source, object, range, tags, time};
use crate::error;

/// CopyObject.
pub(super) async fn object(ops: &Ops, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
    let mut input = request.input;
    let target = key(&input.bucket, &input.key)?;
    let source = copy_source::key(&input.copy_source)?;
    let replaces_attributes = is_replace(
        input.metadata_directive.as_ref().map(MetadataDirective::as_str),
        MetadataDirective::REPLACE,
        MetadataDirective::COPY,
    )?;
    let replaces_tags = is_replace(
        input.tagging_directive.as_ref().map(TaggingDirective::as_str),
        TaggingDirective::REPLACE,
        TaggingDirective::COPY,
    )?;
    if source == target && !replaces_attributes && !replaces_tags {
        return Err(copies_onto_itself());
    }
    let sent = sent_attributes!(input).check()?;
    let sent_tags = input.tagging.as_deref().map(tags::of_header).transpose()?.unwrap_or_default();
    let copy = CopyObject {
        source,
        source_conditions: condition::of_read(
            input.copy_source_if_match,
            input.copy_source_if_none_match,
            input.copy_source_if_modified_since,
            input.copy_source_if_unmodified_since,
        ),
        target,
        attributes: replaces_attributes.then_some(sent),
        tags: replaces_tags.then_some(sent_tags),
        conditions: condition::of_write(input.if_match, input.if_none_match)?,
    };
    let written = ops.store.copy(copy).await.map_err(of_copy)?;
    let result = CopyObjectResult {
        checksum_crc64nvme: written.crc64.map(checksum::base64),
        e_tag: Some(condition::etag(&written.etag)),
        last_modified: Some(time::timestamp(written.stored_at)),
        ..CopyObjectResult::default()
    };
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        expiration: written.expires_at.map(object::expiration),
        ..CopyObjectOutput::default()
    }))
}

/// UploadPartCopy: (a range of) an object becomes a part.
pub(super) async fn part(
    ops: &Ops,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let input = request.input;
    let target: BlockKey = key(&input.bucket, &input.key)?;
    let copy = PartCopy {
        source: copy_source::key(&input.copy_source)?,
        source_range: input.copy_source_range.as_deref().map(range::copy_range).transpose()?,
        source_conditions: condition::of_read(
            input.copy_source_if_match,
            input.copy_source_if_none_match,
            input.copy_source_if_modified_since,
            input.copy_source_if_unmodified_since,
        ),
        target,
        upload_id: input.upload_id,
        number: part_number(input.part_number)?,
    };
    let written = ops.store.upload_part_copy(copy).await.map_err(of_copy)?;
    let result = CopyPartResult {
        e_tag: Some(condition::etag(&written.etag)),
        last_modified: Some(time::timestamp(written.stored_at)),
        ..CopyPartResult::default()
    };
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() }))
}

/// Whether a directive says to replace. Absent, it says to copy.
fn is_replace(directive: Option<&str>, replace: &str, copy: &str) -> S3Result<bool> {
    match directive {
        None => Ok(false),
        Some(directive) if directive == copy => Ok(false),
        Some(directive) if directive == replace => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown directive: it is COPY or REPLACE.")),
    }
}

fn copies_onto_itself() -> S3Error {
    s3_error!(
        InvalidRequest,
        "This copy request is illegal because it is trying to copy an object to itself without changing the object's \
         metadata, storage class, website redirect location or encryption attributes."
    )
}

/// A condition on the source that fails is a 412, whichever it is; a range beyond the source is no 416.
fn of_copy(error: StoreError) -> S3Error {
    match error {
        StoreError::NotModified(_) | StoreError::Upstream(UpstreamError::NotModified { .. }) => {
            s3_error!(PreconditionFailed)
        }
        StoreError::InvalidRange { size_bytes } | StoreError::Upstream(UpstreamError::InvalidRange { size_bytes }) => {
            s3_error!(InvalidArgument, "Range specified is not valid for source object of size: {size_bytes}")
        }
        other => error::of_store(other),
    }
}
