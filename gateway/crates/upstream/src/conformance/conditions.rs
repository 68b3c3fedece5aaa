//! Conditions on reads and writes, alone and in races.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join_all};

use super::Bench;
use super::tools::{assert_fails, if_match, if_none_match, pattern, put_if, read_all};
use crate::{Conditions, Result, Stored, UpstreamError};

/// Rounds of a race between two.
const ROUNDS: usize = 20;

pub(super) async fn conditions_on_reads(bench: Bench) {
    let key = bench.key("a");
    let bytes = pattern(1, 100);
    let etag = bench.put(&key, &bytes).await.upstream_etag;
    let modified_at = bench.head(&key).await.unwrap().last_modified;
    let (before, after) = (modified_at - Duration::from_secs(60), modified_at + Duration::from_secs(1));
    let times = |modified_since, unmodified_since| Conditions {
        if_modified_since: modified_since,
        if_unmodified_since: unmodified_since,
        ..Conditions::default()
    };
    let holds = [
        if_match(&etag),
        if_none_match("another"),
        times(Some(before), None),
        times(None, Some(after)),
        Conditions { if_unmodified_since: Some(before), ..if_match(&etag) },
        Conditions { if_modified_since: Some(after), ..if_none_match("another") },
    ];
    for conditions in &holds {
        bench.upstream.head(&bench.bucket, &key, conditions).await.unwrap();
        let reply = bench.upstream.get(&bench.bucket, &key, Some(10..20), conditions).await.unwrap();
        assert_eq!(read_all(reply).await, bytes.slice(10..20));
    }
    for conditions in [if_match("another"), times(None, Some(before))] {
        let (head, get) = both(&bench, &key, &conditions).await;
        assert_fails!(head, UpstreamError::PreconditionFailed);
        assert_fails!(get, UpstreamError::PreconditionFailed);
    }
    for conditions in [if_none_match(&etag), times(Some(after), None)] {
        let (head, get) = both(&bench, &key, &conditions).await;
        assert_fails!(head, UpstreamError::NotModified { .. });
        assert_fails!(get, UpstreamError::NotModified { .. });
    }
}

async fn both(bench: &Bench, key: &str, conditions: &Conditions) -> (Result<()>, Result<()>) {
    let head = bench.upstream.head(&bench.bucket, key, conditions).await.map(drop);
    (head, bench.upstream.get(&bench.bucket, key, None, conditions).await.map(drop))
}

/// Holds a store that has no such conditions to refusing them. Whether it has.
async fn is_supported(bench: &Bench, supported: bool, conditions: Conditions) -> bool {
    if !supported {
        let key = bench.key("refused");
        let put = bench.put_with(&key, &Bytes::from_static(b"x"), put_if(conditions)).await;
        assert_fails!(put, UpstreamError::NotSupported(_));
        bench.assert_absent(&key).await;
    }
    supported
}

pub(super) async fn create_only(bench: Bench) {
    let supported = bench.upstream.capabilities().put_if_none_match;
    if !is_supported(&bench, supported, if_none_match("*")).await {
        return;
    }
    let key = bench.key("a");
    bench.put_with(&key, &pattern(1, 10), put_if(if_none_match("*"))).await.unwrap();
    let again = bench.put_with(&key, &pattern(2, 10), put_if(if_none_match("*"))).await;
    assert_fails!(again, UpstreamError::PreconditionFailed);
    assert_eq!(bench.get(&key).await, pattern(1, 10));
    bench.upstream.delete(&bench.bucket, &key).await.unwrap();
    bench.put_with(&key, &pattern(3, 10), put_if(if_none_match("*"))).await.unwrap();
    assert_eq!(bench.get(&key).await, pattern(3, 10));
}

/// Who was let write: exactly one, the others were told why not.
fn the_winner(puts: &[Result<Stored>]) -> usize {
    let lost = |put: &Result<Stored>| matches!(put, Err(UpstreamError::PreconditionFailed | UpstreamError::Conflict));
    assert!(puts.iter().all(|put| put.is_ok() || lost(put)), "{puts:?}");
    let winners: Vec<usize> = (0..puts.len()).filter(|at| puts[*at].is_ok()).collect();
    assert_eq!(winners.len(), 1, "exactly one wins: {puts:?}");
    winners[0]
}

