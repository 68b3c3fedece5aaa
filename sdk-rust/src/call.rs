//! Calls that are answered in JSON.

use std::fmt::Display;
use std::time::Duration;

use blockgate_api::limits::JSON_BYTES_MAX;
use blockgate_api::types::{ExistsRequest, ExistsResponse, LookupRequest, LookupResponse, StatsResponse};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::batch::batches;
use crate::client::{texts, told_ms};
use crate::gateway::Connection;
use crate::outcome::{Exists, Lookup, Miss};
use crate::route::Attempts;
use crate::sign::BodyHash;
use crate::transport::{Failure, Request, by, whole};
use crate::{Client, Error, LookupOptions};

const JSON_MEDIA_TYPE: &str = "application/json";

impl Client {
    /// How much of a chain is reusable, from its first key on.
    ///
    /// ```no_run
    /// # async fn example(client: blockgate_sdk::Client) {
    /// use std::time::Duration;
    /// use blockgate_sdk::LookupOptions;
    ///
    /// let in_time = LookupOptions { deadline: Some(Duration::from_millis(50)), prefetch: true, ..Default::default() };
    /// let found = client.lookup(&["k0", "k1", "k2"], &in_time).await;
    /// println!("{} of 3 blocks, {} bytes, in {:?}", found.matched, found.bytes, found.estimate);
    /// # }
    /// ```
    pub async fn lookup<K: Display>(&self, keys: &[K], options: &LookupOptions) -> Lookup {
        let deadline = self.deadline(options.deadline);
        let keys = texts(keys);
        let mut total = Lookup::default();
        for batch in batches(&keys) {
            let start = batch.start;
            let found = match self.lookup_batch(&keys, batch.clone(), options, deadline).await {
                Ok(found) => found,
                Err(error) => Lookup::missed(0, error.miss_reason()),
            };
            total.extend(start, found);
            if total.miss.is_some() || total.matched < batch.end {
                break;
            }
        }
        if let Some(miss) = total.miss {
            self.shared.counters.missed(miss.reason);
        }
        total
    }

    async fn lookup_batch(
        &self,
        keys: &[String],
        batch: std::ops::Range<usize>,
        options: &LookupOptions,
        deadline: Instant,
    ) -> Result<Lookup, Error> {
        let mut request = LookupRequest {
            keys: keys[batch].to_vec(),
            key_prefix: self.scope.key_prefix.clone(),
            key_suffix: self.scope.key_suffix.clone(),
            fingerprint: self.scope.fingerprint.clone(),
            lease_ms: millis(options.lease.unwrap_or_default()),
            prefetch: options.prefetch,
            deadline_ms: None,
        };
        let count = request.keys.len();
        let attempts = self.attempts(options.chain.as_deref(), keys, deadline);
        let answer = self.call(attempts, "lookup", deadline, || {
            request.deadline_ms = Some(told_ms(deadline));
            json(&request)
        });
        lookup_of(answer.await?, count)
    }

    /// Which keys are there, without assuming that they are a chain.
    ///
    /// ```no_run
    /// # async fn example(client: blockgate_sdk::Client) {
    /// let exists = client.exists(&["k0", "k1"], None).await;
    /// println!("{} of 2", exists.count());
    /// # }
    /// ```
    pub async fn exists<K: Display>(&self, keys: &[K], deadline: Option<Duration>) -> Exists {
        let deadline = self.deadline(deadline);
        let keys = texts(keys);
        let mut exists = Exists::default();
        for batch in batches(&keys) {
            match self.exists_batch(&keys, batch.clone(), deadline).await {
                Ok(present) => exists.present.extend(present),
                Err(error) => {
                    let reason = error.miss_reason();
                    self.shared.counters.missed(reason);
                    exists.failure = Some(reason);
                    break;
                }
            }
        }
        exists.present.resize(keys.len(), false);
        exists
    }

    async fn exists_batch(
        &self,
        keys: &[String],
        batch: std::ops::Range<usize>,
        deadline: Instant,
    ) -> Result<Vec<bool>, Error> {
        let mut request = ExistsRequest {
            keys: keys[batch].to_vec(),
            key_prefix: self.scope.key_prefix.clone(),
            key_suffix: self.scope.key_suffix.clone(),
            fingerprint: self.scope.fingerprint.clone(),
            deadline_ms: None,
        };
        let count = request.keys.len();
        let answer: ExistsResponse = self
            .call(self.attempts(None, keys, deadline), "exists", deadline, || {
                request.deadline_ms = Some(told_ms(deadline));
                json(&request)
            })
            .await?;
        if answer.present.as_bytes().len() != count.div_ceil(8) {
            return Err(Error::protocol("the bitmap has another length than the keys"));
        }
        Ok((0..count).map(|index| answer.present.get(index)).collect())
    }

