//! A progress bar on standard error, where that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::table::bytes;

/// Time between two pictures.
const REDRAW: Duration = Duration::from_millis(100);
/// Characters between the brackets.
const BAR: u64 = 30;

/// How far a task of so many bytes has come.
pub(crate) struct Progress {
    task: &'static str,
    started: Instant,
    drawn: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Of a task, named by a word such as `verifying`.
    pub(crate) fn new(task: &'static str) -> Self {
        Self { task, started: Instant::now(), drawn: None, is_shown: io::stderr().is_terminal() }
    }

    /// Shows that `done` of `total` bytes are done.
    pub(crate) fn at(&mut self, done: u64, total: u64) {
        let now = Instant::now();
        if self.is_shown && self.drawn.is_none_or(|drawn| now - drawn >= REDRAW) {
            self.drawn = Some(now);
            put(&picture(self.task, done, total, now - self.started));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            put("");
        }
    }
}

/// Replaces the line. A terminal that is gone does not matter.
fn put(line: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[K{line}");
    let _ = stderr.flush();
}

fn picture(task: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let done = done.min(total);
    let share = |whole: u64| (u128::from(done) * u128::from(whole) / u128::from(total.max(1))) as usize;
    let (bar, full) = (BAR as usize, share(BAR));
    let per_second = done as f64 / elapsed.as_secs_f64().max(0.001);
    let left = match (total - done) as f64 / per_second {
        seconds if per_second > 0.0 => format!(", {seconds:.0} s left"),
        _ => String::new(),
    };
    let (hashes, dashes) = ("#".repeat(full), "-".repeat(bar - full));
    let (percent, done, total, per_second) = (share(100), bytes(done), bytes(total), bytes(per_second as u64));
    format!("{task} [{hashes}{dashes}] {percent:>3}%  {done} of {total}, {per_second}/s{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_looks() {
        let second = Duration::from_secs(1);
        assert_eq!(
            picture("verifying", 1 << 30, 4 << 30, second),
            format!("verifying [{}{}]  25%  1.0 GiB of 4.0 GiB, 1.0 GiB/s, 3 s left", "#".repeat(7), "-".repeat(23))
        );
        assert_eq!(picture("x", 0, 0, second), format!("x [{}]   0%  0 B of 0 B, 0 B/s", "-".repeat(30)));
        assert_eq!(
            picture("x", 9, 8, second),
            format!("x [{}] 100%  8 B of 8 B, 8 B/s, 0 s left", "#".repeat(30)),
            "never beyond its end"
        );
    }
}
