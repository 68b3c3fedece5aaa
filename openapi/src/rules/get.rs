//! The body of a `get`'s response.

use crate::Crc64;
use crate::frame::{Flags, FrameError, FrameHeader, parse_json};
use crate::types::{ByteRange, GetMode, GetOrder, GetRequest, Miss, MissBody, StreamEnd};

/// What a JSON frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetStep {
    /// A block can't be served.
    Miss(Miss),
    /// All has come.
    End(StreamEnd),
}

/// Checks the frames of a `get`'s response, as the client that asked for them.
///
/// A body has one pass for each stripe or range, *parts* here. A pass has one frame for each block: its part, or a miss. A block
/// that missed is out of the passes that follow. In order of request, frames come by index; else a pass has them in any order.
/// With [`GetMode::Prefix`] a miss has the lowest index that the pass has not delivered yet, and takes all blocks from there on out:
/// what remains are the later parts of those before it, if the server still can; the end may come at any time. Otherwise the end
/// comes when all blocks were delivered or missed.
#[derive(Debug)]
pub struct GetRules {
    mode: GetMode,
    order: GetOrder,
    parts: u32,
    ranges: Option<Vec<ByteRange>>,
    blocks: Vec<Block>,
    /// Blocks before this one are still to be delivered; all, until a prefix ends.
    limit: usize,
    /// The part that this pass delivers; `parts` after the last pass.
    part: u32,
    /// The lowest index that this pass has not delivered.
    lowest: usize,
    /// The data frame that has begun.
    open: Option<FrameHeader>,
    found: StreamEnd,
    ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// How many parts came.
    parts: u32,
    missed: bool,
    /// Length of its first stripe.
    stripe_bytes: u64,
}

impl GetRules {
    /// The rules for the response to `request`.
    #[must_use]
    pub fn new(request: &GetRequest) -> Self {
        let ranges = request.ranges.clone();
        let parts = match &ranges {
            Some(ranges) => u32::try_from(ranges.len()).unwrap_or(u32::MAX),
            None => request.stripes,
        }
        .max(1); // servers refuse 0
        let mut rules = Self {
            mode: request.mode,
            order: request.order,
            parts,
            ranges,
            blocks: vec![Block::default(); request.keys.len()],
            limit: request.keys.len(),
            part: 0,
            lowest: 0,
            open: None,
            found: StreamEnd::default(),
            ended: false,
        };
        rules.advance();
        rules
    }

    /// A data frame begins.
    ///
    /// # Errors
    /// When it can't stand here, or is not as long as it must be.
    pub fn data(&mut self, header: &FrameHeader) -> Result<(), FrameError> {
        let block = self.expect(header, self.order == GetOrder::Request)?;
        let &FrameHeader { index, stripe, len_bytes, .. } = header;
        if stripe != self.part || header.flags != Flags::DATA {
            return Err(self.out_of_order(header));
        }
        let right = match &self.ranges {
            Some(ranges) => ranges.get(stripe as usize).is_some_and(|range| range.length == len_bytes),
            None if stripe == 0 => true,
            None if stripe + 1 < self.parts => len_bytes == block.stripe_bytes,
            // The last takes what division left over.
            None => len_bytes.checked_sub(block.stripe_bytes).is_some_and(|rest| rest < self.parts.into()),
        };
        if !right {
            return Err(FrameError::Length { index, stripe, len_bytes });
        }
        self.open = Some(*header);
        Ok(())
    }

    /// The data frame that has begun has come whole; `crc64` is computed from what came.
    ///
    /// # Errors
    /// When the checksum is another than the frame's, or no frame has begun.
    pub fn data_end(&mut self, crc64: Crc64) -> Result<(), FrameError> {
        let header = self.open.take().ok_or(FrameError::Cut)?;
        let block = self.blocks.get_mut(header.index as usize);
        let (Some(block), true) = (block, crc64 == header.crc64) else {
            return Err(FrameError::Checksum { index: header.index });
        };
        if header.stripe == 0 {
            block.stripe_bytes = header.len_bytes;
        }
        block.parts += 1;
        self.found.blocks += u64::from(block.parts == self.parts);
        self.found.bytes = self.found.bytes.saturating_add(header.len_bytes);
        self.advance();
        Ok(())
    }