    /// What a gateway says of itself and the bucket.
    ///
    /// # Errors
    /// When no gateway answers.
    pub async fn stats(&self, deadline: Option<Duration>) -> Result<StatsResponse, Error> {
        let deadline = self.deadline(deadline);
        let mut attempts = self.attempts(None, &[], deadline);
        let request = &self.shared.router.probe;
        loop {
            let connection = attempts.next().await?;
            match answer(&connection, request, deadline).await {
                Ok(stats) => return Ok(stats),
                Err(failure) => attempts.failed(&connection.gateway, failure)?,
            }
        }
    }

    /// Sends a JSON request to one gateway after the other until one answers. `body` is asked anew for each, since the time
    /// left is less.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        mut attempts: Attempts<'_>,
        operation: &str,
        deadline: Instant,
        mut body: impl FnMut() -> Vec<u8>,
    ) -> Result<T, Error> {
        loop {
            let connection = attempts.next().await?;
            match answer(&connection, &self.json_request(operation, body()), deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => attempts.failed(&connection.gateway, failure)?,
            }
        }
    }

    pub(crate) fn json_request(&self, operation: &str, body: Vec<u8>) -> Request {
        Request {
            method: Method::POST,
            path: format!("{}/{operation}", self.shared.base_path),
            query: None,
            media_type: Some(JSON_MEDIA_TYPE),
            hash: BodyHash::of(&body),
            body: vec![body.into()],
        }
    }
}

/// One attempt at one gateway, to the end of its answer.
pub(crate) async fn answer<T: DeserializeOwned>(
    connection: &Connection,
    request: &Request,
    deadline: Instant,
) -> Result<T, Failure> {
    let response = connection.send(request, deadline).await?;
    let body = by(deadline, whole(response.into_body(), JSON_BYTES_MAX)).await??;
    let answer = serde_json::from_slice(&body).map_err(Error::protocol)?;
    connection.gateway.breaker.succeeded();
    Ok(answer)
}

/// A request of the contract in JSON.
pub(crate) fn json(request: &impl Serialize) -> Vec<u8> {
    // Types of the contract alone, none of which can fail to be written.
    serde_json::to_vec(request).unwrap_or_default()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What a gateway said, once it is known to make sense.
fn lookup_of(answer: LookupResponse, keys: usize) -> Result<Lookup, Error> {
    let matched = usize::try_from(answer.matched).ok().filter(|matched| *matched <= keys);
    let matched = matched.ok_or_else(|| Error::protocol("more blocks match than were asked for"))?;
    let estimate = Duration::try_from_secs_f64(answer.estimate_ms / 1000.0).map_err(Error::protocol)?;
    if answer.miss.is_some_and(|miss| miss.index != answer.matched) || (answer.miss.is_none() && matched < keys) {
        return Err(Error::protocol("the match does not end at the first miss"));
    }
    let expiry = |ms| std::time::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    Ok(Lookup {
        matched,
        bytes: answer.bytes,
        tiers: answer.tiers,
        miss: answer.miss.map(|miss| Miss { index: matched, reason: miss.reason.into() }),
        estimate,
        lease_expires_at: answer.lease_expires_at.and_then(expiry),
    })
}

impl Lookup {
    /// Adds what follows in the chain, from key `start` on.
    fn extend(&mut self, start: usize, next: Self) {
        self.matched += next.matched;
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.tiers.memory = self.tiers.memory.saturating_add(next.tiers.memory);
        self.tiers.staging = self.tiers.staging.saturating_add(next.tiers.staging);
        self.tiers.upstream = self.tiers.upstream.saturating_add(next.tiers.upstream);
        self.miss = next.miss.map(|miss| Miss { index: start + miss.index, ..miss });
        self.estimate = self.estimate.saturating_add(next.estimate);
        // The earliest, since all of the match is wanted.
        self.lease_expires_at = match (self.lease_expires_at, next.lease_expires_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}
