//! The S3 upstream against real servers, which `tests/upstreams/` starts.

#![allow(missing_docs, clippy::unwrap_used)]

use std::env;
use std::sync::Arc;

use blockgate_block::{Attributes, BlockRecord, Crc64, RECORD_META};
use blockgate_upstream::{
    BodyError, Capabilities, Conditions, ListRequest, Mapped, MultipartRequest, PartRef, Payload, PutRequest,
    S3Settings, S3Upstream, Upstream, UpstreamError, conformance,
};
use bytes::Bytes;
use futures::StreamExt as _;

/// The servers that the environment names, each with what it is known to do.
fn servers() -> Vec<(&'static str, S3Upstream)> {
    ["RADOSGW", "SEAWEEDFS"].into_iter().filter_map(|name| Some((name, server(name)?))).collect()
}

fn server(name: &str) -> Option<S3Upstream> {
    let variable = format!("BLOCKGATE_TEST_{name}");
    let Ok(endpoint) = env::var(&variable) else {
        eprintln!("SKIPPED: {variable} is not set, so nothing is tried on {name}");
        return None;
    };
    let also = |suffix: &str| env::var(format!("{variable}_{suffix}")).unwrap();
    let settings = S3Settings::new(&endpoint, &also("REGION"), &also("ACCESS_KEY"), &also("SECRET_KEY"));
    Some(S3Upstream::connect(settings).unwrap())
}

async fn fresh_bucket(upstream: &dyn Upstream) -> String {
    let mut random = [0; 6];
    getrandom::fill(&mut random).unwrap();
    let bucket = format!("s3-{}", hex::encode(random));
    upstream.create_bucket(&bucket).await.unwrap();
    bucket
}

async fn body(upstream: &dyn Upstream, bucket: &str, key: &str) -> Vec<u8> {
    let reply = upstream.get(bucket, key, None, &Conditions::default()).await.unwrap();
    reply.body.map(Result::unwrap).collect::<Vec<_>>().await.concat()
}

