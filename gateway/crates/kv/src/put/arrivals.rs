//! One block on its way from the socket into memory.

use blockgate_api::ErrorCode;
use blockgate_api::frame::{Event, FrameHeader};
use blockgate_block::BlockKey;
use blockgate_store::{TakenIn, WriteRequest};
use blockgate_upstream::{ByteStream, Payload};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Arrived, Intake, frames};
use crate::limits::PIECES_AHEAD;
use crate::refusal::Refusal;

impl Intake {
    /// Takes in the block whose header has come. The inner result is the block's own; the outer one is the request's.
    pub(super) async fn arrive(
        &mut self,
        announced: Result<(BlockKey, WriteRequest), Refusal>,
    ) -> Result<Result<Arrived, Refusal>, Refusal> {
        let Some(Event::DataStart(header)) = self.frames.next().await? else {
            // Another frame stands where the data must: the rules say how it is refused.
            return Err(Refusal::new(ErrorCode::InvalidFrame, "the data of a block must follow its header"));
        };
        self.rules.data(&header)?;
        let (key, request) = match announced {
            Ok(announced) => announced,
            Err(refusal) => {
                self.pass_on(None).await?;
                self.rules.data_end(header.crc64)?;
                return Ok(Err(refusal));
            }
        };
        let taken = self.take_in_data(&header).await?;
        // What was not taken in was not summed either.
        let crc64 = taken.as_ref().map_or(header.crc64, TakenIn::crc64);
        let is_sound = self.rules.data_end(crc64)?;
        self.gate.metrics.frame_in(header.len_bytes);
        Ok(taken.and_then(|body| {
            if is_sound {
                Ok(Arrived { key, request, body })
            } else {
                Err(Refusal::new(ErrorCode::BadDigest, "the block's bytes do not have its frame's checksum"))
            }
        }))
    }

    async fn take_in_data(&mut self, header: &FrameHeader) -> Result<Result<TakenIn, Refusal>, Refusal> {
        let store = self.gate.store.clone();
        let bucket = self.bucket.clone();
        let (sender, receiver) = channel(PIECES_AHEAD);
        let taking = async move { store.take_in(&bucket, payload(header.len_bytes, receiver)).await };
        let (taken, passed) = tokio::join!(taking, self.pass_on(Some(sender)));
        passed?;
        Ok(taken.map_err(Refusal::from))
    }

    /// Reads the payload to its end. When nobody takes it (any longer), it is passed over: the frames behind it count.
    async fn pass_on(&mut self, mut to: Option<Sender<Bytes>>) -> Result<(), Refusal> {
        loop {
            match self.frames.next().await? {
                Some(Event::Data(bytes)) => {
                    if let Some(sender) = &to
                        && sender.send(bytes).await.is_err()
                    {
                        to = None;
                    }
                }
                Some(Event::DataEnd) => return Ok(()),
                _ => return Err(frames::unexpected()),
            }
        }
    }
}

fn payload(len_bytes: u64, mut receiver: Receiver<Bytes>) -> Payload {
    if len_bytes == 0 {
        return Payload::Bytes(Bytes::new());
    }
    let pieces = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    let stream: ByteStream = Box::pin(pieces.map(Ok));
    Payload::Stream { len_bytes, stream }
}
