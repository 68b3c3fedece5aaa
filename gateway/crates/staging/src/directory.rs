//! The files of a log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::io::open_direct;
use crate::types::OpenError;

/// Locked by who has the log.
pub(crate) const LOCK: &str = "LOCK";

/// Makes the directory of a log, if it is not there, so that a power cut leaves it there.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = directory.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(directory)?;
    for parent in missing.iter().filter_map(|path| path.parent()) {
        // That of a relative name is where the process is.
        sync(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(())
}

/// Where segment `number` is.
pub(crate) fn segment_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("segment-{number:08x}.log"))
}

/// The numbers of all segments that are there, in order.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix("segment-")?.strip_suffix(".log"));
        let number = digits.filter(|digits| digits.len() == 8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        // Another spelling of a number is no file of ours.
        numbers.extend(number.filter(|number| name == *segment_path(Path::new(""), *number)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a segment. Whether it is read and written past the page cache.
pub(crate) fn open_segment(path: &Path, create: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    // Blocks are their owners': nobody else on the host reads them here.
    options.read(true).write(true).create_new(create).mode(0o600);
    open_direct(&options, path)
}

/// Says so where files can't be read and written past the page cache.
pub(crate) fn warn_unless_direct(is_direct: bool, directory: &Path) {
    if !is_direct {
        let path = directory.display();
        tracing::warn!(%path, "the file system does no direct I/O: staging goes through the page cache");
    }
}

/// Makes it durable which files are there.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Takes the lock of a log, which is created if it is not there.
pub(crate) fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let failed = |source| OpenError::Io { path: path.clone(), source };
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
    take(&file, directory)?;
    Ok(file)
}

/// Takes the lock of a log that is only looked at. None where it has none: nothing was ever opened there.
pub(crate) fn lock_existing(directory: &Path) -> Result<Option<File>, OpenError> {
    let path = directory.join(LOCK);
    let failed = |source| OpenError::Io { path: path.clone(), source };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    take(&file, directory)?;
    Ok(Some(file))
}

fn take(file: &File, directory: &Path) -> Result<(), OpenError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse(directory.to_owned())),
        Err(error) => Err(OpenError::Io { path: directory.join(LOCK), source: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_made_and_only_segments_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        create(&path).unwrap();
        create(&path).unwrap();
        for name in ["segment-0000000a.log", "segment-0000000A.log", "segment-1.log", "segment-00000001.log.old", LOCK]
        {
            File::create(path.join(name)).unwrap();
        }
        assert_eq!(segments(&path).unwrap(), [10]);
        let lock = lock(&path).unwrap();
        assert!(matches!(lock_existing(&path), Err(OpenError::InUse(_))));
        drop(lock);
        assert!(lock_existing(&path).unwrap().is_some() && lock_existing(dir.path()).unwrap().is_none());
    }
}
