//! What a read answers: ranges, conditions, fingerprints, expiry, misses; and buckets that are not cached.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{RangeSpec, ReadRequest, StoreError, WriteRequest};
use blockgate_upstream::{Conditions, Payload, UpstreamError};
use bytes::Bytes;
use proptest::prelude::*;

use crate::double::Trick;
use crate::support::*;

fn if_match(tag: &str) -> ReadRequest {
    let conditions = Conditions { if_match: Some(tag.to_owned()), ..Conditions::default() };
    ReadRequest { conditions, ..ReadRequest::default() }
}

fn fingerprint(text: &str) -> ReadRequest {
    ReadRequest { fingerprint: Some(text.to_owned()), ..ReadRequest::default() }
}

#[tokio::test]
async fn a_block_is_the_same_from_every_tier() {
    let rig = rig();
    let bytes = pattern(300_000, 1);
    let written = rig.put_with("k", &bytes, with_meta(&[("a", "b"), ("kv-ttl", "60")])).await.unwrap();
    assert_eq!(written.etag, etag_of(&bytes));
    let (memory, cold) = (rig.head("k").await.unwrap(), rig.another().head("k").await.unwrap());
    assert_eq!((memory.tier, cold.tier), (Tier::Memory, Tier::Upstream));
    assert_eq!(memory.info, cold.info);
    let fresh = rig.another();
    let (upstream, again) = (fresh.get("k").await.unwrap(), rig.get("k").await.unwrap());
    assert_eq!((upstream.tier, again.tier), (Tier::Upstream, Tier::Memory));
    assert_eq!(upstream.info, again.info);
    assert_eq!(*upstream.info, *memory.info);
    let info = &memory.info;
    assert_eq!((info.etag.as_str(), info.last_modified), (written.etag.as_str(), written.stored_at));
    assert_eq!((info.crc64(), info.expires_at()), (written.crc64, written.expires_at));
    assert_eq!(info.attributes.user, meta(&[("a", "b"), ("kv-ttl", "60")]).user);
}

