//! Blocks as they arrive.

use std::collections::VecDeque;
use std::fmt::Display;

use blockgate_api::frame::FrameHeader;
use blockgate_api::limits::{KEYS_MAX, RANGES_MAX, STRIPES_MAX};
use blockgate_api::types::{GetMode, GetOrder, GetRequest};
use blockgate_api::{Crc64Hasher, ErrorCode};
use bytes::{Bytes, BytesMut};
use futures::Stream;
use tokio::time::Instant;

use crate::client::texts;
use crate::frames::{Arrival, Frames, Promise};
use crate::outcome::Miss;
use crate::{Client, Error, GetOptions, MissReason, Pieces};

/// What a [`Blocks`] yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of a block, whole and verified.
    Bytes {
        /// The block's position in the call's keys.
        index: usize,
        /// Which stripe, or which range; 0 where blocks are whole.
        piece: usize,
        /// The bytes.
        bytes: Bytes,
    },
    /// A block that does not come, or not to its end: what came of it is not to be used.
    Miss(Miss),
}

/// An answer as it arrives: a block's bytes as soon as they are whole and verified.
///
/// Dropped before its end, it closes its connection. While it is not asked for more, the gateway waits, until the deadline.
#[derive(Debug)]
pub struct Blocks {
    client: Client,
    frames: Option<Frames>,
    promise: Promise,
    mode: GetMode,
    order: GetOrder,
    last_piece: usize,
    blocks: Vec<State>,
    /// Blocks before this one may still come.
    limit: usize,
    gathering: Gathering,
    queue: VecDeque<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Whole,
    Missed,
}

/// A piece that is arriving.
#[derive(Debug, Default)]
struct Gathering {
    header: Option<FrameHeader>,
    /// All of it, where it came at once: not copied.
    whole: Bytes,
    parts: BytesMut,
    hasher: Crc64Hasher,
}

impl Client {
    /// Asks for blocks, to use each as it arrives: in the order of the keys or of readiness, whole, in stripes or in ranges.
    ///
    /// With [`GetOrder::Ready`] a block's position is only certain at the end, see [`Blocks::next`].
    ///
    /// ```no_run
    /// # async fn example(client: blockgate_sdk::Client) {
    /// use blockgate_sdk::{GetOptions, Piece, Pieces};
    ///
    /// let layers = GetOptions { pieces: Pieces::Stripes(32), ..Default::default() };
    /// let mut blocks = client.get(&["k0", "k1"], &layers).await;
    /// while let Some(piece) = blocks.next().await {
    ///     match piece {
    ///         Piece::Bytes { index, piece, bytes } => println!("block {index}, layer {piece}: {} bytes", bytes.len()),
    ///         Piece::Miss(miss) => println!("compute block {}: {}", miss.index, miss.reason),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn get<K: Display>(&self, keys: &[K], options: &GetOptions) -> Blocks {
        let deadline = self.deadline(options.deadline);
        let request = GetRequest { keys: texts(keys), mode: options.mode, order: options.order, ..Default::default() };
        let mut blocks = Blocks {
            client: self.clone(),
            frames: None,
            promise: Promise::default(),
            mode: options.mode,
            order: options.order,
            last_piece: 0,
            blocks: vec![State::Pending; request.keys.len()],
            limit: request.keys.len(),
            gathering: Gathering::default(),
            queue: VecDeque::new(),
        };
        if request.keys.is_empty() {
            return blocks;
        }
        match self.begin(request, options, deadline).await {
            Ok((frames, last_piece)) => {
                (blocks.promise, blocks.last_piece) = (frames.promise, last_piece);
                blocks.frames = Some(frames);
            }
            Err(error) => blocks.give_up(error.miss_reason()),
        }
        blocks
    }

    async fn begin(
        &self,
        mut request: GetRequest,
        options: &GetOptions,
        deadline: Instant,
    ) -> Result<(Frames, usize), Error> {
        let limit = |what, value, max| if value > max { Err(Error::Limit { what, value, max }) } else { Ok(()) };
        limit("keys", request.keys.len(), KEYS_MAX)?;
        let pieces = match &options.pieces {
            Pieces::Whole => 1,
            Pieces::Stripes(stripes) => {
                limit("stripes", *stripes as usize, STRIPES_MAX as usize)?;
                request.stripes = *stripes;
                *stripes as usize
            }
            Pieces::Ranges(ranges) => {
                limit("ranges", ranges.len(), RANGES_MAX)?;
                request.ranges = Some(ranges.clone());
                ranges.len()
            }
        };
        let none = || Error::Refused { code: ErrorCode::InvalidArgument, message: "no stripes or ranges".to_owned() };
        let last_piece = pieces.checked_sub(1).ok_or_else(none)?;
        let mut attempts = self.attempts(options.chain.as_deref(), &request.keys, deadline);
        loop {
            let told = self.get_request(deadline);
            request.deadline_ms = told.deadline_ms;
            (request.key_prefix, request.key_suffix) = (told.key_prefix, told.key_suffix);
            request.fingerprint = told.fingerprint;
            let connection = attempts.next().await?;
            let gateway = connection.gateway.clone();
            match Frames::ask(self, connection, &request, self.shared.block_bytes_max, deadline).await {
                Ok(frames) => return Ok((frames, last_piece)),
                Err(failure) => attempts.failed(&gateway, failure)?,
            }
        }
    }
}