    /// A JSON frame has come.
    ///
    /// # Errors
    /// When it can't stand here, or is not what it must be.
    pub fn json(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<GetStep, FrameError> {
        if header.flags == Flags::END {
            return self.end(header, payload);
        }
        if header.status != 404 {
            return Err(FrameError::Status(header.status));
        }
        let prefix = self.mode == GetMode::Prefix;
        self.expect(header, prefix || self.order == GetOrder::Request)?;
        let MissBody { reason } = parse_json(header, payload)?;
        let index = header.index as usize;
        self.blocks[index].missed = true;
        if prefix {
            self.limit = index;
        }
        self.advance();
        Ok(GetStep::Miss(Miss { index: index as u64, reason }))
    }

    /// How many blocks from the first were delivered whole, see [`Self::is_whole`].
    #[must_use]
    pub fn prefix(&self) -> usize {
        (0..self.blocks.len()).take_while(|index| self.is_whole(*index)).count()
    }

    /// Whether a block was delivered whole and nothing can show any more that it was another's bytes. With [`GetOrder::Ready`] that
    /// is sure only when the last frame has come: a damaged index shows when the right block comes too.
    #[must_use]
    pub fn is_whole(&self, index: usize) -> bool {
        let sure = self.ended || self.order == GetOrder::Request;
        sure && index < self.limit && self.blocks[index].parts == self.parts
    }

    /// Whether the last frame has come.
    #[must_use]
    pub const fn ended(&self) -> bool {
        self.ended
    }

    fn end(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<GetStep, FrameError> {
        let cut_prefix = self.mode == GetMode::Prefix && self.limit < self.blocks.len();
        if self.ended || self.open.is_some() || !(self.part == self.parts || cut_prefix) {
            return Err(self.out_of_order(header));
        }
        let end: StreamEnd = parse_json(header, payload)?;
        if end != self.found {
            return Err(FrameError::Count { end, found: self.found });
        }
        self.ended = true;
        Ok(GetStep::End(end))
    }

    /// The block that a frame is for, if it may be: with `in_order` only the lowest that is missing.
    fn expect(&self, header: &FrameHeader, in_order: bool) -> Result<Block, FrameError> {
        let index = header.index as usize;
        let allowed = !self.ended
            && self.open.is_none()
            && self.part < self.parts
            && self.is_awaited(index)
            && (!in_order || index == self.lowest);
        if !allowed {
            return Err(self.out_of_order(header));
        }
        Ok(self.blocks[index])
    }

    /// Whether this pass still has to deliver the block.
    fn is_awaited(&self, index: usize) -> bool {
        index < self.limit && !self.blocks[index].missed && self.blocks[index].parts == self.part
    }

    /// Moves `lowest` on, and to the next pass where this one is complete.
    fn advance(&mut self) {
        let mut empty_pass = false;
        while self.part < self.parts {
            match (self.lowest..self.limit).find(|index| self.is_awaited(*index)) {
                Some(index) => {
                    self.lowest = index;
                    return;
                }
                // No block is left, so that none will be in the passes that remain.
                None if empty_pass => self.part = self.parts,
                None => {
                    (self.part, self.lowest, empty_pass) = (self.part + 1, 0, true);
                }
            }
        }
    }

    fn out_of_order(&self, header: &FrameHeader) -> FrameError {
        let expected = if self.ended {
            "nothing after the last frame".to_owned()
        } else if self.open.is_some() {
            "the payload before it is not whole".to_owned()
        } else if self.part == self.parts {
            "only the last frame is left".to_owned()
        } else {
            format!("index {}, stripe {} is the lowest one missing", self.lowest, self.part)
        };
        FrameError::Order { index: header.index, stripe: header.stripe, expected }
    }
}
