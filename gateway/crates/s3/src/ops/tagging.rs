//! Tags of objects.

use blockgate_block::BlockKey;
use s3s::dto::{
    DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
    PutObjectTaggingInput, PutObjectTaggingOutput,
};
use s3s::{S3Request, S3Response, S3Result};

use super::{Ops, key};
use crate::convert::{tags, version};
use crate::error;

/// GetObjectTagging.
pub(super) async fn get(
    ops: &Ops,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    let key = object(&input.bucket, &input.key, input.version_id.as_deref())?;
    let found = ops.store.tags(&key).await.map_err(error::of_store)?;
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: tags::to_xml(found), version_id: input.version_id }))
}

/// PutObjectTagging: these tags replace all others.
pub(super) async fn put(
    ops: &Ops,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    let key = object(&input.bucket, &input.key, input.version_id.as_deref())?;
    let tags = tags::of_xml(input.tagging.tag_set)?;
    ops.store.set_tags(&key, tags).await.map_err(error::of_store)?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id: input.version_id }))
}

/// DeleteObjectTagging.
pub(super) async fn delete(
    ops: &Ops,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    let key = object(&input.bucket, &input.key, input.version_id.as_deref())?;
    ops.store.set_tags(&key, Vec::new()).await.map_err(error::of_store)?;
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id: input.version_id }))
}

fn object(bucket: &str, object: &str, version_id: Option<&str>) -> S3Result<BlockKey> {
    version::only_null(version_id)?;
    key(bucket, object)
}
