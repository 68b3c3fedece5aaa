//! Multipart uploads end as one block, with one ETag, whoever completes them.

use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{CompletePart, Limits, PartCopy, StoreError, WriteRequest, Written};
use blockgate_upstream::{Conditions, Payload, UpstreamError};
use bytes::Bytes;

use crate::support::*;

const PARTS: [usize; 3] = [200_000, 200_000, 77_777];

fn request() -> WriteRequest {
    WriteRequest { tags: tags(&[("kv-ttl", "60")]), ..with_meta(&[("a", "b")]) }
}

async fn upload(rig: &Rig, id: &str, number: u32, bytes: &[u8]) -> CompletePart {
    let payload = Payload::Bytes(Bytes::copy_from_slice(bytes));
    CompletePart { number, etag: rig.store.upload_part(&named("k"), id, number, payload).await.unwrap() }
}

async fn complete(rig: &Rig, id: &str, parts: Vec<CompletePart>) -> blockgate_store::Result<Written> {
    rig.store.complete_multipart(&named("k"), id, parts, WriteRequest::default()).await
}

/// Uploads `bytes` in parts, each through one of `rigs` in turn.
async fn upload_all(rigs: &[&Rig], id: &str, bytes: &[u8]) -> Vec<CompletePart> {
    let mut parts = Vec::new();
    let mut at = 0;
    for (number, len) in (1..).zip(PARTS) {
        parts.push(upload(rigs[number as usize % rigs.len()], id, number, &bytes[at..at + len]).await);
        at += len;
    }
    parts
}

fn whole() -> Vec<u8> {
    pattern(PARTS.iter().sum(), 1)
}

#[tokio::test]
async fn parts_become_one_block_in_memory() {
    let (rig, bytes) = (rig(), whole());
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let parts = upload_all(&[&rig], &id, &bytes).await;
    assert!(parts.iter().all(|part| part.etag.contains('-')));
    assert_eq!(missed(rig.get("k").await), MissReason::Absent);
    let written = complete(&rig, &id, parts).await.unwrap();
    assert_eq!((written.etag.as_str(), written.size_bytes), (etag_of(&bytes).as_str(), Some(bytes.len() as u64)));
    assert_eq!(written.expires_at, Some(rig.double.now() + Duration::from_secs(60)));
    let gets = rig.double.count("get");
    let served = rig.store.get(&named("k"), range(150_000, 350_000)).await.unwrap();
    assert_eq!((served.tier, rig.double.count("get")), (Tier::Memory, gets));
    same(read(served).await.unwrap(), &bytes[150_000..=350_000]);
    assert_eq!(rig.double.count("copy"), 0, "the record was attached at once");
    // Every other gateway, and this one after a restart, says the same.
    let (here, there) = (rig.head("k").await.unwrap().info, rig.another().head("k").await.unwrap().info);
    assert_eq!((&here, &here.etag), (&there, &written.etag));
    assert_eq!(here.attributes, request().attributes);
    rig.double.pass(Duration::from_secs(60));
    assert_eq!(missed(rig.another().get("k").await), MissReason::Expired);
}

#[tokio::test]
async fn any_gateway_can_complete() {
    let bytes = whole();
    let first = rig();
    let second = first.another();
    let id = first.store.create_multipart(&named("k"), request()).await.unwrap();
    let parts = upload_all(&[&first, &second], &id, &bytes).await;
    let third = first.another();
    let written = complete(&third, &id, parts).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    assert_eq!(written.expires_at, Some(first.double.now() + Duration::from_secs(60)));
    assert_eq!((first.double.count("get"), first.double.count("copy")), (0, 1), "no bytes were read for it");
    for rig in [&first, &second, &third, &first.another()] {
        same(rig.bytes("k").await, &bytes);
        let info = rig.head("k").await.unwrap().info;
        assert_eq!((&info.etag, &info.attributes), (&written.etag, &request().attributes));
        assert_eq!(rig.store.tags(&named("k")).await.unwrap(), request().tags);
    }
}

