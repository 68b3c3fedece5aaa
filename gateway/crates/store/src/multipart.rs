//! Multipart uploads. In a kv bucket one ends as one block: one record, one ETag, in memory where its parts were.

use std::sync::Arc;

use blockgate_block::{BlockBuf, BlockKey, BlockRecord, Crc64, ObjectInfo};
use blockgate_upstream::{Conditions, MultipartRequest, PartList, PartRef, Payload, Stored, UpstreamError};

use crate::body::{gather_into, watch_body};
use crate::core::{Core, to_the_end};
use crate::limits::COPY_BYTES_MAX;
use crate::parts::{PartTag, joined, part_etag};
use crate::ttl::{check_attributes, record_of, requested_ttl};
use crate::uploads::Begun;
use crate::write::{block_info, check_write_conditions, written};
use crate::{BucketPolicy, CompletePart, Result, StoreError, WriteRequest, Written};

impl Core {
    pub(crate) async fn create_multipart(&self, key: &BlockKey, request: WriteRequest) -> Result<String> {
        let policy = self.policy(key.bucket());
        check_attributes(&request.attributes, policy)?;
        if policy.is_kv() {
            requested_ttl(&request.attributes, &request.tags)?;
        }
        let WriteRequest { attributes, tags, .. } = request;
        let create = MultipartRequest { attributes: attributes.clone(), tags: tags.clone(), part_md5: !policy.is_kv() };
        let upload_id = self.upstream.create_multipart(key.bucket(), key.key(), create).await?;
        if policy.is_kv() {
            self.uploads.begin(&upload_id, Begun { attributes, tags });
        }
        Ok(upload_id)
    }

    pub(crate) async fn upload_part(
        &self,
        key: &BlockKey,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        let (bucket, name) = (key.bucket(), key.key());
        let policy = self.policy(bucket);
        let len_bytes = payload.len_bytes();
        if !policy.is_kv() {
            return Ok(self.upstream.upload_part(bucket, name, upload_id, number, payload).await?);
        }
        let slot = if len_bytes <= policy.max_block_bytes { self.tiers().allocate(len_bytes) } else { None };
        let (upstream_etag, crc64, block) = match slot {
            Some(slot) => {
                let body = gather_into(slot, payload).await?;
                let payload = Payload::Bytes(body.bytes());
                let etag = self.upstream.upload_part(bucket, name, upload_id, number, payload).await?;
                (etag, body.crc64, body.block())
            }
            None => {
                let (payload, passed) = watch_body(payload);
                let etag = self.upstream.upload_part(bucket, name, upload_id, number, payload).await?;
                (etag, passed.crc64(), None)
            }
        };
        let etag = part_etag(crc64, len_bytes, &upstream_etag);
        self.uploads.add_part(upload_id, number, etag.clone(), block);
        Ok(etag)
    }

    pub(crate) async fn complete_multipart(
        self: &Arc<Self>,
        key: &BlockKey,
        upload_id: &str,
        parts: Vec<CompletePart>,
        request: WriteRequest,
    ) -> Result<Written> {
        let (core, key, upload_id) = (Arc::clone(self), key.clone(), upload_id.to_owned());
        let conditions = request.conditions;
        if !self.policy(key.bucket()).is_kv() {
            let parts: Vec<PartRef> =
                parts.into_iter().map(|part| PartRef { number: part.number, etag: part.etag }).collect();
            let staged = self.unstage(&key).await?;
            let stored = self
                .upstream
                .complete_multipart(key.bucket(), key.key(), &upload_id, &parts, &conditions, None)
                .await?;
            staged.done(self).await?;
            return Ok(without_record(stored, None));
        }
        check_write_conditions(&conditions)?;
        to_the_end(async move {
            let written = core.complete_block(&key, &upload_id, &parts, &conditions).await?;
            core.uploads.forget(&upload_id);
            core.metrics.stored(key.bucket(), written.size_bytes.unwrap_or(0));
            Ok(written)
        })
        .await
    }

    async fn complete_block(
        self: &Arc<Self>,
        key: &BlockKey,
        upload_id: &str,
        parts: &[CompletePart],
        conditions: &Conditions,
    ) -> Result<Written> {
        let policy = self.policy(key.bucket());
        let tags: Vec<PartTag<'_>> = parts.iter().map(|part| PartTag::parse(&part.etag)).collect();
        let refs: Vec<PartRef> = parts
            .iter()
            .zip(&tags)
            .map(|(part, tag)| PartRef { number: part.number, etag: tag.upstream_etag.to_owned() })
            .collect();
        let whole = joined(&tags);
        let write = self.keys.write(key).await;
        self.settle(key).await?;
        let conditions = self.conditions_ahead(key, conditions).await?;
        // Nothing waits any more that could go up meanwhile.
        let _staged = self.unstage(key).await?;
        let begun = self.uploads.begun(upload_id);
        let at_once = match (&begun, whole) {
            (Some(begun), Some(whole)) => self.record_of_whole(policy, begun, whole)?,
            _ => None,
        };
        let record = begun.as_ref().zip(at_once).map(|(begun, record)| (&begun.attributes, record));
        let completed =
            self.upstream.complete_multipart(key.bucket(), key.key(), upload_id, &refs, &conditions, record).await;
        let stored = match completed {
            Err(UpstreamError::NoSuchUpload) => return self.completed_before(key, policy, whole).await,
            completed => completed?,
        };
        let described = match (begun, at_once) {
            (Some(begun), Some(record)) => {
                Ok(block_info(record, stored.upstream_etag, begun.attributes, begun.tags.len()))
            }
            _ => self.describe(key, policy, stored, whole).await?,
        };
        let info = match described {
            Ok(info) => Arc::new(info),
            // A write that is dropped makes the tiers forget what was there.
            Err(written) => return Ok(written),
        };
        let block = info.crc64().and_then(|crc64| self.assemble(upload_id, parts, crc64, info.size_bytes));
        let written = written(&info);
        write.stored(&info, block);
        Ok(written)
    }

