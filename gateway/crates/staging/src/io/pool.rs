//! The engine of threads that make blocking calls: works on every kernel and in every container.
#![allow(unsafe_code)]

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{preadv, pwritev};

use super::job::{Call, Job, slices, slices_mut};

/// How many calls are under way at once. More would wait for the disk in any case.
const THREADS: usize = 16;

/// A pool. Its threads end when it is dropped and what was submitted is done.
#[derive(Debug)]
pub(super) struct Pool(Sender<Job>);

impl Pool {
    /// Starts the threads. Each keeps a clone of `alive` for as long as it runs.
    pub(super) fn start(alive: &Weak<()>) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..THREADS {
            let (receiver, alive) = (Arc::clone(&receiver), Weak::clone(alive));
            let work = move || {
                work(&receiver);
                drop(alive);
            };
            std::thread::Builder::new().name(format!("staging-io-{number}")).spawn(work)?;
        }
        Ok(Self(sender))
    }

    /// Hands a job over. The permit that it holds bounds the queue.
    pub(super) fn submit(&self, job: Job) {
        // Without threads the job is dropped, which is an answer too.
        let _ = self.0.send(job);
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        // In a statement of its own, so that the lock is free while the job is done.
        let next = jobs.lock().recv();
        let Ok(mut job) = next else { return };
        let result = perform(&mut job);
        job.finish(result);
    }
}

fn perform(job: &mut Job) -> io::Result<()> {
    loop {
        let came_to = match job.call() {
            // SAFETY: the spans point into buffers that the job owns for reading into; nothing else reaches them.
            Call::Read(spans) => preadv(&job.file, &mut unsafe { slices_mut(spans) }, job.offset),
            // SAFETY: the spans point into buffers that the job shares with readers only.
            Call::Write(spans) => pwritev(&job.file, &unsafe { slices(spans) }, job.offset),
            Call::Sync => fdatasync(&job.file).map(|()| 0),
            Call::Allocate { len_bytes } => {
                fallocate(&job.file, FallocateFlags::empty(), job.offset, len_bytes).map(|()| 0)
            }
        };
        if let Some(result) = job.note(came_to.map_err(io::Error::from)) {
            return result;
        }
    }
}
