//! DeleteObject and DeleteObjects.

use blockgate_block::BlockKey;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error,
    ObjectIdentifier,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key};
use crate::convert::{text, version};
use crate::error;

/// The most keys of one DeleteObjects (S3's own limit).
const KEYS_MAX: usize = 1000;

/// DeleteObject. An object that isn't there counts as deleted.
pub(super) async fn one(ops: &Ops, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    version::only_null(input.version_id.as_deref())?;
    if input.if_match.is_some() || input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
        return Err(no_conditions());
    }
    let key = key(&input.bucket, &input.key)?;
    ops.store.delete(&key).await.map_err(error::of_store)?;
    Ok(S3Response::new(DeleteObjectOutput { version_id: input.version_id, ..DeleteObjectOutput::default() }))
}

/// DeleteObjects: each key has its own outcome.
pub(super) async fn many(
    ops: &Ops,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = request.input;
    let asked = input.delete.objects;
    // The document's schema allows 1 to 1,000; and no XML document can hold, nor the answer repeat, characters that XML
    // does not have.
    if asked.is_empty() || asked.len() > KEYS_MAX || !asked.iter().all(|object| text::fits_xml(&object.key)) {
        return Err(s3_error!(MalformedXML));
    }
    let checked: Vec<S3Result<BlockKey>> = asked.iter().map(|object| check(&input.bucket, object)).collect();
    let keys: Vec<BlockKey> = checked.iter().flatten().cloned().collect();
    let mut outcomes = ops.store.delete_many(&keys).await.map_err(error::of_store)?.into_iter();

    let mut deleted = Vec::new();
    let mut errors = Vec::new();
    for (object, checked) in asked.into_iter().zip(checked) {
        let outcome = checked.and_then(|_| match outcomes.next() {
            Some(outcome) => outcome.map_err(error::of_store),
            None => Err(s3_error!(InternalError)),
        });
        match outcome {
            Ok(()) => deleted.push(DeletedObject {
                key: Some(object.key),
                version_id: object.version_id,
                ..DeletedObject::default()
            }),
            Err(error) => errors.push(failed(object, &error)),
        }
    }
    if input.delete.quiet.unwrap_or_default() {
        deleted.clear();
    }
    Ok(S3Response::new(DeleteObjectsOutput {
        deleted: Some(deleted),
        errors: Some(errors),
        ..DeleteObjectsOutput::default()
    }))
}

fn check(bucket: &str, object: &ObjectIdentifier) -> S3Result<BlockKey> {
    version::only_null(object.version_id.as_deref())?;
    if object.e_tag.is_some() || object.last_modified_time.is_some() || object.size.is_some() {
        return Err(no_conditions());
    }
    key(bucket, &object.key)
}

fn failed(object: ObjectIdentifier, error: &S3Error) -> Error {
    Error {
        code: Some(error.code().as_str().to_owned()),
        key: Some(object.key),
        message: error.message().map(str::to_owned),
        version_id: object.version_id.filter(|version| text::fits_xml(version)),
    }
}

fn no_conditions() -> S3Error {
    s3_error!(NotImplemented, "Conditions on deletions are not supported.")
}
