//! Copies.

use std::time::Duration;

use blockgate_block::{Attributes, BlockRecord, Crc64, RECORD_META};
use bytes::Bytes;

use super::Bench;
use super::tools::{assert_fails, if_match, if_none_match, pattern, put_if};
use crate::{CopyRequest, ListRequest, PutRequest, UpstreamError};

fn user(name: &str, value: &str) -> Attributes {
    Attributes { user: [(name.to_owned(), value.to_owned())].into(), ..Attributes::default() }
}

impl Bench {
    fn copy_request(&self, from: &str, to: &str, attributes: Attributes) -> CopyRequest {
        CopyRequest {
            source_bucket: self.bucket.clone(),
            source_key: from.to_owned(),
            source_conditions: crate::Conditions::default(),
            bucket: self.bucket.clone(),
            key: to.to_owned(),
            attributes,
            tags: None,
        }
    }
}

pub(super) async fn copies(bench: Bench) {
    let (from, to) = (bench.key("from"), bench.key("to"));
    let bytes = pattern(1, 3 << 20);
    let tagging = bench.upstream.capabilities().tagging;
    let tags = if tagging { vec![("t".to_owned(), "1".to_owned())] } else { Vec::new() };
    let request = PutRequest { attributes: user("old", "1"), tags: tags.clone(), ..PutRequest::default() };
    bench.put_with(&from, &bytes, request).await.unwrap();
    bench.put(&to, &Bytes::from_static(b"overwritten")).await;
    let attributes = Attributes { content_type: Some("a/b".to_owned()), ..user("new", "2") };
    let stored = bench.upstream.copy(bench.copy_request(&from, &to, attributes.clone())).await.unwrap();
    let info = bench.head(&to).await.unwrap();
    assert_eq!((&info.upstream_etag, &info.attributes), (&stored.upstream_etag, &attributes));
    assert!(bench.get(&to).await == bytes);
    assert_eq!(bench.head(&from).await.unwrap().attributes.user, user("old", "1").user);
    if tagging {
        assert_eq!(bench.upstream.tags(&bench.bucket, &to).await.unwrap(), tags, "tags are copied");
        let other = vec![("u".to_owned(), "2".to_owned())];
        let request = CopyRequest { tags: Some(other.clone()), ..bench.copy_request(&from, &to, attributes) };
        bench.upstream.copy(request).await.unwrap();
        assert_eq!(bench.upstream.tags(&bench.bucket, &to).await.unwrap(), other, "tags are replaced");
    }
    let other_bucket = bench.create_own_bucket().await.to_owned();
    let request = bench.copy_request(&from, &from, user("new", "3"));
    bench.upstream.copy(CopyRequest { bucket: other_bucket.clone(), ..request }).await.unwrap();
    let info = bench.upstream.head(&other_bucket, &from, &crate::Conditions::default()).await.unwrap();
    assert_eq!((info.size_bytes, info.attributes.user), (3 << 20, user("new", "3").user));
}

/// How a TTL is extended: only what is said of the block changes.
pub(super) async fn copies_onto_themselves(bench: Bench) {
    let key = bench.key("a");
    let bytes = pattern(1, 100_000);
    let now = bench.upstream.now();
    let record = |ttl_s: u64| {
        let expires_at = Some(now + Duration::from_secs(ttl_s));
        BlockRecord {
            crc64: Crc64::of(&bytes),
            len_bytes: bytes.len() as u64,
            stored_at: now,
            expires_at,
            group: None,
            tenant: None,
        }
    };
    let attributes = |ttl_s| user(RECORD_META, &record(ttl_s).to_string());
    let request = PutRequest { attributes: attributes(10), crc64: Some(Crc64::of(&bytes)), ..PutRequest::default() };
    bench.put_with(&key, &bytes, request).await.unwrap();
    let before = bench.head(&key).await.unwrap();
    bench.upstream.copy(bench.copy_request(&key, &key, attributes(1000))).await.unwrap();
    let after = bench.head(&key).await.unwrap();
    assert_eq!(after.etag, before.etag);
    let apart = after.expires_at().unwrap().duration_since(before.expires_at().unwrap()).unwrap();
    assert_eq!(apart, Duration::from_secs(990));
    assert!(bench.get(&key).await == bytes);
    let list = ListRequest { prefix: key.clone(), limit: 10, ..ListRequest::default() };
    assert_eq!(bench.list_all(&bench.bucket, list).await.len(), 1);
}

pub(super) async fn conditions_on_copies(bench: Bench) {
    let (from, to) = (bench.key("from"), bench.key("to"));
    let etag = bench.put(&from, &pattern(1, 10)).await.upstream_etag;
    let request = |conditions| CopyRequest {
        source_conditions: conditions,
        ..bench.copy_request(&from, &to, Attributes::default())
    };
    if !bench.upstream.capabilities().copy_if_match {
        // Judged before the copy, or not at all; but not ignored.
        let copy = bench.upstream.copy(request(if_match("another"))).await;
        assert_fails!(copy, UpstreamError::PreconditionFailed | UpstreamError::NotSupported(_));
        return bench.assert_absent(&to).await;
    }
    for conditions in [if_match("another"), if_none_match(&etag)] {
        assert_fails!(bench.upstream.copy(request(conditions)).await, UpstreamError::PreconditionFailed);
        bench.assert_absent(&to).await;
    }
    bench.upstream.copy(request(if_match(&etag))).await.unwrap();
    assert_eq!(bench.get(&to).await, pattern(1, 10));
    bench.put_with(&from, &pattern(2, 10), put_if(crate::Conditions::default())).await.unwrap();
    assert_fails!(bench.upstream.copy(request(if_match(&etag))).await, UpstreamError::PreconditionFailed);
    assert_eq!(bench.get(&to).await, pattern(1, 10));
}
