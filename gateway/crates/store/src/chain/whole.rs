//! A block as one buffer.

use std::sync::Arc;

use blockgate_block::{BlockKey, MissReason, ObjectInfo, Tier};
use blockgate_upstream::{BodyError, ByteStream, UpstreamError};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use crate::core::Core;
use crate::deadline::Deadline;
use crate::fill::FillError;
use crate::read::{Answer, read_error};
use crate::{Body, BucketPolicy, ReadRequest, Result, StoreError};

/// A block, whole and found sound.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What it is.
    pub info: Arc<ObjectInfo>,
    /// Where it was.
    pub tier: Tier,
    /// All its bytes.
    pub bytes: Bytes,
}

impl Core {
    pub(crate) async fn get_whole(self: &Arc<Self>, key: &BlockKey, request: &ReadRequest) -> Result<Whole> {
        let policy = self.policy(key.bucket());
        let deadline = Deadline::after(request.deadline.or(policy.deadline));
        let result = if policy.is_kv() {
            let request = ReadRequest { range: None, ..request.clone() };
            self.get_whole_block(key, policy, &request, deadline).await
        } else {
            Err(StoreError::Upstream(UpstreamError::NotSupported("blocks of a passthrough bucket")))
        };
        self.count(key, result.as_ref().map(|whole| (whole.tier, whole.bytes.len() as u64)));
        result
    }

    async fn get_whole_block(
        self: &Arc<Self>,
        key: &BlockKey,
        policy: &BucketPolicy,
        request: &ReadRequest,
        deadline: Deadline,
    ) -> Result<Whole> {
        let served = self.get_block(key, policy, request, deadline, Answer::Whole).await?;
        let bytes = match served.body {
            Body::Bytes(bytes) => bytes,
            Body::Stream(stream) => self.collect(policy, served.info.size_bytes, stream, deadline).await?,
        };
        Ok(Whole { info: served.info, tier: served.tier, bytes })
    }

    /// The largest object that is ever given as one buffer: a block, or what the heap for those without a slot can hold.
    pub(crate) fn whole_bytes_max(&self, policy: &BucketPolicy) -> u64 {
        policy.max_block_bytes.max(self.limits.heap_bytes)
    }

    /// Gathers what finds no room in the arena in the bounded heap.
    async fn collect(
        &self,
        policy: &BucketPolicy,
        len_bytes: u64,
        mut stream: ByteStream,
        deadline: Deadline,
    ) -> Result<Bytes> {
        let too_late = || StoreError::Miss(MissReason::Deadline);
        if len_bytes > self.whole_bytes_max(policy) {
            return Err(StoreError::Miss(MissReason::Absent));
        }
        // No room in time is out of time.
        if len_bytes > self.limits.heap_bytes {
            return Err(too_late());
        }
        let room = self.heap.room_for(len_bytes, self.limits.heap_wait);
        let room = deadline.bound(room).await.ok_or_else(too_late)?.map_err(|_| too_late())?;
        let mut bytes = BytesMut::with_capacity(usize::try_from(len_bytes).unwrap_or(0));
        while let Some(chunk) = deadline.bound(stream.next()).await.ok_or_else(too_late)? {
            bytes.extend_from_slice(&chunk.map_err(|error| body_error(policy, deadline, &error))?);
        }
        if bytes.len() as u64 != len_bytes {
            return Err(StoreError::Miss(MissReason::Corrupt));
        }
        Ok(room.keep(bytes.freeze()))
    }
}

fn body_error(policy: &BucketPolicy, deadline: Deadline, error: &BodyError) -> StoreError {
    match error {
        BodyError::Corrupt => StoreError::Miss(MissReason::Corrupt),
        BodyError::Stalled if deadline.is_over() => StoreError::Miss(MissReason::Deadline),
        error => read_error(policy, FillError::Upstream(UpstreamError::Unavailable(error.to_string()))),
    }
}
