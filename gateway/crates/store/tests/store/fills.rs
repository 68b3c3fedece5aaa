//! Single flight, verification, resumption, deadlines.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{Body, Limits, ReadRequest, StoreError};
use blockgate_upstream::{BodyError, UpstreamError};
use futures::StreamExt;

use crate::double::Trick;
use crate::support::*;

const LARGE: usize = 700_000;
const SHORT: Duration = Duration::from_millis(20);

fn by(deadline: Duration) -> ReadRequest {
    ReadRequest { deadline: Some(deadline), ..ReadRequest::default() }
}

/// A rig whose upstream has the block `k`, unknown to the gateway.
async fn cold(bytes: &[u8]) -> Rig {
    cold_with(bytes, limits()).await
}

async fn cold_with(bytes: &[u8], limits: Limits) -> Rig {
    let first = rig();
    first.put("k", bytes).await;
    rig_on(first.double, limits, 16 << 20, Duration::from_secs(3600))
}

#[tokio::test]
async fn a_hundred_readers_cause_one_get() {
    let bytes = pattern(LARGE, 1);
    let rig = Arc::new(cold(&bytes).await);
    rig.double.trick(Trick::Wait);
    let readers = (0..100u64).map(|n| {
        let (rig, bytes) = (Arc::clone(&rig), bytes.clone());
        tokio::spawn(async move {
            if n % 2 == 0 {
                same(rig.bytes("k").await, &bytes);
            } else {
                let served = rig.store.get(&named("k"), range(n, n * 1000)).await.unwrap();
                assert_eq!(served.info.size_bytes, LARGE as u64);
                #[allow(clippy::cast_possible_truncation)]
                let expected = &bytes[n as usize..=n as usize * 1000];
                same(read(served).await.unwrap(), expected);
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    settle().await;
    rig.double.release();
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(rig.double.count("get"), 1);
    assert_eq!(rig.metric("blockgate_single_flight_shared_total"), 99);
    assert_eq!(rig.get("k").await.unwrap().tier, Tier::Memory);
    assert_eq!(rig.double.count("get"), 1);
}

#[tokio::test]
async fn no_reader_waits_for_bytes_that_have_arrived() {
    let bytes = pattern(LARGE, 2);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::WaitAfter(400_000));
    let first = rig.get("k").await.unwrap();
    settle().await;
    // The fill hangs. One who comes now gets at once what is there, in one piece.
    let mut late = stream_of(rig.get("k").await.unwrap().body);
    same(late.next().await.unwrap().unwrap(), &bytes[..400_000]);
    // So does one who asks for a range, except for its last bytes, which wait for the checksum.
    let mut ranged = stream_of(rig.store.get(&named("k"), range(1000, 300_999)).await.unwrap().body);
    same(ranged.next().await.unwrap().unwrap(), &bytes[1000..301_000 - 65_536]);
    assert!(futures::poll!(ranged.next()).is_pending());
    rig.double.release();
    same(collect(ranged).await.unwrap(), &bytes[301_000 - 65_536..301_000]);
    same(collect(late).await.unwrap(), &bytes[400_000..]);
    same(read(first).await.unwrap(), &bytes);
    assert_eq!(rig.double.count("get"), 1);
}

#[tokio::test]
async fn a_fill_outlives_its_readers() {
    let bytes = pattern(LARGE, 3);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::Wait);
    let asking = Box::pin(rig.get("k"));
    assert!(futures::poll!(asking).is_pending());
    settle().await;
    rig.double.release();
    settle().await;
    drop(rig.get("k").await.unwrap());
    for _ in 0..20 {
        settle().await;
    }
    let served = rig.get("k").await.unwrap();
    assert_eq!((served.tier, rig.double.count("get")), (Tier::Memory, 1));
    same(read(served).await.unwrap(), &bytes);
}

#[tokio::test]
async fn a_corrupt_block_never_completes() {
    let bytes = pattern(LARGE, 4);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::Flip(LARGE - 5));
    let whole = rig.get("k").await.unwrap();
    let ranged = rig.store.get(&named("k"), range(0, 99)).await.unwrap();
    let mut stream = stream_of(whole.body);
    let mut got = 0;
    let error = loop {
        match stream.next().await.unwrap() {
            Ok(chunk) => got += chunk.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BodyError::Corrupt), "{error}");
    assert!(got <= LARGE - 65_536, "the last bytes were let go: {got}");
    assert!(matches!(read(ranged).await, Err(BodyError::Corrupt)));
    assert_eq!(rig.metric("blockgate_corrupt_blocks_total{tier=\"upstream\"}"), 1);
    // Nothing of it stays: the next read asks again.
    same(rig.bytes("k").await, &bytes);
    assert_eq!(rig.double.count("get"), 2);
}

#[tokio::test]
async fn a_small_corrupt_block_is_a_clean_miss() {
    let bytes = pattern(50_000, 5);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::Flip(0));
    assert_eq!(missed(rig.get("k").await), MissReason::Corrupt);
    assert_eq!(rig.metric("blockgate_misses_total{bucket=\"b\",reason=\"corrupt\"}"), 1);
    same(rig.bytes("k").await, &bytes);
}

#[tokio::test]
async fn with_a_deadline_the_answer_is_whole_or_a_miss() {
    let bytes = pattern(LARGE, 6);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::Flip(LARGE - 5));
    let minute = by(Duration::from_secs(60));
    assert_eq!(missed(rig.store.get(&named("k"), minute.clone()).await), MissReason::Corrupt);
    let served = rig.store.get(&named("k"), minute).await.unwrap();
    assert!(matches!(served.body, Body::Bytes(_)));
    same(read(served).await.unwrap(), &bytes);
}

