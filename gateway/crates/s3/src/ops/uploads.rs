//! Listings of unfinished uploads and their parts.

use blockgate_block::{BlockKey, KEY_BYTES_MAX};
use blockgate_upstream::{PartInfo, PartList, UploadInfo, UploadListRequest};
use s3s::dto::{
    ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload, Part,
    StorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{Ops, key};
use crate::convert::owner::{initiator, owner};
use crate::convert::page::{self, Names};
use crate::convert::text::xml_key;
use crate::convert::{condition, time};
use crate::error;

/// ListParts.
pub(super) async fn parts(ops: &Ops, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let key = key(&input.bucket, &input.key)?;
    let limit = page::limit("max-parts", input.max_parts)?;
    let after = u32::try_from(input.part_number_marker.unwrap_or_default())
        .map_err(|_| s3_error!(InvalidArgument, "Argument part-number-marker must not be negative."))?;
    let page = fetch_parts(ops, &key, &input.upload_id, after, limit).await?;
    let next = page.parts.last().map_or(after, |part| part.number);
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(xml_key(input.key)),
        upload_id: Some(input.upload_id),
        initiator: Some(initiator()),
        owner: Some(owner()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        part_number_marker: Some(page::shown(after)),
        next_part_number_marker: Some(page::shown(next)),
        max_parts: Some(page::shown(limit)),
        is_truncated: Some(page.truncated),
        parts: Some(page.parts.into_iter().map(part).collect()),
        ..ListPartsOutput::default()
    }))
}

/// Parts numbered above `after`.
pub(super) async fn fetch_parts(
    ops: &Ops,
    key: &BlockKey,
    upload_id: &str,
    after: u32,
    limit: u32,
) -> S3Result<PartList> {
    // A page of none still tells whether the upload is there.
    let page = ops.store.list_parts(key, upload_id, after, limit.max(1)).await.map_err(error::of_store)?;
    Ok(if limit == 0 { PartList::default() } else { page })
}

fn part(part: PartInfo) -> Part {
    Part {
        e_tag: Some(condition::etag(&part.etag)),
        last_modified: Some(time::timestamp(part.last_modified)),
        part_number: i32::try_from(part.number).ok(),
        size: i64::try_from(part.size_bytes).ok(),
        ..Part::default()
    }
}

/// ListMultipartUploads.
pub(super) async fn list(
    ops: &Ops,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let limit = page::limit("max-uploads", input.max_uploads)?;
    let prefix = page::text_of("prefix", input.prefix)?.unwrap_or_default();
    let delimiter = page::text_of("delimiter", input.delimiter)?;
    let key_marker = page::text_of("key-marker", input.key_marker)?;
    // Without a key marker, S3 ignores the other one.
    let id_marker = input.upload_id_marker.filter(|id| !id.is_empty() && key_marker.is_some());
    let folding = Folding { prefix: &prefix, delimiter: delimiter.as_deref() };
    let after = key_marker.clone().map(|marker| folding.resume(marker, id_marker.clone()));
    let page = collect(ops, &input.bucket, &folding, after, limit).await?;

    let shown = [Some(prefix.as_str()), delimiter.as_deref(), key_marker.as_deref()];
    let names = Names::new(
        input.encoding_type.as_ref(),
        shown.into_iter().flatten().chain(page.entries.iter().map(Entry::name)),
    )?;
    let last = page.entries.last().filter(|_| page.truncated);
    let next_key_marker = last.map(|entry| names.write(entry.name().to_owned()));
    let next_upload_id_marker = last.map(|entry| entry.upload_id().to_owned());
    let mut uploads = Vec::new();
    let mut common_prefixes = Vec::new();
    for entry in page.entries {
        match entry {
            Entry::Prefix(prefix) => common_prefixes.push(names.common_prefix(prefix)),
            Entry::Upload(upload) => uploads.push(MultipartUpload {
                initiated: Some(time::timestamp(upload.initiated_at)),
                initiator: Some(initiator()),
                key: Some(names.write(upload.key)),
                owner: Some(owner()),
                storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
                upload_id: Some(upload.upload_id),
                ..MultipartUpload::default()
            }),
        }
    }
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: Some(common_prefixes),
        delimiter: delimiter.map(|delimiter| names.write(delimiter)),
        encoding_type: names.encoding_type(),
        is_truncated: Some(page.truncated),
        key_marker: Some(names.write(key_marker.unwrap_or_default())),
        max_uploads: Some(page::shown(limit)),
        next_key_marker,
        next_upload_id_marker,
        prefix: Some(names.write(prefix)),
        upload_id_marker: Some(id_marker.unwrap_or_default()),
        uploads: Some(uploads),
        ..ListMultipartUploadsOutput::default()
    }))
}

