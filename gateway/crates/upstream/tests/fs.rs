//! The fs upstream: the suite that all upstreams pass, alone and behind the fault decorator; two gateways on one
//! directory; a gateway that is killed.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::sync::Arc;

use blockgate_upstream::{
    Conditions, FaultUpstream, FsUpstream, ListEntry, ListRequest, Payload, PutRequest, Upstream, UpstreamError,
    conformance,
};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::{join, join_all};

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Arc::new(FsUpstream::open(dir.path()).await.unwrap());
    conformance::run(fs, "conform", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fault_decorator_is_transparent() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Arc::new(FsUpstream::open(dir.path()).await.unwrap());
    conformance::run(Arc::new(FaultUpstream::new(fs)), "faults", &[]).await;
}

async fn put(fs: &FsUpstream, key: &str, bytes: Bytes, conditions: Conditions) -> blockgate_upstream::Result<String> {
    let request = PutRequest { conditions, ..PutRequest::default() };
    Ok(fs.put("bucket", key, request, Payload::Bytes(bytes)).await?.upstream_etag)
}

async fn get(fs: &FsUpstream, key: &str) -> Vec<u8> {
    let mut body = fs.get("bucket", key, None, &Conditions::default()).await.unwrap().body;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    bytes
}

async fn two_gateways(dir: &Path) -> [FsUpstream; 2] {
    let gateways = [FsUpstream::open(dir).await.unwrap(), FsUpstream::open(dir).await.unwrap()];
    gateways[0].create_bucket("bucket").await.unwrap();
    gateways
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_one_creates() {
    let dir = tempfile::tempdir().unwrap();
    let gateways = two_gateways(dir.path()).await;
    for round in 0..10 {
        let key = format!("dir/{round}");
        let create = Conditions { if_none_match: Some("*".to_owned()), ..Conditions::default() };
        let puts = (0..8).map(|at| put(&gateways[at % 2], &key, Bytes::from(format!("{at}")), create.clone()));
        let puts = join_all(puts).await;
        let winners: Vec<usize> = (0..8).filter(|at| puts[*at].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{puts:?}");
        for gateway in &gateways {
            assert_eq!(get(gateway, &key).await, winners[0].to_string().as_bytes());
        }
        let lost =
            |put: &blockgate_upstream::Result<String>| matches!(put, Ok(_) | Err(UpstreamError::PreconditionFailed));
        assert!(puts.iter().all(lost), "{puts:?}");
    }
}

/// Each adds one to a counter, by compare and swap, until it was let: none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_count() {
    let dir = tempfile::tempdir().unwrap();
    let gateways = two_gateways(dir.path()).await;
    put(&gateways[0], "counter", Bytes::from_static(b"0"), Conditions::default()).await.unwrap();
    let count = async |gateway: &FsUpstream| {
        for _ in 0..10 {
            loop {
                let etag = gateway.head("bucket", "counter", &Conditions::default()).await.unwrap().etag;
                let matches = Conditions { if_match: Some(etag), ..Conditions::default() };
                let Ok(reply) = gateway.get("bucket", "counter", None, &matches).await else { continue };
                let mut body = reply.body;
                let text = String::from_utf8(body.next().await.unwrap().unwrap().to_vec()).unwrap();
                let next = (text.parse::<u32>().unwrap() + 1).to_string();
                match put(gateway, "counter", next.into(), matches).await {
                    Ok(_) => break,
                    Err(UpstreamError::PreconditionFailed) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    join(count(&gateways[0]), count(&gateways[1])).await;
    assert_eq!(get(&gateways[0], "counter").await, b"20");
}

const CHILD: &str = "BLOCKGATE_TEST_WRITER_DIR";

/// No test of its own: the process that `a_killed_gateway_leaves_whole_objects` kills.
#[tokio::test(flavor = "multi_thread")]
async fn writer_that_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let fs = FsUpstream::open(dir).await.unwrap();
    for round in 0_u64.. {
        let puts = (0..4).map(|key| {
            let bytes = Bytes::from(vec![round as u8; 300_000 + 1000 * key]);
            let key = format!("dir/{key}");
            let fs = &fs;
            async move { put(fs, &key, bytes, Conditions::default()).await.unwrap() }
        });
        join_all(puts).await;
        fs.delete("bucket", "dir/3").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_leaves_whole_objects() {
    let dir = tempfile::tempdir().unwrap();
    let [fs, _] = two_gateways(dir.path()).await;
    for _ in 0..3 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_that_is_killed"])
            .env(CHILD, dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // It is at work once something new is there.
        while fs.head("bucket", "dir/0", &Conditions::default()).await.is_err() {
            assert!(child.try_wait().unwrap().is_none(), "the writer ended");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let list = ListRequest { limit: 10, ..ListRequest::default() };
        for entry in fs.list("bucket", &list).await.unwrap().entries {
            let ListEntry::Object { key, size_bytes, .. } = entry else { panic!("{entry:?}") };
            let bytes = get(&fs, &key).await;
            let number: usize = key["dir/".len()..].parse().unwrap();
            assert_eq!((bytes.len() as u64, bytes.len()), (size_bytes, 300_000 + 1000 * number));
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{key} is a mixture");
            put(&fs, &key, Bytes::from_static(b"x"), Conditions::default()).await.unwrap();
            fs.delete("bucket", &key).await.unwrap();
        }
    }
}