impl Blocks {
    /// How many blocks the gateway promised to deliver, in [`GetMode::Prefix`]; what it can't after all is a miss.
    #[must_use]
    pub const fn matched(&self) -> Option<usize> {
        self.promise.blocks
    }

    /// Their bytes together.
    #[must_use]
    pub const fn promised_bytes(&self) -> Option<u64> {
        self.promise.bytes
    }

    /// The next piece, or the next miss; none at the end. May be cancelled and asked again.
    ///
    /// Every block that does not come whole is a [`Piece::Miss`]; in [`GetMode::Prefix`] one miss stands for all blocks from there
    /// on. With [`GetOrder::Ready`] also blocks that came whole are missed when the stream fails before its end.
    pub async fn next(&mut self) -> Option<Piece> {
        while self.queue.is_empty() {
            let arrival = self.frames.as_mut()?.next().await;
            if let Err(failure) = arrival.and_then(|arrival| Ok(self.take(arrival)?)) {
                if let Some(frames) = self.frames.take() {
                    frames.gateway().failed(&failure, self.client.shared.router.now());
                }
                self.give_up(failure.error.miss_reason());
            }
        }
        self.queue.pop_front()
    }

    /// The same as a [`Stream`].
    pub fn into_stream(self) -> impl Stream<Item = Piece> + Send {
        futures::stream::unfold(self, |mut blocks| async move { blocks.next().await.map(|piece| (piece, blocks)) })
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), Error> {
        match arrival {
            Arrival::Piece(header) => self.gathering = Gathering { header: Some(header), ..Gathering::default() },
            Arrival::Bytes(bytes) => self.gathering.take(bytes),
            Arrival::PieceEnd => self.piece()?,
            Arrival::Miss(index, reason) => self.miss(index, reason),
            // Everything came or was missed before.
            Arrival::End => self.frames = None,
        }
        Ok(())
    }

    /// A piece is whole.
    fn piece(&mut self) -> Result<(), Error> {
        let Gathering { header, whole, parts, hasher } = std::mem::take(&mut self.gathering);
        let (Some(header), Some(frames)) = (header, self.frames.as_mut()) else { return Ok(()) };
        let (index, piece) = (header.index as usize, header.stripe as usize);
        if let Err(error) = frames.confirm(hasher.finish()) {
            self.miss(index, MissReason::Checksum);
            return Err(error);
        }
        let bytes = if parts.is_empty() { whole } else { parts.freeze() };
        let is_last = piece == self.last_piece;
        if is_last {
            self.blocks[index] = State::Whole;
        }
        self.client.shared.counters.loaded(usize::from(is_last), bytes.len() as u64);
        self.queue.push_back(Piece::Bytes { index, piece, bytes });
        Ok(())
    }

    fn miss(&mut self, index: usize, reason: MissReason) {
        if index < self.limit {
            self.blocks[index] = State::Missed;
            self.client.shared.counters.missed(reason);
            self.queue.push_back(Piece::Miss(Miss { index, reason }));
            if self.mode == GetMode::Prefix {
                self.limit = index;
            }
        }
    }

    /// Nothing comes any more. Without the end it is not known whether blocks that came as they were ready were in the right places.
    fn give_up(&mut self, reason: MissReason) {
        for index in 0..self.limit {
            let is_certain = self.blocks[index] == State::Whole && self.order == GetOrder::Request;
            if !is_certain && self.blocks[index] != State::Missed {
                self.miss(index, reason);
            }
        }
    }
}

impl Gathering {
    fn take(&mut self, bytes: Bytes) {
        self.hasher.update(&bytes);
        // No more than the largest block: the decoder refuses longer frames.
        let len_bytes = self.header.map_or(0, |header| header.len_bytes as usize);
        if bytes.len() == len_bytes {
            self.whole = bytes;
        } else {
            self.parts.reserve(len_bytes.saturating_sub(self.parts.len()));
            self.parts.extend_from_slice(&bytes);
        }
    }
}
