//! PUT.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{Attributes, BlockKey, BlockRecord, ObjectInfo};
use blockgate_upstream::{Conditions, CopyRequest, Payload, PutRequest, Stored, UpstreamError};
use tracing::Instrument;

use crate::body::{Passed, TakenIn, watch_body};
use crate::conditions::{is_expired, names};
use crate::core::{Core, joined, to_the_end};
use crate::grouped::Lying;
use crate::limits::COPY_BYTES_MAX;
use crate::ttl::{check_attributes, record_of, requested_ttl, with_record};
use crate::{BucketPolicy, Result, StoreError, WriteMode, WriteRequest, Written};

impl Core {
    pub(crate) async fn put(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        payload: Payload,
    ) -> Result<Written> {
        let policy = self.policy(key.bucket());
        let asked = check_write(&request, policy)?;
        let len_bytes = payload.len_bytes();
        let written = if !policy.is_kv() {
            self.put_past(key, request, payload).await?
        } else if len_bytes > policy.max_block_bytes {
            let ttl = expiring(asked, policy.ttl, len_bytes)?;
            self.put_large(key, request, payload, ttl).await?
        } else {
            let body = self.gather(payload).await?;
            self.put_block(key, request, body, asked.or(policy.ttl)).await?
        };
        self.metrics.stored(key.bucket(), len_bytes);
        Ok(written)
    }

    /// Takes in a body that is to become a block of `bucket`.
    pub(crate) async fn take_in(&self, bucket: &str, payload: Payload) -> Result<TakenIn> {
        check_length(payload.len_bytes(), self.policy(bucket))?;
        self.gather(payload).await
    }

    pub(crate) async fn put_taken(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        body: TakenIn,
    ) -> Result<Written> {
        let policy = self.policy(key.bucket());
        let asked = check_write(&request, policy)?;
        let len_bytes = body.len_bytes;
        check_length(len_bytes, policy)?;
        let written = if policy.is_kv() {
            self.put_block(key, request, body, asked.or(policy.ttl)).await?
        } else {
            self.put_past(key, request, Payload::Bytes(body.bytes())).await?
        };
        self.metrics.stored(key.bucket(), len_bytes);
        Ok(written)
    }

    /// Stores a block whose bytes are all here, as its bucket wants it.
    async fn put_block(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        body: TakenIn,
        ttl: Option<Duration>,
    ) -> Result<Written> {
        let room = match self.policy(key.bucket()).write {
            WriteMode::Async if request.conditions.is_empty() => {
                body.block().zip(self.backlog.room_for(body.len_bytes))
            }
            _ => None,
        };
        if let Some((block, room)) = room {
            return self.put_later(key, request, &body, block, room, ttl).await;
        }
        let (core, key) = (Arc::clone(self), key.clone());
        to_the_end(async move {
            match core.put_back(&key, &request, &body, ttl).await? {
                Some(written) => Ok(written),
                None => core.put_through(&key, request, &body, ttl).await,
            }
        })
        .await
    }

    /// Stores a block at the upstream, then in the tiers.
    async fn put_through(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        body: &TakenIn,
        ttl: Option<Duration>,
    ) -> Result<Written> {
        let write = self.keys.write(key).await;
        if !request.conditions.is_empty() {
            self.settle(key).await?;
        }
        let staged = self.unstage(key).await?;
        let record = record_of(body.crc64, body.len_bytes, self.upstream.now(), ttl);
        let info = Arc::new(self.put_record(key, request, body, record).await?);
        staged.done(self).await?;
        let written = written(&info);
        write.stored(&info, body.block());
        Ok(written)
    }

    /// Writes a block and its record to the upstream.
    pub(crate) async fn put_record(
        &self,
        key: &BlockKey,
        request: WriteRequest,
        body: &TakenIn,
        record: BlockRecord,
    ) -> Result<ObjectInfo> {
        let put = PutRequest {
            attributes: with_record(&request.attributes, &record),
            conditions: self.conditions_upstream(key, &request.conditions).await?,
            tags: request.tags,
            crc64: Some(body.crc64),
        };
        let tag_count = put.tags.len();
        let stored = self.put_over_nothing(key, put, body).await?;
        Ok(block_info(record, stored.upstream_etag, request.attributes, tag_count))
    }

