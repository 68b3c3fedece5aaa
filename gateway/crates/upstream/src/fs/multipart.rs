//! Multipart uploads.
//!
//! ```text
//! <bucket>/.blockgate/uploads/<upload>/upload       what Create was told, without payload
//! <bucket>/.blockgate/uploads/<upload>/part-00001   a part, in the format of objects
//! ```
//! A finished object names the upload that made it: whoever completes an upload again, since the first answer was
//! lost, is told the same, and a gateway that died between publishing the object and removing the parts did no harm.

use std::io;
use std::sync::Arc;

use blockgate_block::{Attributes, BlockRecord, Crc64, RECORD_META};
use md5::{Digest, Md5};

use super::conditions::judge_source;
use super::dir::{Dir, found};
use super::error::failed;
use super::format::{Current, Meta, Object, Version};
use super::names::is_hidden;
use super::root::{OWN_DIR, Root};
use super::temp::{Sealed, Temp};
use super::write::{conditions, seal_and_publish};
use crate::{
    Conditions, MultipartRequest, PartCopyRequest, PartInfo, PartList, PartRef, Result, Stored, UploadInfo, UploadList,
    UploadListRequest, UpstreamError,
};

/// The highest part number.
const PART_NUMBER_MAX: u32 = 10_000;

/// The smallest part that is not the last.
const PART_BYTES_MIN: u64 = 5 << 20;

const UPLOAD: &str = "upload";
const UPLOADS: &str = "uploads";

/// An unfinished upload.
struct Upload {
    dir: Dir,
    id: Version,
    meta: Meta,
}

impl Upload {
    fn open(root: &Root, bucket: &str, key: &str, id: &str) -> Result<Self> {
        let bucket = root.bucket(bucket)?;
        let id = Version::try_from(id.to_owned()).map_err(|_| UpstreamError::NoSuchUpload)?;
        let opened = open_dirs(&bucket, &[OWN_DIR, UPLOADS, id.as_str()]).and_then(|dir| match dir {
            Some(dir) => Ok(Self::in_dir(dir, id)?),
            None => Ok(None),
        });
        let upload = opened.map_err(failed("cannot open the upload"))?;
        upload.filter(|upload| upload.meta.key.as_deref() == Some(key)).ok_or(UpstreamError::NoSuchUpload)
    }

    fn in_dir(dir: Dir, id: Version) -> io::Result<Option<Self>> {
        Ok(match Current::open(&dir, UPLOAD)? {
            Some(Current::Sound(object)) => Some(Self { dir, id, meta: object.meta }),
            _ => None,
        })
    }

    fn part(&self, number: u32) -> Result<Option<Object>> {
        match Current::open(&self.dir, &part_name(number)).map_err(failed("cannot open a part"))? {
            Some(Current::Sound(object)) => Ok(Some(object)),
            _ => Ok(None),
        }
    }

