//! A block as one buffer.

use std::sync::Arc;

use blockgate_block::{BlockKey, MissReason, ObjectInfo, Tier};
use blockgate_upstream::BodyError;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use crate::core::Core;
use crate::{Body, ReadRequest, Result, StoreError};

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
        let served = self.get(key, &ReadRequest { range: None, ..request.clone() }).await?;
        let bytes = match served.body {
            Body::Bytes(bytes) => bytes,
            Body::Stream(mut stream) => {
                let mut bytes = BytesMut::new();
                while let Some(chunk) = stream.next().await {
                    bytes.extend_from_slice(&chunk.map_err(|error| match error {
                        BodyError::Corrupt => StoreError::Miss(MissReason::Corrupt),
                        BodyError::Stalled => StoreError::Miss(MissReason::Deadline),
                        error => error.into(),
                    })?);
                }
                bytes.freeze()
            }
        };
        Ok(Whole { info: served.info, tier: served.tier, bytes })
    }
}
