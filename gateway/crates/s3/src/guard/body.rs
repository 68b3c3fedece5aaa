//! The request body on its way to s3s: watched, and for documents and forms read first.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Admission;
use super::chunks::ChunkWatch;
use super::drain::drain;
use super::form::FormReader;
use super::operation::BodyKind;
use super::pace::Pace;
use super::payload::Payload;
use crate::context::{Document, RequestContext};
use crate::refusal::Refused;
use crate::{DOCUMENT_BYTES_MAX, xml};

/// A body that s3s reads. What is wrong with it is told to the [`RequestContext`] and ends it with an error.
pub(crate) struct WatchedBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    /// Taken only when this is dropped.
    inner: Option<B>,
    /// Whether reading it says `100 Continue` to a client that waits for that.
    continues: bool,
    context: RequestContext,
    pace: Pace,
    /// Rings when the peer has been waited for too long.
    alarm: Option<Pin<Box<Sleep>>>,
    state: State,
}

enum State {
    /// Not polled yet: what it holds is decided by the operation, which is not known before the request is authenticated.
    Unread { payload: Payload, form: Option<Box<FormReader>> },
    /// An object's bytes pass by.
    Object,
    /// An object's bytes pass by in chunks.
    Chunks(Box<ChunkWatch>),
    /// Bytes pass by; what was promised of them is judged at their end.
    Stream { document: Box<Document> },
    /// A document is gathered.
    Document { document: Box<Document>, gathered: BytesMut },
    /// A form's fields are gathered.
    Form { reader: Box<FormReader>, gathered: BytesMut },
    /// What has been gathered is right, and all there is.
    Gathered(Bytes),
    /// Over.
    Ended,
}

impl<B> Drop for WatchedBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take().filter(|_| !self.continues) {
            drain(inner);
        }
    }
}

/// What a poll of the inner body means for the outer one.
enum Step {
    /// Poll again.
    Again,
    /// These bytes pass.
    Pass(Bytes),
    /// The body is over.
    End,
}

