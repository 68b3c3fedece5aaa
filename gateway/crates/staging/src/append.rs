//! Records on their way into the log: they take their places one after another, are written side by side, and become
//! blocks in the order of their places.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use blockgate_block::Digest;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::format::footer::Entry;
use crate::format::{PAGE_BYTES, record};
use crate::io::{AlignedBuf, Source};
use crate::life::{Life, offset};
use crate::log::Log;
use crate::prepare::Prepared;
use crate::types::{PutError, Version};

/// Why something is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody waits for it.
    Put,
    /// It may be worth having: it takes the place of nothing that waits for its upload.
    Offer,
    /// A copy of the record at this segment and page, which goes.
    Copy(u32, u32),
}

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As a put says it.
    Put(PutError),
    /// Not now: the next segment is not ready.
    NoRoom,
    /// Something newer of the block is there, or on its way.
    Superseded,
}

/// Where a caller hears what became of an append.
pub(crate) type Answer = oneshot::Receiver<Result<Version, PutError>>;

/// One record that is not a block yet.
struct Append {
    life: Arc<Life>,
    entry: Entry,
    purpose: Purpose,
    is_written: bool,
    answer: oneshot::Sender<Result<Version, PutError>>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Where the log ends.
#[derive(Default)]
pub(crate) struct Appender {
    active: Option<Active>,
    /// Segments to be appended to next, in the order of their sequences.
    pub(crate) ready: VecDeque<Arc<Life>>,
    /// Lives whose footer is to be written.
    pub(crate) closed: Vec<Arc<Life>>,
    /// In the order of their places.
    queue: VecDeque<Append>,
    /// Number of the queue's first.
    first: u64,
    /// How many of a block's records are on their way.
    under_way: HashMap<Digest, u32>,
    pending_bytes: u64,
    /// Blocks of which a record may lie on the disk that was given up. Sealing its segment rules it out.
    pub(crate) ghosts: HashSet<Digest>,
    /// Why nothing is taken in just now.
    pub(crate) off: Option<String>,
    /// It is off, and tried.
    pub(crate) is_on_trial: bool,
    /// No segment could be had when one was wanted last.
    pub(crate) is_starved: bool,
    pub(crate) is_closing: bool,
}

struct Active {
    life: Arc<Life>,
    page: u32,
    records: u64,
}

impl Appender {
    /// Whether the disk may be asked for another segment.
    pub(crate) fn may_make_room(&self) -> bool {
        self.off.is_none() || self.is_on_trial
    }

    /// Whether something can be taken in now.
    pub(crate) fn is_open(&self) -> bool {
        self.off.is_none() && !self.is_closing
    }

    /// Whether all is done that was begun.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(crate) fn is_under_way(&self, digest: Digest) -> bool {
        self.under_way.contains_key(&digest)
    }

    /// Nothing more goes into the active segment.
    pub(crate) fn close_active(&mut self) {
        if let Some(active) = self.active.take() {
            active.life.close();
            self.closed.push(active.life);
        }
    }

    /// The next place that holds `pages`.
    fn place(&mut self, pages: u64) -> Option<(Arc<Life>, u32)> {
        let fits = |active: &Active| active.life.geometry().fits(active.page, pages, active.records + 1);
        if !self.active.as_ref().is_some_and(fits) {
            let life = self.ready.pop_front()?;
            self.close_active();
            let page = life.geometry().first_record_page();
            self.active = Some(Active { life, page, records: 0 });
        }
        let active = self.active.as_mut().filter(|active| fits(active))?;
        let page = active.page;
        // It fits the segment, whose pages are counted in 32 bits.
        active.page += pages as u32;
        active.records += 1;
        active.life.begin_append();
        Some((Arc::clone(&active.life), page))
    }

    /// What is written, from the front on.
    fn take_written(&mut self) -> Vec<Append> {
        let written = self.queue.iter().take_while(|append| append.is_written).count();
        self.first += written as u64;
        self.queue.drain(..written).collect()
    }

    /// Gives up all that is not being committed.
    fn take_all(&mut self) -> Vec<Append> {
        self.first += self.queue.len() as u64;
        self.queue.drain(..).collect()
    }

    fn end(&mut self, append: &Append) {
        self.end_one(append.entry.digest);
        self.pending_bytes -= pending_bytes(&append.entry);
    }

