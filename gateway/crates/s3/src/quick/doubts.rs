//! Whatever is doubtful goes the long way.

use std::time::Duration;

use blockgate_auth::{AccessKey, Secret};
use blockgate_block::Arena;
use blockgate_store::{BucketPolicies, StoreParts, WriteRequest};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{FsUpstream, Payload};
use bytes::Bytes;
use http::Request;
use s3s_sigv4::{AmzDate, calculate_signature, create_canonical_request, create_string_to_sign};
use time::OffsetDateTime;
use time::macros::format_description;

use super::*;

const SECRET: &str = "of-no-use-elsewhere";

/// A signed GET of a block that is in memory, and what is done to it before and after it is signed.
#[derive(Clone)]
struct Draft {
    method: &'static str,
    path: &'static str,
    key: &'static str,
    secret: &'static str,
    region: &'static str,
    service: &'static str,
    hash: &'static str,
    age_s: i64,
    signed: Vec<(&'static str, &'static str)>,
    unsigned: Vec<(&'static str, &'static str)>,
}

impl Draft {
    fn plain() -> Self {
        Self {
            method: "GET",
            path: "/bucket/key",
            key: "READER",
            secret: SECRET,
            region: "us-east-1",
            service: "s3",
            hash: "UNSIGNED-PAYLOAD",
            age_s: 0,
            signed: vec![("host", "127.0.0.1")],
            unsigned: Vec::new(),
        }
    }

    fn parts(&self) -> Parts {
        let at = OffsetDateTime::now_utc() - time::Duration::seconds(self.age_s);
        let date_text = at.format(format_description!("[year][month][day]T[hour][minute][second]Z")).unwrap();
        let date = AmzDate::parse(&date_text).unwrap();
        let mut headers = self.signed.clone();
        headers.extend([("x-amz-content-sha256", self.hash), ("x-amz-date", date_text.as_str())]);
        headers.sort_unstable();
        let payload = s3s_sigv4::Payload::Unsigned;
        let canonical = create_canonical_request(self.method, self.path, &[("", ""); 0], &headers, payload);
        let to_sign = create_string_to_sign(&canonical, &date, self.region, self.service);
        let signature = calculate_signature(&to_sign, self.secret, &date, self.region, self.service);
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}/{}/{}/aws4_request, SignedHeaders={}, Signature={signature}",
            self.key,
            date.fmt_date(),
            self.region,
            self.service,
            names.join(";")
        );
        let mut request = Request::builder().method(self.method).uri(self.path).header("authorization", authorization);
        for (name, value) in headers.iter().chain(&self.unsigned) {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }
}

async fn quick(directory: &tempfile::TempDir) -> Quick {
    let store = Store::new(StoreParts {
        upstream: Arc::new(FsUpstream::open(directory.path()).await.unwrap()),
        arena: Arena::new(8 << 20).unwrap(),
        index_entries: 1_000,
        negative_ttl: Duration::from_secs(1),
        policies: BucketPolicies::default(),
        metrics: Metrics::new(),
    });
    for bucket in ["bucket", "other"] {
        store.create_bucket(bucket).await.unwrap();
        let key = BlockKey::new(bucket, "key").unwrap();
        store.put(&key, WriteRequest::default(), Payload::Bytes(Bytes::from_static(b"bytes"))).await.unwrap();
    }
    let key = |name: &str, permissions| AccessKey {
        access_key: name.to_owned(),
        secret_key: Secret::new(SECRET.to_owned()),
        tenant: None,
        buckets: vec!["bucket".to_owned()],
        permissions,
    };
    let keys = AccessKeys::new(vec![key("READER", vec![Permission::Read]), key("WRITER", vec![Permission::Write])]);
    Quick::new(store, Arc::new(keys.unwrap()), Some("us-east-1".to_owned()))
}

#[tokio::test]
async fn only_what_is_beyond_doubt_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let quick = quick(&directory).await;
    let hosts = Hosts::new(&[], None);
    let is_answered = |draft: &Draft| quick.answer(&draft.parts(), &hosts).is_some();
    let plain = Draft::plain();
    // Twice: with a signing key that is derived, and with the one that was kept.
    assert!(is_answered(&plain) && is_answered(&plain));
    let with = |change: fn(&mut Draft)| {
        let mut draft = plain.clone();
        change(&mut draft);
        draft
    };
    for (what, draft) in [
        ("HEAD", with(|d| d.method = "HEAD")),
        ("a range", with(|d| d.unsigned.push(("range", "bytes=0-1")))),
        ("almost too old", with(|d| d.age_s = 890)),
        ("another header of no meaning", with(|d| d.signed.push(("accept", "*/*")))),
    ] {
        assert!(is_answered(&draft), "{what}");
    }
    for (what, draft) in [
        ("another secret", with(|d| d.secret = "of-no-use-at-all")),
        ("another key's name", with(|d| d.key = "NOBODY")),
        ("no permission to read", with(|d| d.key = "WRITER")),
        ("another bucket", with(|d| d.path = "/other/key")),
        ("no such block", with(|d| d.path = "/bucket/none")),
        ("another method", with(|d| d.method = "PUT")),
        ("another region", with(|d| d.region = "eu-west-1")),
        ("another service", with(|d| d.service = "sts")),
        ("too old", with(|d| d.age_s = 1_000)),
        ("of the future", with(|d| d.age_s = -1_000)),
        (
            "a payload that was signed",
            with(|d| d.hash = "0000000000000000000000000000000000000000000000000000000000000000"),
        ),
        ("chunks", with(|d| d.hash = "STREAMING-UNSIGNED-PAYLOAD-TRAILER")),
        ("unsigned host", with(|d| d.signed.clear())),
        ("an unsigned x-amz header", with(|d| d.unsigned.push(("x-amz-checksum-mode", "ENABLED")))),
        ("a header of meaning", with(|d| d.unsigned.push(("x-kv-fingerprint", "llama")))),
        ("a deadline", with(|d| d.unsigned.push(("x-kv-deadline-ms", "5")))),
        ("an unknown header", with(|d| d.unsigned.push(("x-forwarded-for", "1")))),
        ("a body", with(|d| d.unsigned.push(("content-length", "1")))),
        ("a condition that fails", with(|d| d.unsigned.push(("if-match", "\"other\"")))),
        ("a range beyond the end", with(|d| d.unsigned.push(("range", "bytes=9-10")))),
    ] {
        assert!(!is_answered(&draft), "{what}");
    }
    for (from, to) in [("Signature=", "Signature=0"), ("bucket", "bucket"), (";x-amz-date", "")] {
        let mut parts = plain.parts();
        let header = parts.headers["authorization"].to_str().unwrap().replacen(from, to, 1);
        let is_same = from == to;
        parts.headers.insert("authorization", header.parse().unwrap());
        assert_eq!(quick.answer(&parts, &hosts).is_some(), is_same, "{from}");
    }
    let mut moved = plain.parts();
    moved.uri = "/bucket/key?versionId=null".parse().unwrap();
    assert!(quick.answer(&moved, &hosts).is_none(), "a query");
    let mut virtual_host = plain.parts();
    virtual_host.uri = "/key".parse().unwrap();
    assert!(
        quick.answer(&virtual_host, &Hosts::new(&[], Some("bucket".to_owned()))).is_none(),
        "another path was signed"
    );
}
