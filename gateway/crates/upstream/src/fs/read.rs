//! Reading an object's bytes.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::conditions::judge_read;
use super::error::failed;
use super::format::{Object, read_at};
use super::root::Root;
use crate::{BodyError, ByteStream, Conditions, Result, UpstreamError, byte_stream_of};

/// Bytes read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// An object whose first bytes were read.
pub(super) struct Opened {
    pub(super) object: Object,
    pub(super) range: Range<u64>,
    first: Bytes,
}

/// Opens an object and reads the first chunk of `range`, which is all of most blocks.
pub(super) fn open(
    root: &Root,
    bucket: &str,
    key: &str,
    range: Option<Range<u64>>,
    conditions: &Conditions,
) -> Result<Opened> {
    let object = root.object(bucket, key)?;
    judge_read(conditions, &object.meta.etag, object.meta.stored_at())?;
    let range = match range {
        None => 0..object.len_bytes,
        Some(range) if range.start >= object.len_bytes || range.start >= range.end => {
            return Err(UpstreamError::InvalidRange { size_bytes: object.len_bytes });
        }
        Some(range) => range.start..range.end.min(object.len_bytes),
    };
    let first = read_chunk(&object.file, &range).map_err(failed("cannot read the object"))?;
    Ok(Opened { object, range, first })
}

/// The bytes of an opened range: each chunk is read while the one before it is being sent.
pub(super) fn body(opened: Opened) -> ByteStream {
    let Opened { object, range, first } = opened;
    let rest = range.start + first.len() as u64..range.end;
    if rest.is_empty() {
        return byte_stream_of(first);
    }
    let state = Rest { file: Arc::new(object.file), rest, ready: Some(first), coming: None };
    Box::pin(futures::stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        match state.next().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(state))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

struct Rest {
    file: Arc<File>,
    /// What no read was begun for.
    rest: Range<u64>,
    ready: Option<Bytes>,
    coming: Option<JoinHandle<std::io::Result<Bytes>>>,
}

impl Rest {
    async fn next(&mut self) -> std::result::Result<Option<Bytes>, BodyError> {
        let bytes = match (self.ready.take(), self.coming.take()) {
            (Some(bytes), _) => bytes,
            (None, Some(coming)) => {
                let read = coming.await.map_err(|error| BodyError::Cut(error.to_string()))?;
                read.map_err(|error| BodyError::Cut(error.to_string()))?
            }
            (None, None) => return Ok(None),
        };
        if !self.rest.is_empty() {
            let chunk = self.rest.start..self.rest.end.min(self.rest.start + CHUNK_BYTES);
            self.rest.start = chunk.end;
            let file = self.file.clone();
            self.coming = Some(tokio::task::spawn_blocking(move || read_chunk(&file, &chunk)));
        }
        Ok(Some(bytes))
    }
}

/// Reads the range, or its first [`CHUNK_BYTES`].
fn read_chunk(file: &File, range: &Range<u64>) -> std::io::Result<Bytes> {
    let len = (range.end - range.start).min(CHUNK_BYTES) as usize;
    let bytes = read_at(file, range.start, len)?;
    if bytes.len() < len {
        return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file is shorter than it was"));
    }
    Ok(bytes.into())
}
