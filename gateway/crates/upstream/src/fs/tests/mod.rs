//! What the conformance suite does not see: files, crashes, and every order in which writers can meet.

mod crashes;
mod files;
mod registers;
mod schedules;

use std::cell::RefCell;
use std::io;
use std::time::Duration;

/// What a thread does before each step that others can see, and instead of waiting.
type Hook = Box<dyn FnMut(Step) -> io::Result<()>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Act,
    Wait,
}

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

fn with_hook(step: Step) -> io::Result<()> {
    HOOK.with_borrow_mut(|hook| hook.as_mut().map_or(Ok(()), |hook| hook(step)))
}

pub(super) fn step() -> io::Result<()> {
    with_hook(Step::Act)
}

pub(super) fn pause(time: Duration) {
    if HOOK.with_borrow(Option::is_some) {
        with_hook(Step::Wait).ok();
    } else {
        std::thread::sleep(time);
    }
}

/// Calls `run` with a hook.
fn hooked<T>(hook: Hook, run: impl FnOnce() -> T) -> T {
    HOOK.set(Some(hook));
    let result = run();
    HOOK.set(None);
    result
}

/// A directory in memory where there is one: many tests sync a lot.
fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
