//! How a file takes the place of another at a key, and how it goes, with any number of gateways at work.
//!
//! A lock would need a lease, and a gateway that sleeps through its lease would then write over what others did since.
//! So nothing here is locked; instead each step is one that the file server does for one caller only.
//!
//! * *Nothing is at the key*: `link(tmp/N, key)`. The second to try is told that something is there.
//! * *Version V is at the key*: the writer of N judges V (conditions), then claims it: `link(tmp/N, claims/V)`. A
//!   version has one successor, so the second to try is told. Then, if V is still at the key, `rename(tmp/N, key)`;
//!   then the claim is removed. Versions are random and never come back, and V can go only by the claim on it, so a
//!   claim made while V is at the key is decisive, and one made later is void and simply removed.
//! * *A claim is found that another made*: it is carried out, not waited for. The claim is the file N under another name,
//!   and N knows its own name, so whoever comes may do the rename. It happens once, since `tmp/N` is then gone, and a
//!   writer that finds it gone knows that it was helped. No writer waits for another, and none can come too late.
//! * *Deletion* claims V by an empty file `claims/V`. Removing a name can't be made to happen once, so others leave the claim
//!   to its maker for `lease`, and its maker acts in the first half of it or not at all. If it dies, they carry it out.
//!   What remains is a deleter whose single system call hangs for half a lease: its deletion then comes late,
//!   which is to say, while it is still being asked for.
//!
//! Readers see V, then N. Needed of the file system: atomic `link`, `rename` and exclusive creation, and look-ups that are
//! not cached (NFS: version 4, or `lookupcache=none`).

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::dir::{Dir, found, pause};
use super::error::{failed, io_failed};
use super::format::Current;
use super::names::KeyPath;
use super::root::Root;
use super::temp::Sealed;
use crate::{Result, UpstreamError};

/// Between two looks at a claim that is left to its maker.
const WAIT: Duration = Duration::from_millis(2);

/// Judges what is at a key (`None`: nothing) right before it is replaced.
pub(super) type Judge<'a> = &'a dyn Fn(Option<&Current>) -> Result<()>;

/// Puts a file at a key, if `judge` lets what is there be replaced.
pub(super) fn publish(root: &Root, bucket: &str, path: &KeyPath, mut new: Sealed, judge: Judge<'_>) -> Result<()> {
    let patience = Patience::new(root);
    while patience.lasts() {
        let parent = match root.bucket(bucket)?.parent_or_create(path) {
            Ok(parent) => parent,
            // Emptied and removed while it was being opened.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(io_failed("cannot create directories", &error)),
        };
        let done = match judge(None) {
            Ok(()) => create(root, &parent, path, &new)?,
            Err(_) => false,
        };
        if done || replace(root, &parent, path, &mut new, judge)? {
            return parent.sync().map_err(failed("cannot sync a directory"));
        }
    }
    Err(UpstreamError::SlowDown)
}

/// Puts a file where nothing is; `false` if something is.
fn create(root: &Root, parent: &Dir, path: &KeyPath, new: &Sealed) -> Result<bool> {
    match root.temp.link(new.name(), parent, &path.file) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(io_failed("cannot link the object", &error)),
    }
}

/// Puts a file in the place of another; `false` if all must be looked at again.
fn replace(root: &Root, parent: &Dir, path: &KeyPath, new: &mut Sealed, judge: Judge<'_>) -> Result<bool> {
    let Some(current) = at(parent, path)? else {
        // Whatever was there is gone again, unless nothing was allowed to be created.
        return judge(None).map(|()| false);
    };
    if current.id() == new.name() {
        // The link was made, though the file server's first answer was lost.
        return Ok(true);
    }
    judge(Some(&current))?;
    match root.temp.link(new.name(), &root.claims, current.id()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return help(root, parent, path, current.id()).map(|()| false);
        }
        Err(error) => return Err(io_failed("cannot claim the object", &error)),
    }
    // From here on anyone may carry it out, and must find the file.
    new.keep();
    if is_current(parent, path, current.id())? {
        rename(root, new.name(), parent, path)?;
    } else if found(root.temp.stat(new.name())).map_err(failed("cannot look at a temporary file"))?.is_some() {
        new.discard();
        unclaim(root, current.id())?;
        return Ok(false);
    }
    unclaim(root, current.id())?;
    Ok(true)
}

/// Removes what is at a key, if there is anything. Not durable before its directory is synced.
pub(super) fn remove(root: &Root, bucket: &Dir, path: &KeyPath) -> Result<Option<Dir>> {
    let patience = Patience::new(root);
    while patience.lasts() {
        let Some(parent) = bucket.parent(path).map_err(failed("cannot open a directory"))? else { return Ok(None) };
        let Some(current) = at(&parent, path)? else { return Ok(None) };
        let claimed_at = Instant::now();
        match root.claims.create_file(current.id()) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                help(root, &parent, path, current.id())?;
                continue;
            }
            Err(error) => return Err(io_failed("cannot claim the object", &error)),
        }
        let is_current = is_current(&parent, path, current.id());
        if claimed_at.elapsed() >= root.lease / 2 {
            return Err(UpstreamError::Unavailable("the file system was too slow to delete safely".to_owned()));
        }
        if matches!(is_current, Ok(true)) {
            found(parent.remove_file(&path.file)).map_err(failed("cannot remove the object"))?;
        }
        unclaim(root, current.id())?;
        if is_current? {
            return Ok(Some(parent));
        }
    }
    Err(UpstreamError::SlowDown)
}

/// Carries out what another has begun with version `id`, or waits a moment where that is left to the other.
fn help(root: &Root, parent: &Dir, path: &KeyPath, id: &str) -> Result<()> {
    let open = || Current::open(&root.claims, id).map_err(failed("cannot read a claim"));
    let Some(claim) = open()? else { return Ok(()) };
    let is_young = root.clock.now().duration_since(claim.stored_at()).unwrap_or_default() < root.lease;
    match &claim {
        _ if !is_current(parent, path, id)? => {}
        Current::Sound(new) => rename(root, new.meta.version.as_str(), parent, path)?,
        Current::Damaged(_) if is_young => {
            pause(WAIT);
            return Ok(());
        }
        Current::Damaged(_) => {
            found(parent.remove_file(&path.file)).map_err(failed("cannot remove the object"))?;
        }
    }
    unclaim(root, id)
}

/// Moves a file from `tmp` to its key, unless that was done already.
fn rename(root: &Root, name: &str, parent: &Dir, path: &KeyPath) -> Result<()> {
    found(root.temp.rename(name, parent, &path.file)).map_err(failed("cannot rename the object")).map(drop)
}

/// Until when a writer begins again because others were faster: longer than any claim is left to its maker.
struct Patience(Instant);

impl Patience {
    fn new(root: &Root) -> Self {
        Self(Instant::now() + 2 * root.lease + Duration::from_secs(5))
    }

    fn lasts(&self) -> bool {
        Instant::now() < self.0
    }
}

fn unclaim(root: &Root, id: &str) -> Result<()> {
    found(root.claims.remove_file(id)).map_err(failed("cannot remove a claim")).map(drop)
}

fn at(parent: &Dir, path: &KeyPath) -> Result<Option<Current>> {
    Current::open(parent, &path.file).map_err(failed("cannot open the object"))
}

fn is_current(parent: &Dir, path: &KeyPath, id: &str) -> Result<bool> {
    Ok(at(parent, path)?.is_some_and(|current| current.id() == id))
}
