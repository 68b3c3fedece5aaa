//! Listing objects.

use std::pin::pin;

use aws_sdk_s3::types::EncodingType;
use blockgate_block::RESERVED_PREFIX;
use futures::{StreamExt as _, TryStreamExt as _, future, stream};

use super::S3Upstream;
use super::error::{Subject, unquoted};
use super::meta::form_decode;
use super::object::time;
use crate::{ListEntry, ListPage, ListRequest, Result, UpstreamError};

/// Most entries that S3 returns at once.
const PAGE_MAX: usize = 1000;

/// Common prefixes looked into at once.
const CHECKS: usize = 16;

/// Follows every name that begins as asked, but for one that goes on with this very character.
const LAST_CHARACTER: char = '\u{10ffff}';

/// Where a page begins.
enum From {
    Start,
    After(String),
    Token(String),
}

/// A page as the store gives it, names decoded.
struct RawPage {
    entries: Vec<ListEntry>,
    next: Option<String>,
}

impl S3Upstream {
    pub(super) async fn list_objects(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        let limit = request.limit as usize;
        let mut page = ListPage::default();
        if limit == 0 {
            return Ok(page);
        }
        let mut from = request.start_after.as_deref().map_or(From::Start, |after| From::After(skip(request, after)));
        loop {
            // One more than asked tells whether more follow, even if what follows is hidden.
            let want = (limit - page.entries.len() + 1).min(PAGE_MAX);
            let raw = self.raw_page(bucket, request, from, want).await?;
            let last_is_hidden = raw.entries.last().is_some_and(|last| hidden(&request.prefix, last.name()));
            let judged = raw.entries.into_iter().map(|entry| self.unless_unwanted(bucket, request, entry));
            let mut wanted = pin!(stream::iter(judged).buffered(CHECKS).try_filter_map(future::ok));
            while let Some(entry) = wanted.try_next().await? {
                if page.entries.len() == limit {
                    page.truncated = true;
                    return Ok(page);
                }
                page.entries.push(entry);
            }
            from = match raw.next {
                None => return Ok(page),
                // What blockgate keeps for itself may be much: it is stepped over at once.
                Some(_) if last_is_hidden => From::After(format!("{RESERVED_PREFIX}{LAST_CHARACTER}")),
                Some(token) => From::Token(token),
            };
        }
    }

    /// The entry, if it belongs into the listing.
    async fn unless_unwanted(
        &self,
        bucket: &str,
        request: &ListRequest,
        entry: ListEntry,
    ) -> Result<Option<ListEntry>> {
        // Stores differ in whether the start names a common prefix, too, or just a key within it.
        let seen = request.start_after.as_deref().is_some_and(|after| entry.name() <= folded(request, after));
        if seen || hidden(&request.prefix, entry.name()) {
            return Ok(None);
        }
        match &entry {
            ListEntry::CommonPrefix(prefix) if self.may_be_empty(prefix) => {
                let within = ListRequest { prefix: prefix.clone(), limit: 1, ..ListRequest::default() };
                let found = Box::pin(self.list_objects(bucket, &within)).await?;
                Ok((!found.entries.is_empty()).then_some(entry))
            }
            _ => Ok(Some(entry)),
        }
    }

    /// Whether a common prefix may stand for nothing, or for hidden keys alone.
    fn may_be_empty(&self, prefix: &str) -> bool {
        RESERVED_PREFIX.starts_with(prefix) || self.inner.capabilities.get().is_none_or(|known| known.empty_prefixes)
    }

    async fn raw_page(&self, bucket: &str, request: &ListRequest, from: From, want: usize) -> Result<RawPage> {
        let list = self.sdk().list_objects_v2().bucket(bucket).encoding_type(EncodingType::Url);
        let list = list.max_keys(i32::try_from(want).unwrap_or(i32::MAX));
        let list = list.set_prefix((!request.prefix.is_empty()).then(|| request.prefix.clone()));
        let list = list.set_delimiter(request.delimiter.clone());
        let list = match from {
            From::Start => list,
            From::After(name) => list.start_after(name),
            From::Token(token) => list.continuation_token(token),
        };
        let output = self.call(Subject::Bucket, list.send()).await?;
        self.saw(bucket);
        let encoded = output.encoding_type() == Some(&EncodingType::Url);
        let decode = |text: Option<&str>| {
            let text = text.unwrap_or_default();
            let plain = if encoded { form_decode(text) } else { Some(text.to_owned()) };
            plain.ok_or_else(|| UpstreamError::Damaged(format!("the store lists a key that is no UTF-8: {text}")))
        };
        let mut entries = Vec::with_capacity(output.contents().len() + output.common_prefixes().len());
        for object in output.contents() {
            entries.push(ListEntry::Object {
                key: decode(object.key())?,
                size_bytes: object.size().and_then(|size| size.try_into().ok()).unwrap_or(0),
                etag: unquoted(object.e_tag().unwrap_or_default()),
                last_modified: time(object.last_modified()),
            });
        }
        for prefix in output.common_prefixes() {
            entries.push(ListEntry::CommonPrefix(decode(prefix.prefix())?));
        }
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        let next = output.next_continuation_token.filter(|_| output.is_truncated == Some(true));
        Ok(RawPage { entries, next })
    }
}

/// Whether a name is blockgate's own and not asked for.
fn hidden(prefix: &str, name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX) && !prefix.starts_with(RESERVED_PREFIX)
}

/// The common prefix that a key is folded into, or the key.
fn folded<'a>(request: &ListRequest, key: &'a str) -> &'a str {
    let delimiter = request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
    let (Some(delimiter), Some(rest)) = (delimiter, key.strip_prefix(request.prefix.as_str())) else { return key };
    rest.find(delimiter).map_or(key, |at| &key[..request.prefix.len() + at + delimiter.len()])
}

/// The name after which to go on so that nothing of a common prefix already seen comes again.
fn skip(request: &ListRequest, after: &str) -> String {
    let folded = folded(request, after);
    let is_common = request.delimiter.as_deref().is_some_and(|end| !end.is_empty() && folded.ends_with(end))
        && folded.len() > request.prefix.len();
    if is_common { format!("{folded}{LAST_CHARACTER}") } else { after.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prefix: &str, delimiter: Option<&str>) -> ListRequest {
        ListRequest { prefix: prefix.to_owned(), delimiter: delimiter.map(str::to_owned), ..ListRequest::default() }
    }

    #[test]
    fn folding() {
        assert_eq!(folded(&request("", Some("/")), "a/b/c"), "a/");
        assert_eq!(folded(&request("a/", Some("/")), "a/b/c"), "a/b/");
        assert_eq!(folded(&request("a/", Some("/")), "a/b"), "a/b");
        assert_eq!(folded(&request("a/", Some("//")), "a///b"), "a///");
        assert_eq!(folded(&request("a", None), "a/b"), "a/b");
        assert_eq!(folded(&request("z", Some("/")), "a/b"), "a/b");
    }

    #[test]
    fn a_common_prefix_is_skipped_whole() {
        assert_eq!(skip(&request("", Some("/")), "a/"), "a/\u{10ffff}");
        assert_eq!(skip(&request("", Some("/")), "a/b"), "a/\u{10ffff}");
        assert_eq!(skip(&request("a/", Some("/")), "a/"), "a/");
        assert_eq!(skip(&request("", None), "a/"), "a/");
    }

    #[test]
    fn what_is_hidden() {
        assert!(hidden("", ".blockgate/k/x") && hidden(".block", ".blockgate/"));
        assert!(!hidden(".blockgate/k/", ".blockgate/k/x") && !hidden("", ".blockgate0"));
    }
}
