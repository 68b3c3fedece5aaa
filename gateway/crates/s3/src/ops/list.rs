//! Listings of objects: ListObjects, ListObjectsV2 and ListObjectVersions.

use blockgate_upstream::{ListEntry, ListPage, ListRequest};
use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectVersionsInput, ListObjectVersionsOutput, ListObjectsInput, ListObjectsOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object, ObjectStorageClass, ObjectVersion, ObjectVersionStorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Ops;
use crate::convert::owner::owner;
use crate::convert::page::{self, Names};
use crate::convert::{condition, time, token, version};
use crate::error;

/// ListObjects, the first version.
pub(super) async fn objects(
    ops: &Ops,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let asked = Asked::new(input.prefix, input.delimiter, input.max_keys)?;
    let marker = page::text_of("marker", input.marker)?;
    let page = asked.fetch(ops, &input.bucket, marker.as_deref()).await?;
    let names = asked.names(input.encoding_type.as_ref(), &page, marker.as_deref())?;
    let next_marker = last(&page).map(|name| names.write(name));
    let truncated = page.truncated;
    let (contents, common_prefixes) = split(page, names, true);
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        marker: Some(names.write(marker.unwrap_or_default())),
        max_keys: Some(page::shown(asked.limit)),
        is_truncated: Some(truncated),
        next_marker,
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        encoding_type: names.encoding_type(),
        delimiter: asked.delimiter.map(|delimiter| names.write(delimiter)),
        prefix: Some(names.write(asked.prefix)),
        ..ListObjectsOutput::default()
    }))
}

/// ListObjectsV2.
pub(super) async fn objects_v2(
    ops: &Ops,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let asked = Asked::new(input.prefix, input.delimiter, input.max_keys)?;
    let start_after = page::text_of("start-after", input.start_after)?;
    let resumed = input.continuation_token.as_deref().map(|text| token::decode(&input.bucket, text)).transpose()?;
    let after = resumed.as_deref().or(start_after.as_deref());
    let page = asked.fetch(ops, &input.bucket, after).await?;
    let names = asked.names(input.encoding_type.as_ref(), &page, start_after.as_deref())?;
    let next_continuation_token = last(&page).map(|name| token::encode(&input.bucket, &name));
    let (truncated, count) = (page.truncated, page.entries.len());
    let (contents, common_prefixes) = split(page, names, input.fetch_owner.unwrap_or_default());
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        max_keys: Some(page::shown(asked.limit)),
        key_count: i32::try_from(count).ok(),
        continuation_token: input.continuation_token,
        is_truncated: Some(truncated),
        next_continuation_token,
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        start_after: start_after.map(|name| names.write(name)),
        encoding_type: names.encoding_type(),
        delimiter: asked.delimiter.map(|delimiter| names.write(delimiter)),
        prefix: Some(names.write(asked.prefix)),
        ..ListObjectsV2Output::default()
    }))
}

