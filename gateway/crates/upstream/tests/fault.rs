//! The fault decorator does what it is told, and nothing else.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use blockgate_upstream::{
    BodyError, Conditions, Fault, FaultUpstream, FsUpstream, Op, Payload, PutRequest, Upstream, UpstreamError,
};
use bytes::Bytes;
use futures::StreamExt;

const BYTES: Bytes = Bytes::from_static(b"0123456789");

async fn faulty() -> (tempfile::TempDir, FaultUpstream) {
    let dir = tempfile::tempdir().unwrap();
    let faulty = FaultUpstream::new(Arc::new(FsUpstream::open(dir.path()).await.unwrap()));
    faulty.create_bucket("bucket").await.unwrap();
    put(&faulty).await.unwrap();
    (dir, faulty)
}

async fn put(faulty: &FaultUpstream) -> blockgate_upstream::Result<()> {
    faulty.put("bucket", "key", PutRequest::default(), Payload::Bytes(BYTES)).await.map(drop)
}

async fn get(faulty: &FaultUpstream) -> blockgate_upstream::Result<(Vec<u8>, Option<BodyError>)> {
    let mut body = faulty.get("bucket", "key", None, &Conditions::default()).await?.body;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) => return Ok((bytes, Some(error))),
        }
    }
    Ok((bytes, None))
}

#[tokio::test]
async fn calls_fail_when_told() {
    let (_dir, faulty) = faulty().await;
    faulty.at(Op::Get, 2, Fault::Fail(UpstreamError::SlowDown));
    assert_eq!(get(&faulty).await.unwrap().0, BYTES);
    assert!(matches!(get(&faulty).await, Err(UpstreamError::SlowDown)));
    assert_eq!(get(&faulty).await.unwrap().0, BYTES);
    faulty.always(Op::Get, Fault::Fail(UpstreamError::Full));
    for _ in 0..3 {
        assert!(matches!(get(&faulty).await, Err(UpstreamError::Full)));
    }
    faulty.heal();
    assert_eq!(get(&faulty).await.unwrap().0, BYTES);
    assert_eq!((faulty.calls(Op::Get), faulty.calls(Op::Put), faulty.calls(Op::Head)), (7, 1, 0));
}

#[tokio::test]
async fn bodies_break_when_told() {
    let (_dir, faulty) = faulty().await;
    faulty.at(Op::Get, 1, Fault::CutBody(4));
    let (bytes, error) = get(&faulty).await.unwrap();
    assert_eq!(bytes, b"0123");
    assert!(matches!(error, Some(BodyError::Cut(_))));
    faulty.at(Op::Get, 1, Fault::FlipBit(8 * 3 + 1));
    assert_eq!(get(&faulty).await.unwrap().0, b"0121456789");
    faulty.at(Op::Get, 1, Fault::StallBody(4));
    assert!(tokio::time::timeout(Duration::from_millis(20), get(&faulty)).await.is_err());
    faulty.at(Op::Put, 1, Fault::CutBody(4));
    assert!(matches!(put(&faulty).await, Err(UpstreamError::Body(BodyError::Cut(_)))));
    assert_eq!(get(&faulty).await.unwrap().0, BYTES);
    faulty.at(Op::Put, 1, Fault::FlipBit(0));
    put(&faulty).await.unwrap();
    assert_eq!(get(&faulty).await.unwrap().0, b"1123456789");
}

#[tokio::test]
async fn answers_are_lost_after_the_work() {
    let (_dir, faulty) = faulty().await;
    faulty.at(Op::Delete, 1, Fault::LoseAnswer(UpstreamError::Unavailable("lost".to_owned())));
    assert!(matches!(faulty.delete("bucket", "key").await, Err(UpstreamError::Unavailable(_))));
    assert!(matches!(get(&faulty).await, Err(UpstreamError::NoSuchKey)));
    faulty.at(Op::Ping, 1, Fault::Hang);
    assert!(tokio::time::timeout(Duration::from_millis(20), faulty.ping()).await.is_err());
    faulty.ping().await.unwrap();
}

#[tokio::test]
async fn chance_depends_on_the_seed_alone() {
    let (_dir, faulty) = faulty().await;
    let mut draws = Vec::new();
    for seed in [7, 7, 8] {
        faulty.often(Op::Ping, 300, seed, Fault::Fail(UpstreamError::SlowDown));
        let mut drawn = Vec::new();
        for _ in 0..200 {
            drawn.push(faulty.ping().await.is_err());
        }
        faulty.heal();
        draws.push(drawn);
    }
    assert_eq!(draws[0], draws[1]);
    assert_ne!(draws[0], draws[2]);
    let struck = draws[0].iter().filter(|struck| **struck).count();
    assert!((30..90).contains(&struck), "{struck}");
}
