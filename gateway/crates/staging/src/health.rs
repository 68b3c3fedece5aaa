//! A disk that fails takes nothing in any more; it is tried again until it works.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::PAGE_BYTES;
use crate::io::{AlignedBuf, Filled, Source, Target, open_direct};
use crate::log::Log;

const PROBE: &str = "probe";

impl Log {
    /// Tries the disk every `probe_every` while it is off.
    pub(crate) async fn run_health(self: Arc<Self>) {
        while self.is_signalled(self.signals.health.notified()).await {
            while self.is_off() {
                if !self.is_signalled(tokio::time::sleep(self.settings.probe_every)).await {
                    return;
                }
                match self.repair().await {
                    Ok(()) => self.turn_on(),
                    Err(error) => tracing::debug!(path = %self.settings.path.display(), %error, "staging stays off"),
                }
            }
        }
    }

    fn is_off(&self) -> bool {
        self.appender.lock().off.is_some() || self.reads.are_off.load(Ordering::Acquire)
    }

    fn turn_on(&self) {
        self.reads.errors_in_a_row.store(0, Ordering::Relaxed);
        self.reads.are_off.store(false, Ordering::Release);
        self.appender.lock().off = None;
        self.signals.keeper.notify_one();
        tracing::info!(path = %self.settings.path.display(), "staging is on again: its disk works");
    }

    /// Tries the disk, and writes what could not be written.
    async fn repair(&self) -> io::Result<()> {
        self.probe().await?;
        // What was given up must not be found by a start before something newer is acknowledged.
        self.seal_closed().await?;
        self.flush_all().await?;
        self.try_for_room().await
    }

    /// Whether there is a segment to go on with, or none for other reasons than the disk's.
    async fn try_for_room(&self) -> io::Result<()> {
        let mut looked = pin!(self.signals.looked.notified());
        looked.as_mut().enable();
        self.appender.lock().is_on_trial = true;
        self.signals.keeper.notify_one();
        self.is_signalled(looked).await;
        let mut appender = self.appender.lock();
        appender.is_on_trial = false;
        if appender.ready.is_empty() && !appender.is_starved {
            return Err(io::Error::other("no segment can be made ready"));
        }
        Ok(())
    }

    async fn probe(&self) -> io::Result<()> {
        is_same_directory(self)?;
        let mut pattern = AlignedBuf::zeroed(PAGE_BYTES);
        getrandom::fill(&mut pattern).map_err(io::Error::other)?;
        let pattern = Arc::new(pattern);
        let path = self.settings.path.join(PROBE);
        let file = self.blocking(move || create(&path)).await?;
        let file = Arc::new(file);
        self.io.write(&file, 0, vec![Source::Pages(Arc::clone(&pattern))]).await?;
        self.io.sync(&file).await?;
        let read = self.io.read(&file, 0, vec![Target::Pages(AlignedBuf::zeroed(PAGE_BYTES))]).await?;
        match read.first() {
            Some(Filled::Pages(pages)) if **pages == **pattern => Ok(()),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "what was read is not what was written")),
        }
    }

    /// Does something that blocks, elsewhere.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.runtime.spawn_blocking(work).await.map_err(io::Error::other)?
    }
}

fn create(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    open_direct(&options, path).map(|(file, _)| file)
}

/// Whether the directory still is the one that was opened. Another file system may be there after a repair: its files
/// are not those that are open here.
fn is_same_directory(log: &Log) -> io::Result<()> {
    let there = rustix::fs::stat(log.settings.path.join(crate::directory::LOCK))?;
    let here = rustix::fs::fstat(&log.lock)?;
    if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) {
        Ok(())
    } else {
        Err(io::Error::other("another file system is there now: the gateway must be started again to use it"))
    }
}
