//! Listings, against a model.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::join_all;

use super::Bench;
use super::tools::pattern;
use crate::{Conditions, ListEntry, ListRequest, Payload, PutRequest, UpstreamError};

/// What a listing must name, and whether more follows.
fn model(keys: &BTreeSet<&str>, request: &ListRequest) -> (Vec<String>, bool) {
    let fold = |key: &&str| -> Option<String> {
        let rest = key.strip_prefix(request.prefix.as_str())?;
        let delimiter = request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let end = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
        Some(key[..request.prefix.len() + end.unwrap_or(rest.len())].to_owned())
    };
    let is_after = |name: &String| request.start_after.as_ref().is_none_or(|after| name > after);
    let mut names: Vec<String> = keys.iter().filter_map(fold).filter(is_after).collect();
    names.sort_unstable();
    names.dedup();
    let truncated = request.limit > 0 && names.len() > request.limit as usize;
    names.truncate(request.limit as usize);
    (names, truncated)
}

fn names(entries: &[ListEntry]) -> Vec<String> {
    entries.iter().map(|entry| entry.name().to_owned()).collect()
}

fn keys() -> BTreeSet<&'static str> {
    [
        "a",
        "a!",
        "a!/x",
        "a/",
        "a/b",
        "a/b/c",
        "a/b!",
        "a/c",
        "a//b",
        "a//",
        "a0",
        "a.d",
        "a.d/x",
        "a.long",
        "b/x/1",
        "b/x/2",
        "b/y",
        "b-c",
        "b/",
        "ba",
        "c",
        "c\u{1}",
        "d é",
        "d é/ü",
        "😀/x",
        "x--y--z",
        "x--y",
        "x-",
        "zz/deep/er/and/deeper",
        "/",
        "//",
        "/a",
    ]
    .into()
}

pub(super) async fn listings_match_the_model(bench: Bench) {
    let bucket = bench.create_own_bucket().await;
    let long = [
        "w".repeat(231),
        "w".repeat(232),
        "w".repeat(233),
        format!("{}/", "w".repeat(232)),
        format!("{}!", "w".repeat(232)),
        format!("{}!/x", "w".repeat(250)),
    ];
    let keys: BTreeSet<&str> = keys().into_iter().chain(long.iter().map(String::as_str)).collect();
    let puts = keys.iter().map(|key| {
        let payload = Payload::Bytes(Bytes::copy_from_slice(key.as_bytes()));
        bench.upstream.put(bucket, key, PutRequest::default(), payload)
    });
    join_all(puts).await.into_iter().for_each(|put| drop(put.unwrap()));

    let prefixes = ["", "a", "a/", "a//", "b/", "b/x/", "c", "none", "w", "x-", "/", "//", "zz/deep/", "d é"];
    let delimiters = [None, Some("/"), Some("--"), Some("b"), Some("/x"), Some("!"), Some("é")];
    for prefix in prefixes {
        for delimiter in delimiters {
            let request = |limit, start_after| ListRequest {
                prefix: prefix.to_owned(),
                delimiter: delimiter.map(str::to_owned),
                start_after,
                limit,
            };
            let (all, _) = model(&keys, &request(1000, None));
            assert_page(&bench, bucket, &keys, &request(1000, None)).await;
            for limit in [1, 2, 3, all.len(), all.len().saturating_sub(1)] {
                if limit > 0 {
                    let entries = bench.list_all(bucket, request(limit as u32, None)).await;
                    assert_eq!(names(&entries), all, "{prefix:?} {delimiter:?} in pages of {limit}");
                }
            }
        }
    }
    for start_after in
        ["a", "a!", "a/", "a/b", "a/z", "a0", "b/x/", "b/x/1", "b/~", " ", "~", "zzz", "w", &long[1], "é"]
    {
        for (prefix, delimiter) in [("", None), ("", Some("/")), ("b/", Some("/")), ("a", Some("!"))] {
            let request = ListRequest {
                prefix: prefix.to_owned(),
                delimiter: delimiter.map(str::to_owned),
                start_after: Some(start_after.to_owned()),
                limit: 5,
            };
            assert_page(&bench, bucket, &keys, &request).await;
        }
    }
}