    fn end_one(&mut self, digest: Digest) {
        if let Some(count) = self.under_way.get_mut(&digest) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&digest);
            }
        }
    }
}

fn pending_bytes(entry: &Entry) -> u64 {
    if entry.pending { u64::from(entry.len_bytes) } else { 0 }
}

impl Log {
    /// Begins an append. Once this has returned, it happens or fails whoever waits for it.
    pub(crate) fn append(
        self: &Arc<Self>,
        prepared: &Prepared,
        purpose: Purpose,
        permit: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, Refusal> {
        let (sender, answer) = oneshot::channel();
        let (life, entry, number) = {
            let mut appender = self.appender.lock();
            self.admit(&appender, prepared, purpose)?;
            let (life, page) = appender.place(prepared.entry.record_pages()).ok_or(Refusal::NoRoom)?;
            let entry = Entry { page, ..prepared.entry };
            *appender.under_way.entry(entry.digest).or_default() += 1;
            appender.pending_bytes += pending_bytes(&entry);
            let life_too = Arc::clone(&life);
            let _permit = permit.take();
            let append = Append { life: life_too, entry, purpose, is_written: false, answer: sender, _permit };
            appender.queue.push_back(append);
            (life, entry, appender.first + appender.queue.len() as u64 - 1)
        };
        if entry.page == life.geometry().first_record_page() {
            // A segment was taken: another one is wanted, and the one before is to be sealed.
            self.signals.keeper.notify_one();
        }
        let mut header = AlignedBuf::zeroed(prepared.header.len());
        header.copy_from_slice(&prepared.header);
        record::place(&mut header, life.header.nonce, life.version(entry.page));
        let sources = vec![Source::Pages(Arc::new(header)), prepared.payload.clone()];
        let log = Arc::clone(self);
        self.runtime.spawn(async move {
            let outcome = log.io.write(&life.file, offset(entry.page), sources).await;
            log.written(number, outcome);
        });
        Ok(answer)
    }

    /// Whether a record may be appended now.
    fn admit(&self, appender: &Appender, prepared: &Prepared, purpose: Purpose) -> Result<(), Refusal> {
        let entry = &prepared.entry;
        if appender.is_closing {
            return Err(Refusal::Put(PutError::Off("it is being closed".to_owned())));
        }
        if let Some(reason) = &appender.off {
            return Err(Refusal::Put(PutError::Off(reason.clone())));
        }
        let is_allowed = match purpose {
            Purpose::Put => {
                let waiting = self.blocks.totals.pending_bytes.load(Ordering::Relaxed) + appender.pending_bytes;
                if entry.pending && waiting + u64::from(entry.len_bytes) > self.settings.pending_bytes_max {
                    return Err(Refusal::Put(PutError::Full));
                }
                true
            }
            Purpose::Offer => {
                let found = self.blocks.find(entry.digest);
                let is_free = !appender.is_under_way(entry.digest) && !prepared.is_withdrawn();
                is_free && !found.is_some_and(|found| found.place.is_pending())
            }
            // A record on its way would have an earlier version than the copy, and be the newer block.
            Purpose::Copy(segment, page) => {
                let found = self.blocks.find(entry.digest);
                let is_current = |life: &Life, at: u32| life.number() == segment && at == page;
                !appender.is_under_way(entry.digest)
                    && found.is_some_and(|found| is_current(&found.life, found.place.page))
            }
        };
        if is_allowed { Ok(()) } else { Err(Refusal::Superseded) }
    }

    /// The same, waiting for a segment where one is being made ready.
    pub(crate) async fn append_when_room(
        self: &Arc<Self>,
        prepared: &Prepared,
        purpose: Purpose,
        mut permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, Refusal> {
        loop {
            let mut room = pin!(self.signals.room.notified());
            room.as_mut().enable();
            match self.append(prepared, purpose, &mut permit) {
                Err(Refusal::NoRoom) => {}
                other => return other,
            }
            self.signals.keeper.notify_one();
            if self.appender.lock().is_starved {
                return Err(Refusal::Put(PutError::Full));
            }
            room.await;
        }
    }

    /// A record reached the disk's cache, or did not.
    fn written(&self, number: u64, outcome: io::Result<()>) {
        {
            let mut appender = self.appender.lock();
            let index = number.checked_sub(appender.first).and_then(|index| usize::try_from(index).ok());
            // It may have been given up since.
            let Some(append) = index.and_then(|index| appender.queue.get_mut(index)) else { return };
            append.is_written = outcome.is_ok();
        }
        match outcome {
            Ok(()) => self.signals.written.notify_one(),
            Err(error) => self.fail("writing", &error),
        }
    }

    /// Makes durable what is written, and shows it. One flush serves all that was written before it.
    pub(crate) async fn commit(&self) {
        loop {
            let batch = self.appender.lock().take_written();
            if batch.is_empty() {
                return;
            }
            let mut lives: Vec<_> = batch.iter().map(|append| &append.life).collect();
            lives.dedup_by_key(|life| life.number());
            let synced = futures::future::try_join_all(lives.iter().map(|life| self.io.sync(&life.file))).await;
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
            match synced {
                Ok(_) => self.acknowledge(batch).await,
                Err(error) => {
                    self.fail("flushing", &error);
                    self.give_up(batch, &error.to_string());
                }
            }
        }
    }

    async fn acknowledge(&self, batch: Vec<Append>) {
        let mut dead = Vec::new();
        for append in &batch {
            let (entry, life) = (&append.entry, &append.life);
            let of = match append.purpose {
                Purpose::Copy(segment, page) => Some((segment, page)),
                Purpose::Put | Purpose::Offer => None,
            };
            dead.extend(self.blocks.publish(life, entry, false, of));
            // Only now may the segment be sealed, and thereafter reclaimed.
            life.end_append(Some(*entry));
            self.counters.count_written(append.purpose, entry.record_pages() * PAGE_BYTES as u64);
        }
        // A start would tell old from new by their versions. But should the new record be damaged by then, the old one
        // must not pass for it.
        if let Err(error) = self.flush(dead).await {
            self.fail("marking", &error);
        }
        {
            let mut appender = self.appender.lock();
            batch.iter().for_each(|append| appender.end(append));
        }
        for append in batch {
            // Whoever asked may have gone.
            let _ = append.answer.send(Ok(append.life.version(append.entry.page)));
        }
        self.signals.appended.notify_waiters();
    }

    /// Answers that these did not happen. Their records may be on the disk all the same, until their segments are
    /// sealed.
    fn give_up(&self, batch: Vec<Append>, reason: &str) {
        {
            let mut appender = self.appender.lock();
            for append in &batch {
                append.life.end_append(None);
                appender.end(append);
                appender.ghosts.insert(append.entry.digest);
            }
        }
        for append in batch {
            let _ = append.answer.send(Err(PutError::Off(reason.to_owned())));
        }
        self.signals.appended.notify_waiters();
    }

    /// Takes nothing in any more until the disk was tried again.
    pub(crate) fn turn_off(&self, reason: String) {
        let given_up = {
            let mut appender = self.appender.lock();
            if appender.off.is_some() {
                return;
            }
            appender.close_active();
            appender.off = Some(reason.clone());
            appender.take_all()
        };
        tracing::warn!(path = %self.settings.path.display(), reason, "staging is off");
        self.give_up(given_up, &reason);
        self.signals.room.notify_waiters();
        self.signals.health.notify_one();
    }

    /// Takes nothing in ever again. Whoever waits for what is not being committed hears that it is not: nobody will
    /// commit it.
    pub(crate) fn end_appends(&self) {
        let given_up = {
            let mut appender = self.appender.lock();
            appender.is_closing = true;
            appender.take_all()
        };
        self.give_up(given_up, "it was closed");
        self.signals.room.notify_waiters();
    }

    /// Waits until no record of the block is on its way, and keeps copies and offers of it away until [`Self::unhold`].
    pub(crate) async fn hold(&self, digest: Digest) {
        self.wait_for(|appender| {
            let is_free = !appender.is_under_way(digest);
            if is_free {
                appender.under_way.insert(digest, 1);
            }
            is_free
        })
        .await;
    }

    /// Ends [`Self::hold`].
    pub(crate) fn unhold(&self, digest: Digest) {
        self.appender.lock().end_one(digest);
        self.signals.appended.notify_waiters();
    }

    /// Waits until something holds that only the end of an append makes true.
    pub(crate) async fn wait_for(&self, is_so: impl Fn(&mut Appender) -> bool) {
        loop {
            let mut appended = pin!(self.signals.appended.notified());
            appended.as_mut().enable();
            if is_so(&mut self.appender.lock()) {
                return;
            }
            appended.await;
        }
    }
}
