//! Writing: receiving a body, and making one object of another.

use std::sync::Arc;

use blockgate_block::{Attributes, BlockEtag, BlockRecord, RECORD_META};
use bytes::Bytes;
use futures::StreamExt;

use super::FsUpstream;
use super::conditions::{judge_source, judge_write};
use super::error::failed;
use super::format::{Current, Meta};
use super::names::KeyPath;
use super::publish::{Judge, publish};
use super::root::Root;
use super::temp::Temp;
use crate::{BodyError, ByteStream, Conditions, CopyRequest, Payload, PutRequest, Result, Stored, UpstreamError};

/// Bytes gathered before they are written.
const BATCH_BYTES: u64 = 1 << 20;

/// How often an object is made anew because what it was made of was replaced meanwhile.
const REWRITES_MAX: u32 = 16;

/// A body being received, held to its announced length.
struct Body {
    stream: ByteStream,
    announced: u64,
    got: u64,
}

impl Body {
    /// The next bytes, and whether they are the last.
    async fn batch(&mut self) -> std::result::Result<(Vec<Bytes>, bool), BodyError> {
        let mut batch = Vec::new();
        let full_at = self.got + BATCH_BYTES;
        while self.got < full_at {
            let Some(chunk) = self.stream.next().await else {
                return if self.got == self.announced { Ok((batch, true)) } else { Err(self.wrong_length()) };
            };
            let chunk = chunk?;
            self.got += chunk.len() as u64;
            if self.got > self.announced {
                return Err(self.wrong_length());
            }
            batch.push(chunk);
        }
        Ok((batch, false))
    }

    fn wrong_length(&self) -> BodyError {
        BodyError::Length { announced: self.announced, got: self.got }
    }
}

impl FsUpstream {
    /// Receives a payload into a temporary file and finishes it with `finish`, in one go where it is small.
    pub(super) async fn receive<T: Send + 'static>(
        &self,
        payload: Payload,
        md5: bool,
        finish: impl FnOnce(&Arc<Root>, Temp) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut body = Body { announced: payload.len_bytes(), got: 0, stream: payload.into_stream() };
        let mut temp: Option<Temp> = None;
        loop {
            let (batch, is_last) = body.batch().await.map_err(UpstreamError::Body)?;
            let write = move |root: &Arc<Root>| {
                let written = match temp {
                    Some(temp) => Ok(temp),
                    None => Temp::create(root, md5),
                };
                let written = written.and_then(|mut temp| temp.write(&batch).map(|()| temp));
                written.map_err(failed("cannot write"))
            };
            if is_last {
                return self.blocking(move |root| finish(root, write(root)?)).await;
            }
            temp = Some(self.blocking(write).await?);
        }
    }
}

/// Publishes a received body as an object.
pub(super) fn put(root: &Root, bucket: &str, key: &str, request: PutRequest, mut temp: Temp) -> Result<Stored> {
    let crc64 = temp.crc64();
    if request.crc64.is_some_and(|expected| expected != crc64) {
        let message = "the payload does not have its CRC64NVME".to_owned();
        return Err(UpstreamError::Body(BodyError::Mismatch { code: "BadDigest", message }));
    }
    let etag = temp.etag();
    let meta = Meta {
        crc64nvme: Some(crc64.to_string()),
        attributes: request.attributes,
        tags: request.tags,
        ..temp.meta(etag)
    };
    seal_and_publish(root, bucket, key, temp, &meta, &conditions(&request.conditions))
}

/// Judges by conditions.
pub(super) fn conditions(conditions: &Conditions) -> impl Fn(Option<&Current>) -> Result<()> {
    move |current| judge_write(conditions, current.map(|current| (current.etag(), current.stored_at())))
}

pub(super) fn seal_and_publish(
    root: &Root,
    bucket: &str,
    key: &str,
    temp: Temp,
    meta: &Meta,
    judge: Judge<'_>,
) -> Result<Stored> {
    let stored = Stored { upstream_etag: meta.etag.clone(), stored_at: meta.stored_at() };
    // A file says whose it is: one that was moved is not taken for another object.
    let meta = Meta { key: Some(key.to_owned()), ..meta.clone() };
    let sealed = temp.seal(&meta).map_err(failed("cannot write"))?;
    publish(root, bucket, &KeyPath::of(key), sealed, judge)?;
    Ok(stored)
}

/// Makes an object of another. Onto itself, it replaces the very version that it was made of.
pub(super) fn copy(root: &Arc<Root>, request: &CopyRequest) -> Result<Stored> {
    let onto_itself = request.source_bucket == request.bucket && request.source_key == request.key;
    root.bucket(&request.bucket)?;
    retry(|| {
        let source = root.object(&request.source_bucket, &request.source_key)?;
        judge_source(&request.source_conditions, &source.meta.etag, source.meta.stored_at())?;
        let mut temp = Temp::create(root, false).map_err(failed("cannot write"))?;
        temp.copy(&source.file, 0..source.len_bytes).map_err(failed("cannot copy"))?;
        let meta = Meta {
            crc64nvme: source.meta.crc64nvme.clone(),
            parts: source.meta.parts,
            attributes: request.attributes.clone(),
            tags: request.tags.clone().unwrap_or_else(|| source.meta.tags.clone()),
            ..temp.meta(etag_of_record(&request.attributes).unwrap_or_else(|| source.meta.etag.clone()))
        };
        let version = source.meta.version.as_str();
        let same = |current: Option<&Current>| replaces(current, version);
        let judge: Judge<'_> = if onto_itself { &same } else { &|_| Ok(()) };
        seal_and_publish(root, &request.bucket, &request.key, temp, &meta, judge)
    })
}

/// Gives an object other tags.
pub(super) fn set_tags(root: &Arc<Root>, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
    retry(|| {
        let source = root.object(bucket, key)?;
        let mut temp = Temp::create(root, false).map_err(failed("cannot write"))?;
        temp.copy(&source.file, 0..source.len_bytes).map_err(failed("cannot copy"))?;
        let version = temp.meta(String::new()).version;
        let meta = Meta { version, tags: tags.to_vec(), ..source.meta.clone() };
        let same = |current: Option<&Current>| replaces(current, source.meta.version.as_str());
        seal_and_publish(root, bucket, key, temp, &meta, &same)
    })
    .map(drop)
}

/// Lets only one version be replaced.
fn replaces(current: Option<&Current>, version: &str) -> Result<()> {
    if current.is_some_and(|current| current.id() == version) { Ok(()) } else { Err(UpstreamError::Conflict) }
}

/// Does it again while it is told [`UpstreamError::Conflict`].
fn retry<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..REWRITES_MAX {
        match attempt() {
            Err(UpstreamError::Conflict) => {}
            done => return done,
        }
    }
    attempt()
}

/// The ETag of a block by the record among its attributes.
fn etag_of_record(attributes: &Attributes) -> Option<String> {
    let record = BlockRecord::parse(attributes.user.get(RECORD_META)?).ok()?;
    Some(BlockEtag::to_string(&record.etag()))
}