/// ListObjectVersions: every object is its own latest version, `null`.
pub(super) async fn versions(
    ops: &Ops,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = request.input;
    let asked = Asked::new(input.prefix, input.delimiter, input.max_keys)?;
    let key_marker = page::text_of("key-marker", input.key_marker)?;
    // Each key has one version only: after it come those of the next key.
    match (&key_marker, input.version_id_marker.as_deref()) {
        (_, None) | (Some(_), Some(version::NULL)) => {}
        (_, Some("")) => return Err(s3_error!(InvalidArgument, "A version-id marker cannot be empty.")),
        (None, Some(_)) => {
            return Err(s3_error!(InvalidArgument, "A version-id marker cannot be specified without a key marker."));
        }
        (Some(_), Some(_)) => return Err(s3_error!(InvalidArgument, "Invalid version id specified")),
    }
    let page = asked.fetch(ops, &input.bucket, key_marker.as_deref()).await?;
    let names = asked.names(input.encoding_type.as_ref(), &page, key_marker.as_deref())?;
    let next_key_marker = last(&page).map(|name| names.write(name));
    let ends_in_version = matches!(page.entries.last(), Some(ListEntry::Object { .. }));
    let next_version_id_marker = (page.truncated && ends_in_version).then(|| version::NULL.to_owned());
    let truncated = page.truncated;
    let (objects, common_prefixes) = split(page, names, true);
    Ok(S3Response::new(ListObjectVersionsOutput {
        name: Some(input.bucket),
        key_marker: Some(names.write(key_marker.unwrap_or_default())),
        version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
        next_key_marker,
        next_version_id_marker,
        max_keys: Some(page::shown(asked.limit)),
        is_truncated: Some(truncated),
        versions: Some(objects.into_iter().map(latest_version).collect()),
        common_prefixes: Some(common_prefixes),
        encoding_type: names.encoding_type(),
        delimiter: asked.delimiter.map(|delimiter| names.write(delimiter)),
        prefix: Some(names.write(asked.prefix)),
        ..ListObjectVersionsOutput::default()
    }))
}

/// What all three ask for.
struct Asked {
    prefix: String,
    delimiter: Option<String>,
    limit: u32,
}

impl Asked {
    fn new(prefix: Option<String>, delimiter: Option<String>, max_keys: Option<i32>) -> S3Result<Self> {
        Ok(Self {
            prefix: page::text_of("prefix", prefix)?.unwrap_or_default(),
            delimiter: page::text_of("delimiter", delimiter)?,
            limit: page::limit("max-keys", max_keys)?,
        })
    }

    async fn fetch(&self, ops: &Ops, bucket: &str, after: Option<&str>) -> S3Result<ListPage> {
        if self.limit == 0 {
            ops.require_bucket(bucket).await?;
            return Ok(ListPage::default());
        }
        let request = ListRequest {
            prefix: self.prefix.clone(),
            delimiter: self.delimiter.clone(),
            start_after: after.map(str::to_owned),
            limit: self.limit,
        };
        ops.store.list(bucket, &request).await.map_err(error::of_store)
    }

    /// How this page writes names, all that it shows considered.
    fn names(&self, asked: Option<&EncodingType>, page: &ListPage, marker: Option<&str>) -> S3Result<Names> {
        let asked_for = [Some(self.prefix.as_str()), self.delimiter.as_deref(), marker];
        Names::new(asked, asked_for.into_iter().flatten().chain(page.entries.iter().map(ListEntry::name)))
    }
}

/// Where a truncated page goes on.
fn last(page: &ListPage) -> Option<String> {
    page.entries.last().filter(|_| page.truncated).map(|entry| entry.name().to_owned())
}

/// Objects and common prefixes, as s3s wants them.
fn split(page: ListPage, names: Names, with_owner: bool) -> (Vec<Object>, Vec<CommonPrefix>) {
    let mut objects = Vec::with_capacity(page.entries.len());
    let mut prefixes = Vec::new();
    for entry in page.entries {
        match entry {
            ListEntry::CommonPrefix(prefix) => prefixes.push(names.common_prefix(prefix)),
            ListEntry::Object { key, size_bytes, etag, last_modified } => objects.push(Object {
                e_tag: Some(condition::etag(&etag)),
                key: Some(names.write(key)),
                last_modified: Some(time::timestamp(last_modified)),
                owner: with_owner.then(owner),
                size: i64::try_from(size_bytes).ok(),
                storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                ..Object::default()
            }),
        }
    }
    (objects, prefixes)
}

fn latest_version(object: Object) -> ObjectVersion {
    ObjectVersion {
        e_tag: object.e_tag,
        is_latest: Some(true),
        key: object.key,
        last_modified: object.last_modified,
        owner: object.owner,
        size: object.size,
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        version_id: Some(version::NULL.to_owned()),
        ..ObjectVersion::default()
    }
}
