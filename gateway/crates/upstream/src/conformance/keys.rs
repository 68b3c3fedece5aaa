//! Keys that some store takes for one another, or refuses.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;

use super::Bench;
use super::tools::{assert_fails, read_all};
use crate::{Conditions, ListRequest, Payload, PutRequest, UpstreamError};

/// Requests at once.
const PARALLEL: usize = 8;

/// Keys of which some pair is one object, or some key no object, on a store in use: all are legal, all are different.
#[must_use]
pub fn confusable_keys() -> Vec<String> {
    let plain = [
        // Slashes, and dots between them.
        "a",
        "/a",
        "//a",
        "///a",
        "a/",
        "a//",
        "/a/",
        "a/b",
        "a//b",
        "/a//b",
        "a/b/",
        "a/b/c",
        "a\\b",
        "\\a",
        "a\\",
        "/",
        "//",
        ".",
        "..",
        "...",
        "./a",
        "../a",
        "/.",
        "/..",
        "/../a",
        "a/.",
        "a/..",
        "a/./b",
        "a/../b",
        "a/.../b",
        "a/.b",
        "a./b",
        ".a",
        "a.",
        "b/..",
        "..a",
        "~",
        "~/a",
        "a/b.d",
        "a.d/b",
        "a.d",
        "a.long",
        // What URLs and forms escape.
        "%2F",
        "%2f",
        "a%2Fb",
        "a%2fb",
        "a%252Fb",
        "a%5Cb",
        "%",
        "%%",
        "%2E%2E/a",
        "+",
        "a+b",
        "a b",
        "a%20b",
        "a%2Bb",
        "a?b",
        "a#b",
        "a&b=c",
        "a;b",
        "a?versionId=x",
        // What XML, headers and shells trip over.
        "a<b>c",
        "a&amp;b",
        "\"a\"",
        "'a'",
        "]]>",
        "a:b",
        "a*b",
        "a|b",
        "a@b",
        "a,b",
        "{a}",
        "$a",
        "`a`",
        "a=b",
        "null",
        "a^b",
        // Blanks and controls.
        " ",
        " a",
        "a ",
        "a  b",
        "a /b",
        "a\tb",
        "a\nb",
        "a\r\nb",
        "\r",
        "\u{1}",
        "a\u{1}b",
        "\u{1f}",
        "\u{7f}",
        "\u{85}",
        "\u{a0}",
        "\u{2028}",
        // Case and Unicode.
        "A",
        "A/b",
        "a/B",
        "É",
        "é",
        "e\u{301}",
        "ß",
        "ss",
        "ﬁ",
        "fi",
        "\u{fffd}",
        "\u{fffe}",
        "\u{ffff}",
        "\u{feff}a",
        "😀",
        "😀/a",
        "a\u{200b}",
        "日本/語",
        "\u{10ffff}",
    ];
    let (w, e) = ("w", "é");
    let long = [
        w.repeat(255),
        w.repeat(256),
        w.repeat(257),
        format!("{}/a", w.repeat(255)),
        format!("{}/a", w.repeat(256)),
        format!("a/{}/b", w.repeat(256)),
        format!("{}x", w.repeat(255)),
        e.repeat(127),
        e.repeat(128),
        w.repeat(1024),
        format!("{}x", w.repeat(1023)),
        e.repeat(512),
        format!("{}/{}", w.repeat(511), w.repeat(512)),
        "a/".repeat(512),
        format!("{}b", "a/".repeat(511)),
        "/".repeat(1024),
        "/".repeat(1023),
    ];
    plain.into_iter().map(str::to_owned).chain(long).collect()
}