/// An upload, or a group of them folded at the delimiter.
enum Entry {
    Upload(UploadInfo),
    Prefix(String),
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Upload(upload) => &upload.key,
            Self::Prefix(prefix) => prefix,
        }
    }

    fn upload_id(&self) -> &str {
        match self {
            Self::Upload(upload) => &upload.upload_id,
            Self::Prefix(_) => "",
        }
    }
}

#[derive(Default)]
struct Page {
    entries: Vec<Entry>,
    truncated: bool,
}

/// Where a listing of uploads goes on: after a key, or after one upload of it.
type After = (String, Option<String>);

struct Folding<'a> {
    prefix: &'a str,
    delimiter: Option<&'a str>,
}

impl Folding<'_> {
    /// The common prefix that `key` is folded into.
    fn fold(&self, key: &str) -> Option<String> {
        let delimiter = self.delimiter?;
        let rest = key.strip_prefix(self.prefix)?;
        let end = self.prefix.len() + rest.find(delimiter)? + delimiter.len();
        Some(key[..end].to_owned())
    }

    /// Where to go on after a marker: behind all that it stands for, if it is a common prefix.
    fn resume(&self, marker: String, upload_id: Option<String>) -> After {
        match self.fold(&marker) {
            Some(folded) if folded == marker => (behind(&marker), None),
            _ => (marker, upload_id),
        }
    }
}

/// A text that no key with this prefix comes after.
fn behind(prefix: &str) -> String {
    const LAST: char = char::MAX;
    let missing = KEY_BYTES_MAX.saturating_sub(prefix.len()) / LAST.len_utf8() + 1;
    let mut text = String::with_capacity(prefix.len() + missing * LAST.len_utf8());
    text.push_str(prefix);
    text.extend(std::iter::repeat_n(LAST, missing));
    text
}

/// Fetches uploads and folds them until the page is full and known to go on, or all have been seen.
async fn collect(
    ops: &Ops,
    bucket: &str,
    folding: &Folding<'_>,
    mut after: Option<After>,
    limit: u32,
) -> S3Result<Page> {
    let limit = limit as usize;
    let mut page = Page::default();
    if limit == 0 {
        ops.require_bucket(bucket).await?;
        return Ok(page);
    }
    loop {
        let request =
            UploadListRequest { prefix: folding.prefix.to_owned(), after: after.take(), limit: page::PAGE_MAX };
        let fetched = ops.store.list_uploads(bucket, &request).await.map_err(error::of_store)?;
        after = fetched.uploads.last().map(|last| match folding.fold(&last.key) {
            Some(prefix) => (behind(&prefix), None),
            None => (last.key.clone(), Some(last.upload_id.clone())),
        });
        for upload in fetched.uploads {
            let entry = match folding.fold(&upload.key) {
                Some(prefix) if page.entries.last().is_some_and(|last| last.name() == prefix) => continue,
                Some(prefix) => Entry::Prefix(prefix),
                None => Entry::Upload(upload),
            };
            if page.entries.len() == limit {
                page.truncated = true;
                return Ok(page);
            }
            page.entries.push(entry);
        }
        if !fetched.truncated || after.is_none() {
            return Ok(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_fold_at_the_first_delimiter_behind_the_prefix() {
        let folding = Folding { prefix: "a/", delimiter: Some("/") };
        assert_eq!(folding.fold("a/b/c/d").as_deref(), Some("a/b/"));
        assert_eq!(folding.fold("a//d").as_deref(), Some("a//"));
        assert_eq!(folding.fold("a/b"), None);
        assert_eq!(folding.fold("b/c/d"), None);
        assert_eq!(Folding { prefix: "", delimiter: None }.fold("a/b"), None);
    }

    #[test]
    fn a_marker_that_is_a_common_prefix_stands_for_all_under_it() {
        let folding = Folding { prefix: "", delimiter: Some("/") };
        assert_eq!(folding.resume("a".into(), Some("id".into())), ("a".into(), Some("id".into())));
        let (after, id) = folding.resume("a/".into(), Some(String::new()));
        assert!(after.as_str() > "a/zzz" && after.as_str() < "a0" && id.is_none());
    }

    proptest! {
        #[test]
        fn no_key_comes_behind(prefix in "\\PC{0,20}/", rest in proptest::collection::vec(any::<char>(), 0..300)) {
            let mut key: String = prefix.chars().chain(rest).collect();
            while key.len() > KEY_BYTES_MAX { key.pop(); }
            prop_assert!(key <= behind(&prefix));
        }

        #[test]
        fn the_last_of_all_keys_comes_before(extra in 0usize..1023) {
            let prefix = "p".repeat(1024 - extra);
            let mut key = prefix.clone();
            while key.len() + 4 <= KEY_BYTES_MAX { key.push(char::MAX); }
            prop_assert!(key < behind(&prefix));
            prop_assert!(behind(&prefix).starts_with(&prefix));
        }
    }
}
