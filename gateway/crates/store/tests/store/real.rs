//! On a real upstream: objects in a directory, through a decorator that misbehaves.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{CompletePart, CopyObject, RangeSpec, ReadRequest, Store, WriteRequest};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{
    BodyError, Conditions, Fault, FaultUpstream, FsUpstream, ListRequest, Op, Payload, Upstream, UpstreamError,
};
use bytes::Bytes;
use tempfile::TempDir;

use crate::support::*;

struct Disk {
    faults: Arc<FaultUpstream>,
    folder: TempDir,
}

impl Disk {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let faults = Self::open(&folder).await;
        for bucket in ["bucket", "async"] {
            faults.create_bucket(bucket).await.unwrap();
        }
        Self { faults, folder }
    }

    async fn open(folder: &TempDir) -> Arc<FaultUpstream> {
        Arc::new(FaultUpstream::new(Arc::new(FsUpstream::open(folder.path()).await.unwrap())))
    }

    /// A gateway that knows nothing yet.
    fn gateway(&self) -> Arc<Store> {
        self.gateway_with(16 << 20)
    }

    fn gateway_with(&self, arena_bytes: u64) -> Arc<Store> {
        let upstream: Arc<dyn Upstream> = self.faults.clone();
        store_on(upstream, limits(), arena_bytes, Duration::from_secs(1), Metrics::new())
    }
}

async fn put(store: &Store, key: &str, bytes: &[u8], request: WriteRequest) -> blockgate_store::Written {
    store.put(&named(key), request, Payload::Bytes(Bytes::copy_from_slice(bytes))).await.unwrap()
}

async fn get(store: &Store, key: &str) -> (Tier, Bytes) {
    let served = store.get(&named(key), ReadRequest::default()).await.unwrap();
    (served.tier, read(served).await.unwrap())
}

async fn etag(store: &Store, key: &str) -> String {
    store.head(&named(key), ReadRequest::default()).await.unwrap().info.etag.clone()
}

