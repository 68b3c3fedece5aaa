//! Frames: block bytes, many in one body.
//!
//! A frame is a header of [`HEADER_BYTES`], little-endian, and a payload:
//!
//! ```text
//! 0      4       8        10      12       16       24          32
//! | KVB1 | index | status | flags | stripe | length | crc64nvme | payload …
//! ```
//!
//! `crc64nvme` is the payload's. A body ends with a frame flagged [`Flags::END`]; a body without it was cut. Which frames may follow
//! which, so that a damaged or exchanged header is found too, is [`crate::rules`].

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::Crc64;
use crate::types::{MissBody, PutHeader, StreamEnd};
use crate::{MissReason, Object, limits};

/// What every frame begins with.
pub const MAGIC: [u8; 4] = *b"KVB1";
/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 32;

/// What a payload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// Bytes of a block.
    pub const DATA: Self = Self(0);
    /// JSON: a miss, or in `put` a block's header.
    pub const JSON: Self = Self(2);
    /// JSON, and the last frame.
    pub const END: Self = Self(3);

    /// The flags as they travel.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The block's position in `keys`.
    pub index: u32,
    /// 200 for bytes of a block, 404 for a miss.
    pub status: u16,
    /// What the payload is.
    pub flags: Flags,
    /// Which stripe or range of the block; 0 where it is whole.
    pub stripe: u32,
    /// Length of the payload in bytes.
    pub len_bytes: u64,
    /// Checksum of the payload.
    pub crc64: Crc64,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first four bytes are others than [`MAGIC`].
    #[error("a frame must begin with KVB1, found {0:02x?}")]
    Magic([u8; 4]),
    /// Flags other than 0 (data), 2 (JSON) and 3 (end).
    #[error("frame flags must be 0, 2 or 3, found {0}")]
    Flags(u16),
    /// A status other than 200 and 404, or one that its flags can't have.
    #[error("frame status must be 200, or 404 in a JSON frame that tells of a miss; {0} does not fit this frame")]
    Status(u16),
    /// A JSON frame with a stripe, or a last frame with an index.
    #[error("a JSON frame has stripe 0 and the last frame index 0, found index {index}, stripe {stripe}")]
    JsonPlace {
        /// The frame's index.
        index: u32,
        /// The frame's stripe.
        stripe: u32,
    },
    /// A frame that can't follow those before it.
    #[error("frame {index}, stripe {stripe}, can't stand here: {expected}")]
    Order {
        /// The frame's index.
        index: u32,
        /// The frame's stripe.
        stripe: u32,
        /// What can.
        expected: String,
    },
    /// A data frame of another length than its stripe or range has.
    #[error("frame {index}, stripe {stripe}, is {len_bytes} bytes long, which is not what was asked")]
    Length {
        /// The frame's index.
        index: u32,
        /// The frame's stripe.
        stripe: u32,
        /// Its length.
        len_bytes: u64,
    },
    /// The last frame counts otherwise than the reader.
    #[error("the last frame counts {} blocks of {} bytes, but {} of {} came", end.blocks, end.bytes, found.blocks, found.bytes)]
    Count {
        /// What it says.
        end: StreamEnd,
        /// What came.
        found: StreamEnd,
    },
    /// A JSON payload above [`limits::JSON_FRAME_BYTES_MAX`], or a data payload above what the reader allows.
    #[error("frame {index} is {len_bytes} bytes long, more than {max_bytes}")]
    TooLong {
        /// The frame's index.
        index: u32,
        /// Its length.
        len_bytes: u64,
        /// What is allowed.
        max_bytes: u64,
    },
    /// The payload does not have the checksum of its header.
    #[error("the payload of frame {index} does not have its checksum")]
    Checksum {
        /// The frame's index.
        index: u32,
    },
    /// The JSON payload is not what it must be.
    #[error("the JSON of frame {index}: {reason}")]
    Json {
        /// The frame's index.
        index: u32,
        /// What is wrong.
        reason: String,
    },
    /// Bytes after the last frame.
    #[error("bytes follow the last frame")]
    AfterEnd,
    /// The body ended within a frame, or without a last frame.
    #[error("the body ended before its last frame")]
    Cut,
}

