//! Listings of blocks that the upstream does not have yet, and how they are laid over the upstream's.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use blockgate_block::ObjectInfo;
use blockgate_upstream::{ListEntry, ListPage, ListRequest};

/// A page of a listing of `blocks`.
pub(super) fn page_of<T>(
    blocks: &BTreeMap<String, T>,
    request: &ListRequest,
    describe: impl Fn(&T) -> &Arc<ObjectInfo>,
) -> ListPage {
    let mut page = ListPage::default();
    let after = request.start_after.as_deref().unwrap_or_default();
    let mut next = match after < request.prefix.as_str() {
        true => Bound::Included(request.prefix.clone()),
        false => Bound::Excluded(after.to_owned()),
    };
    while let Some((key, block)) = blocks.range::<str, _>((next.as_ref().map(String::as_str), Bound::Unbounded)).next()
        && let Some(rest) = key.strip_prefix(request.prefix.as_str())
    {
        let (entry, beyond) = match folded(key, rest, request) {
            // What begins so is skipped at once, up to the last character that there is; what is left, one by one.
            Some(prefix) => (
                ListEntry::CommonPrefix(prefix.to_owned()),
                key.as_str().max(format!("{prefix}{}", char::MAX).as_str()).to_owned(),
            ),
            None => (object(key, describe(block)), key.clone()),
        };
        next = Bound::Excluded(beyond);
        let is_known = page.entries.last().is_some_and(|last| last.name() == entry.name());
        if is_known || entry.name() <= after && request.start_after.is_some() {
            continue;
        }
        if page.entries.len() == request.limit as usize {
            page.truncated = true;
            break;
        }
        page.entries.push(entry);
    }
    page
}

/// The common prefix that a key is folded into.
fn folded<'k>(key: &'k str, rest: &str, request: &ListRequest) -> Option<&'k str> {
    let delimiter = request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
    let at = rest.find(delimiter)?;
    Some(&key[..request.prefix.len() + at + delimiter.len()])
}

fn object(key: &str, info: &ObjectInfo) -> ListEntry {
    ListEntry::Object {
        key: key.to_owned(),
        size_bytes: info.size_bytes,
        etag: info.etag.clone(),
        last_modified: info.last_modified,
    }
}

/// Lays a page of blocks that wait for their upload over the upstream's page of the same request.
pub(crate) fn lay_over(page: ListPage, waiting: ListPage, limit: u32) -> ListPage {
    if waiting.entries.is_empty() || (page.truncated && page.entries.is_empty()) {
        return page;
    }
    // What lies beyond the end of a page that is cut belongs to later ones.
    let end = page.entries.last().filter(|_| page.truncated).map(|last| last.name().to_owned());
    let mut truncated = page.truncated || waiting.truncated;
    let mut entries: BTreeMap<String, ListEntry> = BTreeMap::new();
    for entry in page.entries.into_iter().chain(waiting.entries) {
        if end.as_deref().is_none_or(|end| entry.name() <= end) {
            entries.insert(entry.name().to_owned(), entry);
        }
    }
    truncated |= entries.len() > limit as usize;
    ListPage { entries: entries.into_values().take(limit as usize).collect(), truncated }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    type Blocks = BTreeMap<String, Arc<ObjectInfo>>;

    fn blocks(keys: &[String], size_bytes: u64) -> Blocks {
        let info =
            ObjectInfo::from_upstream(size_bytes, "etag".into(), UNIX_EPOCH, blockgate_block::Attributes::default());
        keys.iter().map(|key| (key.clone(), Arc::new(info.clone()))).collect()
    }

    /// What S3 says a listing is, page after page.
    fn model(blocks: &Blocks, prefix: &str, delimiter: Option<&str>, after: Option<&str>) -> Vec<ListEntry> {
        let mut entries = Vec::new();
        for (key, info) in blocks {
            let Some(rest) = key.strip_prefix(prefix) else { continue };
            let entry = match delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len())) {
                Some(at) => ListEntry::CommonPrefix(key[..prefix.len() + at].to_owned()),
                None => object(key, info),
            };
            if after.is_none_or(|after| entry.name() > after) && entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        entries
    }

    fn key() -> impl Strategy<Value = String> {
        proptest::string::string_regex("(a|b|/|\u{10FFFF}){1,5}").unwrap()
    }

    fn keys() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec(key(), 0..12)
    }

    proptest! {
        #[test]
        fn pages_laid_over_are_those_of_all_together(
            at_upstream in keys(),
            waiting in keys(),
            prefix in proptest::string::string_regex("(a|/){0,2}").unwrap(),
            delimiter in proptest::option::of(prop_oneof![Just("/"), Just("ab")]),
            start_after in proptest::option::of(key()),
            limit in 1..5u32,
        ) {
            let (at_upstream, waiting) = (blocks(&at_upstream, 1), blocks(&waiting, 2));
            let all: Blocks = at_upstream.iter().chain(&waiting).map(|(key, info)| (key.clone(), Arc::clone(info))).collect();
            let expected = model(&all, &prefix, delimiter, start_after.as_deref());
            let mut request = ListRequest { prefix, delimiter: delimiter.map(str::to_owned), start_after, limit };
            let mut got = Vec::new();
            loop {
                let page = page_of(&at_upstream, &request, |info| info);
                let page = lay_over(page, page_of(&waiting, &request, |info| info), limit);
                prop_assert!(page.entries.len() <= limit as usize);
                prop_assert!(!page.truncated || !page.entries.is_empty());
                request.start_after = page.entries.last().map(|last| last.name().to_owned());
                got.extend(page.entries);
                if !page.truncated {
                    break;
                }
            }
            prop_assert_eq!(got, expected);
        }
    }
}
