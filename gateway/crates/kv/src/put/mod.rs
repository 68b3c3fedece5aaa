//! `put`: blocks in, as frames.
//!
//! Bytes go from the socket into the arena, one block after the other; stores run beside that, within a window. What was
//! found wrong with one block is its own outcome and the others go on; what was found wrong with the frames ends the
//! request, and blocks stored before stay. With `group`, and where a digest of the whole body was promised, blocks wait in
//! memory for the end of the request.

mod arrivals;
mod frames;
mod stores;

use std::sync::Arc;

use axum::response::Response;
use blockgate_api::rules::{PutRules, PutStep};
use blockgate_api::types::{PutHeader, PutResponse, PutResult};
use blockgate_api::{ErrorCode, FRAMES_MEDIA_TYPE, frame::Event, limits};
use blockgate_block::{Attributes, BlockKey, FINGERPRINT_META, TTL_META};
use blockgate_store::{TakenIn, WriteRequest, Written};

use crate::budget::{Budget, Room};
use crate::gate::{Asked, Gate};
use crate::refusal::Refusal;
use crate::{fields, json};
use frames::Frames;
use stores::Stores;

/// A block that has arrived whole and sound, and what is to be stored of it.
pub(super) struct Arrived {
    pub(super) key: BlockKey,
    pub(super) request: WriteRequest,
    pub(super) body: TakenIn,
}

/// Blocks that wait for the end of the request.
type Waiting = Vec<(u64, Arrived, Room)>;

/// One `put` under way.
struct Intake {
    gate: Arc<Gate>,
    bucket: String,
    frames: Frames,
    rules: PutRules,
    stores: Stores,
    /// There where nothing may be stored before the end.
    waiting: Option<Waiting>,
    own_room: Arc<Budget>,
}

impl Gate {
    pub(crate) async fn put(self: &Arc<Self>, asked: Asked) -> Result<Response, Refusal> {
        json::check_media_type(&asked.headers, FRAMES_MEDIA_TYPE)?;
        let block_bytes_max = self.store.policy(&asked.bucket).max_block_bytes;
        let waits = asked.is_group || asked.is_promised;
        let mut intake = Intake {
            gate: Arc::clone(self),
            frames: Frames::new(asked.body, block_bytes_max),
            rules: PutRules::default(),
            stores: Stores::new(Arc::clone(&self.store)),
            waiting: waits.then(Vec::new),
            own_room: Budget::new(u64::MAX),
            bucket: asked.bucket,
        };
        let taken = intake.take_in(asked.is_group).await;
        // Also after an error: what is being stored is stored when the answer comes.
        let mut results = intake.stores.finish().await;
        taken?;
        if let Some(waiting) = intake.waiting.take() {
            results = if asked.is_group {
                self.store_group(waiting, results).await?
            } else {
                self.store_waiting(waiting, results).await
            };
        }
        results.sort_unstable_by_key(|(index, _)| *index);
        Ok(json::response(&PutResponse {
            results: results.into_iter().map(|(_, outcome)| result_of(outcome)).collect(),
        }))
    }

    async fn store_waiting(self: &Arc<Self>, waiting: Waiting, mut results: Vec<Outcome>) -> Vec<Outcome> {
        let mut stores = Stores::new(Arc::clone(&self.store));
        for (index, arrived, room) in waiting {
            stores.begin(index, arrived).await;
            drop(room);
        }
        results.extend(stores.finish().await);
        results
    }

    async fn store_group(&self, waiting: Waiting, results: Vec<Outcome>) -> Result<Vec<Outcome>, Refusal> {
        if let Some((index, Err(refusal))) = results.into_iter().min_by_key(|(index, _)| *index) {
            let message = format!("nothing was stored: block {index}: {}", refusal.message);
            return Err(Refusal::new(refusal.code, message));
        }
        let indices: Vec<u64> = waiting.iter().map(|(index, ..)| *index).collect();
        let (blocks, _rooms): (Vec<_>, Vec<Room>) =
            waiting.into_iter().map(|(_, arrived, room)| ((arrived.key, arrived.request, arrived.body), room)).unzip();
        let written = self.store.put_group(blocks).await?;
        Ok(indices.into_iter().zip(written.into_iter().map(Ok)).collect())
    }
}

/// How one block ended, by its index.
pub(super) type Outcome = (u64, Result<Written, Refusal>);

impl Intake {
    /// Reads all frames; what may be stored at once is being stored afterwards.
    async fn take_in(&mut self, is_group: bool) -> Result<(), Refusal> {
        let mut index = 0u64;
        let blocks_max = if is_group { limits::GROUP_BLOCKS_MAX } else { limits::PUT_BLOCKS_MAX };
        while let Some(event) = self.frames.next().await? {
            let block = match event {
                Event::Json(header, payload) => match self.rules.json(&header, &payload)? {
                    PutStep::Block(block) => block,
                    PutStep::End(_) => continue,
                },
                // Refused: no data can stand here.
                Event::DataStart(header) => {
                    return Err(self.rules.data(&header).map_or_else(Into::into, |()| frames::unexpected()));
                }
                _ => return Err(frames::unexpected()),
            };
            if index >= blocks_max as u64 {
                return Err(Refusal::limit("blocks of a put", blocks_max));
            }
            let announced = self.announced(block);
            match self.arrive(announced).await? {
                Ok(arrived) => self.settle(index, arrived).await?,
                Err(refusal) => self.stores.refuse(index, refusal),
            }
            index += 1;
        }
        Ok(())
    }

    /// What a block's header asks for, if it may.
    fn announced(&self, header: PutHeader) -> Result<(BlockKey, WriteRequest), Refusal> {
        let key =
            BlockKey::new(&self.bucket, &header.key).map_err(|error| Refusal::argument(format!("`key`: {error}")))?;
        fields::fingerprint(header.fingerprint.as_deref())?;
        let mut attributes = Attributes::default();
        if let Some(ttl_s) = header.ttl_s {
            let ttl_s = fields::between("ttl_s", ttl_s, limits::TTL_S_MAX)?;
            attributes.user.insert(TTL_META.to_owned(), ttl_s.to_string());
        }
        if let Some(fingerprint) = header.fingerprint {
            attributes.user.insert(FINGERPRINT_META.to_owned(), fingerprint);
        }
        Ok((key, WriteRequest { attributes, ..WriteRequest::default() }))
    }

    /// Stores a block, now or at the end.
    async fn settle(&mut self, index: u64, arrived: Arrived) -> Result<(), Refusal> {
        let Some(waiting) = &mut self.waiting else {
            self.stores.begin(index, arrived).await;
            return Ok(());
        };
        let budgets = [&self.own_room, &self.gate.waiting];
        let Some(room) = Room::within(budgets, arrived.body.len_bytes()) else {
            self.gate.metrics.limit_hit("kv.waiting_bytes");
            return Err(Refusal::new(
                ErrorCode::InsufficientStorage,
                "no memory for blocks that must wait for the end of their request: send fewer, or without `group` and a \
                 digest of the whole body",
            ));
        };
        waiting.push((index, arrived, room));
        Ok(())
    }
}

fn result_of(outcome: Result<Written, Refusal>) -> PutResult {
    match outcome {
        Ok(written) => PutResult { status: 200, etag: Some(written.etag), code: None, message: None },
        Err(Refusal { code, message }) => {
            PutResult { status: code.status().as_u16(), etag: None, code: Some(code), message: Some(message) }
        }
    }
}