impl FrameHeader {
    /// A data frame's header.
    #[must_use]
    pub const fn data(index: u32, stripe: u32, len_bytes: u64, crc64: Crc64) -> Self {
        Self { index, status: 200, flags: Flags::DATA, stripe, len_bytes, crc64 }
    }

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.index.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.status.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stripe.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.crc64.to_u64().to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When the bytes are no header; the payload is not looked at.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let bytes: &mut &[u8] = &mut bytes.as_slice();
        let mut magic = [0; 4];
        bytes.copy_to_slice(&mut magic);
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let (index, status, flags) = (bytes.get_u32_le(), bytes.get_u16_le(), Flags(bytes.get_u16_le()));
        let (stripe, len_bytes, crc64) = (bytes.get_u32_le(), bytes.get_u64_le(), Crc64::from_u64(bytes.get_u64_le()));
        if ![Flags::DATA, Flags::JSON, Flags::END].contains(&flags) {
            return Err(FrameError::Flags(flags.0));
        }
        if status != 200 && !(status == 404 && flags == Flags::JSON) {
            return Err(FrameError::Status(status));
        }
        if (flags != Flags::DATA && stripe != 0) || (flags == Flags::END && index != 0) {
            return Err(FrameError::JsonPlace { index, stripe });
        }
        if flags != Flags::DATA && len_bytes > limits::JSON_FRAME_BYTES_MAX {
            return Err(FrameError::TooLong { index, len_bytes, max_bytes: limits::JSON_FRAME_BYTES_MAX });
        }
        Ok(Self { index, status, flags, stripe, len_bytes, crc64 })
    }
}

/// A whole frame with a JSON payload.
fn json_frame(index: u32, status: u16, flags: Flags, payload: &impl Serialize) -> Bytes {
    // Types of this crate alone, none of which can fail to be written.
    let payload = serde_json::to_vec(payload).unwrap_or_default();
    let header =
        FrameHeader { index, status, flags, stripe: 0, len_bytes: payload.len() as u64, crc64: Crc64::of(&payload) };
    [header.encode().as_slice(), &payload].concat().into()
}

/// A miss frame, whole.
#[must_use]
pub fn miss(index: u32, reason: MissReason) -> Bytes {
    json_frame(index, 404, Flags::JSON, &MissBody { reason })
}

/// A frame that announces a block of a `put`, whole.
#[must_use]
pub fn put_header(index: u32, header: &PutHeader) -> Bytes {
    json_frame(index, 200, Flags::JSON, header)
}

/// The last frame, whole. Its index is 0.
#[must_use]
pub fn end(end: StreamEnd) -> Bytes {
    json_frame(0, 200, Flags::END, &end)
}

/// Reads the JSON payload of a frame, its checksum first.
///
/// # Errors
/// When the payload is not what its header promised, or not this type's JSON.
pub fn parse_json<T: DeserializeOwned>(header: &FrameHeader, payload: &[u8]) -> Result<T, FrameError> {
    if Crc64::of(payload) != header.crc64 || payload.len() as u64 != header.len_bytes {
        return Err(FrameError::Checksum { index: header.index });
    }
    let read = serde_json::from_slice(payload).map(|Object(value)| value);
    read.map_err(|error| FrameError::Json { index: header.index, reason: error.to_string() })
}

/// What [`Decoder`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A JSON frame, whole and of the right checksum. After one flagged [`Flags::END`] nothing may follow.
    Json(FrameHeader, Bytes),
    /// A data frame begins: `len_bytes` of payload follow as [`Event::Data`], then [`Event::DataEnd`].
    DataStart(FrameHeader),
    /// Payload bytes, in order, not copied from what was given.
    Data(Bytes),
    /// All bytes of the payload came; its checksum must be compared by who took them, see [`FrameHeader::crc64`].
    DataEnd,
}

/// Finds frames in bytes that arrive cut anywhere.
///
/// Checksums of JSON frames are checked here. Those of data frames are left to the reader, who wants to compute them while
/// copying: [`Event::DataEnd`] tells when.
#[derive(Debug)]
pub struct Decoder {
    input: Input,
    state: State,
    data_bytes_max: u64,
}

#[derive(Debug, Default)]
struct Input {
    /// A header or a JSON payload that is not whole yet.
    partial: BytesMut,
    chunk: Bytes,
}

