//! PutObject and PostObject.

use blockgate_block::BlockKey;
use blockgate_store::{WriteRequest, Written};
use blockgate_upstream::Payload;
use http::header::{ETAG, LOCATION};
use http::{HeaderMap, HeaderValue};
use s3s::dto::{ChecksumType, PostObjectInput, PostObjectOutput, PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key};
use crate::convert::attributes::sent_attributes;
use crate::convert::{checksum, condition, object, refused, tags, text};
use crate::{body, error};

/// The status that makes a POST answer with a document, in which the key must stand.
const CREATED: i32 = 201;

/// PutObject.
pub(super) async fn put(ops: &Ops, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
    let S3Request { mut input, headers, trailing_headers, .. } = request;
    let key = key(&input.bucket, &input.key)?;
    let write = WriteRequest {
        attributes: sent_attributes!(input).check()?,
        tags: input.tagging.as_deref().map(tags::of_header).transpose()?.unwrap_or_default(),
        conditions: condition::of_write(input.if_match, input.if_none_match)?,
    };
    let payload = body::payload(input.body, input.content_length, &headers, trailing_headers.clone()).await?;
    let written = store(ops, &key, write, payload).await?;
    let output = PutObjectOutput {
        checksum_crc64nvme: written.crc64.map(checksum::base64),
        checksum_type: written.crc64.map(|_| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        e_tag: Some(condition::etag(&written.etag)),
        expiration: written.expires_at.map(object::expiration),
        ..PutObjectOutput::default()
    };
    Ok(S3Response::with_headers(output, checksum::sent(&headers, trailing_headers.as_ref())))
}

/// PostObject: a browser's form. What the form promises of the file is checked as if it were in headers.
pub(super) async fn post(ops: &Ops, request: S3Request<PostObjectInput>) -> S3Result<S3Response<PostObjectOutput>> {
    let mut input = request.input;
    check_fields(&input)?;
    let key = key(&input.bucket, &input.key)?;
    check_answer(&input)?;
    let redirects = input.success_action_redirect.is_some();
    let promises = body::form_promises(&input);
    let write = WriteRequest {
        attributes: sent_attributes!(input).check()?,
        tags: input.tagging.as_deref().map(tags::of_header).transpose()?.unwrap_or_default(),
        conditions: condition::of_write(input.if_match, input.if_none_match)?,
    };
    let payload = body::payload(input.body, None, &promises, None).await?;
    let written = store(ops, &key, write, payload).await?;
    let mut headers = post_headers(&key, &written);
    if redirects {
        // s3s says where to.
        headers.remove(LOCATION);
    }
    let output = PostObjectOutput { e_tag: Some(condition::etag(&written.etag)), ..PostObjectOutput::default() };
    Ok(S3Response::with_headers(output, headers))
}

async fn store(ops: &Ops, key: &BlockKey, write: WriteRequest, payload: Payload) -> S3Result<Written> {
    ops.store.put(key, write, payload).await.map_err(error::of_store)
}

/// A form asks by fields for what other requests ask for by headers.
fn check_fields(input: &PostObjectInput) -> S3Result<()> {
    for (name, value) in [
        ("acl", input.acl.as_ref().map(s3s::dto::ObjectCannedACL::as_str)),
        ("grant-full-control", input.grant_full_control.as_deref()),
        ("grant-read", input.grant_read.as_deref()),
        ("grant-read-acp", input.grant_read_acp.as_deref()),
        ("grant-write-acp", input.grant_write_acp.as_deref()),
        (
            "object-lock-legal-hold",
            input.object_lock_legal_hold_status.as_ref().map(s3s::dto::ObjectLockLegalHoldStatus::as_str),
        ),
        ("object-lock-mode", input.object_lock_mode.as_ref().map(s3s::dto::ObjectLockMode::as_str)),
        ("server-side-encryption", input.server_side_encryption.as_ref().map(s3s::dto::ServerSideEncryption::as_str)),
        ("server-side-encryption-aws-kms-key-id", input.ssekms_key_id.as_deref()),
        ("server-side-encryption-customer-key", input.sse_customer_key.as_deref()),
        ("storage-class", input.storage_class.as_ref().map(s3s::dto::StorageClass::as_str)),
        ("website-redirect-location", input.website_redirect_location.as_deref()),
    ] {
        refused::check_field(name, value)?;
    }
    Ok(())
}

/// Refuses a form whose answer could not be written, before anything is stored.
fn check_answer(input: &PostObjectInput) -> S3Result<()> {
    if input.success_action_status == Some(CREATED) && !text::fits_xml(&input.key) {
        return Err(s3_error!(InvalidArgument, "The key can't stand in the document that status 201 asks for."));
    }
    let is_web = |url: &str| {
        let uri: Option<http::Uri> = url.parse().ok();
        uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
    };
    match &input.success_action_redirect {
        Some(url) if !is_web(url) => Err(s3_error!(InvalidArgument, "success_action_redirect is no web address.")),
        _ => Ok(()),
    }
}

fn post_headers(key: &BlockKey, written: &Written) -> HeaderMap {
    let location = format!("/{}/{}", key.bucket(), text::url_encode(key.key()));
    let etag = format!("\"{}\"", written.etag);
    let mut headers = HeaderMap::new();
    for (name, value) in [(LOCATION, location), (ETAG, etag)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers
}
