//! Buckets: directories of the root.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::time::SystemTime;

use blockgate_block::RESERVED_PREFIX;

use super::dir::{Dir, found};
use super::error::failed;
use super::format::{Version, mtime};
use super::names::{Depth, KeyPath};
use super::root::{OWN_DIR, Root};
use crate::{BucketInfo, Result, UpstreamError};

/// A file whose time is the bucket's.
const CREATED: &str = "created";

/// Makes sure that a name is a bucket's by the rules of S3, and so a safe name of a directory.
pub(super) fn check_name(name: &str) -> Result<()> {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().flatten().all(|byte| is_alphanumeric(*byte));
    let ok = (3..=63).contains(&bytes.len())
        && ends
        && bytes.iter().all(|byte| is_alphanumeric(*byte) || matches!(byte, b'-' | b'.'))
        && !name.contains("..")
        && name.parse::<Ipv4Addr>().is_err();
    if ok { Ok(()) } else { Err(UpstreamError::InvalidBucketName(name.chars().take(64).collect())) }
}

/// All buckets in order of name.
pub(super) fn list(root: &Root) -> Result<Vec<BucketInfo>> {
    let mut buckets = Vec::new();
    for name in root.dir.names().map_err(failed("cannot list the root"))? {
        match head(root, &name) {
            Ok(bucket) => buckets.push(bucket),
            Err(UpstreamError::NoSuchBucket | UpstreamError::InvalidBucketName(_)) => {}
            Err(error) => return Err(error),
        }
    }
    buckets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(buckets)
}

pub(super) fn head(root: &Root, name: &str) -> Result<BucketInfo> {
    let created_at = created_at(&root.bucket(name)?).map_err(failed("cannot look at the bucket"))?;
    Ok(BucketInfo { name: name.to_owned(), created_at })
}

/// `None` for a directory that blockgate did not create.
fn created_at(bucket: &Dir) -> io::Result<Option<SystemTime>> {
    let Some(own) = found(bucket.open(OWN_DIR))? else { return Ok(None) };
    Ok(found(own.stat(CREATED))?.as_ref().map(mtime))
}

pub(super) fn create(root: &Root, name: &str) -> Result<()> {
    check_name(name)?;
    match root.dir.create(name) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(UpstreamError::BucketExists),
        created => created.map_err(failed("cannot create the bucket"))?,
    }
    let own = root.bucket(name)?.open_or_create(OWN_DIR).map_err(failed("cannot create the bucket"))?;
    match own.create_file(CREATED) {
        // Created, removed and created again by others meanwhile.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created.and_then(|_| own.sync()).map_err(failed("cannot create the bucket")),
    }
}

/// Removes a bucket without objects. What is blockgate's own is moved aside first: only an empty directory can be
/// removed, and then no object can slip in.
pub(super) fn delete(root: &Root, name: &str) -> Result<()> {
    let bucket = root.bucket(name)?;
    if bucket.holds_objects(Depth::default()).map_err(failed("cannot look through the bucket"))? {
        return Err(UpstreamError::BucketNotEmpty);
    }
    delete_empty(root, &bucket, name).map_err(failed("cannot remove the bucket"))?
}

fn delete_empty(root: &Root, bucket: &Dir, name: &str) -> io::Result<Result<()>> {
    let reserved = KeyPath::of(RESERVED_PREFIX).dirs.remove(0);
    let mut aside = Vec::new();
    for own in [OWN_DIR, &reserved] {
        let trash = Version::random()?;
        if found(bucket.rename(own, &root.temp, trash.as_str()))?.is_some() {
            aside.push((own, trash));
        }
    }
    remove_empty_dirs(bucket, Depth::default())?;
    match root.dir.remove_dir(name) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            for (own, trash) in aside {
                root.temp.rename(trash.as_str(), bucket, own)?;
            }
            return Ok(Err(UpstreamError::BucketNotEmpty));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    root.dir.sync()?;
    for (_, trash) in aside {
        root.temp.remove_all(trash.as_str())?;
    }
    Ok(Ok(()))
}

/// Removes directories that hold nothing, as deletions may leave them.
fn remove_empty_dirs(dir: &Dir, depth: Depth) -> io::Result<()> {
    for entry in dir.entries(depth)? {
        let entry = entry?;
        if let Some(depth) = depth.below(entry.kind)
            && let Some(below) = found(dir.open(&entry.file_name))?
        {
            remove_empty_dirs(&below, depth)?;
            match dir.remove_dir(&entry.file_name) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                removed => found(removed).map(drop)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["abc", "a-b.c", "0ab", "kv-cache.prod", &"x".repeat(63)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(64);
        for name in [
            "",
            "ab",
            "..",
            "a..b",
            ".abc",
            "abc.",
            "-abc",
            "abc-",
            "Abc",
            "a_b",
            "a/b",
            "a\0b",
            "10.0.0.1",
            ".blockgate",
            "abc\n",
            "äbc",
            &long,
        ] {
            assert!(matches!(check_name(name), Err(UpstreamError::InvalidBucketName(_))), "{name:?}");
        }
    }
}
