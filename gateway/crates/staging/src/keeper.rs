//! Keeps segments ready to be appended to: unused ones, new ones while there is room, else those reclaimed from old
//! blocks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::directory;
use crate::format::header::Header;
use crate::format::state::State;
use crate::life::{self, Life, Stage};
use crate::log::Log;

/// Fewest segments of a log: one is appended to, one is ready, others hold blocks.
pub(crate) const SEGMENTS_MIN: u64 = 4;

/// In a log of so many segments two are kept ready, in a smaller one a single one.
const SEGMENTS_MANY: u64 = 8;

/// How long no new file is tried after the disk was full.
const FULL_FOR: Duration = Duration::from_secs(60);

/// How long a reader is waited for before another segment is reclaimed. A caller may keep a read without going on with
/// it.
const LINGER_MAX: Duration = Duration::from_millis(20);

/// The one task that begins and ends lives.
pub(crate) struct Keeper {
    log: Arc<Log>,
    /// Files of segments that hold nothing.
    idle: Vec<(u32, Arc<File>)>,
    /// Those of lives that have ended and that somebody still reads.
    lingering: Vec<(u32, Arc<File>, Weak<Life>)>,
    /// Length of each segment's file, in bytes.
    files: BTreeMap<u32, u64>,
    /// Of the next life.
    sequence: u64,
    full_since: Option<Instant>,
    gone: Arc<Notify>,
}

/// What a start found.
pub(crate) struct Stock {
    pub(crate) idle: Vec<(u32, Arc<File>)>,
    pub(crate) files: BTreeMap<u32, u64>,
    pub(crate) next_sequence: u64,
    pub(crate) gone: Arc<Notify>,
}

impl Keeper {
    pub(crate) fn new(log: Arc<Log>, stock: Stock) -> Self {
        let Stock { idle, files, next_sequence: sequence, gone } = stock;
        Self { log, idle, lingering: Vec::new(), files, sequence, full_since: None, gone }
    }

    /// Runs until the log stops.
    pub(crate) async fn run(mut self) {
        let log = Arc::clone(&self.log);
        loop {
            if let Err(error) = self.look().await {
                log.fail("making room", &error);
            }
            log.signals.looked.notify_waiters();
            let signal = async {
                tokio::select! {
                    () = log.signals.keeper.notified() => {}
                    () = self.gone.notified() => {}
                }
            };
            if !log.is_signalled(signal).await {
                return;
            }
        }
    }

    async fn look(&mut self) -> io::Result<()> {
        while self.log.appender.lock().may_make_room() {
            self.log.seal_closed().await?;
            self.shrink().await?;
            if !self.is_one_wanted() {
                break;
            }
            let next = self.next().await?;
            let is_starved = next.is_none();
            {
                let mut appender = self.log.appender.lock();
                appender.is_starved = is_starved;
                appender.ready.extend(next);
            }
            self.log.signals.room.notify_waiters();
            if is_starved {
                break;
            }
        }
        Ok(())
    }

