//! Buckets that were there when a block was last stored in them.
//!
//! While the upstream is out nobody can say whether a bucket is there; one that was is believed, after a restart too: their
//! names lie beside the log.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use moka::sync::Cache;
use parking_lot::Mutex;

const FILE: &str = "buckets";
const NEXT: &str = "buckets.new";
const BUCKETS_MAX: u64 = 10_000;
/// What a file of names is read up to: bucket names have 63 characters at most.
const FILE_BYTES_MAX: u64 = BUCKETS_MAX * 64;

pub(crate) struct Seen {
    names: Cache<String, ()>,
    /// None where nothing lasts.
    directory: Option<PathBuf>,
    writing: Mutex<()>,
}

impl Seen {
    /// Those that `directory` tells of. Blocks the thread.
    pub(crate) fn read(directory: Option<PathBuf>) -> Self {
        let seen = Self { names: Cache::new(BUCKETS_MAX), directory, writing: Mutex::default() };
        match seen.directory.as_deref().map(names_in) {
            Some(Ok(names)) => names.lines().for_each(|name| seen.names.insert(name.to_owned(), ())),
            Some(Err(error)) => {
                tracing::warn!(%error, "which buckets there were is not known: {FILE} of staging can't be read");
            }
            None => {}
        }
        seen
    }

    pub(crate) fn contains(&self, bucket: &str) -> bool {
        self.names.contains_key(bucket)
    }

    /// Whether that is news. It then ought to be kept.
    pub(crate) fn insert(&self, bucket: &str) -> bool {
        let is_new = !self.contains(bucket);
        self.names.insert(bucket.to_owned(), ());
        is_new
    }

    pub(crate) fn forget(&self, bucket: &str) {
        self.names.invalidate(bucket);
    }

    /// Writes the names down. Blocks the thread.
    pub(crate) fn keep(&self) {
        let Some(directory) = &self.directory else { return };
        let _writing = self.writing.lock();
        let names: String = self.names.iter().map(|(name, ())| format!("{name}\n")).collect();
        if let Err(error) = replace(directory, &names) {
            tracing::warn!(%error, "the names of buckets could not be written beside the staging log: after a restart none is believed while the store is out");
        }
    }
}

fn names_in(directory: &Path) -> io::Result<String> {
    let mut names = String::new();
    match fs::File::open(directory.join(FILE)) {
        Ok(file) => file.take(FILE_BYTES_MAX).read_to_string(&mut names).map(|_| names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(names),
        Err(error) => Err(error),
    }
}

/// Whole or not at all.
fn replace(directory: &Path, names: &str) -> io::Result<()> {
    let next = directory.join(NEXT);
    let mut file = fs::File::create(&next)?;
    file.write_all(names.as_bytes())?;
    file.sync_all()?;
    fs::rename(next, directory.join(FILE))
}
