//! Reads and writes in buckets whose objects are not cached: everything is the upstream's, ETags and errors too.

use std::ops::Range;
use std::sync::Arc;

use blockgate_block::{BlockKey, MissReason, ObjectInfo, Tier};
use blockgate_upstream::{Conditions, Payload, PutRequest, UpstreamError};
use tokio::time::timeout;

use crate::conditions::resolve_range;
use crate::core::Core;
use crate::deadline::Deadline;
use crate::read::no_answer;
use crate::{Body, Found, RangeSpec, ReadRequest, Result, Served, StoreError, WriteRequest, Written};

/// The end of an open range, before the object's length is known. Stores read ranges as signed numbers.
const OPEN_END: u64 = i64::MAX as u64;

impl Core {
    pub(crate) async fn get_past(&self, key: &BlockKey, request: &ReadRequest, deadline: Deadline) -> Result<Served> {
        let (range, conditions) = self.range_past(key, request, deadline).await?;
        let reply = match self.open(key, range, &conditions, deadline).await? {
            Ok(reply) => reply,
            Err(UpstreamError::NotModified { .. }) => {
                let info = self.head_upstream(key, &Conditions::default(), deadline).await?;
                return Err(StoreError::NotModified(Arc::new(info)));
            }
            Err(error) => return Err(error.into()),
        };
        let body = Body::Stream(self.passing(key, reply.body, deadline).stream());
        Ok(Served { info: Arc::new(plain(reply.info)), tier: Tier::Upstream, range: reply.range, body })
    }

    /// The range as the upstream takes it. One that depends on the object's length pins the version it was judged by.
    async fn range_past(
        &self,
        key: &BlockKey,
        request: &ReadRequest,
        deadline: Deadline,
    ) -> Result<(Option<Range<u64>>, Conditions)> {
        let conditions = request.conditions.clone();
        match request.range {
            None => Ok((None, conditions)),
            Some(RangeSpec::From { first, last }) if first < OPEN_END && last.is_none_or(|last| first <= last) => {
                let end = last.map_or(OPEN_END, |last| last.saturating_add(1).min(OPEN_END));
                Ok((Some(first..end), conditions))
            }
            spec => {
                let info = self.head_upstream(key, &conditions, deadline).await?;
                let range = resolve_range(spec, info.size_bytes)?;
                Ok((Some(range), Conditions { if_match: Some(info.upstream_etag), ..Conditions::default() }))
            }
        }
    }

    pub(crate) async fn head_past(&self, key: &BlockKey, request: &ReadRequest, deadline: Deadline) -> Result<Found> {
        let info = Arc::new(self.head_upstream(key, &request.conditions, deadline).await?);
        Ok(Found { info, tier: Tier::Upstream })
    }

    async fn head_upstream(&self, key: &BlockKey, conditions: &Conditions, deadline: Deadline) -> Result<ObjectInfo> {
        let head = self.upstream.head(key.bucket(), key.key(), conditions);
        let head = deadline.bound(timeout(self.limits.first_byte, head)).await;
        let head = head.ok_or(StoreError::Miss(MissReason::Deadline))?.unwrap_or_else(|_| Err(no_answer()));
        match head {
            Ok(info) => Ok(plain(info)),
            Err(UpstreamError::NotModified { .. }) if !conditions.is_empty() => {
                let info = Box::pin(self.head_upstream(key, &Conditions::default(), deadline)).await?;
                Err(StoreError::NotModified(Arc::new(info)))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn put_past(&self, key: &BlockKey, request: WriteRequest, payload: Payload) -> Result<Written> {
        // From when the bucket was a kv bucket.
        let staged = self.unstage(key).await?;
        let size_bytes = Some(payload.len_bytes());
        let WriteRequest { attributes, tags, conditions } = request;
        let put = PutRequest { attributes, tags, conditions, crc64: None };
        let stored = self.upstream.put(key.bucket(), key.key(), put, payload).await?;
        staged.done(self).await?;
        Ok(Written {
            etag: stored.upstream_etag,
            size_bytes,
            crc64: None,
            stored_at: stored.stored_at,
            expires_at: None,
        })
    }
}

/// An object as its upstream shows it: a record, left from when the bucket had another mode, decides nothing.
fn plain(info: ObjectInfo) -> ObjectInfo {
    ObjectInfo { etag: info.upstream_etag.clone(), record: None, ..info }
}
