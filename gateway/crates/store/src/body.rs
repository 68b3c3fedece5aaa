//! Bodies of PUTs on their way in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blockgate_block::{BlockBuf, BlockWriter, Crc64, Crc64Hasher};
use blockgate_staging::Bytes4k;
use blockgate_upstream::{BodyError, ByteStream, Payload};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use parking_lot::Mutex;

use crate::Result;
use crate::core::{Core, HeapRoom};

/// A body that has arrived whole and is summed, in memory, and not yet stored. Dropping it frees it.
pub struct TakenIn {
    pub(crate) crc64: Crc64,
    pub(crate) len_bytes: u64,
    held: Held,
}

enum Held {
    Arena(BlockBuf),
    /// Together with their room.
    Heap(Bytes),
}

impl TakenIn {
    /// The checksum of the bytes that arrived.
    #[must_use]
    pub fn crc64(&self) -> Crc64 {
        self.crc64
    }

    /// How many bytes arrived.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// All bytes, shared.
    pub(crate) fn bytes(&self) -> Bytes {
        match &self.held {
            Held::Arena(block) => block.to_bytes(),
            Held::Heap(bytes) => bytes.clone(),
        }
    }

    /// The block, where the arena has it.
    pub(crate) fn block(&self) -> Option<BlockBuf> {
        match &self.held {
            Held::Arena(block) => Some(block.clone()),
            Held::Heap(_) => None,
        }
    }

    /// All bytes, shared, as staging takes them.
    pub(crate) fn bytes4k(&self) -> Bytes4k {
        match &self.held {
            Held::Arena(block) => Bytes4k::Arena(block.clone()),
            Held::Heap(bytes) => Bytes4k::Heap(bytes.clone()),
        }
    }
}

impl Core {
    /// Takes a body in: one copy, into the arena, or into the heap where the arena has no room. The checksum is computed
    /// on the way.
    pub(crate) async fn gather(&self, payload: Payload) -> Result<TakenIn> {
        let announced = payload.len_bytes();
        let sink = match self.tiers().allocate(announced) {
            Some(slot) => Sink::Arena(slot),
            None => {
                self.metrics.limit_hit("memory.capacity");
                let room = self.heap.room_for(announced, self.limits.heap_wait).await?;
                let capacity = usize::try_from(announced).unwrap_or(usize::MAX);
                Sink::Heap { bytes: BytesMut::with_capacity(capacity), room }
            }
        };
        sink.take_in(payload).await
    }
}

/// Takes a body in, to a slot as long as it.
pub(crate) async fn gather_into(slot: BlockWriter, payload: Payload) -> Result<TakenIn> {
    Sink::Arena(slot).take_in(payload).await
}

enum Sink {
    Arena(BlockWriter),
    Heap { bytes: BytesMut, room: HeapRoom },
}

impl Sink {
    async fn take_in(mut self, payload: Payload) -> Result<TakenIn> {
        let announced = payload.len_bytes();
        let mut hasher = Crc64Hasher::default();
        let mut stream = payload.into_stream();
        while let Some(bytes) = stream.next().await {
            let bytes = bytes?;
            hasher.update(&bytes);
            if hasher.len_bytes() > announced || !self.append(&bytes) {
                return Err(BodyError::Length { announced, got: hasher.len_bytes() }.into());
            }
        }
        let length_error = BodyError::Length { announced, got: hasher.len_bytes() };
        if hasher.len_bytes() != announced {
            return Err(length_error.into());
        }
        let held = self.finish().ok_or(length_error)?;
        Ok(TakenIn { crc64: hasher.finish(), len_bytes: announced, held })
    }

    fn append(&mut self, more: &[u8]) -> bool {
        match self {
            Self::Arena(slot) => slot.append(more).is_ok(),
            Self::Heap { bytes, .. } => {
                bytes.extend_from_slice(more);
                true
            }
        }
    }

    fn finish(self) -> Option<Held> {
        match self {
            Self::Arena(slot) => slot.finish().ok().map(Held::Arena),
            Self::Heap { bytes, room } => Some(Held::Heap(room.keep(bytes.freeze()))),
        }
    }
}

/// What is known of a body that passes through, afterwards.
#[derive(Clone, Default)]
pub(crate) struct Passed {
    hasher: Arc<Mutex<Crc64Hasher>>,
    whole: Arc<AtomicBool>,
}

impl Passed {
    /// The checksum of what has passed.
    pub(crate) fn crc64(&self) -> Crc64 {
        self.hasher.lock().finish()
    }

    /// Whether all of it has passed: from here on the upstream may have stored it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::SeqCst)
    }
}

/// Watches a body on its way to the upstream.
pub(crate) fn watch_body(payload: Payload) -> (Payload, Passed) {
    let len_bytes = payload.len_bytes();
    let passed = Passed::default();
    let watching = Watching { body: payload.into_stream(), left: len_bytes, passed: passed.clone() };
    if len_bytes == 0 {
        passed.whole.store(true, Ordering::SeqCst);
    }
    let stream: ByteStream = Box::pin(futures::stream::unfold(watching, |mut watching| async move {
        let item = watching.body.next().await?;
        if let Ok(bytes) = &item {
            watching.left = watching.left.saturating_sub(bytes.len() as u64);
            watching.passed.hasher.lock().update(bytes);
            if watching.left == 0 {
                watching.passed.whole.store(true, Ordering::SeqCst);
            }
        }
        Some((item, watching))
    }));
    (Payload::Stream { len_bytes, stream }, passed)
}

struct Watching {
    body: ByteStream,
    left: u64,
    passed: Passed,
}
