//! Directories held open: every step is relative to one and follows no symbolic link, so no name leads out of the root.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
#[cfg(not(test))]
use std::time::Duration;

use blockgate_block::RESERVED_PREFIX;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::names::{DIRS_MAX, Depth, KeyPath, Kind, decode};
#[cfg(test)]
pub(super) use super::tests::pause;
#[cfg(test)]
use super::tests::step;

const DIR_MODE: Mode = Mode::from_raw_mode(0o750);
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);

/// Every step that others can see comes here first: a test lets others go ahead, or a gateway die.
#[cfg(not(test))]
fn step() -> io::Result<()> {
    Ok(())
}

/// Waits for others.
#[cfg(not(test))]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir(OwnedFd);

/// An entry that stands for keys.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its name in the directory.
    pub(super) file_name: String,
    /// What it is.
    pub(super) kind: Kind,
    /// What it adds to the keys.
    pub(super) text: String,
}

impl Dir {
    /// Opens a directory by path, creating it where it is absent. The path may lead through symbolic links.
    pub(super) fn open_path(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a directory in this one.
    pub(super) fn open(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Creates a directory in this one, durably.
    pub(super) fn create(&self, name: &str) -> io::Result<()> {
        rustix::fs::mkdirat(&self.0, name, DIR_MODE)?;
        self.sync()
    }

    /// Opens a directory in this one, creating it where it is absent.
    pub(super) fn open_or_create(&self, name: &str) -> io::Result<Self> {
        match self.open(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        match self.create(name) {
            // Whoever made it may not have synced yet what we are about to rely on.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.sync()?,
            created => created?,
        }
        self.open(name)
    }

    /// The directory that holds a key's file; `None` where there is none.
    pub(super) fn parent(&self, path: &KeyPath) -> io::Result<Option<Self>> {
        let mut dir = self.try_clone()?;
        for name in &path.dirs {
            match found(dir.open(name))? {
                Some(next) => dir = next,
                None => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    /// The directory that holds a key's file, created where it is absent.
    pub(super) fn parent_or_create(&self, path: &KeyPath) -> io::Result<Self> {
        path.dirs.iter().try_fold(self.try_clone()?, |dir, name| dir.open_or_create(name))
    }

    /// Removes a key's directories as far as they are empty.
    pub(super) fn prune(&self, path: &KeyPath) -> io::Result<()> {
        let mut chain = Vec::new();
        let mut dir = self.try_clone()?;
        for name in &path.dirs {
            let Some(next) = found(dir.open(name))? else { break };
            chain.push((std::mem::replace(&mut dir, next), name));
        }
        while let Some((above, name)) = chain.pop() {
            if above.remove_dir(name).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Opens a file for reading. Waits for no one: neither for a writer of a FIFO, nor through a symbolic link.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        step()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Creates a file that must not be there.
    pub(super) fn create_file(&self, name: &str) -> io::Result<File> {
        step()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, FILE_MODE)?.into())
    }

    /// Describes an entry itself, never what a symbolic link points to.
    pub(super) fn stat(&self, name: &str) -> io::Result<rustix::fs::Stat> {
        step()?;
        Ok(rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives a file a second name, which must not be there.
    pub(super) fn link(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        step()?;
        Ok(rustix::fs::linkat(&self.0, name, &to.0, new_name, AtFlags::empty())?)
    }

    /// Renames, replacing what is there.
    pub(super) fn rename(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        step()?;
        Ok(rustix::fs::renameat(&self.0, name, &to.0, new_name)?)
    }

    /// Removes a file.
    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        step()?;
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(super) fn remove_dir(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes an entry and everything below it.
    pub(super) fn remove_all(&self, name: &str) -> io::Result<()> {
        self.remove_tree(name, DIRS_MAX)
    }

    fn remove_tree(&self, name: &str, depth: usize) -> io::Result<()> {
        match self.open(name) {
            Ok(dir) if depth > 0 => {
                dir.names()?.iter().try_for_each(|name| dir.remove_tree(name, depth - 1))?;
                self.remove_dir(name)
            }
            Ok(_) => Err(io::Error::other("directories are nested too deeply")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(_) => self.remove_file(name),
        }
    }

    /// Makes what was created, renamed and removed here last.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// The names of all entries that are UTF-8, in no order.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The entries that stand for keys, in no order, as they are read.
    pub(super) fn entries(&self, depth: Depth) -> io::Result<impl Iterator<Item = io::Result<Entry>> + use<>> {
        Ok(rustix::fs::Dir::read_from(&self.0)?.filter_map(move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let file_name = entry.file_name().to_str().ok()?;
            let (kind, text) = decode(file_name, depth)?;
            Some(Ok(Entry { file_name: file_name.to_owned(), kind, text }))
        }))
    }

    /// Whether there is an object here or below, blockgate's own in a bucket's directory apart.
    pub(super) fn holds_objects(&self, depth: Depth) -> io::Result<bool> {
        let mut below = Vec::new();
        for entry in self.entries(depth)? {
            let entry = entry?;
            match depth.below(entry.kind) {
                _ if depth.is_bucket() && entry.text == RESERVED_PREFIX => {}
                Some(depth) => below.push((entry.file_name, depth)),
                None if entry.kind == Kind::Object => return Ok(true),
                None => {}
            }
        }
        for (name, depth) in below {
            if let Some(dir) = found(self.open(&name))?
                && dir.holds_objects(depth)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same directory once more.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

/// `None` for what is not there: absent, under something that is no directory, or behind a symbolic link.
pub(super) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}
