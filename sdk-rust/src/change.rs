//! Renewing and deleting blocks.

use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_api::types::{DeleteRequest, DeleteResponse, TouchRequest, TouchResponse};

use crate::batch::batches;
use crate::call::json;
use crate::client::{texts, whole_seconds};
use crate::{Client, Error};

/// What was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// How many blocks. Of keys, those that are gone now, whether they were there or not.
    pub blocks: u64,
    /// Since when no gateway serves them, by the shared store's clock.
    pub effective_at: SystemTime,
}

impl Client {
    /// Renews the times to live of blocks: `ttl`, rounded up to seconds, from now. No block's bytes are moved. Returns how many there are.
    ///
    /// # Errors
    /// When it is not known that all were renewed; some may be.
    pub async fn touch<K: Display>(&self, keys: &[K], ttl: Duration, deadline: Option<Duration>) -> Result<u64, Error> {
        let deadline = self.deadline(deadline);
        let keys = texts(keys);
        let mut touched = 0_u64;
        for batch in batches(&keys) {
            let request = json(&TouchRequest {
                keys: keys[batch].to_vec(),
                key_prefix: self.scope.key_prefix.clone(),
                key_suffix: self.scope.key_suffix.clone(),
                ttl_s: whole_seconds(ttl),
            });
            let attempts = self.attempts(None, &keys, deadline);
            let answer: TouchResponse = self.call(attempts, "touch", deadline, || request.clone()).await?;
            touched = touched.saturating_add(answer.touched);
        }
        Ok(touched)
    }

    /// Deletes blocks. When it returns, no gateway serves them any more.
    ///
    /// # Errors
    /// When it is not known that all are gone; some may be.
    ///
    /// ```no_run
    /// # async fn example(client: blockgate_sdk::Client) -> Result<(), blockgate_sdk::Error> {
    /// client.delete(&["k0", "k1"], None).await?;
    /// client.delete_prefix("session-7/", None).await?;
    /// client.delete_fingerprint("llama-3.1-8b/bf16/tp1", None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete<K: Display>(&self, keys: &[K], deadline: Option<Duration>) -> Result<Deleted, Error> {
        let keys = texts(keys);
        let mut total = Deleted { blocks: 0, effective_at: UNIX_EPOCH };
        for batch in batches(&keys) {
            let request = DeleteRequest {
                keys: Some(keys[batch].to_vec()),
                key_prefix: self.scope.key_prefix.clone(),
                key_suffix: self.scope.key_suffix.clone(),
                ..DeleteRequest::default()
            };
            let deleted = self.delete_request(&keys, &request, deadline).await?;
            total.blocks = total.blocks.saturating_add(deleted.blocks);
            total.effective_at = total.effective_at.max(deleted.effective_at);
        }
        Ok(total)
    }

    /// Deletes all blocks whose keys begin with the client's key prefix and this one.
    ///
    /// # Errors
    /// When it is not known that all are gone; some may be. An empty prefix is refused.
    pub async fn delete_prefix(&self, prefix: &str, deadline: Option<Duration>) -> Result<Deleted, Error> {
        let prefix = format!("{}{prefix}", self.scope.key_prefix);
        self.delete_request(&[], &DeleteRequest { prefix: Some(prefix), ..DeleteRequest::default() }, deadline).await
    }

    /// Deletes all blocks of the bucket that were stored with a fingerprint, whatever their keys.
    ///
    /// # Errors
    /// When it is not known that all are gone; some may be.
    pub async fn delete_fingerprint(&self, fingerprint: &str, deadline: Option<Duration>) -> Result<Deleted, Error> {
        let fingerprint = Some(fingerprint.to_owned());
        self.delete_request(&[], &DeleteRequest { fingerprint, ..DeleteRequest::default() }, deadline).await
    }

    async fn delete_request(
        &self,
        keys: &[String],
        request: &DeleteRequest,
        deadline: Option<Duration>,
    ) -> Result<Deleted, Error> {
        let deadline = self.deadline(deadline);
        let request = json(request);
        let attempts = self.attempts(None, keys, deadline);
        let answer: DeleteResponse = self.call(attempts, "delete", deadline, || request.clone()).await?;
        let effective_at = UNIX_EPOCH.checked_add(Duration::from_millis(answer.effective_at));
        Ok(Deleted { blocks: answer.deleted, effective_at: effective_at.unwrap_or(UNIX_EPOCH) })
    }
}