/// Everything that an upstream must do, with keys mapped.
async fn conforms(name: &str, left_out: &[(&str, &str)]) {
    if let Some(upstream) = server(name) {
        let mut random = [0; 4];
        getrandom::fill(&mut random).unwrap();
        let prefix = format!("s3-{}", hex::encode(random));
        conformance::run(Arc::new(Mapped::new(upstream)), &prefix, left_out).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn radosgw_conforms() {
    let left_out = [("some_parts_are_enough", "radosgw 16 wants Complete to name every part that was stored")];
    conforms("RADOSGW", &left_out).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_conforms() {
    let left_out = [(
        "parts_are_listed_and_replaced",
        "SeaweedFS goes on listing a part that was replaced; within one second, which is which can't be told",
    )];
    conforms("SEAWEEDFS", &left_out).await;
}

#[tokio::test]
async fn abilities_are_found_out_and_leave_no_litter() {
    for (name, upstream) in servers() {
        let bucket = fresh_bucket(&upstream).await;
        let found = upstream.probe(&bucket).await.unwrap();
        let modern = name == "SEAWEEDFS";
        let known = Capabilities {
            put_if_none_match: true,
            put_if_match: modern,
            conditional_complete: modern,
            crc64nvme: modern,
            tagging: true,
            copy_if_match: modern,
        };
        assert_eq!(found, known, "{name}");
        assert_eq!(upstream.capabilities(), known);
        let own = ListRequest { prefix: ".blockgate/".to_owned(), limit: 10, ..ListRequest::default() };
        assert_eq!(upstream.list(&bucket, &own).await.unwrap().entries, [], "{name}");
        upstream.delete_bucket(&bucket).await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_fails_after_its_last_byte_stores_nothing() {
    for (name, upstream) in servers() {
        let bucket = fresh_bucket(&upstream).await;
        for (len_bytes, chunks) in [(3 << 20, 3), (1 << 20, 1), (2 << 20, 1), (1 << 20, 2), (0, 1), (0, 0)] {
            let chunk = |_| Ok(Bytes::from(vec![7; 1 << 20]));
            let cut = futures::stream::once(async { Err(BodyError::Cut("gone".to_owned())) });
            let stream = Box::pin(futures::stream::iter((0..chunks).map(chunk)).chain(cut));
            let put = upstream.put(&bucket, "k", PutRequest::default(), Payload::Stream { len_bytes, stream }).await;
            assert!(matches!(put, Err(UpstreamError::Body(_))), "{name}: {put:?}");
            let head = upstream.head(&bucket, "k", &Conditions::default()).await;
            assert!(matches!(head, Err(UpstreamError::NoSuchKey)), "{name}: {head:?}");
        }
        upstream.delete_bucket(&bucket).await.unwrap();
    }
}

#[tokio::test]
async fn a_completed_upload_carries_record_attributes_and_tags() {
    for (name, upstream) in servers() {
        let bucket = fresh_bucket(&upstream).await;
        let attributes = Attributes {
            content_type: Some("x/y".to_owned()),
            user: [("a_b".to_owned(), "é".to_owned()), ("e".to_owned(), String::new())].into(),
            ..Attributes::default()
        };
        let tags = vec![("t".to_owned(), "1 +".to_owned())];
        let request = MultipartRequest { attributes: attributes.clone(), tags: tags.clone(), part_md5: false };
        let id = upstream.create_multipart(&bucket, "m", request).await.unwrap();
        let mut parts = Vec::new();
        for (number, size) in [(1, 5 << 20), (2, 10)] {
            let payload = Payload::Bytes(Bytes::from(vec![number as u8; size]));
            let etag = upstream.upload_part(&bucket, "m", &id, number, payload).await.unwrap();
            parts.push(PartRef { number, etag });
        }
        let record = BlockRecord {
            crc64: Crc64::of(b"whatever"),
            len_bytes: (5 << 20) + 10,
            stored_at: std::time::UNIX_EPOCH,
            expires_at: None,
            group: None,
            tenant: None,
        };
        let none = Conditions::default();
        let stored =
            upstream.complete_multipart(&bucket, "m", &id, &parts, &none, Some((&attributes, record))).await.unwrap();
        let info = upstream.head(&bucket, "m", &none).await.unwrap();
        assert_eq!(info.record, Some(record), "{name}");
        assert_eq!(info.attributes, attributes, "{name}");
        assert_eq!(info.upstream_etag, stored.upstream_etag, "{name}");
        assert!(!info.attributes.user.contains_key(RECORD_META));
        assert_eq!(upstream.tags(&bucket, "m").await.unwrap(), tags, "{name}");
        assert_eq!(body(&upstream, &bucket, "m").await.len(), (5 << 20) + 10);
        upstream.delete(&bucket, "m").await.unwrap();
        upstream.delete_bucket(&bucket).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_is_down_does_not_stop_the_start() {
    let mut settings = S3Settings::new("http://127.0.0.1:9", "us-east-1", "a", "b");
    settings.attempts_max = 1;
    let upstream = S3Upstream::connect(settings).unwrap();
    assert!(!upstream.capabilities().put_if_match);
    assert!(matches!(upstream.ping().await, Err(UpstreamError::Unavailable(_))));
    let conditions = Conditions { if_none_match: Some("*".to_owned()), ..Conditions::default() };
    let request = PutRequest { conditions, ..PutRequest::default() };
    let put = upstream.put("b", "k", request, Payload::Bytes(Bytes::new())).await;
    assert!(matches!(put, Err(UpstreamError::Unavailable(_))), "{put:?}");
}

#[test]
fn settings_that_can_not_work_are_refused() {
    for endpoint in ["127.0.0.1:9000", "ftp://x", "http//x", ""] {
        assert!(S3Upstream::connect(S3Settings::new(endpoint, "r", "a", "b")).is_err(), "{endpoint}");
    }
    let mut settings = S3Settings::new("https://127.0.0.1:9", "r", "a", "secret-b");
    settings.ca_pem = Some(b"nonsense".to_vec());
    assert!(!format!("{settings:?}").contains("secret-b"));
}
