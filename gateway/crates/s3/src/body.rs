//! The payload of PutObject, UploadPart and PostObject on its way to the store.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blockgate_upstream::{BodyError, Payload};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::dto::{PostObjectInput, StreamingBlob};
use s3s::stream::ByteStream as _;
use s3s::stream::aws_chunked_stream::AwsChunkedStreamError;
use s3s::stream::upload_stream::UploadStreamError;
use s3s::{BodySizeLimitExceeded, S3Result, TrailingHeaders, s3_error};

use crate::digest::Digests;
use crate::error::of_body;
use crate::refusal::Refused;

/// The payload of a request, of known length and checked: every promise in `headers` (`Content-MD5`,
/// `x-amz-checksum-*`) and in `trailers` is kept when the last bytes come out, else an error comes in their place.
///
/// # Errors
/// When the length is not known, or a promise is malformed (or broken, for an empty body).
pub(crate) async fn payload(
    blob: Option<StreamingBlob>,
    content_length: Option<i64>,
    headers: &HeaderMap,
    trailers: Option<TrailingHeaders>,
) -> S3Result<Payload> {
    let blob = blob.unwrap_or_else(|| StreamingBlob::from_bytes(Bytes::new()));
    let exact = || blob.remaining_length().exact().and_then(|len| u64::try_from(len).ok());
    let len_bytes = match content_length {
        Some(length) => u64::try_from(length).map_err(|_| s3_error!(InvalidArgument, "The length is negative."))?,
        None => exact().ok_or_else(|| s3_error!(MissingContentLength))?,
    };
    let mut digests = Digests::of_headers(headers)?;
    digests.expect_trailer();
    let digests = Some(digests).filter(|digests| !digests.is_empty());
    let mut stream = Checked { inner: Some(blob), trailers, digests, len_bytes, seen_bytes: 0, held: None };
    if len_bytes > 0 {
        return Ok(Payload::Stream { len_bytes, stream: Box::pin(stream) });
    }
    // Nobody polls the stream of an empty payload, and yet its promises count.
    match stream.next().await {
        Some(Err(error)) => Err(of_body(&error)),
        _ => Ok(Payload::Bytes(Bytes::new())),
    }
}

