//! One listing made of three: ordinary keys, odd ones, and odd ones that are long. Each comes in order of its keys, a page at
//! a time, from just after where the last page ended; so a page of the whole costs a few pages of the parts.

use std::collections::VecDeque;

use blockgate_block::RESERVED_PREFIX;
use futures::{StreamExt as _, TryStreamExt as _, future};

use super::name::{
    HEAD_BYTES, LONG, SHORT_KEY_BYTES_MAX, before_long_group, is_ordinary, long_group, long_head, long_prefix,
    may_begin_ordinary, ordinary_start, short_key, short_name, short_prefix,
};
use super::{BASE64, KEY_META, Mapped};
use crate::{Conditions, ListEntry, ListPage, ListRequest, Result, Upstream, UpstreamError};
use base64::Engine as _;

/// Names asked for at once where they must be decoded one by one.
const PAGE: u32 = 1000;
/// Groups of long keys asked for at once.
const GROUPS: u32 = 100;
/// HEADs under way at once, to learn the keys of long names.
const HEADS: usize = 16;

/// What comes next of one part.
struct Part<P> {
    buffer: VecDeque<ListEntry>,
    /// Where to go on; `None` when nothing more comes.
    position: Option<P>,
}

impl<P> Part<P> {
    fn new(position: Option<P>) -> Self {
        Self { buffer: VecDeque::new(), position }
    }

    fn is_dry(&self) -> bool {
        self.buffer.is_empty() && self.position.is_some()
    }
}

impl<U: Upstream> Mapped<U> {
    pub(super) async fn merged(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        if request.prefix.starts_with(RESERVED_PREFIX) || request.limit == 0 {
            return self.inner.list(bucket, request).await;
        }
        let view = View::of(request);
        let wanted = request.limit as usize + 1;
        let ordinary = may_begin_ordinary(&request.prefix).then(|| request.start_after.as_deref().map(ordinary_start));
        let mut ordinary = Part::new(ordinary);
        let mut short = Part::new(Some(view.short_start()));
        let mut long = Part::new(Some(view.long_start()));
        let mut entries: Vec<ListEntry> = Vec::new();
        while entries.len() < wanted {
            let want = wanted - entries.len();
            // The first round asks all three at once.
            future::try_join3(
                self.fill_ordinary(bucket, &view, &mut ordinary, want),
                self.fill_short(bucket, &view, &mut short, want),
                self.fill_long(bucket, &view, &mut long),
            )
            .await?;
            let buffers = [&mut ordinary.buffer, &mut short.buffer, &mut long.buffer];
            let least = buffers.into_iter().filter(|buffer| !buffer.is_empty()).min_by(|a, b| name(a).cmp(&name(b)));
            let Some(entry) = least.and_then(VecDeque::pop_front) else { break };
            // The parts may have a common prefix in common.
            if entries.last().is_none_or(|last| last.name() != entry.name()) {
                entries.push(entry);
            }
        }
        let truncated = entries.len() == wanted;
        entries.truncate(request.limit as usize);
        Ok(ListPage { entries, truncated })
    }

    /// Ordinary keys: as the store lists them.
    async fn fill_ordinary(
        &self,
        bucket: &str,
        view: &View<'_>,
        part: &mut Part<Option<String>>,
        want: usize,
    ) -> Result<()> {
        while part.is_dry() {
            let Some(start_after) = part.position.take() else { return Ok(()) };
            let limit = u32::try_from(want).unwrap_or(u32::MAX);
            let page = self.inner.list(bucket, &ListRequest { start_after, limit, ..view.request.clone() }).await?;
            if page.truncated {
                part.position = page.entries.last().map(|last| Some(last.name().to_owned()));
            }
            // What others stored under names that keys can't have here is not to be had by its key either.
            let reachable = |entry: &ListEntry| match entry {
                ListEntry::Object { key, .. } => is_ordinary(key),
                ListEntry::CommonPrefix(prefix) => may_begin_ordinary(prefix),
            };
            let shown = |entry: &ListEntry| view.is_after_start(entry.name()) && reachable(entry);
            part.buffer.extend(page.entries.into_iter().filter(shown));
        }
        Ok(())
    }

    /// Odd keys: their names are in their order.
    async fn fill_short(&self, bucket: &str, view: &View<'_>, part: &mut Part<String>, want: usize) -> Result<()> {
        while part.is_dry() {
            let Some(position) = part.position.take() else { return Ok(()) };
            let request = ListRequest {
                prefix: short_prefix(&view.request.prefix),
                delimiter: None,
                start_after: Some(position),
                // With a delimiter most of them may fold into one.
                limit: if view.delimiter.is_some() { PAGE } else { PAGE.min(u32::try_from(want).unwrap_or(PAGE)) },
            };
            let page = self.inner.list(bucket, &request).await?;
            let last = page.entries.last().map(|last| last.name().to_owned()).filter(|_| page.truncated);
            for entry in page.entries {
                if let Some(key) = short_key(entry.name()) {
                    view.take(&mut part.buffer, key, entry);
                }
            }
            part.position = last.map(|last| match part.buffer.back() {
                // The rest of a common prefix is stepped over.
                Some(ListEntry::CommonPrefix(prefix)) => last.max(short_position(&after_all(prefix))),
                _ => last,
            });
        }
        Ok(())
    }