#[derive(Debug)]
enum State {
    Header,
    Json(FrameHeader),
    Data {
        left_bytes: u64,
    },
    Ended,
    /// Nothing is read any more: what looks like a frame behind the damage may be anything.
    Failed(FrameError),
}

impl Decoder {
    /// A decoder that refuses data frames above `data_bytes_max`.
    #[must_use]
    pub fn new(data_bytes_max: u64) -> Self {
        Self { input: Input::default(), state: State::Header, data_bytes_max }
    }

    /// Gives the next bytes of the body. Without a copy where [`Decoder::next`] has returned none before.
    pub fn feed(&mut self, bytes: Bytes) {
        let chunk = &mut self.input.chunk;
        *chunk = if chunk.is_empty() { bytes } else { [chunk.as_ref(), &bytes].concat().into() };
    }

    /// What comes next; none where more bytes are needed.
    ///
    /// # Errors
    /// When the bytes are no frames, and then always.
    #[allow(clippy::should_implement_trait)] // fallible, and none is not the end
    pub fn next(&mut self) -> Result<Option<Event>, FrameError> {
        self.step().inspect_err(|error| self.state = State::Failed(error.clone()))
    }

    fn step(&mut self) -> Result<Option<Event>, FrameError> {
        match self.state {
            State::Header => {
                let Some(bytes) = self.input.take(HEADER_BYTES) else { return Ok(None) };
                let mut header = [0; HEADER_BYTES];
                header.copy_from_slice(&bytes);
                self.begin(FrameHeader::decode(&header)?)
            }
            State::Json(header) => {
                // Bounded by `JSON_FRAME_BYTES_MAX`, so that it fits.
                let Some(payload) = self.input.take(header.len_bytes as usize) else { return Ok(None) };
                if Crc64::of(&payload) != header.crc64 {
                    return Err(FrameError::Checksum { index: header.index });
                }
                self.state = if header.flags == Flags::END { State::Ended } else { State::Header };
                Ok(Some(Event::Json(header, payload)))
            }
            State::Data { left_bytes: 0 } => {
                self.state = State::Header;
                Ok(Some(Event::DataEnd))
            }
            State::Data { left_bytes } => {
                if self.input.chunk.is_empty() {
                    return Ok(None);
                }
                let len = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(self.input.chunk.len());
                self.state = State::Data { left_bytes: left_bytes - len as u64 };
                Ok(Some(Event::Data(self.input.chunk.split_to(len))))
            }
            State::Ended if self.input.chunk.is_empty() => Ok(None),
            State::Ended => Err(FrameError::AfterEnd),
            State::Failed(ref error) => Err(error.clone()),
        }
    }

    /// To be asked when the body has ended.
    ///
    /// # Errors
    /// [`FrameError::Cut`] unless the last frame came.
    pub fn finish(&self) -> Result<(), FrameError> {
        match &self.state {
            State::Ended if self.input.chunk.is_empty() => Ok(()),
            State::Ended => Err(FrameError::AfterEnd),
            State::Failed(error) => Err(error.clone()),
            _ => Err(FrameError::Cut),
        }
    }

    fn begin(&mut self, header: FrameHeader) -> Result<Option<Event>, FrameError> {
        if header.flags != Flags::DATA {
            self.state = State::Json(header);
            return self.step();
        }
        if header.len_bytes > self.data_bytes_max {
            let FrameHeader { index, len_bytes, .. } = header;
            return Err(FrameError::TooLong { index, len_bytes, max_bytes: self.data_bytes_max });
        }
        self.state = State::Data { left_bytes: header.len_bytes };
        Ok(Some(Event::DataStart(header)))
    }
}

impl Input {
    /// Exactly `len` bytes, once they are there; copied only where chunks cut them.
    fn take(&mut self, len: usize) -> Option<Bytes> {
        if self.partial.is_empty() && self.chunk.len() >= len {
            return Some(self.chunk.split_to(len));
        }
        let missing = (len - self.partial.len()).min(self.chunk.len());
        self.partial.extend_from_slice(&self.chunk.split_to(missing));
        (self.partial.len() == len).then(|| self.partial.split().freeze())
    }
}