pub(super) async fn create_only_races(bench: Bench) {
    if !bench.upstream.capabilities().put_if_none_match {
        return;
    }
    for round in 0..ROUNDS / 4 {
        let key = bench.key(&round.to_string());
        let writers = (0..8).map(|seed| {
            let (bench, key) = (&bench, &key);
            async move { bench.put_with(key, &pattern(seed, 1000), put_if(if_none_match("*"))).await }
        });
        let winner = the_winner(&join_all(writers).await);
        assert!(bench.get(&key).await == pattern(winner as u64, 1000), "the winner's bytes stay");
    }
}

pub(super) async fn replace_only(bench: Bench) {
    let supported = bench.upstream.capabilities().put_if_match;
    if !is_supported(&bench, supported, if_match("0123456789abcdef0123456789abcdef")).await {
        return;
    }
    let key = bench.key("a");
    let absent = bench.put_with(&key, &pattern(1, 10), put_if(if_match("0123456789abcdef0123456789abcdef"))).await;
    assert_fails!(absent, UpstreamError::NoSuchKey | UpstreamError::PreconditionFailed);
    bench.assert_absent(&key).await;
    let first = bench.put(&key, &pattern(1, 10)).await.upstream_etag;
    let second = bench.put_with(&key, &pattern(2, 10), put_if(if_match(&first))).await.unwrap().upstream_etag;
    let late = bench.put_with(&key, &pattern(3, 10), put_if(if_match(&first))).await;
    assert_fails!(late, UpstreamError::PreconditionFailed);
    assert_eq!(bench.get(&key).await, pattern(2, 10));
    bench.put_with(&key, &pattern(4, 10), put_if(if_match(&second))).await.unwrap();
    assert_eq!(bench.get(&key).await, pattern(4, 10));
}

/// Of many that replace one version, one wins; what is written without conditions at the same time is never lost.
pub(super) async fn replace_only_races(bench: Bench) {
    if !bench.upstream.capabilities().put_if_match {
        return;
    }
    let key = bench.key("a");
    for round in 0..ROUNDS as u64 {
        let etag = bench.put(&key, &pattern(100 + round, 1000)).await.upstream_etag;
        let replace = |seed| {
            let (bench, key, request) = (&bench, &key, put_if(if_match(&etag)));
            async move { bench.put_with(key, &pattern(seed, 1000), request).await }
        };
        if round % 2 == 0 {
            let winner = the_winner(&join_all((0..4).map(replace)).await);
            assert!(bench.get(&key).await == pattern(winner as u64, 1000), "the winner's bytes stay");
        } else {
            join(replace(1), bench.put(&key, &pattern(2, 1000))).await.0.ok();
            assert!(bench.get(&key).await == pattern(2, 1000), "an unconditional write was lost");
        }
    }
}

/// Whichever comes first, nothing is left: the write fails after the deletion, or the deletion removes what it wrote.
pub(super) async fn conditions_against_deletion(bench: Bench) {
    if !bench.upstream.capabilities().put_if_match {
        return;
    }
    let key = bench.key("a");
    for round in 0..ROUNDS as u64 {
        let etag = bench.put(&key, &pattern(100 + round, 1000)).await.upstream_etag;
        let bytes = pattern(1, 1000);
        let write = bench.put_with(&key, &bytes, put_if(if_match(&etag)));
        let (write, deletion) = join(write, bench.upstream.delete(&bench.bucket, &key)).await;
        deletion.unwrap();
        let lost = matches!(
            write,
            Err(UpstreamError::PreconditionFailed | UpstreamError::Conflict | UpstreamError::NoSuchKey)
        );
        assert!(write.is_ok() || lost, "{write:?}");
        assert_fails!(bench.head(&key).await, UpstreamError::NoSuchKey);
    }
}
