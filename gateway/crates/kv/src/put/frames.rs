//! The frames of a request body.

use axum::body::Body;
use blockgate_api::frame::{Decoder, Event};
use http_body_util::BodyExt as _;

use crate::json;
use crate::refusal::Refusal;

/// Reads frames from a body, payloads without a copy.
pub(super) struct Frames {
    body: Body,
    decoder: Decoder,
}

impl Frames {
    pub(super) fn new(body: Body, block_bytes_max: u64) -> Self {
        Self { body, decoder: Decoder::new(block_bytes_max) }
    }

    /// What comes next; none when the body has ended behind its last frame, and well.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Refusal> {
        loop {
            if let Some(event) = self.decoder.next()? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.decoder.feed(bytes);
                    }
                }
                Some(Err(_)) => return Err(json::cut()),
                None => return self.decoder.finish().map(|()| None).map_err(Refusal::from),
            }
        }
    }
}

/// The decoder says what can't be said there.
pub(super) fn unexpected() -> Refusal {
    Refusal::internal(&"frames in an order that the decoder does not give")
}