#[tokio::test]
async fn conditions_may_name_either_etag() {
    let rig = rig();
    rig.put("k", b"block").await;
    let upstream_etag = rig.double.object("k").unwrap().etag;
    for rig in [rig.another(), rig] {
        for _ in 0..2 {
            for tag in ["*", &etag_of(b"block"), &upstream_etag] {
                assert!(rig.store.get(&named("k"), if_match(tag)).await.is_ok(), "{tag}");
                assert!(rig.store.head(&named("k"), if_match(tag)).await.is_ok(), "{tag}");
            }
            for request in [if_match("other")] {
                let error = refused(rig.store.get(&named("k"), request).await);
                assert!(matches!(error, StoreError::PreconditionFailed), "{error}");
            }
            let conditions = Conditions { if_none_match: Some(etag_of(b"block")), ..Conditions::default() };
            let request = ReadRequest { conditions, ..ReadRequest::default() };
            match refused(rig.store.get(&named("k"), request).await) {
                StoreError::NotModified(info) => assert_eq!(info.etag, etag_of(b"block")),
                error => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn another_fingerprint_is_a_miss() {
    let rig = rig();
    rig.put_with("k", b"block", with_meta(&[("kv-fingerprint", "llama")])).await.unwrap();
    rig.put("none", b"block").await;
    for rig in [rig.another(), rig] {
        for _ in 0..2 {
            assert!(rig.store.get(&named("k"), fingerprint("llama")).await.is_ok());
            assert!(rig.get("k").await.is_ok(), "one who names none takes any");
            for key in ["k", "none"] {
                let miss = missed(rig.store.get(&named(key), fingerprint("qwen")).await);
                assert_eq!(miss, MissReason::Fingerprint, "{key}");
                let miss = missed(rig.store.head(&named(key), fingerprint("qwen")).await);
                assert_eq!(miss, MissReason::Fingerprint, "{key}");
            }
        }
    }
}

#[tokio::test]
async fn an_expired_block_is_never_served() {
    let writer = rig();
    writer.put_with("k", b"block", with_meta(&[("kv-ttl", "60")])).await.unwrap();
    let cold = writer.another();
    let reader = writer.another();
    reader.get("k").await.unwrap();
    let header = writer.another();
    header.head("k").await.unwrap();
    writer.double.pass(Duration::from_millis(59_999));
    for rig in [&writer, &reader, &header] {
        assert!(rig.head("k").await.is_ok());
        assert!(rig.get("k").await.is_ok());
    }
    writer.double.pass(Duration::from_millis(1));
    for rig in [&writer, &reader, &header, &cold] {
        for _ in 0..2 {
            assert_eq!(missed(rig.get("k").await), MissReason::Expired);
            assert_eq!(missed(rig.head("k").await), MissReason::Expired);
        }
    }
    assert_eq!(cold.double.count("head"), 1, "within the negative TTL nobody asks again");
}

#[tokio::test]
async fn a_block_renewed_elsewhere_is_served_again() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    rig.put_with("k", b"block", with_meta(&[("kv-ttl", "60")])).await.unwrap();
    let other = rig.another();
    rig.double.pass(Duration::from_secs(50));
    other.store.set_tags(&named("k"), tags(&[("kv-ttl", "60")])).await.unwrap();
    rig.double.pass(Duration::from_secs(20));
    same(rig.bytes("k").await, "block");
    assert_eq!(rig.get("k").await.unwrap().tier, Tier::Memory);
}

#[tokio::test]
async fn absence_is_remembered_and_corrected() {
    let rig = rig();
    for _ in 0..3 {
        assert_eq!(missed(rig.get("k").await), MissReason::Absent);
        assert_eq!(missed(rig.head("k").await), MissReason::Absent);
    }
    assert_eq!((rig.double.count("get"), rig.double.count("head")), (1, 0));
    rig.put("k", b"block").await;
    same(rig.bytes("k").await, "block");
    // Believed only for the negative TTL: another gateway may have written.
    assert_eq!(missed(rig.get("l").await), MissReason::Absent);
    rig.another().put("l", b"block").await;
    assert_eq!(missed(rig.get("l").await), MissReason::Absent);
    rig.double.pass(Duration::from_secs(3601));
    same(rig.bytes("l").await, "block");
    assert_eq!(rig.metric("blockgate_misses_total{bucket=\"b\",reason=\"absent\"}"), 8);
}

#[tokio::test]
async fn a_missing_bucket_is_no_miss() {
    let rig = rig();
    for _ in 0..2 {
        let error = refused(rig.get("no-such:k").await);
        assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchBucket)), "{error}");
        let error = refused(rig.head("no-such:k").await);
        assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchBucket)), "{error}");
    }
}

#[tokio::test]
async fn an_outage_is_a_miss_or_an_error_as_the_bucket_says() {
    let rig = rig();
    rig.put("k", b"block").await;
    rig.put("errors:k", b"block").await;
    let rig = rig.another();
    rig.double.outage.store(true, Ordering::SeqCst);
    assert_eq!(missed(rig.get("k").await), MissReason::UpstreamUnavailable);
    assert_eq!(missed(rig.head("k").await), MissReason::UpstreamUnavailable);
    for error in [refused(rig.get("errors:k").await), refused(rig.head("errors:k").await)] {
        assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
    }
    rig.double.outage.store(false, Ordering::SeqCst);
    same(rig.bytes("k").await, "block");
    rig.double.outage.store(true, Ordering::SeqCst);
    assert_eq!(rig.bytes("k").await, "block", "memory needs no upstream");
}

#[tokio::test]
async fn many_heads_are_one() {
    let rig = rig();
    rig.put("k", b"block").await;
    let rig = rig.another();
    rig.double.jitter.store(5, Ordering::SeqCst);
    let heads = futures::future::join_all((0..100).map(|_| rig.head("k"))).await;
    assert!(heads.into_iter().all(|found| found.unwrap().info.etag == etag_of(b"block")));
    rig.head("k").await.unwrap();
    assert_eq!(rig.double.count("head"), 1);
}

