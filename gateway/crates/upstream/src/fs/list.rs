//! Listings: directories are walked in the order of keys, and those that can't matter are not opened.

use std::io;

use super::dir::{Dir, found};
use super::error::failed;
use super::format::Current;
use super::names::{Depth, Kind, is_hidden};
use super::root::Root;
use crate::{ListEntry, ListPage, ListRequest, Result};

/// One page of a bucket.
pub(super) fn list(root: &Root, bucket: &str, request: &ListRequest) -> Result<ListPage> {
    let dir = root.bucket(bucket)?;
    if request.limit == 0 {
        return Ok(ListPage::default());
    }
    let limit = request.limit as usize;
    let mut walk = Walk { request, entries: Vec::new(), limit, truncated: false };
    walk.descend(&dir, Depth::default(), "").map_err(failed("cannot list the bucket"))?;
    Ok(ListPage { entries: walk.entries, truncated: walk.truncated })
}

struct Walk<'a> {
    request: &'a ListRequest,
    entries: Vec<ListEntry>,
    limit: usize,
    truncated: bool,
}

/// A directory entry: the key of an object, or how all keys of a directory begin.
struct Child {
    name: String,
    file_name: String,
    below: Option<Depth>,
}

impl Walk<'_> {
    /// Takes in the keys of a directory, which all begin with `base`.
    fn descend(&mut self, dir: &Dir, depth: Depth, base: &str) -> io::Result<()> {
        for child in self.children(dir, depth, base)? {
            if self.truncated {
                break;
            }
            match (self.common_prefix(&child.name).map(str::to_owned), child.below) {
                (Some(prefix), below) => self.fold(dir, &child, below, prefix)?,
                (None, Some(below)) => {
                    if let Some(next) = found(dir.open(&child.file_name))? {
                        self.descend(&next, below, &child.name)?;
                    }
                }
                (None, None) => self.object(dir, child)?,
            }
        }
        Ok(())
    }

    /// The entries of a directory that may matter, in order.
    fn children(&self, dir: &Dir, depth: Depth, base: &str) -> io::Result<Vec<Child>> {
        let mut children = Vec::new();
        for entry in dir.entries(depth)? {
            let entry = entry?;
            let below = depth.below(entry.kind);
            if below.is_none() && entry.kind != Kind::Object {
                continue;
            }
            let name = [base, &entry.text].concat();
            if !is_hidden(&name, &self.request.prefix) && self.may_matter(&name, below.is_some()) {
                children.push(Child { name, file_name: entry.file_name, below });
            }
        }
        children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }

    /// Whether a key, or a key that begins with `name`, can be on the page.
    fn may_matter(&self, name: &str, is_dir: bool) -> bool {
        let ListRequest { prefix, start_after, .. } = self.request;
        let in_prefix = name.starts_with(prefix) || (is_dir && prefix.starts_with(name));
        let after = start_after.as_deref().is_none_or(|after| name > after || (is_dir && after.starts_with(name)));
        in_prefix && after
    }

    /// What a key, or all keys that begin with `name`, are folded into.
    fn common_prefix<'n>(&self, name: &'n str) -> Option<&'n str> {
        let delimiter = self.request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
        let rest = name.strip_prefix(self.request.prefix.as_str())?;
        let at = rest.find(delimiter)?;
        Some(&name[..self.request.prefix.len() + at + delimiter.len()])
    }

    /// Takes in a common prefix, once, if there is an object under it.
    fn fold(&mut self, dir: &Dir, child: &Child, below: Option<Depth>, prefix: String) -> io::Result<()> {
        let is_known = self.entries.last().is_some_and(|last| last.name() == prefix);
        if is_known || self.request.start_after.as_deref().is_some_and(|after| prefix.as_str() <= after) {
            return Ok(());
        }
        let holds_objects = match below {
            None => true,
            Some(depth) => match found(dir.open(&child.file_name))? {
                Some(dir) => dir.holds_objects(depth)?,
                None => false,
            },
        };
        if holds_objects {
            self.push(ListEntry::CommonPrefix(prefix));
        }
        Ok(())
    }

    fn object(&mut self, dir: &Dir, child: Child) -> io::Result<()> {
        if self.entries.len() == self.limit {
            self.truncated = true;
        } else if let Some(current) = Current::open(dir, &child.file_name)? {
            self.push(ListEntry::Object {
                key: child.name,
                size_bytes: current.len_bytes(),
                etag: current.etag().to_owned(),
                last_modified: current.stored_at(),
            });
        }
        Ok(())
    }

    fn push(&mut self, entry: ListEntry) {
        if self.entries.len() == self.limit {
            self.truncated = true;
        } else {
            self.entries.push(entry);
        }
    }
}
