//! The directory that everything is in.
//!
//! ```text
//! .blockgate/format            what this directory is
//! .blockgate/tmp/<version>     files being written; a rename or a link publishes them
//! .blockgate/claims/<version>  who replaces that version (see `publish`)
//! <bucket>/…                   objects (see `names`)
//! <bucket>/.blockgate/         creation time, multipart uploads (see `multipart`)
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::bucket::check_name;
use super::clock::Clock;
use super::dir::{Dir, found};
use super::error::{failed, io_failed};
use super::format::{Current, Object, Version, ctime, mtime};
use super::names::KeyPath;
use crate::{Result, UpstreamError};

/// blockgate's own directory, in the root and in each bucket.
pub(super) const OWN_DIR: &str = ".blockgate";

const FORMAT: &[u8] = b"blockgate fs 1\n";

/// How long files of gateways that may have died are kept.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// The root, held open.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) dir: Dir,
    pub(super) temp: Dir,
    pub(super) claims: Dir,
    pub(super) clock: Clock,
    /// How long a claim to delete is left to its maker.
    pub(super) lease: Duration,
}

impl Root {
    /// Opens a root, creating it where it is absent, and makes sure that the file system can do what is needed.
    pub(super) fn open(path: &Path, lease: Duration) -> Result<Self> {
        let at = |error: io::Error| io_failed(&format!("cannot use {}", path.display()), &error);
        let dir = Dir::open_path(path).map_err(at)?;
        let own = dir.open_or_create(OWN_DIR).map_err(at)?;
        let temp = own.open_or_create("tmp").map_err(at)?;
        let claims = own.open_or_create("claims").map_err(at)?;
        let root = Self { dir, temp, claims, clock: Clock::default(), lease };
        root.probe().map_err(at)?;
        root.check_format(&own).map_err(at)?;
        root.clean().map_err(at)?;
        Ok(root)
    }

    /// Whether it is still there.
    pub(super) fn ping(&self) -> Result<()> {
        let format = self.dir.open(OWN_DIR).and_then(|own| own.file("format"));
        format.map(drop).map_err(failed("the root is gone"))
    }

    /// Opens a bucket.
    pub(super) fn bucket(&self, name: &str) -> Result<Dir> {
        check_name(name)?;
        found(self.dir.open(name)).map_err(failed("cannot open the bucket"))?.ok_or(UpstreamError::NoSuchBucket)
    }

    /// Opens what is at a key; `None` where nothing is.
    pub(super) fn current(&self, bucket: &str, key: &str) -> Result<Option<Current>> {
        let bucket = self.bucket(bucket)?;
        let path = KeyPath::of(key);
        let opened = bucket.parent(&path).and_then(|parent| match parent {
            Some(parent) => Current::open(&parent, &path.file),
            None => Ok(None),
        });
        opened.map_err(failed("cannot open the object"))
    }

    /// Opens an object.
    pub(super) fn object(&self, bucket: &str, key: &str) -> Result<Object> {
        match self.current(bucket, key)? {
            None => Err(UpstreamError::NoSuchKey),
            Some(Current::Sound(object)) if object.meta.key.as_deref().is_some_and(|other| other != key) => {
                Err(UpstreamError::Damaged(format!("{key:?}: the file is of another key")))
            }
            Some(Current::Sound(object)) => Ok(object),
            Some(Current::Damaged(damaged)) => Err(UpstreamError::Damaged(format!("{key:?}: {}", damaged.why))),
        }
    }

    /// Tries everything that publishing relies on, and learns the time.
    fn probe(&self) -> io::Result<()> {
        let (lower, upper) = (format!("a{}", Version::random()?.as_str()), format!("A{}", Version::random()?.as_str()));
        let mut file = self.temp.create_file(&lower)?;
        let probed = (|| {
            let before = SystemTime::now();
            file.write_all(b"probe")?;
            rustix::fs::fdatasync(&file)?;
            self.clock.learn(mtime(&rustix::fs::fstat(&file)?), before, SystemTime::now());
            self.temp.link(&lower, &self.claims, &lower).map_err(|error| {
                io::Error::new(error.kind(), format!("the file system has no hard links ({error})"))
            })?;
            if self.temp.link(&lower, &self.claims, &lower).is_ok() {
                return Err(io::Error::other("the file system links over a file that is there"));
            }
            self.claims.rename(&lower, &self.temp, &upper)?;
            if self.temp.stat(&lower.to_uppercase()).is_ok() {
                return Err(io::Error::other("the file system takes names that differ only in case for one"));
            }
            self.temp.sync()
        })();
        for (dir, name) in [(&self.temp, &lower), (&self.temp, &upper), (&self.claims, &lower)] {
            found(dir.remove_file(name))?;
        }
        probed
    }

    fn check_format(&self, own: &Dir) -> io::Result<()> {
        let mut format = Vec::new();
        match own.file("format") {
            Ok(file) => file.take(1 << 10).read_to_end(&mut format)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return self.write_format(own),
            Err(error) => return Err(error),
        };
        if format == FORMAT { Ok(()) } else { Err(io::Error::other("it was written by another version of blockgate")) }
    }

    fn write_format(&self, own: &Dir) -> io::Result<()> {
        let name = Version::random()?;
        let mut file = self.temp.create_file(name.as_str())?;
        file.write_all(FORMAT)?;
        rustix::fs::fdatasync(&file)?;
        self.temp.rename(name.as_str(), own, "format")?;
        own.sync()
    }

    /// Removes what gateways that died long ago left behind: files first, then claims, which are void without them.
    pub(super) fn clean(&self) -> io::Result<()> {
        let now = self.clock.now();
        for dir in [&self.temp, &self.claims] {
            for name in dir.names()? {
                if let Some(stat) = found(dir.stat(&name))?
                    && now.duration_since(ctime(&stat)).is_ok_and(|age| age > GRACE)
                {
                    dir.remove_all(&name)?;
                }
            }
        }
        Ok(())
    }
}