#[tokio::test]
async fn a_head_during_a_fill_asks_nobody() {
    let rig = rig();
    rig.put("k", &pattern(400_000, 2)).await;
    let rig = rig.another();
    rig.double.trick(Trick::StallAfter(1000));
    let _served = rig.get("k").await.unwrap();
    assert_eq!(rig.head("k").await.unwrap().info.size_bytes, 400_000);
    assert_eq!(rig.double.count("head"), 0);
}

#[tokio::test]
async fn an_object_too_large_is_streamed_and_not_kept() {
    let rig = rig();
    let bytes = pattern(BLOCK_MAX + 1, 3);
    rig.put("k", &bytes).await;
    for _ in 0..2 {
        let served = rig.get("k").await.unwrap();
        assert_eq!(served.tier, Tier::Upstream);
        same(read(served).await.unwrap(), &bytes);
        let served = rig.store.get(&named("k"), range(10, 1009)).await.unwrap();
        same(read(served).await.unwrap(), &bytes[10..1010]);
    }
    assert_eq!(rig.store.memory_stats().blocks, 0);
    // Written by another gateway meanwhile: what is known of it is out of date, and found to be.
    let other = pattern(BLOCK_MAX + 2, 4);
    rig.double.plant("k", other.clone(), meta(&[]));
    same(rig.bytes("k").await, &other);
    rig.double.steal("k");
    assert_eq!(missed(rig.get("k").await), MissReason::Absent);
}

#[tokio::test]
async fn an_outage_does_not_unmake_what_is_known_of_a_block_without_room() {
    let first = rig();
    first.put_with("k", &pattern(200_000, 6), with_meta(&[("kv-fingerprint", "f")])).await.unwrap();
    let rig = rig_on(first.double, limits(), 64 << 10, Duration::from_secs(3600));
    rig.head("k").await.unwrap();
    rig.double.outage.store(true, Ordering::SeqCst);
    assert_eq!(missed(rig.get("k").await), MissReason::UpstreamUnavailable);
    assert_eq!(missed(rig.store.head(&named("k"), fingerprint("g")).await), MissReason::Fingerprint);
    assert_eq!(rig.head("k").await.unwrap().info.fingerprint(), Some("f"));
}

#[tokio::test]
async fn a_large_stream_ends_at_its_deadline() {
    let rig = rig();
    rig.put("k", &pattern(BLOCK_MAX + 1, 5)).await;
    rig.head("k").await.unwrap();
    rig.double.trick(Trick::StallAfter(5000));
    let request = ReadRequest { deadline: Some(Duration::from_millis(20)), ..ReadRequest::default() };
    let served = rig.store.get(&named("k"), request.clone()).await.unwrap();
    assert!(matches!(read(served).await, Err(blockgate_upstream::BodyError::Stalled)));
    rig.double.trick(Trick::Silent);
    assert_eq!(missed(rig.store.get(&named("k"), request).await), MissReason::Deadline);
}

#[tokio::test]
async fn empty_objects_are_served() {
    let rig = rig();
    let written = rig.put("k", b"").await;
    rig.double.plant("foreign", Bytes::new(), meta(&[]));
    for rig in [rig.another(), rig] {
        for _ in 0..2 {
            same(rig.bytes("k").await, "");
            assert_eq!(rig.head("k").await.unwrap().info.etag, written.etag);
            same(rig.bytes("foreign").await, "");
            let error = refused(rig.store.get(&named("k"), range(0, 0)).await);
            assert!(matches!(error, StoreError::InvalidRange { size_bytes: 0 }), "{error}");
        }
    }
}

fn spec() -> impl Strategy<Value = RangeSpec> {
    prop_oneof![
        (0u64..10_000, proptest::option::of(0u64..10_000)).prop_map(|(first, last)| RangeSpec::From { first, last }),
        (0u64..10_000).prop_map(|len_bytes| RangeSpec::Suffix { len_bytes }),
    ]
}

