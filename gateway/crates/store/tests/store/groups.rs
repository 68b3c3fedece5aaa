//! Groups: all or none, whatever fails, for every gateway.

use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::MissReason;
use blockgate_store::{Result, StoreError, WriteRequest, Written};
use blockgate_upstream::{Conditions, Payload, UpstreamError};
use bytes::Bytes;

use crate::double::When;
use crate::support::*;

/// Keys and bytes of a group.
fn blocks(count: u64, seed: u64) -> Vec<(String, Vec<u8>)> {
    (0..count).map(|n| (format!("k{n}"), pattern(3000 + usize::try_from(n).unwrap(), seed * 1000 + n))).collect()
}

async fn put_group(rig: &Rig, blocks: &[(String, Vec<u8>)]) -> Result<Vec<Written>> {
    let request = with_meta(&[("kv-ttl", "60"), ("kv-fingerprint", "f")]);
    put_group_with(rig, blocks, &request).await
}

async fn put_group_with(rig: &Rig, blocks: &[(String, Vec<u8>)], request: &WriteRequest) -> Result<Vec<Written>> {
    let mut members = Vec::new();
    for (key, bytes) in blocks {
        let key = named(key);
        let payload = Payload::Bytes(Bytes::copy_from_slice(bytes));
        let body = rig.store.take_in(key.bucket(), payload).await?;
        members.push((key, request.clone(), body));
    }
    rig.store.put_group(members).await
}

/// The state of a group as a gateway shows it: every block, or none.
async fn is_there(rig: &Rig, blocks: &[(String, Vec<u8>)]) -> bool {
    let mut seen = Vec::new();
    for (key, bytes) in blocks {
        let found = rig.head(key).await;
        match rig.get(key).await {
            Ok(served) => {
                assert!(found.is_ok());
                same(read(served).await.unwrap(), bytes);
                seen.push(true);
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Miss(MissReason::Absent)), "{error}");
                assert!(found.is_err());
                seen.push(false);
            }
        }
    }
    assert!(seen.iter().all(|&there| there == seen[0]), "all or none: {seen:?}");
    seen[0]
}

fn fresh(rig: &Rig) -> Rig {
    rig_on(rig.double.clone(), limits(), 16 << 20, Duration::ZERO)
}

