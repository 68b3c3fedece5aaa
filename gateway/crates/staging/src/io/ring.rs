//! The engine of io_uring: one thread owns the ring, hands it what was submitted and answers what came back.
#![allow(unsafe_code)]

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};

use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, cqueue, opcode};
use parking_lot::Mutex;

use super::DEPTH_MAX;
use super::job::{Call, Job};

/// Places in the ring: for every job that may be under way, and for listening to the bell.
const ENTRIES: u32 = (DEPTH_MAX as u32 + 1).next_power_of_two();

/// Names the answer that the bell was rung, among the places of jobs.
const BELL: u64 = u64::MAX;

/// `POLLIN` of poll(2).
const POLL_IN: u32 = 1;

/// The way to the thread. Dropped, it lets the thread end when what was submitted is done.
#[derive(Debug)]
pub(super) struct Ring {
    inbox: Arc<Mutex<Inbox>>,
    /// Wakes the thread: it listens to the other end through the ring.
    bell: PipeWriter,
}

#[derive(Default)]
struct Inbox {
    /// At most [`DEPTH_MAX`], by the permits that they hold.
    jobs: Vec<Job>,
    /// The thread waits for the ring, or is about to: only the bell tells it of more.
    is_waiting: bool,
    /// No more jobs will come, or be taken.
    is_closed: bool,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring and starts its thread, which keeps a clone of `alive` for as long as it runs.
    ///
    /// # Errors
    /// Where the kernel has no io_uring, does not allow it, or lacks an operation.
    pub(super) fn start(alive: &Weak<()>) -> io::Result<Self> {
        let ring = IoUring::new(ENTRIES)?;
        demand_operations(&ring)?;
        let (ear, bell) = io::pipe()?;
        let inbox = Arc::default();
        let driver = Driver {
            ring,
            places: (0..DEPTH_MAX).map(|_| None).collect(),
            free: (0..DEPTH_MAX).collect(),
            inbox: Arc::clone(&inbox),
            ear,
            is_listening: false,
        };
        let alive = Weak::clone(alive);
        let run = move || {
            driver.run();
            drop(alive);
        };
        std::thread::Builder::new().name("staging-ring".into()).spawn(run)?;
        Ok(Self { inbox, bell })
    }

    /// Hands a job over. The permit that it holds bounds the queue.
    pub(super) fn submit(&self, job: Job) {
        let mut inbox = self.inbox.lock();
        if inbox.is_closed {
            // The thread has ended: the job is dropped, which is an answer too.
            return;
        }
        inbox.jobs.push(job);
        self.wake(&mut inbox);
    }

    fn wake(&self, inbox: &mut Inbox) {
        if std::mem::take(&mut inbox.is_waiting) {
            // A pipe holds thousands of bytes, and there is one for each time that the thread waited: this does not block.
            // It fails only when the thread has ended.
            let _ = (&self.bell).write(&[0]);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut inbox = self.inbox.lock();
        inbox.is_closed = true;
        self.wake(&mut inbox);
    }
}

fn demand_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Readv::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
        opcode::PollAdd::CODE,
    ];
    match needed.iter().find(|&&code| !probe.is_supported(code)) {
        None => Ok(()),
        Some(code) => Err(io::Error::new(io::ErrorKind::Unsupported, format!("io_uring lacks operation {code}"))),
    }
}

/// The thread's own.
struct Driver {
    ring: IoUring,
    /// Jobs that the kernel works on, by the number that it knows them by.
    places: Vec<Option<Job>>,
    /// Numbers of empty places.
    free: Vec<usize>,
    inbox: Arc<Mutex<Inbox>>,
    ear: PipeReader,
    is_listening: bool,
}

impl Driver {
    fn run(mut self) {
        while let Ok(true) = self.turn() {}
    }

    /// Hands over what was submitted, waits, and answers. Whether there is more to come.
    fn turn(&mut self) -> io::Result<bool> {
        let (jobs, is_closed) = {
            let mut inbox = self.inbox.lock();
            inbox.is_waiting = true;
            (std::mem::take(&mut inbox.jobs), inbox.is_closed)
        };
        jobs.into_iter().for_each(|job| self.begin(job));
        if is_closed && self.free.len() == self.places.len() {
            return Ok(false);
        }
        if !self.is_listening {
            self.push(&opcode::PollAdd::new(Fd(self.ear.as_raw_fd()), POLL_IN).build().user_data(BELL))?;
            self.is_listening = true;
        }
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            // A signal, or no room for answers before those that are there are taken.
            Err(error) if matches!(error.raw_os_error(), Some(EINTR | EAGAIN | EBUSY)) => {}
            Err(error) => return Err(error),
        }
        while let Some(answer) = self.next_answer() {
            self.answer(answer.user_data(), answer.result())?;
        }
        Ok(true)
    }

    fn next_answer(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn begin(&mut self, job: Job) {
        match self.free.pop() {
            Some(place) => self.send(place, job),
            None => job.finish(Err(io::Error::other("more jobs than permits"))),
        }
    }

    /// Hands the kernel the next call of a job.
    fn send(&mut self, place: usize, job: Job) {
        let file = Fd(job.file.as_raw_fd());
        let entry = match job.call() {
            // `Span` is laid out as `iovec`; a job has few of them.
            Call::Read(spans) => {
                opcode::Readv::new(file, spans.as_ptr().cast(), spans.len() as u32).offset(job.offset).build()
            }
            Call::Write(spans) => {
                opcode::Writev::new(file, spans.as_ptr().cast(), spans.len() as u32).offset(job.offset).build()
            }
            Call::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Call::Allocate { len_bytes } => opcode::Fallocate::new(file, len_bytes).offset(job.offset).build(),
        };
        match self.push(&entry.user_data(place as u64)) {
            // The job, with all that the entry points to, stays in its place until the kernel has answered.
            Ok(()) => self.places[place] = Some(job),
            Err(error) => {
                self.free.push(place);
                job.finish(Err(error));
            }
        }
    }

    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: an entry points to the file and the memory of a job that is kept in its place until it was answered, and
        // left to the kernel for good if it never is (see `drop`); the bell's entry to the pipe's end alone.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| io::Error::other("no room in the ring"))
    }

    fn answer(&mut self, place: u64, result: i32) -> io::Result<()> {
        if place == BELL {
            self.is_listening = false;
            // It was rung, so there is something to read.
            return self.ear.read(&mut [0; 16]).map(drop);
        }
        let taken = usize::try_from(place).ok().and_then(|place| Some((place, self.places.get_mut(place)?.take()?)));
        let Some((place, mut job)) = taken else { return Err(io::Error::other("an answer to no question")) };
        let came_to = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        match job.note(came_to) {
            Some(result) => {
                self.free.push(place);
                job.finish(result);
            }
            None => self.send(place, job),
        }
        Ok(())
    }
}

impl Drop for Driver {
    /// The end in peace leaves nothing to do. After an error or a panic the kernel may still be at work.
    fn drop(&mut self) {
        let jobs = {
            let mut inbox = self.inbox.lock();
            inbox.is_closed = true;
            std::mem::take(&mut inbox.jobs)
        };
        let stopped = || io::Error::other("the ring stopped");
        jobs.into_iter().for_each(|job| job.finish(Err(stopped())));
        self.places.drain(..).flatten().for_each(|job| job.abandon(stopped()));
    }
}

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