#[tokio::test]
async fn what_comes_too_late_is_a_miss_and_still_arrives() {
    let bytes = pattern(LARGE, 7);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::Wait);
    assert_eq!(missed(rig.store.get(&named("k"), by(SHORT)).await), MissReason::Deadline);
    assert_eq!(missed(rig.store.get(&named("k"), by(Duration::ZERO)).await), MissReason::Deadline);
    rig.double.release();
    for _ in 0..20 {
        settle().await;
    }
    // In memory, no deadline is too short.
    let served = rig.store.get(&named("k"), by(Duration::ZERO)).await.unwrap();
    assert_eq!((served.tier, rig.double.count("get")), (Tier::Memory, 1));
    same(read(served).await.unwrap(), &bytes);
    rig.double.trick(Trick::Silent);
    assert_eq!(missed(rig.get("instant:k").await), MissReason::Deadline, "the bucket's own deadline");
    rig.double.hold_heads.store(true, Ordering::SeqCst);
    assert_eq!(missed(rig.store.head(&named("other"), by(SHORT)).await), MissReason::Deadline);
}

#[tokio::test]
async fn a_silent_upstream_is_given_up_without_a_deadline() {
    let rig = cold_with(&pattern(LARGE, 8), Limits { first_byte: SHORT, between_chunks: SHORT, ..limits() }).await;
    rig.double.trick(Trick::Silent);
    assert_eq!(missed(rig.get("k").await), MissReason::UpstreamUnavailable);
    rig.double.trick(Trick::Silent);
    let error = refused(rig.get("errors:k").await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
    for _ in 0..3 {
        rig.double.trick(Trick::StallAfter(100));
    }
    let served = rig.get("k").await.unwrap();
    assert!(matches!(read(served).await, Err(BodyError::Cut(_))));
    rig.double.hold_heads.store(true, Ordering::SeqCst);
    assert_eq!(missed(rig.head("unknown").await), MissReason::UpstreamUnavailable);
}

#[tokio::test]
async fn a_body_that_is_cut_is_taken_up_where_it_broke() {
    let bytes = pattern(LARGE, 9);
    let rig = cold(&bytes).await;
    rig.double.trick(Trick::CutAfter(250_000));
    rig.double.trick(Trick::CutAfter(100_000));
    same(rig.bytes("k").await, &bytes);
    assert_eq!(rig.double.count("get"), 3);

    let rig = cold(&bytes).await;
    for _ in 0..3 {
        rig.double.trick(Trick::CutAfter(100_000));
    }
    let served = rig.get("k").await.unwrap();
    assert!(matches!(read(served).await, Err(BodyError::Cut(_))), "tries are bounded");
    same(rig.bytes("k").await, &bytes);
}

#[tokio::test]
async fn bytes_of_two_versions_are_never_joined() {
    let rig = cold(&pattern(LARGE, 10)).await;
    rig.double.trick(Trick::WaitAfter(250_000));
    rig.double.trick(Trick::CutAfter(0));
    let served = rig.get("k").await.unwrap();
    settle().await;
    let new = pattern(LARGE, 11);
    rig.double.plant("k", new.clone(), meta(&[]));
    rig.double.release();
    // What the first GET had opened is still the old version, whole.
    same(read(served).await.unwrap(), pattern(LARGE, 10));

    let rig = cold(&pattern(LARGE, 10)).await;
    rig.double.trick(Trick::CutAfter(250_000));
    rig.double.trick(Trick::Wait);
    let served = rig.get("k").await.unwrap();
    for _ in 0..20 {
        settle().await;
    }
    rig.double.plant("k", new.clone(), meta(&[]));
    rig.double.release();
    assert!(matches!(read(served).await, Err(BodyError::Cut(_))));
    same(rig.bytes("k").await, &new);
}

#[tokio::test]
async fn objects_of_other_tools_are_kept_too() {
    let bytes = pattern(LARGE, 12);
    let rig = rig();
    rig.double.plant("k", bytes.clone(), meta(&[("a", "b")]));
    let served = rig.get("k").await.unwrap();
    let upstream_etag = rig.double.object("k").unwrap().etag;
    assert_eq!((served.tier, &served.info.etag), (Tier::Upstream, &upstream_etag));
    same(read(served).await.unwrap(), &bytes);
    let served = rig.get("k").await.unwrap();
    assert_eq!((served.tier, &served.info.etag), (Tier::Memory, &upstream_etag));
    same(read(served).await.unwrap(), &bytes);
}

#[tokio::test]
async fn a_failure_is_shared_only_by_those_who_waited() {
    let bytes = pattern(2000, 13);
    let rig = cold(&bytes).await;
    for _ in 0..3 {
        rig.double.trick(Trick::CutAfter(300));
    }
    assert_eq!(missed(rig.get("k").await), MissReason::UpstreamUnavailable);
    same(rig.bytes("k").await, &bytes);
    assert_eq!(rig.double.count("get"), 4);
}
