//! GetObject and HeadObject.

use std::ops::Range;

use blockgate_block::BlockKey;
use blockgate_store::{Body, RangeSpec, ReadRequest};
use blockgate_upstream::{BodyError, ByteStream};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::dto::{ChecksumType, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, StreamingBlob};
use s3s::stream::{ByteStream as SizedStream, RemainingLength};
use s3s::{S3Request, S3Response, S3Result, StdError, s3_error};

use super::{Ops, key, part_number};
use crate::convert::object::{describe, hit_headers};
use crate::convert::{condition, kv, range, time, version};
use crate::error;

/// GetObject.
pub(super) async fn get(ops: &Ops, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
    let S3Request { input, headers, credentials, .. } = request;
    version::only_null(input.version_id.as_deref())?;
    let overrides = input.response_cache_control.is_some()
        || input.response_content_disposition.is_some()
        || input.response_content_encoding.is_some()
        || input.response_content_language.is_some()
        || input.response_content_type.is_some()
        || input.response_expires.is_some();
    // s3s puts them into the answer.
    if overrides && credentials.is_none() {
        return Err(no_overrides());
    }
    let other_type = input.response_content_type.is_some();
    let key = key(&input.bucket, &input.key)?;
    let asked = Asked::new(input.range.map(range::spec), input.part_number)?;
    let conditions =
        condition::of_read(input.if_match, input.if_none_match, input.if_modified_since, input.if_unmodified_since);
    let read = ReadRequest {
        range: asked.range(),
        conditions,
        fingerprint: kv::fingerprint(&headers)?,
        deadline: kv::deadline(&headers)?,
    };
    if asked.is_beyond_the_only_part() {
        return Err(beyond_the_only_part(ops, &key, read).await);
    }
    let served = ops.store.get(&key, read).await.map_err(error::of_store)?;
    let shown = asked.shown(&served.range);
    let mut output = describe!(GetObjectOutput, &served.info, shown);
    output.parts_count = asked.parts_count();
    output.version_id = input.version_id;
    output.body = Some(blob(served.body, served.range.end - served.range.start));
    let mut headers = hit_headers(&served.info, served.tier);
    if other_type {
        // The type that everything has by default would displace it.
        headers.remove(http::header::CONTENT_TYPE);
    }
    Ok(S3Response::with_headers(output, headers))
}

/// HeadObject.
pub(super) async fn head(ops: &Ops, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
    let S3Request { mut input, headers, credentials, .. } = request;
    version::only_null(input.version_id.as_deref())?;
    let overrides = overrides(&mut input)?;
    if !overrides.is_empty() && credentials.is_none() {
        return Err(no_overrides());
    }
    let key = key(&input.bucket, &input.key)?;
    let asked = Asked::new(input.range.map(range::spec), input.part_number)?;
    let conditions =
        condition::of_read(input.if_match, input.if_none_match, input.if_modified_since, input.if_unmodified_since);
    let read = ReadRequest {
        range: asked.range(),
        conditions,
        fingerprint: kv::fingerprint(&headers)?,
        deadline: kv::deadline(&headers)?,
    };
    if asked.is_beyond_the_only_part() {
        return Err(beyond_the_only_part(ops, &key, read).await);
    }
    let found = ops.store.head(&key, read).await.map_err(error::of_store)?;
    let size_bytes = found.info.size_bytes;
    let range = match asked.range() {
        Some(spec) => range::resolve(spec, size_bytes).ok_or_else(|| error::invalid_range(size_bytes))?,
        None => 0..size_bytes,
    };
    let mut output = describe!(HeadObjectOutput, &found.info, asked.shown(&range));
    output.parts_count = asked.parts_count();
    output.version_id = input.version_id;
    let mut headers = hit_headers(&found.info, found.tier);
    headers.extend(overrides);
    Ok(S3Response::with_headers(output, headers))
}

/// Which bytes a read is about.
enum Asked {
    Whole,
    Range(RangeSpec),
    /// A part, by number. Whatever made it, an object has one part here: itself.
    Part(u32),
}

impl Asked {
    fn new(range: Option<RangeSpec>, part: Option<i32>) -> S3Result<Self> {
        match (range, part) {
            (None, None) => Ok(Self::Whole),
            (Some(range), None) => Ok(Self::Range(range)),
            (None, Some(number)) => part_number(number).map(Self::Part),
            (Some(_), Some(_)) => {
                Err(s3_error!(InvalidRequest, "Cannot specify both Range header and partNumber query parameter"))
            }
        }
    }

    fn range(&self) -> Option<RangeSpec> {
        if let Self::Range(spec) = self { Some(*spec) } else { None }
    }

    fn is_beyond_the_only_part(&self) -> bool {
        matches!(self, Self::Part(number) if *number > 1)
    }