#[tokio::test]
async fn a_part_of_unknown_checksum_is_read_back_once() {
    let (rig, bytes) = (rig(), whole());
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let mut parts = upload_all(&[&rig], &id, &bytes).await;
    let list = rig.store.list_parts(&named("k"), &id, 0, 10).await.unwrap();
    assert_eq!(
        list.parts.iter().map(|part| &part.etag).collect::<Vec<_>>(),
        parts.iter().map(|part| &part.etag).collect::<Vec<_>>()
    );
    // A gateway that did not take the parts in can only show the upstream's ETags; they are good for Complete too.
    let other = rig.another();
    let list = other.store.list_parts(&named("k"), &id, 0, 10).await.unwrap();
    assert!(list.parts.iter().zip(&parts).all(|(listed, part)| listed.etag != part.etag));
    parts[1].etag.clone_from(&list.parts[1].etag);
    let written = complete(&rig, &id, parts).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    assert_eq!((rig.double.count("get"), rig.double.count("copy")), (1, 1));
    assert_eq!(rig.head("k").await.unwrap().info.etag, written.etag);
    assert_eq!(rig.another().head("k").await.unwrap().info.etag, written.etag);
    same(rig.bytes("k").await, &bytes);
}

#[tokio::test]
async fn complete_asked_again_says_the_same() {
    let (rig, bytes) = (rig(), whole());
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let parts = upload_all(&[&rig], &id, &bytes).await;
    let first = complete(&rig, &id, parts.clone()).await.unwrap();
    let again = complete(&rig, &id, parts.clone()).await.unwrap();
    assert_eq!((first.etag, first.expires_at), (again.etag, again.expires_at));
    rig.put("k", b"other").await;
    let error = refused(complete(&rig, &id, parts).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchUpload)), "{error}");
    same(rig.bytes("k").await, "other");
}

#[tokio::test]
async fn complete_asked_again_finishes_what_was_begun() {
    let (rig, bytes) = (rig(), whole());
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let parts = upload_all(&[&rig], &id, &bytes).await;
    rig.store.abort_multipart(&named("k"), &id).await.unwrap();
    // Joined at the upstream, and not yet given its record, when the gateway died.
    rig.double.plant("k", bytes.clone(), request().attributes);
    let written = complete(&rig.another(), &id, parts).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    assert_eq!(rig.another().head("k").await.unwrap().info.etag, written.etag);
}

#[tokio::test]
async fn a_part_that_was_not_uploaded_is_refused() {
    let (rig, bytes) = (rig(), whole());
    rig.put("k", b"old").await;
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let mut parts = upload_all(&[&rig], &id, &bytes).await;
    parts[2].etag.push('0');
    let error = refused(complete(&rig, &id, parts.clone()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::InvalidPart { number: 3 })), "{error}");
    same(rig.bytes("k").await, "old");
    rig.store.abort_multipart(&named("k"), &id).await.unwrap();
    let error = refused(complete(&rig, &id, parts).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchUpload)), "{error}");
}

#[tokio::test]
async fn an_etag_that_lies_harms_nobody_else() {
    let (rig, bytes) = (rig(), whole());
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let mut parts = upload_all(&[&rig], &id, &bytes).await;
    let honest = parts[0].etag.clone();
    parts[0].etag = format!("{}{}", "0".repeat(16), &honest[16..]);
    complete(&rig, &id, parts).await.unwrap();
    // The bytes are not those of the checksum that the client claims: they are never served as if they were.
    assert!(read(rig.get("k").await.unwrap()).await.is_err());
    assert!(read(rig.another().get("k").await.unwrap()).await.is_err());
}

#[tokio::test]
async fn conditions_hold_at_complete() {
    let (rig, bytes) = (rig(), whole());
    rig.put("k", b"old").await;
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let parts = upload_all(&[&rig], &id, &bytes).await;
    let on = |conditions| WriteRequest { conditions, ..WriteRequest::default() };
    let absent = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let error = refused(rig.store.complete_multipart(&named("k"), &id, parts.clone(), on(absent)).await);
    assert!(matches!(error, StoreError::PreconditionFailed), "{error}");
    let unchanged = Conditions { if_match: Some(etag_of(b"old")), ..Conditions::default() };
    rig.store.complete_multipart(&named("k"), &id, parts, on(unchanged)).await.unwrap();
    same(rig.bytes("k").await, &bytes);
}

