//! The short way answers what the long way answers, header for header.

// Each test file uses its own part of `common`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{ADMIN, Answer, Gateway, READER};

/// Headers that differ from answer to answer.
const OF_THE_ANSWER: [&str; 2] = ["x-amz-request-id", "date"];

fn comparable(answer: Answer) -> (u16, Vec<(String, Vec<u8>)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| !OF_THE_ANSWER.contains(&name.as_str()));
    let mut headers: Vec<_> = headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    headers.sort();
    let request_id = answer.header("x-amz-request-id").unwrap_or_default().to_owned();
    (answer.status, headers, answer.text().replace(&request_id, ""))
}

#[tokio::test]
async fn both_ways_answer_the_same() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/plain").body("0123456789").ok().await;
    g.put("/kv-bucket/empty").ok().await;
    let rich = [
        ("content-type", "application/x-kv"),
        ("cache-control", "no-store"),
        ("content-encoding", "zstd"),
        ("content-language", "de"),
        ("content-disposition", "inline"),
        ("expires", "Thu, 01 Dec 2050 16:00:00 GMT"),
        ("x-amz-meta-kv-ttl", "60"),
        ("x-amz-meta-kv-fingerprint", "llama"),
        ("x-amz-meta-other", "value"),
        ("x-amz-meta-foreign", "=?UTF-8?B?w6TDtsO8?="),
        ("x-amz-tagging", "a=b&c=d"),
    ];
    rich.into_iter()
        .fold(g.put("/kv-bucket/rich%20%40key"), |ask, (name, text)| ask.header(name, text))
        .body("rich")
        .ok()
        .await;
    let etag = g.head("/kv-bucket/plain").ok().await.header("etag").unwrap().to_owned();
    let asked: [&[(&str, &str)]; 6] = [
        &[],
        &[("range", "bytes=2-5")],
        &[("range", "bytes=2-500")],
        &[("if-match", &etag)],
        &[("if-match", "\"other\"")],
        &[("range", "bytes=100-200"), ("x-amz-checksum-mode", "ENABLED")],
    ];
    for path in ["plain", "empty", "rich%20%40key", "rich%20@key", "absent", ""] {
        for headers in asked {
            for method in ["GET", "HEAD"] {
                for by in [Some(ADMIN), Some(READER), None] {
                    let ask = |extra: Option<(&str, &str)>| {
                        let ask = g.ask(method, &format!("/kv-bucket/{path}")).by(by);
                        headers.iter().copied().chain(extra).fold(ask, |ask, (name, text)| ask.header(name, text))
                    };
                    let short = ask(None).send().await;
                    // Of no meaning, and nothing that the short way knows.
                    let long = ask(Some(("x-forwarded-for", "127.0.0.1"))).send().await;
                    assert_eq!(comparable(short), comparable(long), "{method} {path} {headers:?} {by:?}");
                }
            }
        }
    }
}
