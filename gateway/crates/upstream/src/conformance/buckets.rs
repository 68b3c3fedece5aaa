//! Buckets.

use bytes::Bytes;
use futures::future::join_all;

use super::Bench;
use super::tools::assert_fails;
use crate::{
    Conditions, CopyRequest, ListRequest, MultipartRequest, Payload, PutRequest, UploadListRequest, UpstreamError,
};

pub(super) async fn buckets_come_and_go(bench: Bench) {
    let (upstream, name) = (&bench.upstream, bench.own_bucket.as_str());
    assert_fails!(upstream.head_bucket(name).await, UpstreamError::NoSuchBucket);
    upstream.create_bucket(name).await.unwrap();
    assert_eq!(upstream.head_bucket(name).await.unwrap().name, name);
    let names: Vec<String> = upstream.list_buckets().await.unwrap().into_iter().map(|bucket| bucket.name).collect();
    assert!(names.contains(&name.to_owned()) && names.contains(&bench.bucket), "{names:?}");
    assert!(names.is_sorted(), "{names:?}");
    assert_fails!(upstream.create_bucket(name).await, UpstreamError::BucketExists);
    upstream.delete_bucket(name).await.unwrap();
    assert_fails!(upstream.head_bucket(name).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.delete_bucket(name).await, UpstreamError::NoSuchBucket);
    let names = upstream.list_buckets().await.unwrap();
    assert!(names.iter().all(|bucket| bucket.name != name));
}

pub(super) async fn buckets_with_objects_stay(bench: Bench) {
    let bucket = bench.create_own_bucket().await;
    let bytes = Bytes::from_static(b"x");
    for key in ["a", "deep/down/there", "/", "."] {
        let payload = Payload::Bytes(bytes.clone());
        bench.upstream.put(bucket, key, PutRequest::default(), payload).await.unwrap();
        assert_fails!(bench.upstream.delete_bucket(bucket).await, UpstreamError::BucketNotEmpty);
        bench.upstream.head(bucket, key, &Conditions::default()).await.unwrap();
        bench.upstream.delete(bucket, key).await.unwrap();
    }
    bench.upstream.delete_bucket(bucket).await.unwrap();
}

pub(super) async fn bucket_names_are_checked(bench: Bench) {
    for name in ["a", "..", "a..b", "ab_c.", "-abc", "ABC/..", ".blockgate", "10.1.2.3", &"x".repeat(64)] {
        let created = bench.upstream.create_bucket(name).await;
        assert!(created.is_err(), "a bucket is named {name:?}");
        assert!(!matches!(created, Err(UpstreamError::Unavailable(_))), "{name:?}: {created:?}");
    }
}

pub(super) async fn everything_needs_its_bucket(bench: Bench) {
    let (upstream, none, key) = (&bench.upstream, bench.own_bucket.as_str(), "key");
    let payload = || Payload::Bytes(Bytes::from_static(b"x"));
    let no = Conditions::default();
    let list = ListRequest { limit: 10, ..ListRequest::default() };
    let uploads = UploadListRequest { limit: 10, ..UploadListRequest::default() };
    let source = bench.key("source");
    bench.put(&source, &Bytes::from_static(b"x")).await;
    let copy = |from: &str, to: &str| CopyRequest {
        source_bucket: from.to_owned(),
        source_key: source.clone(),
        source_conditions: Conditions::default(),
        bucket: to.to_owned(),
        key: key.to_owned(),
        attributes: blockgate_block::Attributes::default(),
        tags: None,
    };
    // Answers to HEAD have no body: a bare 404 may be either.
    assert_fails!(upstream.head(none, key, &no).await, UpstreamError::NoSuchBucket | UpstreamError::NoSuchKey);
    assert_fails!(upstream.get(none, key, None, &no).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.put(none, key, PutRequest::default(), payload()).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.delete(none, key).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.delete_many(none, &[key.to_owned()]).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.list(none, &list).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.copy(copy(none, &bench.bucket)).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.copy(copy(&bench.bucket, none)).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.create_multipart(none, key, MultipartRequest::default()).await, UpstreamError::NoSuchBucket);
    assert_fails!(upstream.list_uploads(none, &uploads).await, UpstreamError::NoSuchBucket);
    if upstream.capabilities().tagging {
        assert_fails!(upstream.tags(none, key).await, UpstreamError::NoSuchBucket);
        assert_fails!(upstream.set_tags(none, key, &[]).await, UpstreamError::NoSuchBucket);
    }
    assert_fails!(upstream.head_bucket(none).await, UpstreamError::NoSuchBucket);
}

pub(super) async fn concurrent_creations_make_one_bucket(bench: Bench) {
    let created = join_all((0..4).map(|_| bench.upstream.create_bucket(&bench.own_bucket))).await;
    assert!(created.iter().any(Result::is_ok), "{created:?}");
    let expected = |result: &crate::Result<()>| matches!(result, Ok(()) | Err(UpstreamError::BucketExists));
    assert!(created.iter().all(expected), "{created:?}");
    bench.upstream.head_bucket(&bench.own_bucket).await.unwrap();
}
