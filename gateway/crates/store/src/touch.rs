//! Renewing the time to live of blocks, without their bytes passing through.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{BlockKey, BlockRecord, KeyList, ObjectInfo};
use blockgate_upstream::{Conditions, UpstreamError};

use crate::conditions::is_expired;
use crate::core::{Core, each, to_the_end};
use crate::limits::{CALLS_AT_ONCE_MAX, COPY_BYTES_MAX};
use crate::ttl::{check_ttl, whole_ms};
use crate::{Result, Store, StoreError};

impl Store {
    /// Lets blocks live for `ttl` from now, by the upstream's clock, and says how many it did so for: those that are there.
    /// Objects without a record, which are no blocks of this store, are left as they are.
    ///
    /// # Errors
    /// [`StoreError::InvalidArgument`] for a time to live that is none; the upstream's, after all keys were tried.
    pub async fn touch(&self, keys: &KeyList, ttl: Duration) -> Result<u64> {
        if !self.core.policy(keys.bucket()).is_kv() {
            return Err(StoreError::Upstream(UpstreamError::NotSupported("times to live in a passthrough bucket")));
        }
        check_ttl(ttl)?;
        // Each once, however often it is named.
        let distinct: HashSet<BlockKey> = (0..keys.len()).map(|index| keys.get(index)).collect();
        let each_key = distinct.into_iter();
        let outcomes = each(each_key, CALLS_AT_ONCE_MAX, |key| {
            let core = Arc::clone(&self.core);
            to_the_end(async move { core.touch(&key, ttl).await })
        });
        outcomes.await.into_iter().try_fold(0, |count, outcome| Ok(count + u64::from(outcome?)))
    }
}

impl Core {
    /// Whether there was a block to renew.
    async fn touch(self: &Arc<Self>, key: &BlockKey, ttl: Duration) -> Result<bool> {
        let write = self.keys.write(key).await;
        if let Err(error) = self.settle(key).await {
            write.end(|_| {});
            return Err(error);
        }
        let there = match self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await {
            Ok(there) => there,
            Err(UpstreamError::NoSuchKey) => {
                self.unstage(key).await?.done(self).await?;
                write.end(|tiers| tiers.note_absent(key, self.upstream.now()));
                return Ok(false);
            }
            // Nothing that could be served.
            Err(UpstreamError::Damaged(_)) => return Ok(false),
            Err(error) => {
                // Nothing has changed.
                write.end(|_| {});
                return Err(error.into());
            }
        };
        let now = self.upstream.now();
        let record = there.record.filter(|record| record.len_bytes <= COPY_BYTES_MAX && !is_expired(&there, now));
        let Some(record) = record else {
            write.end(|tiers| tiers.install(key, &Arc::new(there), None));
            return Ok(false);
        };
        self.amend(key).await?;
        let held = self.held_version(&there, key);
        let record = BlockRecord { expires_at: Some(whole_ms(now) + ttl), ..record };
        match self.attach_record(key, &there.upstream_etag, &there.attributes, None, record).await {
            Ok(stored) => {
                let info = ObjectInfo { upstream_etag: stored.upstream_etag, record: Some(record), ..there };
                write.end(|tiers| tiers.install(key, &Arc::new(info), held));
                Ok(true)
            }
            // Overwritten or removed through another gateway meanwhile: a write that is dropped makes the tiers forget.
            Err(StoreError::PreconditionFailed | StoreError::Upstream(UpstreamError::NoSuchKey)) => Ok(false),
            Err(error) => {
                // Renewed or not, what was known of it until now still holds.
                write.end(|_| {});
                Err(error)
            }
        }
    }
}
