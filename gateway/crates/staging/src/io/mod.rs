//! Reading and writing files without blocking the runtime, and without copying.
//!
//! An operation owns its buffers until the kernel is done with them: a caller that goes away midway leaves them to it. What
//! was asked for then happens or not; nothing is freed under the disk's hands.
//!
//! | engine | how |
//! | --- | --- |
//! | [`Engine::IoUring`] | one thread owns a ring and hands over what was submitted in between |
//! | [`Engine::Threads`] | a fixed pool of threads makes blocking calls |

mod buffer;
mod faults;
mod job;
mod pool;
mod ring;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Weak};

use rustix::fs::OFlags;
use tokio::sync::Semaphore;

pub(crate) use self::buffer::{AlignedBuf, Filled, Source, Target};
pub use self::faults::{Faults, Operation};
use self::job::{Action, BUFFERS_MAX, Job};
use self::pool::Pool;
use self::ring::Ring;
use crate::Engine;

/// Most operations under way at once, with those in the engine's queue. More wait without being queued.
const DEPTH_MAX: usize = 128;

/// A way to files. Clones share one engine, whose threads end when the last of them goes.
#[derive(Clone, Debug)]
pub struct Io {
    engine: Arc<Runner>,
    room: Arc<Semaphore>,
    faults: Option<Arc<Faults>>,
    /// The engine's threads hold weak ones: so tests see them end.
    #[cfg_attr(not(test), expect(dead_code))]
    alive: Arc<()>,
}

#[derive(Debug)]
enum Runner {
    Ring(Ring),
    Threads(Pool),
}

impl Io {
    /// Starts an engine. [`Engine::Auto`] is io_uring where there is one, else threads.
    ///
    /// # Errors
    /// Where threads can't be started, or io_uring was asked for and can't be had.
    pub fn start(engine: Engine) -> io::Result<Self> {
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let runner = match engine {
            Engine::IoUring => Runner::Ring(Ring::start(&weak)?),
            Engine::Threads => Runner::Threads(Pool::start(&weak)?),
            Engine::Auto => auto(&weak)?,
        };
        Ok(Self { engine: Arc::new(runner), room: Arc::new(Semaphore::new(DEPTH_MAX)), faults: None, alive })
    }

    /// The same, failing as `faults` say. For tests.
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    /// The engine that runs: never [`Engine::Auto`].
    #[must_use]
    pub fn kind(&self) -> Engine {
        match *self.engine {
            Runner::Ring(_) => Engine::IoUring,
            Runner::Threads(_) => Engine::Threads,
        }
    }

    /// Reads from `offset` what fills all targets, one after another.
    ///
    /// # Errors
    /// Of the kernel's; [`ErrorKind::UnexpectedEof`] where the file ends before. The targets are gone then.
    pub(crate) async fn read(&self, file: &Arc<File>, offset: u64, targets: Vec<Target>) -> io::Result<Vec<Filled>> {
        self.run(Operation::Read, file, offset, Action::Read(targets)).await
    }

    /// Writes all of the sources, one after another, from `offset` on.
    ///
    /// # Errors
    /// Of the kernel's. Any part may be written then.
    pub(crate) async fn write(&self, file: &Arc<File>, offset: u64, sources: Vec<Source>) -> io::Result<()> {
        self.run(Operation::Write, file, offset, Action::Write(sources)).await.map(drop)
    }

    /// Waits until the disk has for good what was written before, by fdatasync(2).
    ///
    /// # Errors
    /// Of the kernel's: what was written since the last sync that went well may be lost, and later ones need not tell.
    pub(crate) async fn sync(&self, file: &Arc<File>) -> io::Result<()> {
        self.run(Operation::Sync, file, 0, Action::Sync).await.map(drop)
    }

    /// Takes room on the disk for the first `len_bytes` of a file, which grows to them, by fallocate(2).
    ///
    /// # Errors
    /// Of the kernel's.
    pub(crate) async fn allocate(&self, file: &Arc<File>, len_bytes: u64) -> io::Result<()> {
        self.run(Operation::Allocate, file, 0, Action::Allocate { len_bytes }).await.map(drop)
    }

    async fn run(
        &self,
        operation: Operation,
        file: &Arc<File>,
        offset: u64,
        action: Action,
    ) -> io::Result<Vec<Filled>> {
        let buffers = match &action {
            Action::Read(targets) => targets.len(),
            Action::Write(sources) => sources.len(),
            Action::Sync | Action::Allocate { .. } => 1,
        };
        if !(1..=BUFFERS_MAX).contains(&buffers) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{buffers} buffers in one operation")));
        }
        let mut flipped_bit = None;
        if let Some(faults) = &self.faults {
            faults.before(operation).await?;
            flipped_bit = (operation == Operation::Read).then(|| faults.flipped_bit()).flatten();
        }
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| stopped())?;
        let (job, answer) = Job::new(Arc::clone(file), offset, action, flipped_bit, permit);
        match &*self.engine {
            Runner::Ring(ring) => ring.submit(job),
            Runner::Threads(pool) => pool.submit(job),
        }
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }
}

fn auto(alive: &Weak<()>) -> io::Result<Runner> {
    match Ring::start(alive) {
        Ok(ring) => Ok(Runner::Ring(ring)),
        Err(error) => {
            tracing::info!(%error, "io_uring can't be had here: staging uses threads");
            Ok(Runner::Threads(Pool::start(alive)?))
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the engine stopped")
}

/// Opens a file past the page cache, where its file system can do that. Whether it can.
///
/// # Errors
/// As of opening any file.
pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    match options.clone().custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok((options.open(path)?, false)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
