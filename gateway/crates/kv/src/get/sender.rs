//! The frames of a `get`, made as the socket takes them.
//!
//! A body has one pass for each part of the cut: in each pass one frame a block. Ahead of the socket at most
//! [`WINDOW_BLOCKS`] blocks and about [`WINDOW_BYTES`] are fetched or wait, so that memory is bounded whatever is asked;
//! blocks stay held between passes within [`HELD_BYTES`], and others are read anew. All `get`s together share a part of
//! memory; one that gets none goes on block by block. Nothing is spawned here: a client that stops reading stops its
//! fetches, and dropping the body frees what it held.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use blockgate_api::frame::{self, FrameHeader};
use blockgate_api::types::{GetOrder, StreamEnd};
use blockgate_api::{Crc64, MissReason, Tier};
use blockgate_block::KeyList;
use blockgate_store::{ChainMatch, ReadRequest, StoreError, Whole};
use bytes::Bytes;
use futures::Stream;
use tokio::time::{Instant, timeout_at};

use super::blocks::Blocks;
use super::window::{Fetched, Window};
use crate::budget::{Budget, Room};
use crate::cut::Cut;
use crate::fields;
use crate::gate::Gate;
use crate::limits::{HELD_BYTES, WINDOW_BLOCKS, WINDOW_BYTES};

/// What is to be sent.
pub(super) struct Order {
    pub(super) keys: Arc<KeyList>,
    pub(super) cut: Cut,
    pub(super) order: GetOrder,
    pub(super) fingerprint: Option<String>,
    pub(super) deadline: Option<Instant>,
    /// What was promised of a prefix; none where all blocks are asked for.
    pub(super) found: Option<ChainMatch>,
}

/// Makes the frames.
pub(super) struct Sender {
    gate: Arc<Gate>,
    order: Order,
    /// Room of this request.
    window_room: Arc<Budget>,
    held_room: Arc<Budget>,
    window: Window,
    blocks: Blocks,
    /// The pass: which part of each block is sent.
    part: u32,
    /// The next block of this pass to be fetched.
    next: usize,
    /// Blocks from here on are not sent.
    limit: usize,
    /// Where a prefix ends early, and why: told once all blocks before it are sent.
    prefix_miss: Option<(usize, MissReason)>,
    /// What a block is taken to hold until it is known.
    expected_bytes: u64,
    /// Frames, in pieces; a payload with the tier that it is from.
    ready: VecDeque<(Bytes, Option<Tier>)>,
    /// Room of what `ready` holds and of what the socket took last.
    sending: Vec<Room>,
    /// Payload that the socket took, and when.
    taken: Option<(Tier, u64, Instant)>,
    sent: StreamEnd,
    has_ended: bool,
}

impl Sender {
    pub(super) fn new(gate: Arc<Gate>, order: Order) -> Self {
        let (limit, prefix_miss, bytes) = match &order.found {
            Some(found) => (found.matched, found.miss, found.bytes),
            None => (order.keys.len(), None, 0),
        };
        Self {
            window_room: Budget::new(WINDOW_BYTES),
            held_room: Budget::new(HELD_BYTES),
            window: Window::new(order.order),
            blocks: Blocks::new(order.keys.len()),
            part: 0,
            next: 0,
            limit,
            prefix_miss,
            expected_bytes: bytes.checked_div(limit as u64).unwrap_or(0),
            ready: VecDeque::new(),
            sending: Vec::new(),
            taken: None,
            sent: StreamEnd::default(),
            has_ended: false,
            gate,
            order,
        }
    }