/// The promises that a form makes of its file, as headers.
pub(crate) fn form_promises(input: &PostObjectInput) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-md5", &input.content_md5),
        ("x-amz-checksum-crc32", &input.checksum_crc32),
        ("x-amz-checksum-crc32c", &input.checksum_crc32c),
        ("x-amz-checksum-crc64nvme", &input.checksum_crc64nvme),
        ("x-amz-checksum-md5", &input.checksum_md5),
        ("x-amz-checksum-sha1", &input.checksum_sha1),
        ("x-amz-checksum-sha256", &input.checksum_sha256),
        ("x-amz-checksum-sha512", &input.checksum_sha512),
        ("x-amz-checksum-xxhash128", &input.checksum_xxhash128),
        ("x-amz-checksum-xxhash3", &input.checksum_xxhash3),
        ("x-amz-checksum-xxhash64", &input.checksum_xxhash64),
    ] {
        if let Some(value) = value {
            // What is no header value is no digest either, and is refused as one.
            let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static("?"));
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// Holds back the last bytes until the body has ended and every promise is kept.
struct Checked {
    /// Gone when it has ended.
    inner: Option<StreamingBlob>,
    trailers: Option<TrailingHeaders>,
    digests: Option<Digests>,
    len_bytes: u64,
    seen_bytes: u64,
    held: Option<Bytes>,
}

impl Checked {
    fn take_in(&mut self, chunk: Bytes) -> Result<Option<Bytes>, BodyError> {
        self.seen_bytes += chunk.len() as u64;
        if self.seen_bytes > self.len_bytes {
            return Err(BodyError::Length { announced: self.len_bytes, got: self.seen_bytes });
        }
        if let Some(digests) = &mut self.digests {
            digests.update(&chunk);
        }
        if self.seen_bytes == self.len_bytes {
            self.held = Some(chunk);
            return Ok(None);
        }
        Ok(Some(chunk))
    }

    fn end(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.seen_bytes < self.len_bytes {
            return Err(BodyError::Length { announced: self.len_bytes, got: self.seen_bytes });
        }
        if let Some(digests) = self.digests.take() {
            let trailers = self.trailers.as_ref().and_then(|trailers| trailers.read(HeaderMap::clone));
            digests.finish(trailers.as_ref()).map_err(|refused| mismatch(&refused))?;
        }
        Ok(self.held.take())
    }
}

impl Stream for Checked {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
            let next = match ready!(inner.poll_next_unpin(cx)) {
                Some(Ok(chunk)) if chunk.is_empty() => continue,
                Some(Ok(chunk)) => match self.take_in(chunk) {
                    Ok(None) => continue,
                    Ok(Some(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                    Err(error) => Err(error),
                },
                Some(Err(error)) => Err(classify(error.as_ref())),
                None => self.end(),
            };
            self.inner = None;
            return Poll::Ready(next.transpose());
        }
    }
}

fn mismatch(refused: &Refused) -> BodyError {
    BodyError::Mismatch { code: refused.code, message: refused.message.clone().into_owned() }
}

/// Finds the reason among the errors that the guard and s3s wrap into each other.
pub(crate) fn classify(error: &(dyn Error + 'static)) -> BodyError {
    let because = |code, message: &str| BodyError::Mismatch { code, message: message.to_owned() };
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return if refused.code == "RequestTimeout" { BodyError::Stalled } else { mismatch(refused) };
        }
        if error.is::<BodySizeLimitExceeded>() {
            return because("EntityTooLarge", "The body is larger than an object may be.");
        }
        match error.downcast_ref() {
            Some(UploadStreamError::Sha256Mismatch) => {
                return because("XAmzContentSHA256Mismatch", "The body does not have the SHA-256 that was signed.");
            }
            Some(UploadStreamError::Incomplete | UploadStreamError::LengthMismatch) => {
                return BodyError::Cut("it does not have the announced length".to_owned());
            }
            _ => {}
        }
        match error.downcast_ref() {
            Some(AwsChunkedStreamError::SignatureMismatch) => {
                return because("SignatureDoesNotMatch", "The signature of a chunk does not match.");
            }
            Some(AwsChunkedStreamError::ChunkDataTooLarge(..) | AwsChunkedStreamError::ChunkMetaTooLarge(..)) => {
                return because("EntityTooLarge", "A chunk is larger than a signed chunk may be.");
            }
            Some(AwsChunkedStreamError::Underlying(_)) | None => {}
            Some(_) => return because("IncompleteBody", "The chunks are malformed or incomplete."),
        }
        next = error.source();
    }
    BodyError::Cut(error.to_string())
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    type StdError = s3s::StdError;

    async fn run(
        chunks: Vec<Result<&'static str, StdError>>,
        len: Option<i64>,
        headers: &HeaderMap,
    ) -> Result<String, BodyError> {
        let chunks = chunks.into_iter().map(|c| c.map(|c| Bytes::from_static(c.as_bytes())).map_err(Wrapped));
        let blob = StreamingBlob::wrap(stream::iter(chunks.collect::<Vec<_>>()));
        let payload = payload(Some(blob), len, headers, None).await.unwrap();
        let mut stream = payload.into_stream();
        let mut text = String::new();
        while let Some(chunk) = stream.next().await {
            text.push_str(std::str::from_utf8(&chunk?).unwrap());
        }
        Ok(text)
    }

    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] StdError);

    fn crc32(value: &'static str) -> HeaderMap {
        [(HeaderName::from_static("x-amz-checksum-crc32"), HeaderValue::from_static(value))].into_iter().collect()
    }

    #[tokio::test]
    async fn whole_bodies_pass() {
        let none = HeaderMap::new();
        assert_eq!(run(vec![Ok("1234"), Ok(""), Ok("56789")], Some(9), &none).await.unwrap(), "123456789");
        assert_eq!(run(vec![Ok("1234"), Ok("56789")], Some(9), &crc32("y/Q5Jg==")).await.unwrap(), "123456789");
        assert_eq!(run(vec![], Some(0), &crc32("AAAAAA==")).await.unwrap(), "");
    }

    #[tokio::test]
    async fn short_long_and_broken_bodies_end_in_an_error_before_their_last_bytes() {
        let none = HeaderMap::new();
        assert!(matches!(run(vec![Ok("1234")], Some(9), &none).await, Err(BodyError::Length { got: 4, .. })));
        assert!(matches!(run(vec![Ok("1234"), Ok("5")], Some(4), &none).await, Err(BodyError::Length { got: 5, .. })));
        let broken = run(vec![Ok("123456789")], Some(9), &crc32("AAAAAA==")).await;
        assert!(matches!(broken, Err(BodyError::Mismatch { code: "BadDigest", .. })), "{broken:?}");
    }

    #[tokio::test]
    async fn an_empty_body_keeps_its_promises_too() {
        let blob = || Some(StreamingBlob::from_bytes(Bytes::new()));
        assert!(payload(blob(), Some(0), &crc32("AAAAAA=="), None).await.is_ok());
        let error = payload(blob(), Some(0), &crc32("y/Q5Jg=="), None).await.unwrap_err();
        assert_eq!(error.code().as_str(), "BadDigest");
        assert!(payload(None, None, &HeaderMap::new(), None).await.is_ok());
        assert!(payload(None, Some(-1), &HeaderMap::new(), None).await.is_err());
    }

    #[tokio::test]
    async fn an_unknown_length_is_refused() {
        let blob = StreamingBlob::wrap(stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"x"))]));
        let error = payload(Some(blob), None, &HeaderMap::new(), None).await.unwrap_err();
        assert_eq!(error.code().as_str(), "MissingContentLength");
    }

    #[tokio::test]
    async fn the_reason_is_found_below_what_wraps_it() {
        let none = HeaderMap::new();
        let upload = |e: UploadStreamError| -> StdError { Box::new(e) };
        let chunked = |e: AwsChunkedStreamError| -> StdError { Box::new(e) };
        for (error, code) in [
            (upload(UploadStreamError::Sha256Mismatch), "XAmzContentSHA256Mismatch"),
            (chunked(AwsChunkedStreamError::SignatureMismatch), "SignatureDoesNotMatch"),
            (chunked(AwsChunkedStreamError::FormatError), "IncompleteBody"),
            (
                chunked(AwsChunkedStreamError::Underlying(Box::new(Refused::new("InvalidRequest", "x")))),
                "InvalidRequest",
            ),
            (Box::new(Refused::new("MalformedXML", "x")), "MalformedXML"),
        ] {
            let result = run(vec![Ok("1"), Err(error)], Some(9), &none).await;
            assert!(matches!(&result, Err(BodyError::Mismatch { code: c, .. }) if *c == code), "{result:?} {code}");
        }
        let stalled = run(vec![Err(Box::new(Refused::new("RequestTimeout", "x")))], Some(9), &none).await;
        assert!(matches!(stalled, Err(BodyError::Stalled)));
        let cut = run(vec![Err(Box::new(std::io::Error::other("reset")))], Some(9), &none).await;
        assert!(matches!(cut, Err(BodyError::Cut(_))));
    }
}
