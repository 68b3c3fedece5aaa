//! Copies of objects, whole or as parts, and tags: no block bytes pass through the gateway.

use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::{Attributes, BlockKey, BlockRecord, Crc64, MissReason, ObjectInfo};
use blockgate_upstream::{Conditions, CopyRequest, PartCopyRequest, UpstreamError};

use crate::conditions::{is_expired, judge};
use crate::core::{Core, to_the_end};
use crate::limits::COPY_BYTES_MAX;
use crate::parts::part_etag;
use crate::ttl::{check_attributes, requested_ttl, tag_ttl, whole_ms, with_record};
use crate::write::{block_info, written};
use crate::{BucketPolicy, CopyObject, PartCopy, Result, StoreError, Written};

impl Core {
    pub(crate) async fn copy(self: &Arc<Self>, request: CopyObject) -> Result<Written> {
        if let Some(attributes) = &request.attributes {
            check_attributes(attributes, self.policy(request.target.bucket()))?;
        }
        if request.source == request.target && request.attributes.is_none() && request.tags.is_none() {
            return Err(StoreError::InvalidArgument(
                "This copy request is illegal because it is trying to copy an object to itself without changing the \
                 object's metadata, storage class, website redirect location or encryption attributes."
                    .into(),
            ));
        }
        if !request.conditions.is_empty() {
            return Err(UpstreamError::NotSupported("conditions on the target of a copy").into());
        }
        let core = Arc::clone(self);
        to_the_end(async move { core.copy_now(&request).await }).await
    }

    async fn copy_now(self: &Arc<Self>, request: &CopyObject) -> Result<Written> {
        let policy = self.policy(request.target.bucket());
        // What was acknowledged comes first: at the source, and, by taking the key, at the target.
        self.settled(&request.source).await?;
        let write = if policy.is_kv() { Some(self.keys.write(&request.target).await) } else { None };
        if request.source == request.target {
            self.settle(&request.target).await?;
        }
        let source = self.source(&request.source, &request.source_conditions).await?;
        let attributes = request.attributes.as_ref().unwrap_or(&source.attributes);
        check_attributes(attributes, policy)?;
        let record = if policy.is_kv() { self.record_of_copy(request, policy, &source).await? } else { None };
        let staged = if request.source == request.target {
            self.amend(&request.target).await?;
            None
        } else {
            Some(self.unstage(&request.target).await?)
        };
        let stored = self
            .upstream
            .copy(CopyRequest {
                source_bucket: request.source.bucket().to_owned(),
                source_key: request.source.key().to_owned(),
                source_conditions: same_version(&source),
                bucket: request.target.bucket().to_owned(),
                key: request.target.key().to_owned(),
                attributes: record.map_or_else(|| attributes.clone(), |record| with_record(attributes, &record)),
                tags: request.tags.clone(),
            })
            .await?;
        if let Some(staged) = staged {
            staged.done(self).await?;
        }
        let Some(record) = record else {
            // A write that is dropped makes the tiers forget what was at the target.
            return Ok(Written {
                etag: stored.upstream_etag,
                size_bytes: Some(source.size_bytes),
                crc64: None,
                stored_at: stored.stored_at,
                expires_at: None,
            });
        };
        let tag_count = request.tags.as_ref().map_or(source.tag_count as usize, Vec::len);
        let info = Arc::new(block_info(record, stored.upstream_etag, attributes.clone(), tag_count));
        let written = written(&info);
        if let Some(write) = write {
            let held =
                (request.source == request.target).then(|| self.held_version(&source, &request.target)).flatten();
            write.end(|tiers| tiers.install(&request.target, &info, held));
        }
        Ok(written)
    }

    /// The object to copy from: there, not expired, as the conditions want it.
    async fn source(&self, key: &BlockKey, conditions: &Conditions) -> Result<Arc<ObjectInfo>> {
        let there = Arc::new(self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await?);
        if self.policy(key.bucket()).is_kv() && is_expired(&there, self.upstream.now()) {
            return Err(StoreError::Miss(MissReason::Expired));
        }
        match judge(&there, conditions) {
            Err(StoreError::NotModified(_)) => Err(StoreError::PreconditionFailed),
            outcome => outcome.map(|()| there),
        }
    }

    /// The record of a copy in a kv bucket. A source without a record stays without one, unless it must expire.
    async fn record_of_copy(
        &self,
        request: &CopyObject,
        policy: &BucketPolicy,
        source: &ObjectInfo,
    ) -> Result<Option<BlockRecord>> {
        let none = Attributes::default();
        let given = request.attributes.as_ref().unwrap_or(&none);
        let asked = requested_ttl(given, request.tags.as_deref().unwrap_or_default())?;
        let now = whole_ms(self.upstream.now());
        let inherited = if request.attributes.is_none() { source.expires_at() } else { None };
        let by_default = || policy.ttl.map(|ttl| now + ttl);
        let expires_at = asked.map(|ttl| now + ttl).or(inherited).or_else(by_default);
        let crc64 = match source.crc64() {
            Some(crc64) => crc64,
            None if expires_at.is_none() => return Ok(None),
            None if source.size_bytes <= policy.max_block_bytes => self.checksum_of(&request.source, source).await?,
            None if asked.is_none() => return Ok(None),
            None => return Err(no_record(policy)),
        };
        Ok(Some(BlockRecord {
            crc64,
            len_bytes: source.size_bytes,
            stored_at: now,
            expires_at,
            group: None,
            tenant: None,
        }))
    }