#[tokio::test]
async fn a_large_upload_stays_the_upstreams() {
    let rig = rig();
    let bytes = pattern(BLOCK_MAX + 10, 2);
    let id = rig.store.create_multipart(&named("k"), WriteRequest::default()).await.unwrap();
    let (head, tail) = bytes.split_at(BLOCK_MAX);
    let parts = vec![upload(&rig, &id, 1, head).await, upload(&rig, &id, 2, tail).await];
    let written = complete(&rig, &id, parts).await.unwrap();
    assert_eq!(written.etag, rig.double.object("k").unwrap().etag);
    assert_eq!(rig.head("k").await.unwrap().info.etag, written.etag);
    same(rig.bytes("k").await, &bytes);
}

#[tokio::test]
async fn parts_that_find_no_room_are_only_slower() {
    for (part_bytes, arena) in [(0, 16 << 20), (1 << 30, 4096)] {
        let rig = rig_with(Limits { part_bytes, ..limits() }, arena, Duration::from_secs(60));
        let bytes = whole();
        let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
        let parts = upload_all(&[&rig], &id, &bytes).await;
        assert_eq!(complete(&rig, &id, parts).await.unwrap().etag, etag_of(&bytes));
        same(rig.bytes("k").await, &bytes);
        assert_eq!(rig.head("k").await.unwrap().info.etag, etag_of(&bytes));
    }
}

#[tokio::test]
async fn uploads_forgotten_are_no_loss() {
    let rig = rig_with(Limits { uploads: 1, parts: 2, ..limits() }, 16 << 20, Duration::from_secs(60));
    let bytes = whole();
    let id = rig.store.create_multipart(&named("k"), request()).await.unwrap();
    let parts = upload_all(&[&rig], &id, &bytes).await;
    rig.store.create_multipart(&named("other"), request()).await.unwrap();
    let written = complete(&rig, &id, parts).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    assert_eq!(rig.head("k").await.unwrap().info.attributes, request().attributes);
    same(rig.bytes("k").await, &bytes);
}

#[tokio::test]
async fn parts_may_be_copied() {
    let rig = rig();
    let bytes = pattern(300_000, 3);
    rig.put("source", &bytes).await;
    let id = rig.store.create_multipart(&named("k"), WriteRequest::default()).await.unwrap();
    let copy = |number, source_range| PartCopy {
        source: named("source"),
        source_range,
        source_conditions: Conditions { if_match: Some(etag_of(&bytes)), ..Conditions::default() },
        target: named("k"),
        upload_id: id.clone(),
        number,
    };
    let mut parts = Vec::new();
    for (number, source_range) in [(1, None), (2, Some(100..200_000))] {
        let written = rig.store.upload_part_copy(copy(number, source_range)).await.unwrap();
        parts.push(CompletePart { number, etag: written.etag });
    }
    let error = refused(rig.store.upload_part_copy(copy(3, Some(0..300_001))).await);
    assert!(matches!(error, StoreError::InvalidRange { size_bytes: 300_000 }), "{error}");
    let joined = [&bytes[..], &bytes[100..200_000]].concat();
    assert_eq!(complete(&rig, &id, parts).await.unwrap().etag, etag_of(&joined));
    assert_eq!(rig.double.count("get"), 0, "checksums of record and memory were enough");
    same(rig.bytes("k").await, &joined);
}

#[tokio::test]
async fn a_bucket_that_is_not_cached_gets_the_upstreams_etags() {
    let (rig, key) = (rig(), named("past:k"));
    let id = rig.store.create_multipart(&key, WriteRequest::default()).await.unwrap();
    let payload = Payload::Bytes(Bytes::from_static(b"part"));
    let etag = rig.store.upload_part(&key, &id, 1, payload).await.unwrap();
    assert!(etag.starts_with("part-"));
    let parts = vec![CompletePart { number: 1, etag }];
    let written = rig.store.complete_multipart(&key, &id, parts, WriteRequest::default()).await.unwrap();
    assert!(written.etag.starts_with("up-"));
    same(rig.bytes("past:k").await, "part");
}