    /// The numbers of the parts, in order.
    fn numbers(&self) -> io::Result<Vec<u32>> {
        let names = self.dir.names()?;
        let mut numbers: Vec<u32> = names
            .iter()
            .filter_map(|name| name.strip_prefix("part-"))
            .filter_map(|number| number.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn part_name(number: u32) -> String {
    format!("part-{number:05}")
}

fn open_dirs(from: &Dir, names: &[&str]) -> io::Result<Option<Dir>> {
    let mut dir = from.try_clone()?;
    for name in names {
        match found(dir.open(name))? {
            Some(next) => dir = next,
            None => return Ok(None),
        }
    }
    Ok(Some(dir))
}

pub(super) fn create(root: &Arc<Root>, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
    let bucket = root.bucket(bucket)?;
    let create = || {
        let temp = Temp::create(root, false)?;
        let MultipartRequest { attributes, tags, part_md5 } = request;
        let meta = Meta { key: Some(key.to_owned()), part_md5, attributes, tags, ..temp.meta(String::new()) };
        let id = meta.version.clone();
        let sealed = temp.seal(&meta)?;
        let dir = bucket.open_or_create(OWN_DIR)?.open_or_create(UPLOADS)?.open_or_create(id.as_str())?;
        place(root, sealed, &dir, UPLOAD)?;
        Ok(id.into())
    };
    create().map_err(failed("cannot create the upload"))
}

/// Moves a file out of `tmp` over whatever is there.
fn place(root: &Root, mut sealed: Sealed, dir: &Dir, name: &str) -> io::Result<()> {
    root.temp.rename(sealed.name(), dir, name)?;
    sealed.keep();
    dir.sync()
}

/// Refuses a part before its bytes are received; says whether its ETag is to be an MD5.
pub(super) fn check_part(root: &Root, bucket: &str, key: &str, id: &str, number: u32) -> Result<bool> {
    if !(1..=PART_NUMBER_MAX).contains(&number) {
        return Err(UpstreamError::InvalidRequest(format!("part numbers are 1 to {PART_NUMBER_MAX}")));
    }
    Ok(Upload::open(root, bucket, key, id)?.meta.part_md5)
}

/// Adds a received part.
pub(super) fn put_part(root: &Root, bucket: &str, key: &str, id: &str, number: u32, mut temp: Temp) -> Result<Stored> {
    let crc64 = temp.crc64();
    let etag = temp.etag();
    let meta = Meta { crc64nvme: Some(crc64.to_string()), ..temp.meta(etag) };
    let stored = Stored { upstream_etag: meta.etag.clone(), stored_at: meta.stored_at() };
    let sealed = temp.seal(&meta).map_err(failed("cannot write the part"))?;
    let upload = Upload::open(root, bucket, key, id)?;
    let placed =
        found(place(root, sealed, &upload.dir, &part_name(number))).map_err(failed("cannot store the part"))?;
    placed.map(|()| stored).ok_or(UpstreamError::NoSuchUpload)
}

/// Adds a part that is (a range of) an object. It is read once, for its ETag.
pub(super) fn copy_part(root: &Arc<Root>, request: &PartCopyRequest) -> Result<Stored> {
    let PartCopyRequest { bucket, key, upload_id, number, .. } = request;
    let md5 = check_part(root, bucket, key, upload_id, *number)?;
    let source = root.object(&request.source_bucket, &request.source_key)?;
    judge_source(&request.source_conditions, &source.meta.etag, source.meta.stored_at())?;
    let range = request.source_range.clone().unwrap_or(0..source.len_bytes);
    if range.end > source.len_bytes || range.start > range.end {
        return Err(UpstreamError::InvalidRange { size_bytes: source.len_bytes });
    }
    let mut temp = Temp::create(root, md5).map_err(failed("cannot write the part"))?;
    temp.copy_hashed(&source.file, range).map_err(failed("cannot copy the part"))?;
    put_part(root, bucket, key, upload_id, *number, temp)
}

/// What the joined object is to be.
pub(super) struct Completion {
    pub(super) parts: Vec<PartRef>,
    pub(super) conditions: Conditions,
    pub(super) record: Option<(Attributes, BlockRecord)>,
}

/// Joins parts to an object, which appears whole.
pub(super) fn complete(root: &Arc<Root>, bucket: &str, key: &str, id: &str, request: Completion) -> Result<Stored> {
    let upload = match Upload::open(root, bucket, key, id) {
        Err(UpstreamError::NoSuchUpload) => {
            return completed(root, bucket, key, id)?.ok_or(UpstreamError::NoSuchUpload);
        }
        opened => opened?,
    };
    let stored = match completed(root, bucket, key, id)? {
        Some(stored) => stored,
        None => match join(root, bucket, key, &upload, request) {
            // Another Complete of the same upload was faster.
            Err(UpstreamError::NoSuchUpload) => {
                return completed(root, bucket, key, id)?.ok_or(UpstreamError::NoSuchUpload);
            }
            joined => joined?,
        },
    };
    if let Err(error) = discard(root, bucket, id) {
        tracing::warn!(bucket, key, upload = id, %error, "the upload is complete, but its parts can't be removed");
    }
    Ok(stored)
}

/// What came of an upload that was completed before.
fn completed(root: &Root, bucket: &str, key: &str, id: &str) -> Result<Option<Stored>> {
    Ok(match root.current(bucket, key)? {
        Some(Current::Sound(Object { meta, .. }))
            if meta.upload.as_ref().is_some_and(|upload| upload.as_str() == id) =>
        {
            Some(Stored { stored_at: meta.stored_at(), upstream_etag: meta.etag })
        }
        _ => None,
    })
}

fn join(root: &Arc<Root>, bucket: &str, key: &str, upload: &Upload, request: Completion) -> Result<Stored> {
    let parts = checked_parts(upload, &request.parts)?;
    let whole = Whole::of(&parts);
    let (etag, attributes) = match request.record {
        None => (whole.etag(&parts), upload.meta.attributes.clone()),
        Some((attributes, record)) => {
            whole.check(&record)?;
            (record.etag().to_string(), with_record(attributes, &record))
        }
    };
    let mut temp = Temp::create(root, false).map_err(failed("cannot write"))?;
    for part in &parts {
        temp.copy(&part.file, 0..part.len_bytes).map_err(failed("cannot join the parts"))?;
    }
    let meta = Meta {
        crc64nvme: whole.crc64.map(|crc64| crc64.to_string()),
        parts: Some(parts.len() as u32),
        upload: Some(upload.id.clone()),
        attributes,
        tags: upload.meta.tags.clone(),
        ..temp.meta(etag)
    };
    let judge_conditions = conditions(&request.conditions);
    let judge = |current: Option<&Current>| {
        Upload::open(root, bucket, key, upload.id.as_str())?;
        judge_conditions(current)
    };
    seal_and_publish(root, bucket, key, temp, &meta, &judge)
}

/// Opens the parts that Complete names, if they are there as it names them.
fn checked_parts(upload: &Upload, refs: &[PartRef]) -> Result<Vec<Object>> {
    if refs.is_empty() {
        return Err(UpstreamError::InvalidRequest("no parts are named".to_owned()));
    }
    if refs.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(UpstreamError::InvalidPartOrder);
    }
    let mut parts = Vec::with_capacity(refs.len());
    for PartRef { number, etag } in refs {
        let part = upload.part(*number)?.filter(|part| part.meta.etag == *etag);
        parts.push(part.ok_or(UpstreamError::InvalidPart { number: *number })?);
    }
    let is_small = |part: &Object| part.len_bytes < PART_BYTES_MIN;
    if parts.iter().rev().skip(1).any(is_small) { Err(UpstreamError::EntityTooSmall) } else { Ok(parts) }
}

/// What parts come to when joined.
struct Whole {
    len_bytes: u64,
    crc64: Option<Crc64>,
}

impl Whole {
    fn of(parts: &[Object]) -> Self {
        let len_bytes = parts.iter().map(|part| part.len_bytes).sum();
        let crc64 = parts.iter().try_fold(Crc64::of(b""), |crc64, part| {
            part.meta.crc64().map(|next| crc64.followed_by(next, part.len_bytes))
        });
        Self { len_bytes, crc64 }
    }

    /// The ETag that S3 gives to joined MD5 parts; else one of the same form of checksum and length.
    fn etag(&self, parts: &[Object]) -> String {
        let count = parts.len();
        let md5s: Option<Vec<u8>> = parts.iter().try_fold(Vec::new(), |mut md5s, part| {
            md5s.extend(hex::decode(&part.meta.etag).ok().filter(|md5| md5.len() == 16)?);
            Some(md5s)
        });
        match (md5s, self.crc64) {
            (Some(md5s), _) => format!("{}-{count}", hex::encode(Md5::digest(md5s))),
            (None, crc64) => {
                let crc64 = crc64.unwrap_or(Crc64::from_u64(0));
                format!("{crc64}{:016x}-{count}", self.len_bytes)
            }
        }
    }

    fn check(&self, record: &BlockRecord) -> Result<()> {
        let is_ours = record.len_bytes == self.len_bytes && self.crc64.is_none_or(|crc64| crc64 == record.crc64);
        let message = || UpstreamError::InvalidRequest("the record is not that of the joined parts".to_owned());
        if is_ours { Ok(()) } else { Err(message()) }
    }
}

fn with_record(mut attributes: Attributes, record: &BlockRecord) -> Attributes {
    attributes.user.insert(RECORD_META.to_owned(), record.to_string());
    attributes
}

pub(super) fn abort(root: &Root, bucket: &str, key: &str, id: &str) -> Result<()> {
    Upload::open(root, bucket, key, id)?;
    discard(root, bucket, id)
}

/// Removes an upload: at once for all who look for it, then its files.
fn discard(root: &Root, bucket: &str, id: &str) -> Result<()> {
    let bucket = root.bucket(bucket)?;
    let discard = || {
        let trash = Version::random()?;
        if let Some(uploads) = open_dirs(&bucket, &[OWN_DIR, UPLOADS])?
            && found(uploads.rename(id, &root.temp, trash.as_str()))?.is_some()
        {
            uploads.sync()?;
            root.temp.remove_all(trash.as_str())?;
        }
        Ok(())
    };
    discard().map_err(failed("cannot remove the upload"))
}

pub(super) fn list_parts(root: &Root, bucket: &str, key: &str, id: &str, after: u32, limit: u32) -> Result<PartList> {
    let upload = Upload::open(root, bucket, key, id)?;
    let mut list = PartList::default();
    for number in upload.numbers().map_err(failed("cannot list the parts"))? {
        if number <= after {
            continue;
        }
        if list.parts.len() == limit as usize {
            list.truncated = limit > 0;
            break;
        }
        if let Some(part) = upload.part(number)? {
            let last_modified = part.meta.stored_at();
            list.parts.push(PartInfo { number, etag: part.meta.etag, size_bytes: part.len_bytes, last_modified });
        }
    }
    Ok(list)
}

/// Reads every unfinished upload of the bucket: there are few at a time.
pub(super) fn list_uploads(root: &Root, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
    let bucket = root.bucket(bucket)?;
    let all = || {
        let Some(dir) = open_dirs(&bucket, &[OWN_DIR, UPLOADS])? else { return Ok(Vec::new()) };
        let mut uploads = Vec::new();
        for name in dir.names()? {
            let Ok(id) = Version::try_from(name) else { continue };
            let Some(upload) = found(dir.open(id.as_str()))? else { continue };
            if let Some(Upload { id, meta, .. }) = Upload::in_dir(upload, id)? {
                let initiated_at = meta.stored_at();
                uploads.push(UploadInfo { key: meta.key.unwrap_or_default(), upload_id: id.into(), initiated_at });
            }
        }
        Ok(uploads)
    };
    let mut uploads = all().map_err(failed("cannot list the uploads"))?;
    uploads.retain(|upload| {
        upload.key.starts_with(&request.prefix) && !is_hidden(&upload.key, &request.prefix) && is_after(upload, request)
    });
    uploads.sort_unstable_by(|a, b| (&a.key, &a.upload_id).cmp(&(&b.key, &b.upload_id)));
    let limit = request.limit as usize;
    let truncated = uploads.len() > limit && limit > 0;
    uploads.truncate(limit);
    Ok(UploadList { uploads, truncated })
}

fn is_after(upload: &UploadInfo, request: &UploadListRequest) -> bool {
    match &request.after {
        None => true,
        Some((key, None)) => upload.key > *key,
        Some((key, Some(id))) => (&upload.key, &upload.upload_id) > (key, id),
    }
}
