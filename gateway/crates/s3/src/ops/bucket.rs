//! Buckets.

use blockgate_auth::Permission;
use blockgate_store::StoreError;
use blockgate_upstream::{BucketInfo, UpstreamError};
use s3s::dto::{
    Bucket, BucketLocationConstraint, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput,
    GetBucketLocationInput, GetBucketLocationOutput, HeadBucketInput, HeadBucketOutput, ListBucketsInput,
    ListBucketsOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{DEFAULT_REGION, Ops};
use crate::convert::owner::owner;
use crate::convert::{time, token};
use crate::error;

/// The most buckets on a page (S3's own limit).
const BUCKETS_MAX: i32 = 10_000;
/// What tokens of ListBuckets are for; no bucket has this name.
const TOKEN_SCOPE: &str = "/";

/// ListBuckets: those that the key may use.
pub(super) async fn list(ops: &Ops, request: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
    let S3Request { input, credentials, .. } = request;
    let limit = input.max_buckets.unwrap_or(BUCKETS_MAX);
    let limit = usize::try_from(limit).ok().filter(|_| (1..=BUCKETS_MAX).contains(&limit));
    let limit = limit.ok_or_else(|| s3_error!(InvalidArgument, "max-buckets must be from 1 to {BUCKETS_MAX}."))?;
    let after = input.continuation_token.map(|text| token::decode(TOKEN_SCOPE, &text)).transpose()?;
    let prefix = input.prefix.as_deref().unwrap_or_default();
    let may_see = |name: &str| {
        let key = credentials.as_ref().map(|credentials| credentials.access_key.as_str());
        let allows = |permission| key.is_some_and(|key| ops.keys.allows(key, name, permission));
        allows(Permission::Read) || allows(Permission::Write)
    };

    let mut found = ops.store.list_buckets().await.map_err(error::of_store)?;
    found.retain(|bucket| {
        let is_next = after.as_ref().is_none_or(|after| bucket.name > *after);
        is_next && bucket.name.starts_with(prefix) && may_see(&bucket.name)
    });
    let truncated = found.len() > limit;
    found.truncate(limit);
    let continuation_token =
        found.last().filter(|_| truncated).map(|bucket: &BucketInfo| token::encode(TOKEN_SCOPE, &bucket.name));
    let buckets = found.into_iter().map(|bucket| Bucket {
        creation_date: bucket.created_at.map(time::timestamp),
        name: Some(bucket.name),
        ..Bucket::default()
    });
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token,
        owner: Some(owner()),
        prefix: input.prefix.filter(|prefix| !prefix.is_empty()),
    }))
}

/// CreateBucket. Every region is taken, and meant to be this one.
pub(super) async fn create(
    ops: &Ops,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let bucket = request.input.bucket;
    let asked = request.input.create_bucket_configuration.unwrap_or_default();
    if asked.bucket.is_some() || asked.location.is_some() || asked.tags.is_some_and(|tags| !tags.is_empty()) {
        return Err(s3_error!(NotImplemented, "Directory buckets and tags of buckets are not supported."));
    }
    match ops.store.create_bucket(&bucket).await {
        // As AWS does in its first region: whoever has the bucket may ask for it again.
        Err(StoreError::Upstream(UpstreamError::BucketExists)) if ops.region == DEFAULT_REGION => {
            ops.require_bucket(&bucket).await?;
        }
        outcome => outcome.map_err(error::of_store)?,
    }
    Ok(S3Response::new(CreateBucketOutput { bucket_arn: None, location: Some(format!("/{bucket}")) }))
}

/// DeleteBucket: an empty one.
pub(super) async fn delete(
    ops: &Ops,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    ops.store.delete_bucket(&request.input.bucket).await.map_err(error::of_store)?;
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

/// HeadBucket.
pub(super) async fn head(ops: &Ops, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
    ops.require_bucket(&request.input.bucket).await?;
    let bucket_region = Some(ops.region.clone());
    Ok(S3Response::new(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() }))
}

/// GetBucketLocation. The first region of AWS has no name here.
pub(super) async fn location(
    ops: &Ops,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    ops.require_bucket(&request.input.bucket).await?;
    let location_constraint =
        (ops.region != DEFAULT_REGION).then(|| BucketLocationConstraint::from(ops.region.clone()));
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint }))
}
