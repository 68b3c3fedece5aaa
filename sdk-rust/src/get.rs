//! Blocks into the caller's buffers.

use std::fmt::Display;

use blockgate_api::types::{GetMode, GetRequest};
use tokio::time::Instant;

use crate::batch::batches;
use crate::client::{texts, told_ms};
use crate::frames::{Arrival, Frames};
use crate::gateway::Connection;
use crate::land::Landing;
use crate::outcome::GetOutcome;
use crate::transport::Failure;
use crate::{Client, LoadOptions, MissReason};

impl Client {
    /// Loads blocks into buffers: block `i` into buffer `i`, which must be as long as the block. Each byte is copied once, from
    /// the connection's buffer to the caller's, and every block's checksum is verified.
    ///
    /// What could not be loaded is a miss; its buffer's contents are not specified. Where a gateway fails on the way, what is
    /// still wanted is asked of the next.
    ///
    /// ```no_run
    /// # async fn example(client: blockgate_sdk::Client) {
    /// use blockgate_sdk::LoadOptions;
    ///
    /// let mut buffers = vec![vec![0; 1 << 20]; 3];
    /// let outcome = client.get_into(&["k0", "k1", "k2"], &mut buffers, &LoadOptions::default()).await;
    /// if let Some(miss) = outcome.misses.first() {
    ///     println!("compute from block {} on, since it is a miss: {}", miss.index, miss.reason);
    /// }
    /// # }
    /// ```
    pub async fn get_into<K: Display, B: AsMut<[u8]>>(
        &self,
        keys: &[K],
        buffers: &mut [B],
        options: &LoadOptions,
    ) -> GetOutcome {
        let deadline = self.deadline(options.deadline);
        let keys = texts(keys);
        let mut landing = Landing::new(buffers, keys.len(), options.mode);
        for batch in batches(&keys) {
            if landing.is_over() {
                break;
            }
            if let Err(reason) = self.load(&keys, batch, &mut landing, options, deadline).await {
                landing.give_up(reason);
            }
        }
        let outcome = landing.outcome();
        self.shared.counters.loaded(outcome.loaded, outcome.bytes);
        outcome.misses.iter().for_each(|miss| self.shared.counters.missed(miss.reason));
        outcome
    }

    /// Loads what is wanted of some keys, from one gateway after the other until none of it is open.
    async fn load<B: AsMut<[u8]>>(
        &self,
        keys: &[String],
        batch: std::ops::Range<usize>,
        landing: &mut Landing<'_, B>,
        options: &LoadOptions,
        deadline: Instant,
    ) -> Result<(), MissReason> {
        let mut attempts = self.attempts(options.chain.as_deref(), keys, deadline);
        loop {
            let wanted = landing.wanted(batch.clone());
            if wanted.is_empty() {
                return Ok(());
            }
            let request = GetRequest {
                keys: wanted.iter().map(|index| keys[*index].clone()).collect(),
                mode: options.mode,
                ..self.get_request(deadline)
            };
            let connection = attempts.next().await.map_err(|error| error.miss_reason())?;
            let gateway = connection.gateway.clone();
            match self.land(connection, &request, &wanted, landing, deadline).await {
                Ok(()) => return Ok(()),
                Err(failure) => attempts.failed(&gateway, failure).map_err(|error| error.miss_reason())?,
            }
        }
    }

    /// Loads from one gateway; `wanted` are the positions of the request's keys in the call's. What came before a failure stays:
    /// each block is verified by itself, and blocks come in order.
    async fn land<B: AsMut<[u8]>>(
        &self,
        connection: Connection,
        request: &GetRequest,
        wanted: &[usize],
        landing: &mut Landing<'_, B>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        // However long a block is, no more than its buffer's length is kept.
        let mut frames = Frames::ask(self, connection, request, u64::MAX, deadline).await?;
        loop {
            match frames.next().await? {
                Arrival::Piece(header) => landing.begin(wanted[header.index as usize], header.len_bytes),
                Arrival::Bytes(bytes) => landing.take(&bytes),
                Arrival::PieceEnd => {
                    let sound = frames.confirm(landing.crc64());
                    landing.finish(sound.is_ok());
                    sound?;
                    if landing.is_over() {
                        // Found here, not told by the gateway, which may have much more to send.
                        return Ok(());
                    }
                }
                Arrival::Miss(index, reason) => landing.missed(wanted[index], reason),
                Arrival::End => return Ok(()),
            }
        }
    }

    /// A request for no keys yet.
    pub(crate) fn get_request(&self, deadline: Instant) -> GetRequest {
        GetRequest {
            key_prefix: self.scope.key_prefix.clone(),
            key_suffix: self.scope.key_suffix.clone(),
            mode: GetMode::Prefix,
            deadline_ms: Some(told_ms(deadline)),
            fingerprint: self.scope.fingerprint.clone(),
            ..GetRequest::default()
        }
    }
}