    /// The range that the answer states; an answer without one is of the whole object.
    fn shown<'a>(&self, range: &'a Range<u64>) -> Option<&'a Range<u64>> {
        (!matches!(self, Self::Whole) && !range.is_empty()).then_some(range)
    }

    fn parts_count(&self) -> Option<i32> {
        matches!(self, Self::Part(_)).then_some(1)
    }
}

/// An object that isn't there has no parts at all, and that comes first.
async fn beyond_the_only_part(ops: &Ops, key: &BlockKey, read: ReadRequest) -> s3s::S3Error {
    match ops.store.head(key, read).await {
        Ok(_) => error::invalid_part_number(),
        Err(error) => error::of_store(error),
    }
}

fn no_overrides() -> s3s::S3Error {
    s3_error!(InvalidRequest, "Request specific response headers cannot be used for anonymous GET requests.")
}

/// The headers that a HEAD asks for by `response-*` parameters.
fn overrides(input: &mut HeadObjectInput) -> S3Result<HeaderMap> {
    let expires = input.response_expires.take().map(|at| time::http_date(time::instant(at)));
    let asked = [
        (http::header::CACHE_CONTROL, input.response_cache_control.take()),
        (http::header::CONTENT_DISPOSITION, input.response_content_disposition.take()),
        (http::header::CONTENT_ENCODING, input.response_content_encoding.take()),
        (http::header::CONTENT_LANGUAGE, input.response_content_language.take()),
        (http::header::CONTENT_TYPE, input.response_content_type.take()),
        (http::header::EXPIRES, expires),
    ];
    let header = |(name, value): (HeaderName, Option<String>)| {
        let value = value.map(HeaderValue::try_from).transpose();
        let value = value.map_err(|_| s3_error!(InvalidArgument, "A response-* parameter is no header value."));
        value.map(|value| value.map(|value| (name, value))).transpose()
    };
    asked.into_iter().filter_map(header).collect()
}

/// The body of an answer: one buffer is handed on as it is, a stream with its exact length.
fn blob(body: Body, len_bytes: u64) -> StreamingBlob {
    match body {
        Body::Bytes(bytes) => StreamingBlob::from_bytes(bytes),
        Body::Stream(inner) => StreamingBlob::new(Sized { inner, remaining_bytes: len_bytes }),
    }
}

/// A stream whose length is known.
struct Sized {
    inner: ByteStream,
    remaining_bytes: u64,
}

impl futures::Stream for Sized {
    type Item = Result<Bytes, StdError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let next = self.inner.as_mut().poll_next(cx);
        next.map(|item| {
            item.map(|chunk| {
                let chunk = chunk.map_err(|error: BodyError| Box::new(error) as StdError)?;
                self.remaining_bytes = self.remaining_bytes.saturating_sub(chunk.len() as u64);
                Ok(chunk)
            })
        })
    }
}

impl SizedStream for Sized {
    fn remaining_length(&self) -> RemainingLength {
        usize::try_from(self.remaining_bytes).map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    #[test]
    fn a_range_or_a_part() {
        let range = RangeSpec::Suffix { len_bytes: 3 };
        assert_eq!(Asked::new(Some(range), None).unwrap().range(), Some(range));
        assert!(Asked::new(Some(range), Some(1)).is_err());
        assert!(Asked::new(None, Some(0)).is_err() && Asked::new(None, Some(10_001)).is_err());
        assert!(Asked::new(None, Some(2)).unwrap().is_beyond_the_only_part());
        let part = Asked::new(None, Some(1)).unwrap();
        assert!(!part.is_beyond_the_only_part());
        assert_eq!((part.shown(&(0..9)), part.parts_count()), (Some(&(0..9)), Some(1)));
        assert_eq!((part.shown(&(0..0)), Asked::Whole.shown(&(0..9))), (None, None));
    }

    #[tokio::test]
    async fn one_buffer_stays_one_buffer() {
        let bytes = Bytes::from_static(b"block");
        let body = s3s::Body::from(blob(Body::Bytes(bytes.clone()), 5));
        assert_eq!(body.bytes().unwrap().as_ptr(), bytes.as_ptr());
    }

    #[tokio::test]
    async fn a_stream_knows_its_length_to_the_end() {
        let chunks = [Ok(Bytes::from_static(b"blo")), Ok(Bytes::from_static(b"ck")), Err(BodyError::Corrupt)];
        let mut blob = blob(Body::Stream(Box::pin(futures::stream::iter(chunks))), 5);
        for left in [5, 2, 0] {
            assert_eq!(blob.remaining_length().exact(), Some(left));
            let next = blob.next().await.unwrap();
            assert_eq!(next.is_err(), left == 0);
        }
    }
}