#[tokio::test]
async fn a_block_outlives_its_gateway() {
    let disk = Disk::new().await;
    let bytes = pattern(600_000, 1);
    let store = disk.gateway();
    let written = put(&store, "bucket:k", &bytes, with_meta(&[("a", "b"), ("kv-ttl", "3600")])).await;
    let (tier, got) = get(&store, "bucket:k").await;
    assert_eq!(tier, Tier::Memory);
    same(got, &bytes);
    let restarted = Disk { faults: Disk::open(&disk.folder).await, ..disk };
    let store = restarted.gateway();
    let found = store.head(&named("bucket:k"), ReadRequest::default()).await.unwrap();
    assert_eq!((&found.info.etag, found.info.expires_at()), (&written.etag, written.expires_at));
    assert_eq!(found.info.last_modified, written.stored_at);
    for expected in [Tier::Upstream, Tier::Memory] {
        let (tier, got) = get(&store, "bucket:k").await;
        assert_eq!(tier, expected);
        same(got, &bytes);
    }
    assert_eq!(restarted.faults.calls(Op::Get), 1);
    let page = store.list("bucket", &ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap();
    assert_eq!(page.entries.len(), 1);
}

#[tokio::test]
async fn multipart_copy_and_renewal_keep_one_etag() {
    let disk = Disk::new().await;
    let (first, second) = (disk.gateway(), disk.gateway());
    let bytes = pattern((5 << 20) + 70_000, 2);
    let (head, tail) = bytes.split_at(5 << 20);
    let key = named("bucket:k");
    // Larger than a block here, so that its time to live gives it its record.
    let id = first.create_multipart(&key, with_meta(&[("kv-ttl", "600")])).await.unwrap();
    let mut parts = Vec::new();
    for (number, store, part) in [(1, &first, head), (2, &second, tail)] {
        let etag = store.upload_part(&key, &id, number, Payload::Bytes(Bytes::copy_from_slice(part))).await.unwrap();
        parts.push(CompletePart { number, etag });
    }
    let written = second.complete_multipart(&key, &id, parts.clone(), WriteRequest::default()).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    let copy = CopyObject {
        source: key.clone(),
        source_conditions: Conditions { if_match: Some(written.etag.clone()), ..Conditions::default() },
        target: named("bucket:l"),
        attributes: None,
        tags: None,
        conditions: Conditions::default(),
    };
    assert_eq!(first.copy(copy).await.unwrap().etag, written.etag);
    first.set_tags(&key, tags(&[("kv-ttl", "1000")])).await.unwrap();
    for store in [&first, &second, &disk.gateway()] {
        for key in ["bucket:k", "bucket:l"] {
            assert_eq!(etag(store, key).await, written.etag);
            same(get(store, key).await.1, &bytes);
        }
    }
    assert_eq!(first.tags(&key).await.unwrap(), tags(&[("kv-ttl", "1000")]));
    // Complete asked again, at a gateway that never heard of the upload.
    let again = disk.gateway().complete_multipart(&key, &id, parts, WriteRequest::default()).await.unwrap();
    assert_eq!(again.etag, written.etag);
}

#[tokio::test]
async fn flipped_bits_cuts_and_outages_never_show_as_bytes() {
    let disk = Disk::new().await;
    let bytes = pattern(600_000, 3);
    put(&disk.gateway(), "bucket:k", &bytes, WriteRequest::default()).await;
    disk.faults.at(Op::Get, 1, Fault::FlipBit(4_000_000));
    let store = disk.gateway();
    let corrupt = match store.get(&named("bucket:k"), ReadRequest::default()).await {
        Ok(served) => matches!(read(served).await, Err(BodyError::Corrupt)),
        Err(error) => missed::<()>(Err(error)) == MissReason::Corrupt,
    };
    assert!(corrupt);
    disk.faults.at(Op::Get, 1, Fault::CutBody(300_000));
    same(get(&store, "bucket:k").await.1, &bytes);
    let store = disk.gateway();
    disk.faults.always(Op::Get, Fault::Fail(UpstreamError::SlowDown));
    assert_eq!(missed(store.get(&named("bucket:k"), ReadRequest::default()).await), MissReason::UpstreamUnavailable);
    disk.faults.heal();
    same(get(&store, "bucket:k").await.1, &bytes);
}

#[tokio::test]
async fn an_answer_that_is_lost_leaves_no_stale_block() {
    let disk = Disk::new().await;
    let store = disk.gateway();
    put(&store, "bucket:k", b"old", WriteRequest::default()).await;
    disk.faults.at(Op::Put, 1, Fault::LoseAnswer(UpstreamError::Unavailable("lost".into())));
    let payload = Payload::Bytes(Bytes::from_static(b"new"));
    assert!(store.put(&named("bucket:k"), WriteRequest::default(), payload).await.is_err());
    same(get(&store, "bucket:k").await.1, b"new");
    disk.faults.at(Op::Delete, 1, Fault::LoseAnswer(UpstreamError::Unavailable("lost".into())));
    assert!(store.delete(&named("bucket:k")).await.is_err());
    assert_eq!(missed(store.get(&named("bucket:k"), ReadRequest::default()).await), MissReason::Absent);
}

#[tokio::test]
async fn a_complete_whose_answer_is_lost_can_be_asked_again() {
    let disk = Disk::new().await;
    let store = disk.gateway();
    let (key, bytes) = (named("bucket:k"), pattern(100_000, 4));
    let id = store.create_multipart(&key, WriteRequest::default()).await.unwrap();
    let etag = store.upload_part(&key, &id, 1, Payload::Bytes(bytes.clone().into())).await.unwrap();
    let parts = vec![CompletePart { number: 1, etag }];
    disk.faults.at(Op::CompleteMultipart, 1, Fault::LoseAnswer(UpstreamError::Unavailable("lost".into())));
    assert!(store.complete_multipart(&key, &id, parts.clone(), WriteRequest::default()).await.is_err());
    let again = store.complete_multipart(&key, &id, parts, WriteRequest::default()).await.unwrap();
    assert_eq!(again.etag, etag_of(&bytes));
    same(get(&store, "bucket:k").await.1, &bytes);
}

#[tokio::test]
async fn acknowledged_blocks_survive_failing_uploads() {
    let disk = Disk::new().await;
    let store = disk.gateway();
    disk.faults.often(Op::Put, 400, 7, Fault::Fail(UpstreamError::SlowDown));
    for n in 0..20 {
        put(&store, &format!("async:k{n}"), &pattern(5000, n), WriteRequest::default()).await;
    }
    store.drain().await;
    let fresh = disk.gateway();
    let mut there = 0;
    for n in 0..20 {
        // What is lost is lost on every gateway; what is there is right.
        let key = format!("async:k{n}");
        match fresh.get(&named(&key), ReadRequest::default()).await {
            Ok(served) => {
                same(read(served).await.unwrap(), pattern(5000, n));
                there += 1;
            }
            Err(_) => {
                let here = store.get(&named(&key), ReadRequest::default()).await;
                assert_eq!(missed(here), MissReason::Absent);
            }
        }
    }
    assert!(there >= 18, "{there} of 20 with five attempts each");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_stops_nothing() {
    let disk = Disk::new().await;
    let store = disk.gateway();
    let of_f = || with_meta(&[("kv-fingerprint", "f")]);
    for key in ["bucket:sound", "bucket:damaged"] {
        put(&store, key, b"block", of_f()).await;
    }
    drop(store);
    let file = disk.folder.path().join("bucket/damaged");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let store = disk.gateway();
    let keys = blockgate_block::KeyList::new("bucket", "", "", vec!["damaged".into(), "sound".into()]).unwrap();
    assert_eq!(store.touch(&keys, Duration::from_secs(60)).await.unwrap(), 1);
    assert_eq!(store.delete_fingerprint("bucket", "f").await.unwrap(), 1, "the sound one");
    let reason = missed(store.get(&named("bucket:damaged"), ReadRequest::default()).await);
    assert_eq!(reason, MissReason::Corrupt);
    let first = WriteRequest {
        conditions: Conditions { if_none_match: Some("*".into()), ..Conditions::default() },
        ..WriteRequest::default()
    };
    put(&store, "bucket:damaged", b"healed", first).await;
    assert_eq!(get(&disk.gateway(), "bucket:damaged").await.1, "healed");
}

/// In a directory, as in most stores, an ETag is of the bytes alone.
#[tokio::test]
async fn the_same_bytes_for_another_fingerprint_are_another_block() {
    let disk = Disk::new().await;
    let of = |fingerprint: &str| with_meta(&[("kv-fingerprint", fingerprint)]);
    let asked = |fingerprint: &str, range| ReadRequest {
        fingerprint: Some(fingerprint.to_owned()),
        range,
        ..ReadRequest::default()
    };
    // Larger than the arena, and larger than any block.
    for len in [200_000, BLOCK_MAX + 1] {
        let (name, bytes) = (named("bucket:k"), pattern(len, 9));
        let (store, other) = (disk.gateway_with(64 << 10), disk.gateway());
        put(&store, "bucket:k", &bytes, of("f")).await;
        store.head(&name, asked("f", None)).await.unwrap();
        put(&other, "bucket:k", &bytes, of("g")).await;
        for range in [Some(RangeSpec::From { first: 10, last: Some(19) }), None] {
            assert_eq!(missed(store.get(&name, asked("f", range)).await), MissReason::Fingerprint, "{len}");
        }
        same(read(store.get(&name, asked("g", None)).await.unwrap()).await.unwrap(), &bytes);
        put(&other, "bucket:k", &bytes, of("f")).await;
        assert_eq!(store.delete_fingerprint("bucket", "f").await.unwrap(), 1, "whatever is known of it");
        assert_eq!(missed(store.head(&name, ReadRequest::default()).await), MissReason::Absent);
    }
}
