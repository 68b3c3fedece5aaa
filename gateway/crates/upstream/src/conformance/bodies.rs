//! Bodies that fail, and writers at the same time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;

use super::Bench;
use super::tools::{assert_fails, failing, pattern, read_all, stalling, streamed};
use crate::{BodyError, Conditions, Payload, PutRequest, UpstreamError};

const MIB: usize = 1 << 20;

/// What `payload` must do: fail, over an object and over nothing, and leave both.
async fn assert_stores_nothing(bench: &Bench, name: &str, payload: impl Fn() -> Payload) {
    let (old, none) = (bench.key(&format!("{name}-old")), bench.key(&format!("{name}-none")));
    let bytes = pattern(1, 1000);
    bench.put(&old, &bytes).await;
    for key in [&old, &none] {
        let put = bench.upstream.put(&bench.bucket, key, PutRequest::default(), payload()).await;
        assert_fails!(put, UpstreamError::Body(_));
    }
    assert_eq!(bench.get(&old).await, bytes);
    bench.assert_absent(&none).await;
}

pub(super) async fn failed_bodies_store_nothing(bench: Bench) {
    for (name, size, sent) in
        [("at-once", 10, 0), ("small", 10, 4), ("at-the-end", 10, 10), ("large", 4 * MIB, 3 * MIB)]
    {
        let bytes = pattern(2, sent);
        let payload = || failing(size, &bytes, BodyError::Cut("the client went away".to_owned()));
        assert_stores_nothing(&bench, name, payload).await;
    }
    let mismatch = || BodyError::Mismatch { code: "BadDigest", message: "not the bytes".to_owned() };
    let payload = failing(10, &pattern(2, 10), mismatch());
    match bench.upstream.put(&bench.bucket, &bench.key("error"), PutRequest::default(), payload).await {
        Err(UpstreamError::Body(BodyError::Mismatch { code: "BadDigest", .. })) => {}
        other => panic!("the body's own error is told, not {other:?}"),
    }
}

pub(super) async fn wrong_lengths_store_nothing(bench: Bench) {
    for (name, announced, sent) in [("empty", 1, 0), ("short", 10, 9), ("long", 10, 11), ("nothing-announced", 0, 1)] {
        assert_stores_nothing(&bench, name, || streamed(announced, &pattern(2, sent), 3)).await;
    }
    for (name, announced, sent) in [("large-short", 4 * MIB, 3 * MIB), ("large-long", 2 * MIB, 2 * MIB + 1)] {
        assert_stores_nothing(&bench, name, || streamed(announced, &pattern(2, sent), MIB / 3)).await;
    }
}

pub(super) async fn dropped_writes_store_nothing(bench: Bench) {
    let (old, none) = (bench.key("old"), bench.key("none"));
    let bytes = pattern(1, 1000);
    bench.put(&old, &bytes).await;
    for key in [&old, &none] {
        for sent in [1, 3 * MIB] {
            let payload = Payload::Stream { len_bytes: 4 * MIB as u64, stream: stalling(&pattern(2, sent)) };
            let put = bench.upstream.put(&bench.bucket, key, PutRequest::default(), payload);
            assert!(tokio::time::timeout(Duration::from_millis(100), put).await.is_err(), "the body never ends");
        }
    }
    assert_eq!(bench.get(&old).await, bytes);
    bench.assert_absent(&none).await;
}

pub(super) async fn reads_outlive_replacement(bench: Bench) {
    let key = bench.key("a");
    let bytes = pattern(1, 3 * MIB);
    bench.put(&key, &bytes).await;
    let mut reply = bench.upstream.get(&bench.bucket, &key, None, &Conditions::default()).await.unwrap();
    let first = reply.body.next().await.unwrap().unwrap();
    bench.put(&key, &pattern(2, 3 * MIB)).await;
    bench.upstream.delete(&bench.bucket, &key).await.unwrap();
    let mut read = first.to_vec();
    while let Some(chunk) = reply.body.next().await {
        match chunk {
            Ok(chunk) => read.extend_from_slice(&chunk),
            // Allowed, where silence or other bytes are not.
            Err(_) => return,
        }
    }
    assert!(bytes == read, "a body changed while it was read");
}

pub(super) async fn concurrent_writes_never_mix(bench: Bench) {
    let bench = Arc::new(bench);
    let key = bench.key("a");
    let versions: Vec<Bytes> = (0..6).map(|seed| pattern(seed, MIB + seed as usize * 1000)).collect();
    bench.put(&key, &versions[0]).await;
    let writers = versions.iter().cloned().map(|bytes| {
        let (bench, key) = (bench.clone(), key.clone());
        tokio::spawn(async move {
            for _ in 0..3 {
                bench.put(&key, &bytes).await;
            }
        })
    });
    let readers = (0..3).map(|_| {
        let (bench, key, versions) = (bench.clone(), key.clone(), versions.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                let reply = bench.upstream.get(&bench.bucket, &key, None, &Conditions::default()).await.unwrap();
                let size = reply.info.size_bytes;
                let bytes = read_all(reply).await;
                assert_eq!(bytes.len() as u64, size);
                assert!(versions.contains(&bytes), "a mixture was read");
            }
        })
    });
    for task in join_all(writers.chain(readers).collect::<Vec<_>>()).await {
        task.unwrap();
    }
    assert!(versions.contains(&bench.get(&key).await));
}
