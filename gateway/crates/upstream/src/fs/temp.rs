//! A file being written: nobody sees it until it is published, nothing of it stays if it is not.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use blockgate_block::{Attributes, BlockEtag, Crc64, Crc64Hasher};
use bytes::Bytes;
use md5::{Digest, Md5};
use rustix::io::Errno;

use super::clock::to_ms;
use super::dir::found;
use super::format::{Meta, Version, mtime, read_at};
use super::root::Root;

/// Bytes copied at a time where the kernel can't do it.
const COPY_BYTES: usize = 1 << 20;

/// A file in `tmp`. Dropping it removes it, unless it was published.
#[derive(Debug)]
pub(super) struct Temp {
    root: Arc<Root>,
    version: Version,
    file: File,
    len_bytes: u64,
    crc64: Crc64Hasher,
    md5: Option<Md5>,
    kept: bool,
}

/// A file that is whole and durable under its temporary name.
#[derive(Debug)]
pub(super) struct Sealed(Temp);

impl Temp {
    /// A new file. With `md5`, an MD5 is computed of what is written.
    pub(super) fn create(root: &Arc<Root>, md5: bool) -> io::Result<Self> {
        let version = Version::random()?;
        let file = root.temp.create_file(version.as_str())?;
        let md5 = md5.then(Md5::new);
        Ok(Self { root: root.clone(), version, file, len_bytes: 0, crc64: Crc64Hasher::default(), md5, kept: false })
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, chunks: &[Bytes]) -> io::Result<()> {
        for chunk in chunks {
            self.crc64.update(chunk);
            if let Some(md5) = &mut self.md5 {
                md5.update(chunk);
            }
            self.file.write_all(chunk)?;
            self.len_bytes += chunk.len() as u64;
        }
        Ok(())
    }

    /// Appends bytes of another file, by reference or within the kernel where possible. They are not hashed.
    pub(super) fn copy(&mut self, source: &File, range: Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        let mut by_kernel = true;
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let copied = if by_kernel {
                match rustix::fs::copy_file_range(source, Some(&mut { at }), &self.file, None, len) {
                    Ok(copied) => copied,
                    Err(Errno::INTR) => continue,
                    Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::IO) => {
                        by_kernel = false;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            } else {
                let bytes = read_at(source, at, len.min(COPY_BYTES))?;
                self.file.write_all(&bytes)?;
                bytes.len()
            };
            if copied == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file is shorter than it was"));
            }
            at += copied as u64;
            self.len_bytes += copied as u64;
        }
        Ok(())
    }

    /// Appends bytes of another file, hashed like any that are written.
    pub(super) fn copy_hashed(&mut self, source: &File, mut range: Range<u64>) -> io::Result<()> {
        while !range.is_empty() {
            let len = COPY_BYTES.min(usize::try_from(range.end - range.start).unwrap_or(COPY_BYTES));
            let bytes = read_at(source, range.start, len)?;
            if bytes.is_empty() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file is shorter than it was"));
            }
            range.start += bytes.len() as u64;
            self.write(&[bytes.into()])?;
        }
        Ok(())
    }

    /// Checksum of the bytes that were written rather than copied.
    pub(super) fn crc64(&self) -> Crc64 {
        self.crc64.finish()
    }

    /// The ETag of what was written: its MD5 where that was asked for, else its checksum and length.
    pub(super) fn etag(&mut self) -> String {
        match self.md5.take() {
            Some(md5) => hex::encode(md5.finalize()),
            None => BlockEtag { crc64: self.crc64(), len_bytes: self.len_bytes }.to_string(),
        }
    }

    /// Metadata that says no more than what is in the file.
    pub(super) fn meta(&self, etag: String) -> Meta {
        Meta {
            version: self.version.clone(),
            etag,
            stored_ms: u64::try_from(to_ms(self.root.clock.now())).unwrap_or(0),
            crc64nvme: None,
            parts: None,
            upload: None,
            key: None,
            part_md5: false,
            attributes: Attributes::default(),
            tags: Vec::new(),
        }
    }

    /// Appends the metadata and makes the file durable.
    pub(super) fn seal(mut self, meta: &Meta) -> io::Result<Sealed> {
        let trailer = meta.trailer(self.len_bytes)?;
        let before = SystemTime::now();
        self.file.write_all(&trailer)?;
        rustix::fs::fdatasync(&self.file)?;
        self.root.clock.learn(mtime(&rustix::fs::fstat(&self.file)?), before, SystemTime::now());
        Ok(Sealed(self))
    }
}

impl Sealed {
    /// Its name in `tmp`.
    pub(super) fn name(&self) -> &str {
        self.0.version.as_str()
    }

    /// Leaves the file to others: it has another name now, or is about to be given one by whoever comes first.
    pub(super) fn keep(&mut self) {
        self.0.kept = true;
    }

    /// Takes that back: nobody else knows the file.
    pub(super) fn discard(&mut self) {
        self.0.kept = false;
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = found(self.root.temp.remove_file(self.version.as_str()))
        {
            tracing::warn!(file = self.version.as_str(), %error, "cannot remove a temporary file; it goes when it is a day old");
        }
    }
}