async fn assert_page(bench: &Bench, bucket: &str, keys: &BTreeSet<&str>, request: &ListRequest) {
    let page = bench.upstream.list(bucket, request).await.unwrap();
    let (expected, truncated) = model(keys, request);
    assert_eq!((names(&page.entries), page.truncated), (expected, truncated), "{request:?}");
    for entry in &page.entries {
        match entry {
            ListEntry::Object { key, size_bytes, .. } => {
                assert!(keys.contains(key.as_str()));
                assert_eq!(*size_bytes, key.len() as u64);
            }
            ListEntry::CommonPrefix(prefix) => assert!(request.delimiter.as_ref().is_some_and(|d| prefix.ends_with(d))),
        }
    }
}

pub(super) async fn reserved_keys_are_hidden(bench: Bench) {
    let bucket = bench.create_own_bucket().await;
    for key in [".blockgate/ledger/x", ".blockgatex", ".blockgate", ".c"] {
        let payload = Payload::Bytes(Bytes::from_static(b"x"));
        bench.upstream.put(bucket, key, PutRequest::default(), payload).await.unwrap();
        bench.upstream.head(bucket, key, &Conditions::default()).await.unwrap();
    }
    for (delimiter, limit, expected) in [
        (None, 10, vec![".blockgate", ".blockgatex", ".c"]),
        (None, 1, vec![".blockgate", ".blockgatex", ".c"]),
        (Some("/"), 10, vec![".blockgate", ".blockgatex", ".c"]),
        (Some("k"), 1, vec![".block", ".c"]),
    ] {
        let request = ListRequest { delimiter: delimiter.map(str::to_owned), limit, ..ListRequest::default() };
        assert_eq!(names(&bench.list_all(bucket, request).await), expected, "{delimiter:?} by {limit}");
    }
    let request = ListRequest { prefix: ".blockgate/ledger/".to_owned(), limit: 10, ..ListRequest::default() };
    assert_eq!(names(&bench.list_all(bucket, request).await), [".blockgate/ledger/x"], "asked for, they are listed");
    let prefix = ".blockgate/".to_owned();
    let request = ListRequest { prefix, delimiter: Some("/".to_owned()), limit: 10, ..ListRequest::default() };
    let own = names(&bench.list_all(bucket, request).await);
    assert!(own.contains(&".blockgate/ledger/".to_owned()), "{own:?}");
    for key in [".blockgatex", ".blockgate", ".c"] {
        bench.upstream.delete(bucket, key).await.unwrap();
    }
    let request = ListRequest { delimiter: Some("/".to_owned()), limit: 10, ..ListRequest::default() };
    assert_eq!(names(&bench.list_all(bucket, request).await), Vec::<String>::new());
    bench.upstream.delete_bucket(bucket).await.unwrap();
    assert!(matches!(bench.upstream.head_bucket(bucket).await, Err(UpstreamError::NoSuchBucket)));
}

pub(super) async fn listings_describe_objects(bench: Bench) {
    let key = bench.key("a");
    let stored = bench.put(&key, &pattern(1, 12_345)).await;
    let request = ListRequest { prefix: key.clone(), limit: 2, ..ListRequest::default() };
    let page = bench.upstream.list(&bench.bucket, &request).await.unwrap();
    let [ListEntry::Object { key: listed, size_bytes: 12_345, etag, last_modified }] = page.entries.as_slice() else {
        panic!("{page:?}");
    };
    assert_eq!((listed, etag), (&key, &stored.upstream_etag));
    let modified_at = bench.head(&key).await.unwrap().last_modified;
    let apart = modified_at.duration_since(*last_modified).unwrap_or_else(|error| error.duration());
    assert!(apart.as_secs() <= 1, "{modified_at:?} against {last_modified:?}");
}

pub(super) async fn listing_nothing(bench: Bench) {
    let bucket = bench.create_own_bucket().await;
    for (prefix, delimiter) in [("", None), ("", Some("/")), ("a/b", Some("/"))] {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            limit: 10,
            ..ListRequest::default()
        };
        let page = bench.upstream.list(bucket, &request).await.unwrap();
        assert!(page.entries.is_empty() && !page.truncated, "{page:?}");
    }
    let page = bench.upstream.list(&bench.bucket, &ListRequest::default()).await.unwrap();
    assert!(page.entries.is_empty() && !page.truncated, "a limit of 0 lists nothing: {page:?}");
}
