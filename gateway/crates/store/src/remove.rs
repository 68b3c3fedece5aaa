//! DELETE, of one key or of many.

use std::collections::HashMap;
use std::sync::Arc;

use blockgate_block::{BlockKey, KeyList};
use blockgate_upstream::UpstreamError;

use crate::core::{Core, each, to_the_end};
use crate::keys::Writing;
use crate::limits::DELETE_KEYS_MAX;
use crate::writeback::UNSTAGED_AT_ONCE;
use crate::{Result, Store, StoreError};

impl Store {
    /// Removes blocks, and says how many of the keys are gone now, whether something was there or not.
    ///
    /// # Errors
    /// Only the upstream's; an error may come after some were removed.
    pub async fn delete_keys(&self, keys: &KeyList) -> Result<u64> {
        let mut keys: Vec<BlockKey> = (0..keys.len()).map(|index| keys.get(index)).collect();
        keys.sort_by(|a, b| a.key().cmp(b.key()));
        keys.dedup();
        let outcomes = self.core.delete_many(&keys).await?;
        Ok(outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64)
    }
}

impl Core {
    pub(crate) async fn delete(self: &Arc<Self>, key: &BlockKey) -> Result<()> {
        if !self.policy(key.bucket()).is_kv() {
            let staged = self.unstage(key).await?;
            self.upstream.delete(key.bucket(), key.key()).await?;
            return staged.done(self).await;
        }
        let (core, key) = (Arc::clone(self), key.clone());
        to_the_end(async move {
            let write = core.keys.write(&key).await;
            let staged = core.unstage(&key).await?;
            let deleted = core.upstream.delete(key.bucket(), key.key()).await;
            // In a bucket that is gone nothing can be stored any more: what waits for its upload is let go.
            if matches!(deleted, Ok(()) | Err(UpstreamError::NoSuchBucket)) {
                staged.done(&core).await?;
            }
            deleted?;
            write.end(|tiers| tiers.note_absent(&key, core.upstream.now()));
            Ok(())
        })
        .await
    }

    /// Outcomes in the order asked.
    pub(crate) async fn delete_many(self: &Arc<Self>, keys: &[BlockKey]) -> Result<Vec<Result<()>>> {
        let mut outcomes = Vec::with_capacity(keys.len());
        let mut rest = keys;
        while let Some(first) = rest.first() {
            let same_bucket = rest.iter().take_while(|key| key.bucket() == first.bucket()).count();
            let (batch, others) = rest.split_at(same_bucket.min(DELETE_KEYS_MAX));
            let (core, batch) = (Arc::clone(self), batch.to_vec());
            outcomes.extend(to_the_end(async move { core.delete_batch(&batch).await }).await?);
            rest = others;
        }
        Ok(outcomes)
    }

    async fn delete_batch(&self, keys: &[BlockKey]) -> Result<Vec<Result<()>>> {
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let mut distinct = keys.to_vec();
        distinct.sort_by(|a, b| a.key().cmp(b.key()));
        distinct.dedup();
        let writes: Vec<Writing> =
            if self.policy(first.bucket()).is_kv() { self.keys.write_all(&distinct).await } else { Vec::new() };
        let staged = self.unstage_all(&distinct).await?;
        let names: Vec<String> = keys.iter().map(|key| key.key().to_owned()).collect();
        let outcomes = self.upstream.delete_many(first.bucket(), &names).await?;
        let failed = keys.iter().zip(outcomes).filter_map(|(key, outcome)| Some((key.clone(), outcome.err()?.into())));
        let mut failed: HashMap<BlockKey, StoreError> = failed.collect();
        let gone: Vec<_> = distinct.into_iter().zip(staged).filter(|(key, _)| !failed.contains_key(key)).collect();
        let gone = each(gone, UNSTAGED_AT_ONCE, |(key, staged)| async move { (key, staged.done(self).await) }).await;
        failed.extend(gone.into_iter().filter_map(|(key, outcome)| Some((key, outcome.err()?))));
        let now = self.upstream.now();
        for write in writes {
            let key = write.key().clone();
            if !failed.contains_key(&key) {
                write.end(|tiers| tiers.note_absent(&key, now));
            }
        }
        Ok(keys.iter().map(|key| failed.get(key).map_or(Ok(()), |error| Err(error.clone()))).collect())
    }
}
