//! Access control lists. Everything is private to the one owner; who may do what is decided by access keys.

use s3s::dto::{
    GetBucketAclInput, GetBucketAclOutput, GetObjectAclInput, GetObjectAclOutput, PutBucketAclInput,
    PutBucketAclOutput, PutObjectAclInput, PutObjectAclOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key};
use crate::convert::owner::{owner, private_grants};
use crate::convert::version;
use crate::error;

/// GetBucketAcl.
pub(super) async fn get_bucket(
    ops: &Ops,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    ops.require_bucket(&request.input.bucket).await?;
    Ok(S3Response::new(GetBucketAclOutput { grants: Some(private_grants()), owner: Some(owner()) }))
}

/// PutBucketAcl: the canned ACLs that change nothing. Others were refused by their header.
pub(super) async fn put_bucket(
    ops: &Ops,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    require_canned(request.input.acl.is_some())?;
    ops.require_bucket(&request.input.bucket).await?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// GetObjectAcl.
pub(super) async fn get_object(
    ops: &Ops,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    require_object(ops, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    Ok(S3Response::new(GetObjectAclOutput {
        grants: Some(private_grants()),
        owner: Some(owner()),
        ..GetObjectAclOutput::default()
    }))
}

/// PutObjectAcl: the canned ACLs that change nothing. Others were refused by their header.
pub(super) async fn put_object(
    ops: &Ops,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    let input = request.input;
    require_canned(input.acl.is_some())?;
    require_object(ops, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

fn require_canned(is_canned: bool) -> S3Result<()> {
    if is_canned { Ok(()) } else { Err(s3_error!(NotImplemented, "ACLs of one's own are not supported.")) }
}

async fn require_object(ops: &Ops, bucket: &str, object: &str, version_id: Option<&str>) -> S3Result<()> {
    version::only_null(version_id)?;
    let key = key(bucket, object)?;
    ops.store.head(&key, Default::default()).await.map(drop).map_err(error::of_store)
}