/// Every key, and so every pair: put all, read all, list all, delete half, and look again.
pub(super) async fn keys_that_stores_confuse(bench: Bench) {
    let bucket = bench.create_own_bucket().await;
    let keys = confusable_keys();
    let bytes = |at: usize| Bytes::from(format!("{at}: {}", keys[at]));
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());

    let puts = stream::iter(0..keys.len()).map(|at| {
        let (upstream, keys) = (&bench.upstream, &keys);
        async move {
            let payload = Payload::Bytes(bytes(at));
            let put = upstream.put(bucket, &keys[at], PutRequest::default(), payload).await;
            put.map_err(|error| format!("{:?} can't be put: {error}", keys[at]))
        }
    });
    let refused: Vec<String> = puts.buffer_unordered(PARALLEL).filter_map(async |put| put.err()).collect().await;
    assert!(refused.is_empty(), "{refused:#?}");

    let all: BTreeMap<&str, usize> = keys.iter().enumerate().map(|(at, key)| (key.as_str(), at)).collect();
    assert_listed(&bench, bucket, &all).await;
    assert_readable(&bench, bucket, &all, bytes).await;

    let (stay, go): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, at)| at % 2 == 0);
    let gone: Vec<String> = go.iter().map(|(key, _)| (*key).to_owned()).collect();
    for (key, outcome) in gone.iter().zip(bench.upstream.delete_many(bucket, &gone).await.unwrap()) {
        assert!(outcome.is_ok(), "{key:?} can't be deleted: {outcome:?}");
    }
    let stay: BTreeMap<&str, usize> = stay.into_iter().collect();
    assert_listed(&bench, bucket, &stay).await;
    assert_readable(&bench, bucket, &stay, bytes).await;
    for key in gone {
        assert_fails!(bench.upstream.head(bucket, &key, &Conditions::default()).await, UpstreamError::NoSuchKey);
    }
}

async fn assert_readable(bench: &Bench, bucket: &str, keys: &BTreeMap<&str, usize>, bytes: impl Fn(usize) -> Bytes) {
    let reads = stream::iter(keys.keys().map(|key| (*key).to_owned()).collect::<Vec<_>>()).map(|key| async move {
        let read = match bench.upstream.get(bucket, &key, None, &Conditions::default()).await {
            Ok(reply) => Ok(read_all(reply).await),
            Err(error) => Err(error),
        };
        (key, read)
    });
    let reads: Vec<_> = reads.buffer_unordered(PARALLEL).collect().await;
    let wrong = |(key, read): &(String, crate::Result<Bytes>)| match read {
        Ok(read) if *read == bytes(keys[key.as_str()]) => None,
        Ok(read) => Some(format!("{key:?} holds {read:?}")),
        Err(error) => Some(format!("{key:?} can't be read: {error}")),
    };
    let wrong: Vec<String> = reads.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Lists in one page and in several, with prefixes and delimiters.
async fn assert_listed(bench: &Bench, bucket: &str, keys: &BTreeMap<&str, usize>) {
    let cases = [
        ("", None, 1000),
        ("", None, 7),
        ("", Some("/"), 1000),
        ("", Some("/"), 3),
        ("a", None, 1000),
        ("a/", Some("/"), 1000),
        ("a/", Some("/"), 2),
    ];
    let more = [
        ("/", Some("/"), 1000),
        ("a//", None, 1000),
        ("a\\", None, 1000),
        (".", Some("/"), 1000),
        ("../", None, 1000),
        ("%2", None, 1000),
        ("w", Some("/"), 1),
    ];
    for (prefix, delimiter, limit) in cases.into_iter().chain(more) {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            limit,
            ..ListRequest::default()
        };
        let entries = bench.list_all(bucket, request).await;
        let listed: Vec<&str> = entries.iter().map(crate::ListEntry::name).collect();
        let mut expected: Vec<&str> = keys
            .keys()
            .filter_map(|key| {
                let rest = key.strip_prefix(prefix)?;
                let end = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
                Some(&key[..prefix.len() + end.unwrap_or(rest.len())])
            })
            .collect();
        expected.dedup();
        let missing: Vec<_> = expected.iter().filter(|name| !listed.contains(name)).collect();
        let extra: Vec<_> = listed.iter().filter(|name| !expected.contains(name)).collect();
        let case = format!("prefix {prefix:?}, delimiter {delimiter:?}, pages of {limit}");
        assert!(missing.is_empty() && extra.is_empty(), "{case}: lists {extra:#?}, not {missing:#?}");
        assert!(listed == expected, "{case}: another order: {listed:#?}");
    }
}