#[tokio::test]
async fn a_group_is_there_through_every_gateway() {
    let rig = rig();
    let blocks = blocks(40, 1);
    let written = put_group(&rig, &blocks).await.unwrap();
    for ((_, bytes), written) in blocks.iter().zip(&written) {
        assert_eq!((&written.etag, written.size_bytes), (&etag_of(bytes), Some(bytes.len() as u64)));
        assert_eq!(written.expires_at, Some(written.stored_at + Duration::from_secs(60)));
    }
    assert_eq!(rig.double.count("put"), 41);
    assert!(is_there(&rig, &blocks).await);
    assert_eq!((rig.double.count("get"), rig.double.count("head")), (0, 0), "all is in memory");
    let other = rig.another();
    assert!(is_there(&other, &blocks).await);
    assert_eq!(rig.double.count("head"), 40 + 1, "the commit is asked for once");
    rig.double.pass(Duration::from_secs(60));
    for gateway in [&rig, &other, &rig.another()] {
        assert_eq!(missed(gateway.get("k1").await), MissReason::Expired);
    }
    assert!(rig.store.put_group(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn nothing_of_a_group_is_seen_before_all_of_it() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let blocks = blocks(5, 1);
    for step in 0..=5 {
        rig.double.hold_put(When::After(step));
        let other = fresh(&rig);
        let putting = put_group(&rig, &blocks);
        let watching = async {
            settle().await;
            assert!(!is_there(&rig, &blocks).await);
            assert!(!is_there(&other, &blocks).await);
            assert!(!is_there(&fresh(&rig), &blocks).await);
            rig.double.release();
        };
        let (written, ()) = tokio::join!(putting, watching);
        written.unwrap();
        for gateway in [&rig, &other, &fresh(&rig)] {
            assert!(is_there(gateway, &blocks).await);
        }
        for (key, _) in &blocks {
            rig.store.delete(&named(key)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_gateway_that_dies_at_any_step_leaves_nothing_to_be_seen() {
    // At step 5 it dies before the commit, at 6 after it.
    for step in 0..=6 {
        let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
        let blocks = blocks(5, 1);
        rig.double.die_at_put(step);
        assert!(put_group(&rig, &blocks).await.is_err() || step == 6);
        rig.double.revive();
        let at_upstream = (0..5).filter(|n| rig.double.object(&format!("k{n}")).is_some()).count();
        assert_eq!(at_upstream, step.min(5), "a dead gateway takes nothing back");
        assert_eq!(is_there(&fresh(&rig), &blocks).await, step == 6);
    }
}

#[tokio::test]
async fn a_write_that_fails_takes_the_group_back() {
    for step in 0..5 {
        let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
        let blocks = blocks(5, 1);
        rig.put("k2", b"before").await;
        rig.double.fail_put(When::After(step));
        let error = refused(put_group(&rig, &blocks).await);
        assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
        for gateway in [&rig, &fresh(&rig)] {
            for (key, _) in &blocks {
                match gateway.get(key).await {
                    Ok(served) => assert_eq!((&**key, &*read(served).await.unwrap()), ("k2", &b"before"[..])),
                    Err(error) => assert!(matches!(error, StoreError::Miss(MissReason::Absent)), "{error}"),
                }
            }
        }
        let left = rig.double.keys().into_iter().filter(|key| key != "k2").count();
        assert_eq!(left, 0, "nothing remains at the upstream");
        assert!(put_group(&rig, &blocks).await.is_ok() && is_there(&fresh(&rig), &blocks).await);
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_is_tried_again() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let blocks = blocks(3, 1);
    rig.double.fail_put(When::After(3));
    put_group(&rig, &blocks).await.unwrap();
    assert_eq!(rig.double.count("put"), 5);
    assert!(is_there(&rig, &blocks).await && is_there(&fresh(&rig), &blocks).await);
}

#[tokio::test]
async fn a_commit_that_may_have_come_through_takes_nothing_back() {
    for is_stored in [false, true] {
        // Fewer attempts than failures that open the breaker.
        let limits = blockgate_store::Limits { commit_attempts: 3, ..limits() };
        let rig = rig_with(limits, 16 << 20, Duration::ZERO);
        let blocks = blocks(3, 1);
        rig.double.lose_puts_from(3, is_stored);
        let error = refused(put_group(&rig, &blocks).await);
        assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
        assert_eq!(rig.double.count("put"), 3 + 3);
        rig.double.revive();
        for gateway in [&rig, &fresh(&rig)] {
            assert_eq!(is_there(gateway, &blocks).await, is_stored);
        }
    }
}

#[tokio::test]
async fn a_group_that_was_open_for_too_long_is_not_committed() {
    let rig = rig();
    let blocks = blocks(3, 1);
    rig.double.hold_put(When::After(1));
    let late = async {
        settle().await;
        rig.double.pass(Duration::from_secs(3600));
        rig.double.release();
    };
    let (outcome, ()) = tokio::join!(put_group(&rig, &blocks), late);
    assert!(refused(outcome).to_string().contains("too long"));
    assert_eq!(rig.double.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn absence_of_a_commit_is_believed_for_a_moment() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let other = rig_on(rig.double.clone(), limits(), 16 << 20, Duration::from_secs(5));
    let blocks = blocks(2, 1);
    rig.double.hold_put(When::After(2));
    let asked = || rig.double.count("head");
    let watching = async {
        settle().await;
        assert_eq!(missed(other.head("k0").await), MissReason::Absent);
        assert_eq!((missed(other.head("k1").await), asked()), (MissReason::Absent, 3), "two blocks, one commit");
        rig.double.release();
    };
    let (written, ()) = tokio::join!(put_group(&rig, &blocks), watching);
    written.unwrap();
    assert_eq!(missed(other.head("k0").await), MissReason::Absent);
    rig.double.pass(Duration::from_secs(5));
    assert!(is_there(&other, &blocks).await);
}

#[tokio::test]
async fn without_an_answer_about_the_commit_there_is_no_block() {
    let rig = rig();
    let blocks = blocks(2, 1);
    put_group(&rig, &blocks).await.unwrap();
    let other = rig.another();
    rig.double.fail_commit_heads(true);
    assert_eq!(missed(other.get("k0").await), MissReason::UpstreamUnavailable);
    assert_eq!(missed(other.head("k0").await), MissReason::UpstreamUnavailable);
    rig.double.fail_commit_heads(false);
    assert!(is_there(&other, &blocks).await);
}

#[tokio::test]
async fn many_readers_ask_once_for_a_commit() {
    let rig = rig();
    let blocks = blocks(30, 1);
    put_group(&rig, &blocks).await.unwrap();
    let other = rig.another();
    rig.double.jitter.store(5, Ordering::SeqCst);
    let reads = blocks.iter().map(|(key, _)| other.head(key));
    assert!(futures::future::join_all(reads).await.iter().all(std::result::Result::is_ok));
    assert_eq!(rig.double.count("head"), 30 + 1);
}

#[tokio::test]
async fn what_was_never_committed_counts_as_nothing_to_writes() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let blocks = blocks(6, 1);
    rig.double.die_at_put(6);
    assert!(put_group(&rig, &blocks).await.is_err());
    rig.double.revive();
    let on = |conditions| WriteRequest { conditions, ..WriteRequest::default() };
    let absent = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let there = Conditions { if_match: Some("*".into()), ..Conditions::default() };
    let named_tag = Conditions { if_match: Some(etag_of(&blocks[1].1)), ..Conditions::default() };
    let other = fresh(&rig);
    for conditions in [&there, &named_tag] {
        let error = refused(other.put_with("k1", b"new", on(conditions.clone())).await);
        assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchKey)), "{error}");
    }
    other.put_with("k0", b"new", on(absent.clone())).await.unwrap();
    assert_eq!(other.bytes("k0").await, "new");
    let error = refused(other.put_with("k0", b"newer", on(absent.clone())).await);
    assert!(matches!(error, StoreError::PreconditionFailed), "{error}");
    // A stream, and a multipart upload.
    let large = pattern(BLOCK_MAX + 1, 9);
    other.put_with("k1", &large, on(absent.clone())).await.unwrap();
    same(other.bytes("k1").await, &large);
    assert!(matches!(refused(other.put_with("k1", &large, on(absent.clone())).await), StoreError::PreconditionFailed));
    let id = other.store.create_multipart(&named("k2"), WriteRequest::default()).await.unwrap();
    let etag =
        other.store.upload_part(&named("k2"), &id, 1, Payload::Bytes(Bytes::from_static(b"part"))).await.unwrap();
    let parts = vec![blockgate_store::CompletePart { number: 1, etag }];
    other.store.complete_multipart(&named("k2"), &id, parts, on(absent.clone())).await.unwrap();
    assert_eq!(other.bytes("k2").await, "part");
    // A group over what another left.
    put_group_with(&other, &blocks[3..], &on(absent)).await.unwrap();
    assert!(is_there(&other, &blocks[3..]).await);
}

#[tokio::test]
async fn what_was_never_committed_is_neither_copied_nor_renewed_nor_tagged() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    rig.double.die_at_put(2);
    assert!(put_group(&rig, &blocks(2, 1)).await.is_err());
    rig.double.revive();
    let other = fresh(&rig);
    let copy = blockgate_store::CopyObject {
        source: named("k0"),
        source_conditions: Conditions::default(),
        target: named("copy"),
        attributes: None,
        tags: None,
        conditions: Conditions::default(),
    };
    assert!(other.store.copy(copy).await.is_err());
    assert!(other.store.tags(&named("k0")).await.is_err());
    assert!(other.store.set_tags(&named("k0"), tags(&[("a", "b")])).await.is_err());
    assert_eq!(other.store.touch(&key_list(&["k0", "k1"]), Duration::from_secs(9)).await.unwrap(), 0);
    assert_eq!(other.store.delete_fingerprint("b", "f").await.unwrap(), 0);
    assert_eq!(missed(other.get("copy").await), MissReason::Absent);
    assert!(rig.double.object("k0").is_some());
    // Removing it is allowed: it frees room.
    assert_eq!(other.store.delete_prefix("b", "k").await.unwrap(), 2);
    assert_eq!(rig.double.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_copy_of_a_block_of_a_group_stands_alone() {
    let rig = rig();
    let blocks = blocks(2, 1);
    put_group(&rig, &blocks).await.unwrap();
    let copy = blockgate_store::CopyObject {
        source: named("k0"),
        source_conditions: Conditions::default(),
        target: named("copy"),
        attributes: None,
        tags: None,
        conditions: Conditions::default(),
    };
    rig.store.copy(copy).await.unwrap();
    assert!(!rig.double.object("copy").unwrap().attributes.user["blockgate"].contains("group="));
    assert_eq!(rig.store.touch(&key_list(&["k0", "k1"]), Duration::from_secs(90)).await.unwrap(), 2);
    assert!(rig.double.object("k0").unwrap().attributes.user["blockgate"].contains("group="));
    assert!(is_there(&rig, &blocks).await && is_there(&rig.another(), &blocks).await);
}

#[tokio::test]
async fn a_group_replaces_what_was_there_at_once() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let (old, new) = (blocks(4, 1), blocks(4, 2));
    put_group(&rig, &old).await.unwrap();
    assert!(is_there(&rig, &old).await);
    rig.double.hold_put(When::After(4));
    let watching = async {
        settle().await;
        assert!(!is_there(&rig, &new).await, "the old ones are gone, the new ones not yet there");
        rig.double.release();
    };
    let (written, ()) = tokio::join!(put_group(&rig, &new), watching);
    written.unwrap();
    assert!(is_there(&rig, &new).await);
}

#[tokio::test]
async fn a_condition_that_fails_fails_all() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let blocks = blocks(4, 1);
    rig.put("k2", b"there").await;
    let absent = Conditions { if_none_match: Some("*".into()), ..Conditions::default() };
    let request = WriteRequest { conditions: absent, ..WriteRequest::default() };
    assert!(matches!(refused(put_group_with(&rig, &blocks, &request).await), StoreError::PreconditionFailed));
    assert_eq!((rig.bytes("k2").await, rig.double.keys()), (Bytes::from_static(b"there"), vec!["k2".to_owned()]));
}

#[tokio::test]
async fn what_is_refused() {
    let rig = rig();
    let block = |key: &str| (key.to_owned(), b"x".to_vec());
    let message = refused(put_group(&rig, &[block("a"), block("b\n"), block("b\n")]).await).to_string();
    assert_eq!(message, "the key \"b\\n\" comes twice in one group");
    let message = refused(put_group(&rig, &[block("a"), block("minute:a")]).await).to_string();
    assert_eq!(message, "the blocks of a group are of one bucket");
    assert!(refused(put_group(&rig, &[block("past:a")]).await).to_string().contains("passthrough"));
    let many: Vec<_> = (0..4097).map(|n| block(&n.to_string())).collect();
    assert_eq!(refused(put_group(&rig, &many).await).to_string(), "a group has at most 4096 blocks, not 4097");
    let error = refused(put_group_with(&rig, &[block("strict:a")], &WriteRequest::default()).await);
    assert!(matches!(error, StoreError::InvalidArgument(_)), "{error}");
    assert_eq!(rig.double.count("put"), 0);
}

#[tokio::test]
async fn the_commit_names_its_keys_and_is_hidden() {
    let rig = rig();
    put_group(&rig, &blocks(2, 1)).await.unwrap();
    let commits = rig.double.reserved();
    assert_eq!(commits.len(), 1);
    assert!(commits[0].0.starts_with(".blockgate/groups/"), "{}", commits[0].0);
    assert_eq!(commits[0].1, "k0\0k1\0");
    assert_eq!(rig.store.delete_prefix("b", "").await.unwrap(), 2);
    assert_eq!(rig.double.reserved().len(), 1);
    for prefix in [".blockgate/", ".blockgate/groups/"] {
        assert!(matches!(refused(rig.store.delete_prefix("b", prefix).await), StoreError::InvalidArgument(_)));
    }
    assert_eq!(rig.store.delete_prefix("b", ".blockgate").await.unwrap(), 0);
    assert_eq!(rig.double.reserved().len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_a_group() {
    let rig = rig();
    let blocks = blocks(3, 1);
    rig.double.hold_put(When::After(1));
    {
        let putting = put_group(&rig, &blocks);
        tokio::select! {
            _ = putting => panic!("held"),
            () = settle() => {}
        }
    }
    rig.double.release();
    settle().await;
    assert!(is_there(&rig, &blocks).await && is_there(&rig.another(), &blocks).await);
}
