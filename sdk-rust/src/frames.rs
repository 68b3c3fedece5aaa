//! The frames of one answer, as they arrive.

use std::sync::Arc;

use blockgate_api::frame::{Decoder, Event, FrameError, FrameHeader};
use blockgate_api::rules::{GetRules, GetStep};
use blockgate_api::types::GetRequest;
use blockgate_api::{BYTES_HEADER, Crc64, FRAMES_MEDIA_TYPE, MATCHED_HEADER};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::call::json;
use crate::error::chain;
use crate::gateway::{Connection, Gateway};
use crate::transport::{Failure, by};
use crate::{Client, Error, MissReason};

/// What comes of an answer. Positions are those of the request's keys.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A piece of a block begins; its bytes follow, then [`Arrival::PieceEnd`].
    Piece(FrameHeader),
    Bytes(Bytes),
    /// All bytes of the piece came: [`Frames::confirm`] says whether they are the right ones.
    PieceEnd,
    Miss(usize, MissReason),
    /// The answer is over, and complete.
    End,
}

/// Reads one answer to its end. Dropped before, its connection is closed.
#[derive(Debug)]
pub(crate) struct Frames {
    connection: Connection,
    deadline: Instant,
    body: Incoming,
    decoder: Decoder,
    rules: GetRules,
    pub(crate) promise: Promise,
}

/// What the head of an answer promises: nothing where all blocks are asked for, since each is looked for when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promise {
    pub(crate) blocks: Option<usize>,
    pub(crate) bytes: Option<u64>,
}

impl Frames {
    /// Asks one gateway.
    pub(crate) async fn ask(
        client: &Client,
        connection: Connection,
        request: &GetRequest,
        block_bytes_max: u64,
        deadline: Instant,
    ) -> Result<Self, Failure> {
        let response = connection.send(&client.json_request("get", json(request)), deadline).await?;
        let (head, body) = response.into_parts();
        Ok(Self {
            promise: promise(&head.headers, request.keys.len())?,
            connection,
            deadline,
            body,
            decoder: Decoder::new(block_bytes_max),
            rules: GetRules::new(request),
        })
    }

    /// Whose answer this is.
    pub(crate) fn gateway(&self) -> Arc<Gateway> {
        self.connection.gateway.clone()
    }

    /// What comes next. After [`Arrival::End`] or a failure nothing does.
    pub(crate) async fn next(&mut self) -> Result<Arrival, Failure> {
        loop {
            if let Some(event) = self.decoder.next().map_err(Error::protocol)? {
                match self.arrival(event).map_err(Error::protocol)? {
                    Some(arrival) => return Ok(arrival),
                    None => continue,
                }
            }
            match by(self.deadline, self.body.frame()).await? {
                None => return Ok(self.finish().map_err(Error::protocol)?),
                Some(Err(error)) => return Err(Error::Lost { reason: chain(&error) }.into()),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.feed(data);
                    }
                }
            }
        }
    }

    fn arrival(&mut self, event: Event) -> Result<Option<Arrival>, FrameError> {
        match event {
            Event::DataStart(header) => {
                self.rules.data(&header)?;
                Ok(Some(Arrival::Piece(header)))
            }
            Event::Data(bytes) => Ok(Some(Arrival::Bytes(bytes))),
            Event::DataEnd => Ok(Some(Arrival::PieceEnd)),
            Event::Json(header, payload) => match self.rules.json(&header, &payload)? {
                // Of one position of `keys`, so that it fits.
                GetStep::Miss(miss) => Ok(Some(Arrival::Miss(miss.index as usize, miss.reason.into()))),
                // The body's own end is still to come: a connection is used again only after it.
                GetStep::End(_) => Ok(None),
            },
        }
    }

    /// Whether a piece that came to its end is the one announced, by the checksum of what came.
    pub(crate) fn confirm(&mut self, crc64: Crc64) -> Result<(), Error> {
        self.rules.data_end(crc64).map_err(Error::protocol)
    }

    fn finish(&mut self) -> Result<Arrival, FrameError> {
        self.decoder.finish()?;
        self.connection.gateway.breaker.succeeded();
        Ok(Arrival::End)
    }
}

fn promise(headers: &HeaderMap, keys: usize) -> Result<Promise, Error> {
    let is_frames = headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes() == FRAMES_MEDIA_TYPE.as_bytes());
    if !is_frames {
        return Err(Error::protocol("an answer that is no frames"));
    }
    let number = |name| match headers.get(name).map(|value| value.to_str().unwrap_or_default().parse::<u64>()) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(Error::protocol(format!("a wrong {name}"))),
    };
    let (blocks, bytes) = (number(MATCHED_HEADER)?, number(BYTES_HEADER)?);
    if blocks.is_some_and(|blocks| blocks > keys as u64) {
        return Err(Error::protocol("more blocks match than were asked for"));
    }
    // No more than keys.
    Ok(Promise { blocks: blocks.map(|blocks| blocks as usize), bytes })
}
