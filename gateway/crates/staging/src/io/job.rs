//! One operation on its way through an engine, with everything that the kernel reads and writes for it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::buffer::{Filled, Source, Span, Target};

/// Most pieces of memory that one operation reads into or writes from.
pub(super) const BUFFERS_MAX: usize = 16;

/// How often an operation is tried again that was interrupted or should come again.
const RETRIES_MAX: u32 = 16;

/// What is done.
#[derive(Debug)]
pub(super) enum Action {
    Read(Vec<Target>),
    Write(Vec<Source>),
    Sync,
    Allocate { len_bytes: u64 },
}

/// An operation. It owns its buffers and its file, whoever still waits for it.
pub(super) struct Job {
    pub(super) file: Arc<File>,
    /// Where in the file the next byte is.
    pub(super) offset: u64,
    action: Action,
    /// The memory of `action`'s buffers, cut as bytes move; those before `first` are done.
    spans: Vec<Span>,
    first: usize,
    retries_left: u32,
    /// The bit of what is read that is to be wrong, for tests.
    flipped_bit: Option<u64>,
    reply: oneshot::Sender<io::Result<Vec<Filled>>>,
    permit: OwnedSemaphorePermit,
}

// SAFETY: all but `spans` is `Send` by itself, and they point into buffers that this value owns and that are `Send`; they are
// used through `&mut self`, or by the kernel at the request of the one thread that has the value.
unsafe impl Send for Job {}

/// What an engine has to ask the kernel for next.
pub(super) enum Call<'a> {
    Read(&'a [Span]),
    Write(&'a [Span]),
    Sync,
    Allocate { len_bytes: u64 },
}

impl Job {
    pub(super) fn new(
        file: Arc<File>,
        offset: u64,
        mut action: Action,
        flipped_bit: Option<u64>,
        permit: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<io::Result<Vec<Filled>>>) {
        let spans: Vec<Span> = match &mut action {
            Action::Read(targets) => targets.iter_mut().map(Target::span).collect(),
            Action::Write(sources) => sources.iter().map(Source::span).collect(),
            Action::Sync | Action::Allocate { .. } => Vec::new(),
        };
        let (reply, answer) = oneshot::channel();
        let retries_left = RETRIES_MAX;
        (Self { file, offset, action, spans, first: 0, retries_left, flipped_bit, reply, permit }, answer)
    }

    /// The system call that does what is left.
    pub(super) fn call(&self) -> Call<'_> {
        let spans = &self.spans[self.first..];
        match self.action {
            Action::Read(_) => Call::Read(spans),
            Action::Write(_) => Call::Write(spans),
            Action::Sync => Call::Sync,
            Action::Allocate { len_bytes } => Call::Allocate { len_bytes },
        }
    }

    /// Takes note of what a system call came to. None where another one has to follow.
    pub(super) fn note(&mut self, came_to: io::Result<usize>) -> Option<io::Result<()>> {
        let moved = match came_to {
            Ok(moved) => moved,
            Err(error) if self.retries_left > 0 && is_transient(&error) => {
                self.retries_left -= 1;
                return None;
            }
            Err(error) => return Some(Err(error)),
        };
        match self.action {
            Action::Sync | Action::Allocate { .. } => Some(Ok(())),
            Action::Read(_) if moved == 0 => Some(Err(ErrorKind::UnexpectedEof.into())),
            Action::Write(_) if moved == 0 => Some(Err(ErrorKind::WriteZero.into())),
            Action::Read(_) | Action::Write(_) => self.advance(moved).then_some(Ok(())),
        }
    }

    /// Cuts off what has moved. Whether that was all.
    fn advance(&mut self, mut moved: usize) -> bool {
        self.offset += moved as u64;
        while let Some(span) = self.spans.get_mut(self.first) {
            let step = moved.min(span.len);
            // Within the buffer, or one past its end.
            *span = Span { start: span.start.wrapping_add(step), len: span.len - step };
            moved -= step;
            if span.len > 0 {
                return false;
            }
            self.first += 1;
        }
        true
    }

    /// Answers whoever waits. The kernel must be done with the job's buffers.
    pub(super) fn finish(self, result: io::Result<()>) {
        let Self { file, action, flipped_bit, reply, permit, .. } = self;
        // Whoever is answered finds the file let go and the place free.
        drop((file, permit));
        let mut targets = match action {
            Action::Read(targets) => targets,
            Action::Write(_) | Action::Sync | Action::Allocate { .. } => Vec::new(),
        };
        if let Some(bit) = flipped_bit {
            flip(&mut targets, bit);
        }
        // SAFETY: engines finish a job when the last call for it has been answered, so that the kernel is done with it.
        let filled = |targets: Vec<Target>| targets.into_iter().map(|target| unsafe { target.filled() }).collect();
        // Nobody may wait any more; then the buffers go here.
        let _ = reply.send(result.map(|()| filled(targets)));
    }

    /// Answers whoever waits, and leaves the buffers to the kernel for good: it may still write them.
    pub(super) fn abandon(self, error: io::Error) {
        let Self { file, action, spans, reply, .. } = self;
        std::mem::forget((file, action, spans));
        let _ = reply.send(Err(error));
    }
}

/// Makes one bit wrong in what was read.
fn flip(targets: &mut [Target], bit: u64) {
    let bits: u64 = targets.iter_mut().map(|target| target.span().len as u64 * 8).sum();
    let mut bit = bit.checked_rem(bits).unwrap_or(0) as usize;
    for target in targets {
        let len = target.span().len * 8;
        if bit < len {
            // SAFETY: within this target, and the job is finished.
            return unsafe { target.flip(bit) };
        }
        bit -= len;
    }
}

/// The spans as a blocking call takes them to read into.
///
/// # Safety
/// The spans point to initialised memory that nobody else uses while the slices live.
pub(super) unsafe fn slices_mut<'a>(spans: &[Span]) -> Vec<IoSliceMut<'a>> {
    let slice = |span: &Span| {
        // SAFETY: the caller vouches for it.
        IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(span.start, span.len) })
    };
    spans.iter().map(slice).collect()
}

/// The spans as a blocking call takes them to write from.
///
/// # Safety
/// The spans point to initialised memory that nobody writes while the slices live.
pub(super) unsafe fn slices<'a>(spans: &[Span]) -> Vec<IoSlice<'a>> {
    let slice = |span: &Span| {
        // SAFETY: the caller vouches for it.
        IoSlice::new(unsafe { std::slice::from_raw_parts(span.start, span.len) })
    };
    spans.iter().map(slice).collect()
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