    /// The record of a finished upload. An object too large for the tiers has one only if it must expire.
    fn record_of_whole(
        &self,
        policy: &BucketPolicy,
        begun: &Begun,
        (crc64, len_bytes): (Crc64, u64),
    ) -> Result<Option<BlockRecord>> {
        let ttl = requested_ttl(&begun.attributes, &begun.tags)?.or(policy.ttl);
        let is_block = len_bytes <= policy.max_block_bytes || ttl.is_some();
        if len_bytes > COPY_BYTES_MAX && ttl.is_some() {
            tracing::warn!(len_bytes, "an object is too large for its time to live and will not expire");
        }
        Ok((is_block && len_bytes <= COPY_BYTES_MAX).then(|| record_of(crc64, len_bytes, self.upstream.now(), ttl)))
    }

    /// Finds out what was completed and gives it its record, where the upload was begun at another gateway or the
    /// checksum of a part is unknown. An object that gets none is answered for at once.
    async fn describe(
        &self,
        key: &BlockKey,
        policy: &BucketPolicy,
        stored: Stored,
        whole: Option<(Crc64, u64)>,
    ) -> Result<std::result::Result<ObjectInfo, Written>> {
        let there = self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await?;
        if there.upstream_etag != stored.upstream_etag {
            // Overwritten through another gateway since.
            return Ok(Err(without_record(stored, whole)));
        }
        let tags = self.upstream.tags(key.bucket(), key.key()).await.or_else(|error| match error {
            UpstreamError::NotSupported(_) => Ok(Vec::new()),
            error => Err(error),
        })?;
        let tag_count = tags.len();
        let begun = Begun { attributes: there.attributes.clone(), tags };
        let whole = match whole {
            Some(whole) if whole.1 == there.size_bytes => whole,
            _ if there.size_bytes <= policy.max_block_bytes => (self.checksum_of(key, &there).await?, there.size_bytes),
            _ => return Ok(Err(without_record(stored, None))),
        };
        let Some(record) = self.record_of_whole(policy, &begun, whole)? else {
            return Ok(Err(without_record(stored, Some(whole))));
        };
        let stored = self.attach_record(key, &there.upstream_etag, &begun.attributes, None, record).await?;
        Ok(Ok(block_info(record, stored.upstream_etag, begun.attributes, tag_count)))
    }

    /// A client that saw no answer asks again: the upload is gone, and the block is there, perhaps still without its record.
    async fn completed_before(
        &self,
        key: &BlockKey,
        policy: &BucketPolicy,
        whole: Option<(Crc64, u64)>,
    ) -> Result<Written> {
        let none = || StoreError::from(UpstreamError::NoSuchUpload);
        let (crc64, len_bytes) = whole.ok_or_else(none)?;
        let there = self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await.map_err(|_| none())?;
        let may_be = there.size_bytes == len_bytes && len_bytes <= policy.max_block_bytes;
        match there.record {
            Some(record) if (record.crc64, record.len_bytes) == (crc64, len_bytes) => Ok(written(&there)),
            None if may_be && self.checksum_of(key, &there).await? == crc64 => {
                let stored = Stored { upstream_etag: there.upstream_etag, stored_at: there.last_modified };
                let described = self.describe(key, policy, stored, whole).await?;
                Ok(described.map_or_else(|written| written, |info| written(&info)))
            }
            _ => Err(none()),
        }
    }

    /// One block of the parts that are in memory, if all are, there is room, and the bytes are those of `crc64`.
    fn assemble(&self, upload_id: &str, parts: &[CompletePart], crc64: Crc64, len_bytes: u64) -> Option<BlockBuf> {
        let named = parts.iter().map(|part| (part.number, part.etag.as_str()));
        let blocks = self.uploads.blocks(upload_id, named)?;
        if let [block] = blocks.as_slice() {
            return Some(block.clone()).filter(|block| Crc64::of(block.as_slice()) == crc64);
        }
        let mut slot = self.tiers().allocate(len_bytes)?;
        for block in &blocks {
            slot.append(block.as_slice()).ok()?;
        }
        slot.finish().ok().filter(|block| Crc64::of(block.as_slice()) == crc64)
    }

    pub(crate) async fn abort_multipart(&self, key: &BlockKey, upload_id: &str) -> Result<()> {
        self.uploads.forget(upload_id);
        Ok(self.upstream.abort_multipart(key.bucket(), key.key(), upload_id).await?)
    }

    /// Parts with the ETags that clients were given, where this gateway took them in; else with the upstream's own.
    pub(crate) async fn list_parts(&self, key: &BlockKey, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        let mut list = self.upstream.list_parts(key.bucket(), key.key(), upload_id, after, limit).await?;
        if self.policy(key.bucket()).is_kv() {
            for part in &mut list.parts {
                let etag = self.uploads.etag(upload_id, part.number);
                if let Some(etag) = etag.filter(|etag| PartTag::parse(etag).upstream_etag == part.etag) {
                    part.etag = etag;
                }
            }
        }
        Ok(list)
    }
}

fn without_record(stored: Stored, whole: Option<(Crc64, u64)>) -> Written {
    Written {
        etag: stored.upstream_etag,
        size_bytes: whole.map(|(_, len_bytes)| len_bytes),
        crc64: whole.map(|(crc64, _)| crc64),
        stored_at: stored.stored_at,
        expires_at: None,
    }
}
