//! What the staging directory and the machine allow.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blockgate_staging::{Engine, Io, Settings};
use rustix::fs::{OFlags, statvfs};

use super::Problems;
use crate::config::{Config, Size};
use crate::staging::table::bytes;

/// Tries the directory, the disk under it, and the way of speaking to it.
pub(super) fn staging(config: &Config, problems: &mut Problems) {
    let Some(settings) = &config.staging else {
        println!("staging: not configured");
        return;
    };
    if settings.path.is_dir() {
        problems.report("staging directory", writes(&settings.path));
    } else {
        println!("staging directory: {} is not there: `blockgate serve` creates it", settings.path.display());
    }
    problems.report("staging engine", engine(settings.engine));
    problems.report("staging space", space(settings));
    too_large_blocks(config, settings);
}

/// Whether the way of speaking to the disk that was asked for can be had.
fn engine(wanted: Engine) -> io::Result<String> {
    Ok(match (wanted, Io::start(wanted)?.kind()) {
        (_, Engine::IoUring) => "io_uring works".to_owned(),
        (Engine::Auto, _) => "threads: the kernel allows no io_uring here".to_owned(),
        (Engine::IoUring | Engine::Threads, _) => "threads".to_owned(),
    })
}

/// A file is made there, written past the page cache, and removed again.
fn writes(directory: &Path) -> io::Result<String> {
    let path = directory.join(format!(".blockgate-check-{}", std::process::id()));
    let _remove = Remove(&path);
    File::create_new(&path)?;
    let flags = OFlags::DIRECT.bits().cast_signed();
    Ok(match OpenOptions::new().write(true).custom_flags(flags).open(&path) {
        Ok(_) => "can be written, with O_DIRECT".to_owned(),
        Err(_) => "can be written; NOTE: without O_DIRECT, so that the page cache holds its blocks too".to_owned(),
    })
}

struct Remove<'p>(&'p Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        // It may never have been there.
        let _ = fs::remove_file(self.0);
    }
}

/// Whether the disk holds what was promised to staging, beside what it holds already.
fn space(settings: &Settings) -> io::Result<String> {
    let directory = existing(&settings.path);
    let disk = statvfs(&directory)?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let has_bytes = held(&settings.path)?;
    let (free, capacity) = (bytes(free_bytes), Size(settings.capacity_bytes));
    let room_bytes = free_bytes.saturating_add(has_bytes);
    if room_bytes >= settings.capacity_bytes {
        return Ok(format!("{free} free on the disk, for a capacity of {capacity}"));
    }
    let what = format!("{free} free on the disk, too little for a capacity of {capacity}");
    match room_bytes / settings.segment_bytes {
        0..4 => Err(io::Error::other(what)),
        segments => Ok(format!("NOTE: {what}: there will be {segments} segments")),
    }
}

/// The directory, or the nearest above it that is there.
fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Bytes of the disk that files of the directory have.
fn held(directory: &Path) -> io::Result<u64> {
    if !directory.is_dir() {
        return Ok(0);
    }
    fs::read_dir(directory)?.map(|entry| Ok(entry?.metadata()?.blocks() * 512)).sum()
}

/// Names the buckets whose largest blocks fit in no segment.
fn too_large_blocks(config: &Config, settings: &Settings) {
    for (bucket, policy) in config.buckets.all().filter(|(_, policy)| policy.max_block_bytes >= settings.segment_bytes)
    {
        println!(
            "staging: NOTE: blocks that a segment of {} can't hold are not staged, although max_block_bytes of {bucket} is {}",
            Size(settings.segment_bytes),
            Size(policy.max_block_bytes),
        );
    }
}