impl<B> WatchedBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    /// `form` is there where the request is a form; `continues` where the client waits for `100 Continue`.
    pub(crate) fn new(
        inner: B,
        context: RequestContext,
        stall: Duration,
        admission: Admission,
        form: Option<FormReader>,
    ) -> Self {
        let Admission { payload, continues, .. } = admission;
        let state = State::Unread { payload, form: form.map(Box::new) };
        Self { inner: Some(inner), continues, context, pace: Pace::new(stall), alarm: None, state }
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Refused>> {
        loop {
            let Some(inner) = &mut self.inner else { return Poll::Ready(Ok(None)) };
            self.continues = false;
            let Poll::Ready(frame) = Pin::new(inner).poll_frame(cx) else {
                ready!(self.poll_stalled(cx));
                let message =
                    "Your socket connection to the server was not read from or written to within the timeout.";
                return Poll::Ready(Err(Refused::new("RequestTimeout", message)));
            };
            if frame.is_none() || self.inner.as_ref().is_none_or(Body::is_end_stream) {
                self.context.set_body_open(false);
            }
            return Poll::Ready(match frame {
                None => Ok(None),
                Some(Err(_)) => Err(Refused::new("IncompleteBody", "The request body ended early or is malformed.")),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => {
                        self.pace.arrived(bytes.len());
                        Ok(Some(bytes))
                    }
                    // Trailers of HTTP itself mean nothing here.
                    Err(_) => continue,
                },
            });
        }
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.pace.wait(Instant::now());
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        alarm.as_mut().poll(cx)
    }

    fn inner_hint(&self) -> SizeHint {
        self.inner.as_ref().map(Body::size_hint).unwrap_or_default()
    }

    /// Decides what the body holds, now that s3s asks for it.
    fn begin(&mut self) -> Result<(), Refused> {
        let State::Unread { payload, form } = std::mem::replace(&mut self.state, State::Ended) else { return Ok(()) };
        let kind = self.context.operation().map(|(_, kind)| kind);
        self.state = match (kind, form, payload) {
            (None, Some(reader), _) => State::Form { reader, gathered: BytesMut::new() },
            (Some(BodyKind::Stream), None, Payload::Plain { .. }) => {
                State::Stream { document: Box::new(self.context.take_document().unwrap_or_default()) }
            }
            (Some(BodyKind::Document | BodyKind::Json), None, Payload::Plain { .. }) => {
                if self.inner_hint().lower() > DOCUMENT_BYTES_MAX as u64 {
                    return Err(too_long());
                }
                let document = Box::new(self.context.take_document().unwrap_or_default());
                State::Document { document, gathered: BytesMut::new() }
            }
            (Some(BodyKind::Object), None, Payload::Plain { .. }) => State::Object,
            (Some(BodyKind::Object), None, Payload::Chunked(shape)) => State::Chunks(Box::new(ChunkWatch::new(shape))),
            // Nobody reads a body that the operation does not have, or before the request is authenticated.
            _ => return Err(Refused::new("InvalidRequest", "The request has a body that it can't have.")),
        };
        Ok(())
    }

    fn step(&mut self, next: Option<Bytes>) -> Result<Step, Refused> {
        match (&mut self.state, next) {
            (State::Object, Some(bytes)) => Ok(Step::Pass(bytes)),
            (State::Chunks(watch), Some(bytes)) => watch.follow(&bytes).map(|()| Step::Pass(bytes)),
            (State::Chunks(watch), None) => watch.end().map(|()| Step::End),
            (State::Stream { document }, Some(bytes)) => {
                document.digests.update(&bytes);
                Ok(Step::Pass(bytes))
            }
            (State::Stream { document }, None) => {
                std::mem::take(document.as_mut()).digests.finish(None)?;
                Ok(Step::End)
            }
            (State::Document { document, gathered }, Some(bytes)) => {
                if gathered.len() + bytes.len() > DOCUMENT_BYTES_MAX {
                    return Err(too_long());
                }
                document.digests.update(&bytes);
                gathered.extend_from_slice(&bytes);
                Ok(Step::Again)
            }
            (State::Document { document, gathered }, None) => {
                let document = std::mem::take(document.as_mut());
                let gathered = std::mem::take(gathered).freeze();
                document.digests.finish(None)?;
                if self.context.operation().is_some_and(|(_, kind)| kind == BodyKind::Document) {
                    xml::check(document.operation, &gathered)?;
                }
                self.state = State::Gathered(gathered);
                Ok(Step::Again)
            }
            (State::Form { reader, gathered }, Some(bytes)) => {
                gathered.extend_from_slice(&bytes);
                if !reader.read(gathered, false)? {
                    return Ok(Step::Again);
                }
                let fields = std::mem::take(gathered).freeze();
                self.state = State::Object;
                Ok(Step::Pass(fields))
            }
            (State::Form { reader, gathered }, None) => {
                if !reader.read(gathered, true)? {
                    return Err(Refused::new("MalformedPOSTRequest", "The form ends before its file."));
                }
                self.state = State::Gathered(std::mem::take(gathered).freeze());
                Ok(Step::Again)
            }
            _ => Ok(Step::End),
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Refused>> {
        if matches!(self.state, State::Unread { .. }) {
            self.begin()?;
        }
        loop {
            let next = match &mut self.state {
                State::Ended => return Poll::Ready(Ok(None)),
                State::Gathered(document) => {
                    let document = std::mem::take(document);
                    self.state = State::Ended;
                    return Poll::Ready(Ok(Some(document).filter(|document| !document.is_empty())));
                }
                _ => ready!(self.poll_inner(cx))?,
            };
            match self.step(next)? {
                Step::Again => {}
                Step::Pass(bytes) => return Poll::Ready(Ok(Some(bytes))),
                Step::End => self.state = State::Ended,
            }
        }
    }
}

fn too_long() -> Refused {
    Refused::new("MaxMessageLengthExceeded", "Your request was too large.")
}

impl<B> Body for WatchedBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    type Data = Bytes;
    type Error = Refused;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Refused>>> {
        let next = ready!(self.poll_next(cx));
        if let Err(refused) = &next {
            self.state = State::Ended;
            self.context.refuse(refused.clone());
        }
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Unread { .. } | State::Object | State::Stream { .. } | State::Chunks(_) => self.inner_hint(),
            State::Gathered(document) => SizeHint::with_exact(document.len() as u64),
            State::Ended => SizeHint::with_exact(0),
            State::Document { .. } | State::Form { .. } => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;
    use crate::digest::Digests;
    use crate::guard::Credentials;
    use crate::guard::payload::Chunked;

    const STALL: Duration = Duration::from_secs(30);

    fn plain() -> Admission {
        of_payload(Payload::Plain { sha256: None })
    }

    fn of_payload(payload: Payload) -> Admission {
        Admission { credentials: Credentials::Header, payload, continues: false }
    }

    fn full(text: &str) -> Full<Bytes> {
        Full::new(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn of_operation(name: &'static str, digests: Digests) -> RequestContext {
        let context = RequestContext::default();
        context.set_operation(name, BodyKind::of(name));
        context.expect_document(Document { operation: name, digests });
        context
    }

    async fn read<B>(body: WatchedBody<B>) -> Result<String, &'static str>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
    {
        let context = body.context.clone();
        let result = body.collect().await;
        assert_eq!(result.as_ref().err(), context.refused(), "what is wrong is told to the context");
        let bytes = result.map_err(|refused| refused.code)?.to_bytes();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn objects_pass() {
        let context = of_operation("PutObject", Digests::default());
        assert_eq!(read(WatchedBody::new(full("bytes"), context, STALL, plain(), None)).await, Ok("bytes".to_owned()));
    }

    #[tokio::test]
    async fn chunks_are_watched() {
        let shape = Chunked { signed: false, trailer: Some("x-amz-checksum-crc32"), decoded_len: 1 };
        for (text, whole) in [("1\r\na\r\n0\r\nx-amz-checksum-crc32:AA==\r\n\r\n", true), ("1\r\na\r\n", false)] {
            let context = of_operation("PutObject", Digests::default());
            let body = WatchedBody::new(full(text), context, STALL, of_payload(Payload::Chunked(shape.clone())), None);
            assert_eq!(read(body).await, if whole { Ok(text.to_owned()) } else { Err("IncompleteBody") });
        }
    }

    #[tokio::test]
    async fn documents_are_whole_right_and_as_promised_before_a_byte_passes() {
        let document = "<Tagging><TagSet/></Tagging>";
        let digest = |hex: &str| {
            let mut digests = Digests::default();
            digests.promise_signed_sha256(hex);
            digests
        };
        for (text, digests, expected) in [
            (document, Digests::default(), Ok(document.to_owned())),
            (document, digest(&"0".repeat(64)), Err("XAmzContentSHA256Mismatch")),
            ("<Delete/>", Digests::default(), Err("MalformedXML")),
            ("", Digests::default(), Ok(String::new())),
        ] {
            let context = of_operation("PutObjectTagging", digests);
            assert_eq!(read(WatchedBody::new(full(text), context, STALL, plain(), None)).await, expected, "{text}");
        }
    }

    #[tokio::test]
    async fn long_documents_are_refused_unread_or_when_they_grow() {
        let long = "x".repeat(DOCUMENT_BYTES_MAX + 1);
        let context = of_operation("DeleteObjects", Digests::default());
        let body = WatchedBody::new(full(&long), context, STALL, plain(), None);
        assert_eq!(read(body).await, Err("MaxMessageLengthExceeded"));
        let part = Bytes::from(vec![b' '; 1 << 20]);
        let parts = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(Frame::data(part.clone())));
        let context = of_operation("DeleteObjects", Digests::default());
        let body = WatchedBody::new(StreamBody::new(Box::pin(parts)), context, STALL, plain(), None);
        assert_eq!(read(body).await, Err("MaxMessageLengthExceeded"));
    }

    #[tokio::test]
    async fn a_body_that_nobody_may_read_is_refused() {
        let unauthenticated = RequestContext::default();
        assert_eq!(
            read(WatchedBody::new(full("x"), unauthenticated, STALL, plain(), None)).await,
            Err("InvalidRequest")
        );
        let bodyless = of_operation("GetObject", Digests::default());
        assert_eq!(read(WatchedBody::new(full("x"), bodyless, STALL, plain(), None)).await, Err("InvalidRequest"));
    }

    #[tokio::test]
    async fn a_silent_body_times_out_and_a_cut_one_is_incomplete() {
        let silent = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
        let context = of_operation("PutObject", Digests::default());
        let body = WatchedBody::new(silent, context, Duration::ZERO, plain(), None);
        assert_eq!(read(body).await, Err("RequestTimeout"));
        let frames = [Ok(Frame::data(Bytes::from_static(b"a"))), Err(std::io::Error::other("reset"))];
        let context = of_operation("PutObject", Digests::default());
        let cut = StreamBody::new(futures::stream::iter(frames));
        assert_eq!(read(WatchedBody::new(cut, context, STALL, plain(), None)).await, Err("IncompleteBody"));
    }
}
