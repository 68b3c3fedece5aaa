//! Object tags.

use blockgate_block::Attributes;
use bytes::Bytes;

use super::Bench;
use super::tools::{assert_fails, pattern};
use crate::{PutRequest, UpstreamError};

fn tags(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Stores keep tags, but not always their order.
fn sorted(mut tags: Vec<(String, String)>) -> Vec<(String, String)> {
    tags.sort_unstable();
    tags
}

pub(super) async fn tags_are_kept(bench: Bench) {
    let (upstream, bucket, key) = (&bench.upstream, &bench.bucket, bench.key("a"));
    let attributes = Attributes { user: [("a".to_owned(), "b".to_owned())].into(), ..Attributes::default() };
    let bytes = pattern(1, 1_500_000);
    bench.put_with(&key, &bytes, PutRequest { attributes, ..PutRequest::default() }).await.unwrap();
    let some = tags(&[("kv-ttl", "3600"), ("a b", "c+d=e"), ("x:y/z", "@-_."), ("empty", "")]);
    if !upstream.capabilities().tagging {
        assert_fails!(upstream.set_tags(bucket, &key, &some).await, UpstreamError::NotSupported(_));
        return;
    }
    let before = bench.head(&key).await.unwrap();
    assert_eq!(upstream.tags(bucket, &key).await.unwrap(), []);
    for tags in [some, tags(&[("kv-ttl", "7200")]), Vec::new()] {
        upstream.set_tags(bucket, &key, &tags).await.unwrap();
        assert_eq!(sorted(upstream.tags(bucket, &key).await.unwrap()), sorted(tags));
        let after = bench.head(&key).await.unwrap();
        assert_eq!((&after.etag, &after.attributes), (&before.etag, &before.attributes));
        assert!(bench.get(&key).await == bytes, "tags leave the bytes alone");
    }
}

pub(super) async fn tags_of_writes(bench: Bench) {
    let key = bench.key("a");
    let some = tags(&[("kv-ttl", "60"), ("a", "b + c")]);
    let request = PutRequest { tags: some.clone(), ..PutRequest::default() };
    let put = bench.put_with(&key, &Bytes::from_static(b"x"), request).await;
    if bench.upstream.capabilities().tagging {
        put.unwrap();
        assert_eq!(sorted(bench.upstream.tags(&bench.bucket, &key).await.unwrap()), sorted(some));
    } else {
        assert_fails!(put, UpstreamError::NotSupported(_));
        bench.assert_absent(&key).await;
    }
}