    /// Long odd keys: groups of the same head are in order; within one, the objects are asked for their keys.
    async fn fill_long(&self, bucket: &str, view: &View<'_>, part: &mut Part<String>) -> Result<()> {
        while part.is_dry() {
            let Some(position) = part.position.take() else { return Ok(()) };
            if view.request.prefix.len() >= HEAD_BYTES {
                return self.read_group(bucket, view, &long_group(view.request.prefix.as_bytes()), part).await;
            }
            let request = ListRequest {
                prefix: long_prefix(&view.request.prefix),
                delimiter: Some("/".to_owned()),
                start_after: Some(position),
                limit: GROUPS,
            };
            let page = self.inner.list(bucket, &request).await?;
            if page.truncated {
                part.position = page.entries.last().map(|last| last.name().to_owned());
            }
            for group in &page.entries {
                let Some(head) = long_head(group.name()) else { continue };
                match view.fold_bytes(&head) {
                    Some(prefix) => view.take_prefix(&mut part.buffer, prefix),
                    None => self.read_group(bucket, view, group.name(), part).await?,
                }
            }
        }
        Ok(())
    }

    async fn read_group(&self, bucket: &str, view: &View<'_>, group: &str, part: &mut Part<String>) -> Result<()> {
        let mut members = Vec::new();
        let mut start_after = None;
        loop {
            let request =
                ListRequest { prefix: group.to_owned(), delimiter: None, start_after: start_after.take(), limit: PAGE };
            let page = self.inner.list(bucket, &request).await?;
            start_after = page.entries.last().map(|last| last.name().to_owned());
            members.extend(page.entries);
            if !page.truncated {
                break;
            }
        }
        let keys =
            members.into_iter().map(|entry| async move { Ok((self.told_key(bucket, entry.name()).await?, entry)) });
        let mut keys: Vec<_> = futures::stream::iter(keys).buffer_unordered(HEADS).try_collect().await?;
        keys.sort_by(|(a, _): &(Option<String>, ListEntry), (b, _)| a.cmp(b));
        for (key, entry) in keys {
            if let Some(key) = key {
                view.take(&mut part.buffer, key, entry);
            }
        }
        Ok(())
    }

    /// The key that an object with a long name says it has; `None` when it went away or says nothing.
    async fn told_key(&self, bucket: &str, name: &str) -> Result<Option<String>> {
        let info = match self.inner.head(bucket, name, &Conditions::default()).await {
            Err(UpstreamError::NoSuchKey) => return Ok(None),
            result => result?,
        };
        let key = info.attributes.user.get(KEY_META).and_then(|text| BASE64.decode(text).ok());
        Ok(key.and_then(|bytes| String::from_utf8(bytes).ok()))
    }
}

fn name(buffer: &VecDeque<ListEntry>) -> Option<&str> {
    buffer.front().map(ListEntry::name)
}

/// What a listing is to show.
struct View<'a> {
    request: &'a ListRequest,
    delimiter: Option<&'a str>,
}

impl<'a> View<'a> {
    fn of(request: &'a ListRequest) -> Self {
        Self { request, delimiter: request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty()) }
    }

    /// The common prefix that a key is folded into. Of a key that goes on, the beginning may tell already.
    fn fold_bytes<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let (delimiter, from) = (self.delimiter?, self.request.prefix.len());
        let rest = key.strip_prefix(self.request.prefix.as_bytes())?;
        let at = rest.windows(delimiter.len()).position(|window| window == delimiter.as_bytes())?;
        // Cut after a whole delimiter, so between characters.
        std::str::from_utf8(&key[..from + at + delimiter.len()]).ok()
    }

    /// Adds a key of the listing's order, if it belongs there.
    fn take(&self, buffer: &mut VecDeque<ListEntry>, key: String, entry: ListEntry) {
        let ListEntry::Object { size_bytes, etag, last_modified, .. } = entry else { return };
        if !key.starts_with(&self.request.prefix) {
            return;
        }
        match self.fold_bytes(key.as_bytes()) {
            Some(prefix) => self.take_prefix(buffer, prefix),
            None if self.is_after_start(&key) => {
                buffer.push_back(ListEntry::Object { key, size_bytes, etag, last_modified });
            }
            None => {}
        }
    }

    fn take_prefix(&self, buffer: &mut VecDeque<ListEntry>, prefix: &str) {
        if self.is_after_start(prefix) && buffer.back().is_none_or(|last| last.name() != prefix) {
            buffer.push_back(ListEntry::CommonPrefix(prefix.to_owned()));
        }
    }

    fn is_after_start(&self, name: &str) -> bool {
        self.request.start_after.as_deref().is_none_or(|after| name > after)
    }

    /// Bytes after which the listing begins: those of the start or, if it is folded, the end of its common prefix.
    fn start(&self) -> Vec<u8> {
        let Some(after) = self.request.start_after.as_deref() else { return Vec::new() };
        self.fold_bytes(after.as_bytes()).map_or_else(|| after.as_bytes().to_vec(), after_all)
    }

    fn short_start(&self) -> String {
        short_position(&self.start())
    }

    fn long_start(&self) -> String {
        let start = self.start();
        if start.is_empty() { LONG.to_owned() } else { before_long_group(&start) }
    }
}

/// Bytes that follow all keys that begin so: no UTF-8 text holds 0xFF.
fn after_all(prefix: &str) -> Vec<u8> {
    [prefix.as_bytes(), b"\xff"].concat()
}

/// The name at which to begin after these bytes. What is cut off is filtered out later.
fn short_position(bytes: &[u8]) -> String {
    short_name(&bytes[..bytes.len().min(SHORT_KEY_BYTES_MAX)])
}