    /// Removes files where they take more than they may, as the settings now are.
    async fn shrink(&mut self) -> io::Result<()> {
        while self.file_bytes() > self.log.settings.capacity_bytes {
            if let Some((number, _)) = self.idle.pop() {
                self.remove_file(number).await?;
                self.files.remove(&number);
            } else if let Some(victim) = self.victim() {
                self.reclaim(victim).await?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn is_one_wanted(&self) -> bool {
        let segments = self.log.settings.capacity_bytes / self.log.settings.segment_bytes;
        let wanted = if segments < SEGMENTS_MANY { 1 } else { 2 };
        let appender = self.log.appender.lock();
        appender.ready.len() < wanted && !appender.is_closing
    }

    /// A life that has just begun. None where every segment holds what must stay.
    async fn next(&mut self) -> io::Result<Option<Arc<Life>>> {
        loop {
            let gone = self.lingering.extract_if(.., |(_, _, life)| life.strong_count() == 0);
            self.idle.extend(gone.map(|(number, file, _)| (number, file)));
            if let Some((number, file)) = self.idle.pop() {
                let begun = self.begin(number, &file).await;
                if begun.is_err() {
                    self.idle.push((number, file));
                }
                return begun.map(Some);
            }
            if self.may_grow() && self.grow().await? {
                continue;
            }
            let Some(victim) = self.victim() else { return Ok(None) };
            if let Some(life) = self.reclaim(victim).await? {
                return Ok(Some(life));
            }
        }
    }

    fn may_grow(&self) -> bool {
        let is_full = self.full_since.is_some_and(|since| since.elapsed() < FULL_FOR);
        !is_full && self.file_bytes() + self.log.settings.segment_bytes <= self.log.settings.capacity_bytes
    }

    /// What all files take of the disk.
    fn file_bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// Makes another file. False where the disk is full, and the files that are there are enough to go on.
    async fn grow(&mut self) -> io::Result<bool> {
        let number = (0..).find(|number| !self.files.contains_key(number)).unwrap_or(u32::MAX);
        let path = self.path(number);
        match self.create(path.clone()).await {
            Ok(file) => {
                self.files.insert(number, self.log.settings.segment_bytes);
                self.idle.push((number, file));
                Ok(true)
            }
            Err(error) => {
                // It may be there in part. If it can't be removed, it is found by the next start.
                drop(self.log.blocking(move || fs::remove_file(path)).await);
                let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                if !is_full || (self.files.len() as u64) < SEGMENTS_MIN {
                    return Err(error);
                }
                let path = self.log.settings.path.display();
                let segments = self.files.len();
                tracing::warn!(%path, segments, "the disk of staging is full before its capacity: it goes on with its segments");
                self.full_since = Some(Instant::now());
                Ok(false)
            }
        }
    }

    async fn create(&self, path: PathBuf) -> io::Result<Arc<File>> {
        let (file, is_direct) = self.log.blocking(move || directory::open_segment(&path, true)).await?;
        let file = Arc::new(file);
        if self.files.is_empty() {
            directory::warn_unless_direct(is_direct, &self.log.settings.path);
        }
        let bytes = self.log.settings.segment_bytes;
        match self.log.io.allocate(&file, bytes).await {
            // The file system takes room only as it is written.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let file = Arc::clone(&file);
                self.log.blocking(move || file.set_len(bytes)).await?;
            }
            outcome => outcome?,
        }
        let path = self.log.settings.path.clone();
        self.log.blocking(move || directory::sync(&path)).await?;
        Ok(file)
    }

    fn path(&self, number: u32) -> PathBuf {
        directory::segment_path(&self.log.settings.path, number)
    }

    fn header(&mut self, number: u32) -> io::Result<Header> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let header = Header { geometry: self.log.geometry, number, sequence: self.sequence, nonce, log: self.log.id };
        self.sequence += 1;
        Ok(header)
    }

    async fn begin(&mut self, number: u32, file: &Arc<File>) -> io::Result<Arc<Life>> {
        let header = self.header(number)?;
        life::begin(&self.log.io, file, header).await?;
        Ok(self.add(header, file))
    }

    fn add(&self, header: Header, file: &Arc<File>) -> Arc<Life> {
        let state = State::new(header.geometry, header.nonce);
        let life = Arc::new(Life::new(header, Arc::clone(file), state, Arc::clone(&self.gone)));
        self.log.blocks.add_life(Arc::clone(&life));
        life
    }

    /// The segment to be reclaimed: one without blocks, or the oldest. None of its blocks waits for its upload.
    fn victim(&self) -> Option<Arc<Life>> {
        let mut lives = self.log.blocks.lives();
        lives.retain(|life| life.stage() == Stage::Sealed && life.counts().1 == 0);
        let empty = lives.iter().position(|life| life.counts().0 == 0).unwrap_or(0);
        lives.into_iter().nth(empty)
    }

    /// Ends a life, and begins the next one in its file; or removes the file, where it is not wanted any more.
    ///
    /// What is dropped must not be found by a start once it may have changed: the life ends on the disk before its
    /// blocks leave the table. What is found instead must not be older: all marks are on the disk before that.
    async fn reclaim(&mut self, victim: Arc<Life>) -> io::Result<Option<Arc<Life>>> {
        let number = victim.number();
        let records = self.log.records_of(&victim).await;
        if let Ok(entries) = &records {
            self.log.keep_hot(&victim, entries).await;
        }
        self.log.flush_all().await?;
        let file = Arc::clone(&victim.file);
        let is_wanted = !victim.is_odd
            && victim.geometry() == self.log.geometry
            && self.file_bytes() <= self.log.settings.capacity_bytes;
        let next = if is_wanted { Some(self.header(number)?) } else { None };
        match next {
            Some(header) => victim.erase(life::begin(&self.log.io, &file, header)).await?,
            None => victim.erase(self.remove_file(number)).await?,
        }
        for entry in records.iter().flatten() {
            self.log.blocks.remove(entry.digest, number, entry.page, false);
        }
        if victim.counts().0 > 0 {
            let rest = self.log.blocks.of_segment(number);
            rest.into_iter().for_each(|(digest, page)| self.log.blocks.remove(digest, number, page, false));
        }
        self.log.blocks.remove_life(number);
        self.log.counters.reclaimed_segments.fetch_add(1, Ordering::Relaxed);
        let Some(header) = next else {
            self.files.remove(&number);
            return Ok(None);
        };
        let life = Arc::downgrade(&victim);
        drop(victim);
        match tokio::time::timeout(LINGER_MAX, self.wait_until_gone(&life)).await {
            Ok(()) => Ok(Some(self.add(header, &file))),
            // It begins again, with a later sequence, when it is gone.
            Err(_) => {
                self.lingering.push((number, file, life));
                Ok(None)
            }
        }
    }

    async fn remove_file(&self, number: u32) -> io::Result<()> {
        let (path, directory) = (self.path(number), self.log.settings.path.clone());
        self.log.blocking(move || fs::remove_file(path).and_then(|()| directory::sync(&directory))).await
    }

    /// Waits until nobody reads or writes the file for a life that has ended.
    async fn wait_until_gone(&self, life: &Weak<Life>) {
        while life.strong_count() > 0 {
            self.gone.notified().await;
        }
    }
}
