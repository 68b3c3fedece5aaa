//! The body of a `put`.

use crate::Crc64;
use crate::frame::{Flags, FrameError, FrameHeader, parse_json};
use crate::types::{PutHeader, StreamEnd};

/// What a JSON frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutStep {
    /// A block is announced; its data frame follows.
    Block(PutHeader),
    /// All has come.
    End(StreamEnd),
}

/// Checks the frames of a `put`, as the server: for each block, numbered from 0, a header and its data, then the end.
#[derive(Debug, Default)]
pub struct PutRules {
    /// Blocks that came, sound or not, and their bytes.
    found: StreamEnd,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Announced,
    Open(FrameHeader),
    Ended,
}

impl PutRules {
    /// A JSON frame has come.
    ///
    /// # Errors
    /// When it can't stand here, or is not what it must be.
    pub fn json(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<PutStep, FrameError> {
        if self.state != State::Between {
            return Err(self.out_of_order(header));
        }
        if header.flags == Flags::END {
            let end: StreamEnd = parse_json(header, payload)?;
            if end != self.found {
                return Err(FrameError::Count { end, found: self.found });
            }
            self.state = State::Ended;
            return Ok(PutStep::End(end));
        }
        if header.status != 200 {
            return Err(FrameError::Status(header.status));
        }
        if u64::from(header.index) != self.found.blocks {
            return Err(self.out_of_order(header));
        }
        let block = parse_json(header, payload)?;
        self.state = State::Announced;
        Ok(PutStep::Block(block))
    }

    /// A data frame begins.
    ///
    /// # Errors
    /// When it can't stand here.
    pub fn data(&mut self, header: &FrameHeader) -> Result<(), FrameError> {
        let right = u64::from(header.index) == self.found.blocks && header.stripe == 0 && header.flags == Flags::DATA;
        if self.state != State::Announced || !right {
            return Err(self.out_of_order(header));
        }
        self.state = State::Open(*header);
        Ok(())
    }

    /// The data frame that has begun has come whole; whether `crc64`, computed from what came, is the frame's. Where it isn't, this
    /// block is broken, and the next ones may be sound.
    ///
    /// # Errors
    /// When no frame has begun.
    pub fn data_end(&mut self, crc64: Crc64) -> Result<bool, FrameError> {
        let State::Open(header) = self.state else { return Err(FrameError::Cut) };
        self.found.blocks += 1;
        self.found.bytes = self.found.bytes.saturating_add(header.len_bytes);
        self.state = State::Between;
        Ok(crc64 == header.crc64)
    }

    /// Whether the last frame has come.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.state == State::Ended
    }

    fn out_of_order(&self, header: &FrameHeader) -> FrameError {
        let next = self.found.blocks;
        let expected = match self.state {
            State::Between => format!("the header of block {next} or the last frame comes next"),
            State::Announced => format!("the data of block {next} comes next"),
            State::Open(_) => "the payload before it is not whole".to_owned(),
            State::Ended => "nothing after the last frame".to_owned(),
        };
        FrameError::Order { index: header.index, stripe: header.stripe, expected }
    }
}
