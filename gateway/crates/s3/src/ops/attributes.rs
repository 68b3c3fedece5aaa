//! GetObjectAttributes.

use blockgate_block::ObjectInfo;
use blockgate_store::ReadRequest;
use s3s::dto::{
    Checksum, ChecksumType, GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectAttributesParts,
    ObjectAttributes, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key};
use crate::convert::{checksum, condition, kv, object, time, version};
use crate::error;

/// GetObjectAttributes: those that were asked for.
pub(super) async fn get(
    ops: &Ops,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let S3Request { input, headers, .. } = request;
    version::only_null(input.version_id.as_deref())?;
    let asked = Asked::new(&input.object_attributes)?;
    let key = key(&input.bucket, &input.key)?;
    let read = ReadRequest {
        fingerprint: kv::fingerprint(&headers)?,
        deadline: kv::deadline(&headers)?,
        ..ReadRequest::default()
    };
    let found = ops.store.head(&key, read).await.map_err(error::of_store)?;
    let info = &found.info;
    let output = GetObjectAttributesOutput {
        checksum: asked.checksum.then(|| checksum_of(info)).flatten(),
        e_tag: asked.etag.then(|| condition::etag(&info.etag)),
        last_modified: Some(time::timestamp(info.last_modified)),
        object_parts: asked.object_parts.then(|| parts_of(info)).flatten(),
        object_size: asked.object_size.then(|| i64::try_from(info.size_bytes).ok()).flatten(),
        storage_class: asked.storage_class.then(|| StorageClass::from_static(StorageClass::STANDARD)),
        version_id: input.version_id,
        ..GetObjectAttributesOutput::default()
    };
    Ok(S3Response::with_headers(output, object::tier_header(found.tier)))
}

#[derive(Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // They are the five independent flags of the request.
struct Asked {
    checksum: bool,
    etag: bool,
    object_parts: bool,
    object_size: bool,
    storage_class: bool,
}

impl Asked {
    /// Names may come in several headers or, separated by commas, in one.
    fn new(names: &[ObjectAttributes]) -> S3Result<Self> {
        let mut asked = Self::default();
        for name in names.iter().flat_map(|names| names.as_str().split(',')).map(str::trim) {
            match name {
                ObjectAttributes::CHECKSUM => asked.checksum = true,
                ObjectAttributes::ETAG => asked.etag = true,
                ObjectAttributes::OBJECT_PARTS => asked.object_parts = true,
                ObjectAttributes::OBJECT_SIZE => asked.object_size = true,
                ObjectAttributes::STORAGE_CLASS => asked.storage_class = true,
                _ => return Err(s3_error!(InvalidArgument, "Invalid attribute name specified.")),
            }
        }
        Ok(asked)
    }
}

fn checksum_of(info: &ObjectInfo) -> Option<Checksum> {
    info.crc64().map(|crc64| Checksum {
        checksum_crc64nvme: Some(checksum::base64(crc64)),
        checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        ..Checksum::default()
    })
}

/// S3 speaks of parts only where an object was uploaded in parts.
fn parts_of(info: &ObjectInfo) -> Option<GetObjectAttributesParts> {
    let count = info.parts_count.and_then(|count| i32::try_from(count).ok())?;
    Some(GetObjectAttributesParts { total_parts_count: Some(count), ..GetObjectAttributesParts::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_one_header_or_many() {
        let of = |names: &[&str]| {
            Asked::new(&names.iter().map(|name| ObjectAttributes::from((*name).to_owned())).collect::<Vec<_>>())
        };
        let both = Asked { etag: true, object_size: true, ..Asked::default() };
        assert_eq!(of(&["ETag", "ObjectSize"]).unwrap(), both);
        assert_eq!(of(&["ETag, ObjectSize"]).unwrap(), both);
        assert_eq!(of(&["ETag,Size"]).unwrap_err().code().as_str(), "InvalidArgument");
    }
}