    /// The frames: headers and payloads apart, payloads from where the blocks lie.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures::stream::unfold(self, |mut sender| async move {
            let bytes = sender.next().await?;
            Some((Ok(bytes), sender))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some((tier, len_bytes, at)) = self.taken.take() {
            self.gate.store.delivered(tier, len_bytes, at.elapsed());
        }
        loop {
            if let Some((bytes, tier)) = self.ready.pop_front() {
                self.taken = tier.map(|tier| (tier, bytes.len() as u64, Instant::now()));
                return Some(bytes);
            }
            self.sending.clear();
            if self.has_ended {
                return None;
            }
            self.advance().await;
        }
    }

    /// Makes at least one frame ready, or goes to the next pass.
    async fn advance(&mut self) {
        self.fetch_ahead();
        if self.window.awaits_before(self.limit) {
            if let Some((index, fetched)) = self.window.next().await {
                self.settle(index, fetched);
            }
            return;
        }
        // What is still under way lies behind the end of the prefix.
        self.window.clear();
        if let Some((index, reason)) = self.prefix_miss.take() {
            self.ready.push_back((frame::miss(number(index), reason), None));
        }
        self.part += 1;
        self.next = 0;
        if self.part >= self.order.cut.parts() || self.limit == 0 {
            self.ready.push_back((frame::end(self.sent), None));
            self.has_ended = true;
            if self.order.found.is_some() {
                self.gate.store.used(&self.order.keys, self.limit);
            }
        }
    }

    fn fetch_ahead(&mut self) {
        while self.next < self.limit && self.window.len() < WINDOW_BLOCKS {
            let index = self.next;
            if self.blocks.has_missed(index) {
                self.next += 1;
                continue;
            }
            let budgets = [&self.window_room, &self.gate.windows];
            let held = self.blocks.held(index).cloned();
            // What is held has its room already.
            let bytes = if held.is_some() { 0 } else { self.expected_bytes };
            let room = match Room::within(budgets, bytes) {
                Some(room) => room,
                // One block at a time needs no permission: so every request gets on.
                None if self.window.len() == 0 => Room::beyond(budgets, bytes),
                None => return,
            };
            self.next += 1;
            match held {
                Some(whole) => self.window.push(index, std::future::ready(Ok((whole, room)))),
                None => self.window.push(index, self.fetch(index, room)),
            }
        }
    }

    fn fetch(&self, index: usize, mut room: Room) -> impl Future<Output = Fetched> + Send + use<> {
        let (store, keys, deadline) = (Arc::clone(&self.gate.store), Arc::clone(&self.order.keys), self.order.deadline);
        let fingerprint = self.order.fingerprint.clone();
        async move {
            let key = keys.get(index);
            let request = ReadRequest { fingerprint, deadline: fields::left(deadline), ..ReadRequest::default() };
            let read = store.get_whole(&key, request);
            let read = match deadline {
                Some(at) if at <= Instant::now() => Err(StoreError::Miss(MissReason::Deadline)),
                Some(at) => timeout_at(at, read).await.unwrap_or(Err(StoreError::Miss(MissReason::Deadline))),
                None => read.await,
            };
            let whole = read.map_err(|error| miss_of(&error))?;
            room.resize(whole.bytes.len() as u64);
            Ok((whole, room))
        }
    }

    /// Sends a block's part, or says why it can't be sent.
    fn settle(&mut self, index: usize, fetched: Fetched) {
        if index >= self.limit {
            return;
        }
        let sent = match fetched {
            Ok((whole, room)) => self.send(index, whole, room),
            Err(reason) => Err(reason),
        };
        let Err(reason) = sent else { return };
        if self.order.found.is_some() {
            (self.limit, self.prefix_miss) = (index, Some((index, reason)));
        } else {
            self.ready.push_back((frame::miss(number(index), reason), None));
        }
        self.blocks.miss(index);
    }

    fn send(&mut self, index: usize, whole: Whole, room: Room) -> Result<(), MissReason> {
        if self.order.deadline.is_some_and(|at| at <= Instant::now()) {
            return Err(MissReason::Deadline);
        }
        let len_bytes = whole.bytes.len() as u64;
        self.expected_bytes = self.expected_bytes.max(len_bytes);
        let crc64 = whole.info.crc64().unwrap_or_else(|| Crc64::of(&whole.bytes));
        // A block that was overwritten between two parts, or is too short for a range, is not the block that was meant.
        let is_same = self.blocks.is_same(index, &whole, crc64.to_u64());
        let range = self.order.cut.part(self.part, len_bytes).filter(|_| is_same).ok_or(MissReason::Absent)?;
        let is_whole = range == (0..len_bytes);
        // Both lie within a buffer in memory.
        #[allow(clippy::cast_possible_truncation)]
        let payload = whole.bytes.slice(range.start as usize..range.end as usize);
        let crc64 = if is_whole { crc64 } else { Crc64::of(&payload) };
        let part_bytes = payload.len() as u64;
        let header = FrameHeader::data(number(index), self.part, part_bytes, crc64);
        self.ready.push_back((Bytes::copy_from_slice(&header.encode()), None));
        if !payload.is_empty() {
            self.ready.push_back((payload, Some(whole.tier)));
        }
        self.sent.bytes += part_bytes;
        self.gate.metrics.frame_out(part_bytes);
        self.keep_or_release(index, whole);
        self.sending.push(room);
        Ok(())
    }

    /// Keeps a block for its further parts, where there is room.
    fn keep_or_release(&mut self, index: usize, whole: Whole) {
        if self.part + 1 == self.order.cut.parts() {
            self.sent.blocks += 1;
            self.blocks.release(index);
        } else if self.blocks.held(index).is_none() {
            let budgets = [&self.held_room, &self.gate.windows];
            match Room::within(budgets, whole.bytes.len() as u64) {
                Some(room) => self.blocks.hold(index, whole, room),
                None => self.gate.metrics.limit_hit("kv.held_bytes"),
            }
        }
    }
}

/// In a stream that has begun everything that goes wrong is a miss.
fn miss_of(error: &StoreError) -> MissReason {
    match error {
        StoreError::Miss(reason) => *reason,
        error => {
            tracing::warn!(%error, "a block could not be read");
            MissReason::UpstreamUnavailable
        }
    }
}

/// An index as frames write it: not above `KEYS_MAX`.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
