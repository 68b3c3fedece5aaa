//! Multipart uploads: how large objects come in.

use blockgate_block::BlockKey;
use blockgate_store::{CompletePart, WriteRequest};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumType, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CompletedPart, CreateMultipartUploadInput, CreateMultipartUploadOutput,
    UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key, part_number, uploads};
use crate::convert::attributes::sent_attributes;
use crate::convert::text::{url_encode, xml_key};
use crate::convert::{checksum, condition, object, tags};
use crate::{body, error};

/// CreateMultipartUpload.
pub(super) async fn create(
    ops: &Ops,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let mut input = request.input;
    let key = key(&input.bucket, &input.key)?;
    let write = WriteRequest {
        attributes: sent_attributes!(input).check()?,
        tags: input.tagging.as_deref().map(tags::of_header).transpose()?.unwrap_or_default(),
        ..WriteRequest::default()
    };
    let upload_id = ops.store.create_multipart(&key, write).await.map_err(error::of_store)?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        checksum_algorithm: input.checksum_algorithm,
        checksum_type: input.checksum_type,
        key: Some(xml_key(input.key)),
        upload_id: Some(upload_id),
        ..CreateMultipartUploadOutput::default()
    }))
}

/// UploadPart.
pub(super) async fn upload_part(
    ops: &Ops,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let S3Request { input, headers, trailing_headers, .. } = request;
    let key = key(&input.bucket, &input.key)?;
    let number = part_number(input.part_number)?;
    let payload = body::payload(input.body, input.content_length, &headers, trailing_headers.clone()).await?;
    let etag = ops.store.upload_part(&key, &input.upload_id, number, payload).await.map_err(error::of_store)?;
    let output = UploadPartOutput { e_tag: Some(condition::etag(&etag)), ..UploadPartOutput::default() };
    Ok(S3Response::with_headers(output, checksum::sent(&headers, trailing_headers.as_ref())))
}

/// CompleteMultipartUpload.
pub(super) async fn complete(
    ops: &Ops,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = request.input;
    refuse_unknown_checksums(&input)?;
    let key = key(&input.bucket, &input.key)?;
    let parts = parts(input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default())?;
    let write = WriteRequest {
        conditions: condition::of_write(input.if_match, input.if_none_match)?,
        ..WriteRequest::default()
    };
    if let Some(promised) = input.mpu_object_size {
        check_size(ops, &key, &input.upload_id, &parts, promised).await?;
    }
    let written = ops.store.complete_multipart(&key, &input.upload_id, parts, write).await.map_err(error::of_store)?;
    Ok(S3Response::new(CompleteMultipartUploadOutput {
        checksum_crc64nvme: written.crc64.map(checksum::base64),
        checksum_type: written.crc64.map(|_| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        e_tag: Some(condition::etag(&written.etag)),
        expiration: written.expires_at.map(object::expiration),
        location: Some(format!("/{}/{}", input.bucket, url_encode(&input.key))),
        bucket: Some(input.bucket),
        key: Some(xml_key(input.key)),
        ..CompleteMultipartUploadOutput::default()
    }))
}

/// AbortMultipartUpload.
pub(super) async fn abort(
    ops: &Ops,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    if input.if_match_initiated_time.is_some() {
        return Err(s3_error!(NotImplemented, "Conditions on aborts are not supported."));
    }
    let key = key(&input.bucket, &input.key)?;
    ops.store.abort_multipart(&key, &input.upload_id).await.map_err(error::of_store)?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

/// The parts of a Complete: at least one, in ascending order, each with its ETag.
fn parts(asked: Vec<CompletedPart>) -> S3Result<Vec<CompletePart>> {
    let parts = asked.into_iter().map(|part| match (part.part_number, part.e_tag) {
        (Some(number), Some(etag)) => {
            let number = part_number(number)?;
            Ok(CompletePart { number, etag: etag.into_value() })
        }
        _ => Err(s3_error!(MalformedXML)),
    });
    let parts: Vec<CompletePart> = parts.collect::<S3Result<_>>()?;
    if parts.is_empty() {
        return Err(s3_error!(MalformedXML, "You must specify at least one part"));
    }
    if parts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(s3_error!(InvalidPartOrder));
    }
    Ok(parts)
}

/// Checksums of the whole that can't be verified before the object is made are refused, not believed. (Those of the
/// parts were verified as the parts came in.)
fn refuse_unknown_checksums(input: &CompleteMultipartUploadInput) -> S3Result<()> {
    let unknown = [
        &input.checksum_crc32,
        &input.checksum_crc32c,
        &input.checksum_crc64nvme,
        &input.checksum_md5,
        &input.checksum_sha1,
        &input.checksum_sha256,
        &input.checksum_sha512,
        &input.checksum_xxhash128,
        &input.checksum_xxhash3,
        &input.checksum_xxhash64,
    ];
    if unknown.into_iter().any(Option::is_some) {
        return Err(s3_error!(NotImplemented, "Checksums of the whole object can't be verified on Complete."));
    }
    Ok(())
}

/// `x-amz-mp-object-size`: the parts together must be as long as promised.
async fn check_size(ops: &Ops, key: &BlockKey, upload_id: &str, parts: &[CompletePart], promised: i64) -> S3Result<()> {
    let mut size_bytes = 0u64;
    let mut after = 0;
    loop {
        let page = uploads::fetch_parts(ops, key, upload_id, after, crate::convert::page::PAGE_MAX).await?;
        let named = page.parts.iter().filter(|part| parts.binary_search_by_key(&part.number, |p| p.number).is_ok());
        size_bytes += named.map(|part| part.size_bytes).sum::<u64>();
        match page.parts.last() {
            Some(part) if page.truncated => after = part.number,
            _ => break,
        }
    }
    if u64::try_from(promised) == Ok(size_bytes) {
        Ok(())
    } else {
        Err(s3_error!(InvalidRequest, "The provided 'x-amz-mp-object-size' header does not match what was computed."))
    }
}

#[cfg(test)]
mod tests {
    use s3s::dto::ETag;

    use super::*;

    fn part(number: Option<i32>, etag: Option<&str>) -> CompletedPart {
        CompletedPart {
            part_number: number,
            e_tag: etag.map(|etag| ETag::Strong(etag.to_owned())),
            ..CompletedPart::default()
        }
    }

    #[test]
    fn a_complete_names_parts_in_order() {
        let code = |parts_in: Vec<CompletedPart>| parts(parts_in).unwrap_err().code().as_str().to_owned();
        let good = parts(vec![part(Some(1), Some("a")), part(Some(7), Some("b"))]).unwrap();
        assert_eq!(good[1], CompletePart { number: 7, etag: "b".into() });
        assert_eq!(code(vec![]), "MalformedXML");
        assert_eq!(code(vec![part(None, Some("a"))]), "MalformedXML");
        assert_eq!(code(vec![part(Some(1), None)]), "MalformedXML");
        assert_eq!(code(vec![part(Some(0), Some("a"))]), "InvalidArgument");
        assert_eq!(code(vec![part(Some(10_001), Some("a"))]), "InvalidArgument");
        assert_eq!(code(vec![part(Some(-1), Some("a"))]), "InvalidArgument");
        assert_eq!(code(vec![part(Some(2), Some("a")), part(Some(1), Some("b"))]), "InvalidPartOrder");
        assert_eq!(code(vec![part(Some(1), Some("a")), part(Some(1), Some("b"))]), "InvalidPartOrder");
    }
}