    /// The bytes in memory, if they are those of `info`.
    pub(crate) fn held_version(&self, info: &ObjectInfo, key: &BlockKey) -> Option<blockgate_block::BlockBuf> {
        let block = self.tiers().block(key)?;
        (block.info.upstream_etag == info.upstream_etag && block.info.size_bytes == info.size_bytes)
            .then_some(block.bytes)
    }

    pub(crate) async fn upload_part_copy(self: &Arc<Self>, request: PartCopy) -> Result<Written> {
        self.settled(&request.source).await?;
        let source = self.source(&request.source, &request.source_conditions).await?;
        let range = request.source_range.clone().unwrap_or(0..source.size_bytes);
        if range.end > source.size_bytes || (range.is_empty() && request.source_range.is_some()) {
            return Err(StoreError::InvalidRange { size_bytes: source.size_bytes });
        }
        let kv = self.policy(request.target.bucket()).is_kv();
        let crc64 = if range == (0..source.size_bytes) { source.crc64() } else { None }.or_else(|| {
            let held = if kv { self.held_version(&source, &request.source) } else { None };
            held?.slice(range.clone()).map(|bytes| Crc64::of(&bytes))
        });
        let len_bytes = range.end - range.start;
        let stored = self
            .upstream
            .upload_part_copy(PartCopyRequest {
                source_bucket: request.source.bucket().to_owned(),
                source_key: request.source.key().to_owned(),
                source_range: request.source_range,
                source_conditions: same_version(&source),
                bucket: request.target.bucket().to_owned(),
                key: request.target.key().to_owned(),
                upload_id: request.upload_id,
                number: request.number,
            })
            .await?;
        let etag = match crc64 {
            Some(crc64) if kv => part_etag(crc64, len_bytes, &stored.upstream_etag),
            _ => stored.upstream_etag,
        };
        Ok(Written { etag, size_bytes: Some(len_bytes), crc64, stored_at: stored.stored_at, expires_at: None })
    }

    pub(crate) async fn tags(&self, key: &BlockKey) -> Result<Vec<(String, String)>> {
        self.keys.settled(key).await;
        if let Some(waiting) = self.writeback.get(key) {
            let is_over = is_expired(&waiting.info, self.upstream.now());
            return if is_over { Err(StoreError::Miss(MissReason::Expired)) } else { Ok(waiting.tags.clone()) };
        }
        if self.policy(key.bucket()).is_kv() {
            // What is not there to clients has no tags.
            self.source(key, &Conditions::default()).await?;
        }
        Ok(self.upstream.tags(key.bucket(), key.key()).await?)
    }

    /// Replaces tags. A time to live among them counts from now.
    pub(crate) async fn set_tags(self: &Arc<Self>, key: &BlockKey, tags: Vec<(String, String)>) -> Result<()> {
        if !self.policy(key.bucket()).is_kv() {
            self.settled(key).await?;
            self.amend(key).await?;
            return Ok(self.upstream.set_tags(key.bucket(), key.key(), &tags).await?);
        }
        let (core, key) = (Arc::clone(self), key.clone());
        to_the_end(async move { core.set_block_tags(&key, tags).await }).await
    }

    async fn set_block_tags(self: &Arc<Self>, key: &BlockKey, tags: Vec<(String, String)>) -> Result<()> {
        let ttl = tag_ttl(&tags)?;
        let write = self.keys.write(key).await;
        self.settle(key).await?;
        let there = self.source(key, &Conditions::default()).await?;
        self.amend(key).await?;
        let tag_count = tags.len();
        let info = match ttl {
            None => {
                self.upstream.set_tags(key.bucket(), key.key(), &tags).await?;
                ObjectInfo { tag_count: u32::try_from(tag_count).unwrap_or(u32::MAX), ..(*there).clone() }
            }
            Some(ttl) => {
                let expires_at = whole_ms(self.upstream.now()) + ttl;
                let record = self.renewed(key, &there, expires_at).await?;
                let stored =
                    self.attach_record(key, &there.upstream_etag, &there.attributes, Some(tags), record).await?;
                block_info(record, stored.upstream_etag, there.attributes.clone(), tag_count)
            }
        };
        let held = self.held_version(&there, key);
        write.end(|tiers| tiers.install(key, &Arc::new(info), held));
        Ok(())
    }

    /// The record of an object with another expiry.
    async fn renewed(&self, key: &BlockKey, there: &ObjectInfo, expires_at: SystemTime) -> Result<BlockRecord> {
        let policy = self.policy(key.bucket());
        let record = match there.record {
            Some(record) => record,
            None if there.size_bytes > policy.max_block_bytes => return Err(no_record(policy)),
            None => BlockRecord {
                crc64: self.checksum_of(key, there).await?,
                len_bytes: there.size_bytes,
                stored_at: whole_ms(there.last_modified),
                expires_at: None,
                group: None,
                tenant: None,
            },
        };
        if record.len_bytes > COPY_BYTES_MAX {
            return Err(no_record(policy));
        }
        Ok(BlockRecord { expires_at: Some(expires_at), ..record })
    }
}

fn no_record(policy: &BucketPolicy) -> StoreError {
    StoreError::InvalidArgument(format!(
        "only a block can be given a time to live: an object of at most {} bytes, or one that was stored with one",
        policy.max_block_bytes
    ))
}

fn same_version(info: &ObjectInfo) -> Conditions {
    Conditions { if_match: Some(info.upstream_etag.clone()), ..Conditions::default() }
}