fn model(spec: RangeSpec, bytes: &[u8]) -> Option<Vec<u8>> {
    let size = bytes.len() as u64;
    let wanted = |at: u64| match spec {
        RangeSpec::From { first, last } => at >= first && last.is_none_or(|last| at <= last),
        RangeSpec::Suffix { len_bytes } => at + len_bytes >= size,
    };
    let found: Vec<u8> = (0u64..).zip(bytes).filter(|(at, _)| wanted(*at)).map(|(_, byte)| *byte).collect();
    (!found.is_empty()).then_some(found)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Cold, from memory, past the tiers because memory is full, and in a bucket that is not cached.
    #[test]
    fn ranges_are_those_of_a_model(len in 0usize..9000, specs in proptest::collection::vec(spec(), 1..4)) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            let bytes = pattern(len, 6);
            let writer = rig();
            writer.put("k", &bytes).await;
            writer.put("past:k", &bytes).await;
            let full = rig_on(writer.double.clone(), limits(), 4096, Duration::ZERO);
            let cold = writer.another();
            for spec in specs {
                let readers = [(&writer, "k"), (&cold, "k"), (&full, "k"), (&cold, "past:k")];
                for (rig, key) in readers {
                    let request = ReadRequest { range: Some(spec), ..ReadRequest::default() };
                    match (rig.store.get(&named(key), request).await, model(spec, &bytes)) {
                        (Ok(served), Some(expected)) => {
                            assert_eq!(served.info.size_bytes, len as u64);
                            assert_eq!(read(served).await.unwrap(), expected, "{spec:?} {key}");
                        }
                        (Err(StoreError::InvalidRange { size_bytes }), None) => assert_eq!(size_bytes, len as u64),
                        (Ok(served), None) => panic!("{spec:?} gave {:?} from {key}", served.range),
                        (Err(error), _) => panic!("{spec:?} {key}: {error}"),
                    }
                }
            }
        });
    }
}

#[tokio::test]
async fn a_bucket_that_is_not_cached_shows_what_the_upstream_has() {
    let rig = rig();
    let request = with_meta(&[("kv-ttl", "nonsense")]);
    let written = rig.put_with("past:k", b"object", request).await.unwrap();
    assert!(written.etag.starts_with("up-"));
    for _ in 0..2 {
        let served = rig.get("past:k").await.unwrap();
        assert_eq!((served.tier, &served.info.etag), (Tier::Upstream, &written.etag));
        same(read(served).await.unwrap(), "object");
    }
    assert_eq!(rig.double.count("get"), 2);
    assert!(rig.store.head(&named("past:k"), if_match(&written.etag)).await.is_ok());
    assert!(matches!(refused(rig.store.get(&named("past:k"), if_match("x")).await), StoreError::PreconditionFailed));
    let conditions = Conditions { if_none_match: Some(written.etag.clone()), ..Conditions::default() };
    let request = ReadRequest { conditions, ..ReadRequest::default() };
    for error in [
        refused(rig.store.get(&named("past:k"), request.clone()).await),
        refused(rig.store.head(&named("past:k"), request).await),
    ] {
        assert!(matches!(&error, StoreError::NotModified(info) if info.etag == written.etag), "{error}");
    }
    let error = refused(rig.get("past:absent").await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchKey)), "{error}");
    // A bucket that was a kv bucket before: its blocks are plain objects now.
    rig.put("k", b"block").await;
    let attributes = rig.double.object("k").unwrap().attributes;
    let payload = Payload::Bytes(Bytes::from_static(b"block"));
    let refusal =
        rig.store.put(&named("past:k"), WriteRequest { attributes, ..WriteRequest::default() }, payload).await;
    assert!(matches!(refused(refusal), StoreError::InvalidArgument(_)), "the record's name is reserved everywhere");
}