    /// A PUT on the condition that nothing is there: a block that has expired, was never committed,
    /// or can't be read is nothing.
    async fn put_over_nothing(&self, key: &BlockKey, put: PutRequest, body: &TakenIn) -> Result<Stored> {
        let retry = put.conditions.if_none_match.is_some().then(|| put.clone());
        let result = self.upstream.put(key.bucket(), key.key(), put, Payload::Bytes(body.bytes())).await;
        let (Err(UpstreamError::PreconditionFailed), Some(mut retry)) = (&result, retry) else { return Ok(result?) };
        match self.conditions_ahead(key, &retry.conditions).await {
            // Gone since.
            Ok(conditions) if conditions.if_none_match.is_some() => {
                return Err(StoreError::Upstream(UpstreamError::Conflict));
            }
            Ok(conditions) => retry.conditions = conditions,
            // What can't be read has no ETag to be replaced by.
            Err(StoreError::Upstream(UpstreamError::Damaged(_))) => {
                self.upstream.delete(key.bucket(), key.key()).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(self.upstream.put(key.bucket(), key.key(), retry, Payload::Bytes(body.bytes())).await?)
    }

    /// The condition that nothing is there, as the upstream can judge it of an object that counts as nothing.
    pub(crate) async fn conditions_ahead(&self, key: &BlockKey, conditions: &Conditions) -> Result<Conditions> {
        if conditions.if_none_match.is_none() {
            return self.conditions_upstream(key, conditions).await;
        }
        match self.grouped.lies_at(key).await? {
            Lying::Nothing => Ok(conditions.clone()),
            Lying::Object(there) if !is_expired(&there, self.upstream.now()) => Err(StoreError::PreconditionFailed),
            Lying::Object(there) | Lying::Uncommitted(there) => {
                Ok(Conditions { if_match: Some(there.upstream_etag), ..Conditions::default() })
            }
        }
    }

    /// Streams an object past the tiers. It is given a record only if it must expire.
    async fn put_large(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        payload: Payload,
        ttl: Option<Duration>,
    ) -> Result<Written> {
        let (payload, passed) = watch_body(payload);
        let (core, key, watched) = (Arc::clone(self), key.clone(), passed.clone());
        let task =
            tokio::spawn(async move { core.put_stream(&key, request, payload, watched, ttl).await }.in_current_span());
        let _abort = AbortUnlessWhole { task: task.abort_handle(), passed };
        joined(task).await
    }

    async fn put_stream(
        self: &Arc<Self>,
        key: &BlockKey,
        request: WriteRequest,
        payload: Payload,
        passed: Passed,
        ttl: Option<Duration>,
    ) -> Result<Written> {
        let len_bytes = payload.len_bytes();
        let mut write = self.keys.write(key).await;
        if !request.conditions.is_empty() {
            self.settle(key).await?;
        }
        // A body that streams can't be sent twice.
        let conditions = self.conditions_ahead(key, &request.conditions).await?;
        let staged = self.unstage(key).await?;
        write.share();
        let tag_count = request.tags.len();
        let put = PutRequest { attributes: request.attributes.clone(), tags: request.tags, conditions, crc64: None };
        let stored = self.upstream.put(key.bucket(), key.key(), put, payload).await?;
        staged.done_shared(self).await?;
        let crc64 = passed.crc64();
        let written = match ttl {
            None => Written {
                etag: stored.upstream_etag,
                size_bytes: Some(len_bytes),
                crc64: Some(crc64),
                stored_at: stored.stored_at,
                expires_at: None,
            },
            Some(ttl) => {
                let record = record_of(crc64, len_bytes, self.upstream.now(), Some(ttl));
                let stored = self.attach_record(key, &stored.upstream_etag, &request.attributes, None, record).await?;
                written(&block_info(record, stored.upstream_etag, request.attributes, tag_count))
            }
        };
        write.end(|tiers| tiers.forget(key));
        Ok(written)
    }

    /// Gives an object a record (and other tags), its bytes untouched.
    pub(crate) async fn attach_record(
        &self,
        key: &BlockKey,
        upstream_etag: &str,
        attributes: &Attributes,
        tags: Option<Vec<(String, String)>>,
        record: BlockRecord,
    ) -> Result<Stored> {
        let copy = CopyRequest {
            source_bucket: key.bucket().to_owned(),
            source_key: key.key().to_owned(),
            source_conditions: Conditions { if_match: Some(upstream_etag.to_owned()), ..Conditions::default() },
            bucket: key.bucket().to_owned(),
            key: key.key().to_owned(),
            attributes: with_record(attributes, &record),
            tags,
        };
        Ok(self.upstream.copy(copy).await?)
    }

    /// A write's conditions as the upstream can judge them, atomically: ETags of blocks become its own.
    pub(crate) async fn conditions_upstream(&self, key: &BlockKey, conditions: &Conditions) -> Result<Conditions> {
        let Some(tag) = conditions.if_match.as_deref() else { return Ok(conditions.clone()) };
        let there = self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await?;
        if is_expired(&there, self.upstream.now()) {
            return Err(StoreError::Upstream(UpstreamError::NoSuchKey));
        }
        if tag == "*" {
            Ok(conditions.clone())
        } else if names(tag, &there) {
            Ok(Conditions { if_match: Some(there.upstream_etag), ..conditions.clone() })
        } else {
            Err(StoreError::PreconditionFailed)
        }
    }
}

/// Checks what a client asks of a write; the time to live that it asks for.
pub(crate) fn check_write(request: &WriteRequest, policy: &BucketPolicy) -> Result<Option<Duration>> {
    check_attributes(&request.attributes, policy)?;
    if !policy.is_kv() {
        return Ok(None);
    }
    let asked = requested_ttl(&request.attributes, &request.tags)?;
    check_write_conditions(&request.conditions)?;
    Ok(asked)
}

/// Checks that a body can be a block.
pub(crate) fn check_length(len_bytes: u64, policy: &BucketPolicy) -> Result<()> {
    if len_bytes <= policy.max_block_bytes {
        return Ok(());
    }
    Err(StoreError::InvalidArgument(format!(
        "a block of this bucket has at most {} bytes, not {len_bytes}",
        policy.max_block_bytes
    )))
}

/// Refuses conditions that S3 does not know on writes.
pub(crate) fn check_write_conditions(conditions: &Conditions) -> Result<()> {
    let unsupported = |what| Err(StoreError::Upstream(UpstreamError::NotSupported(what)));
    match conditions {
        Conditions { if_none_match: Some(tag), .. } if tag != "*" => {
            unsupported("If-None-Match with an ETag on a write")
        }
        Conditions { if_modified_since: Some(_), .. } | Conditions { if_unmodified_since: Some(_), .. } => {
            unsupported("conditions on the time of a write")
        }
        _ => Ok(()),
    }
}

/// The time to live of an object too large for the tiers. Its record is attached by a copy, which has a limit.
pub(crate) fn expiring(asked: Option<Duration>, default: Option<Duration>, len_bytes: u64) -> Result<Option<Duration>> {
    match asked {
        Some(_) if len_bytes > COPY_BYTES_MAX => Err(StoreError::InvalidArgument(format!(
            "a time to live needs an object of at most {COPY_BYTES_MAX} bytes"
        ))),
        None if len_bytes > COPY_BYTES_MAX => Ok(None),
        asked => Ok(asked.or(default)),
    }
}

/// What a block will look like to every later read.
pub(crate) fn block_info(
    record: BlockRecord,
    upstream_etag: String,
    attributes: Attributes,
    tag_count: usize,
) -> ObjectInfo {
    ObjectInfo {
        size_bytes: record.len_bytes,
        etag: record.etag().to_string(),
        upstream_etag,
        last_modified: record.stored_at,
        attributes,
        record: Some(record),
        tag_count: u32::try_from(tag_count).unwrap_or(u32::MAX),
        parts_count: None,
    }
}

/// The answer to a write.
pub(crate) fn written(info: &ObjectInfo) -> Written {
    Written {
        etag: info.etag.clone(),
        size_bytes: Some(info.size_bytes),
        crc64: info.crc64(),
        stored_at: info.last_modified,
        expires_at: info.expires_at(),
    }
}

/// Ends an upload whose client went away, unless all bytes were passed on: then it goes on to its end.
struct AbortUnlessWhole {
    task: tokio::task::AbortHandle,
    passed: Passed,
}

impl Drop for AbortUnlessWhole {
    fn drop(&mut self) {
        if !self.passed.is_whole() {
            self.task.abort();
        }
    }
}
