//! Copies, tags, and listings.

use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{CopyObject, ReadRequest, StoreError, WriteRequest};
use blockgate_upstream::{Conditions, ListEntry, ListRequest, UpstreamError};

use crate::support::*;

fn copy(source: &str, target: &str) -> CopyObject {
    CopyObject {
        source: named(source),
        source_conditions: Conditions::default(),
        target: named(target),
        attributes: None,
        tags: None,
        conditions: Conditions::default(),
    }
}

#[tokio::test]
async fn a_copy_is_the_same_block() {
    let rig = rig();
    let request = WriteRequest { tags: tags(&[("t", "u")]), ..with_meta(&[("a", "b"), ("kv-ttl", "60")]) };
    let original = rig.put_with("k", b"block", request.clone()).await.unwrap();
    rig.double.pass(Duration::from_secs(20));
    let written = rig.store.copy(copy("k", "l")).await.unwrap();
    assert_eq!((&written.etag, written.expires_at), (&original.etag, original.expires_at), "what remains of its time");
    assert_eq!(written.stored_at, rig.double.now());
    let (here, there) = (rig.head("l").await.unwrap().info, rig.another().head("l").await.unwrap().info);
    assert_eq!((&here, &here.attributes), (&there, &request.attributes));
    same(rig.bytes("l").await, "block");
    assert_eq!(rig.store.tags(&named("l")).await.unwrap(), request.tags);
    assert_eq!(rig.double.object("k").unwrap().bytes, rig.double.object("l").unwrap().bytes);
}

#[tokio::test]
async fn a_copy_with_new_attributes_begins_anew() {
    let rig = rig();
    rig.put_with("k", b"block", with_meta(&[("a", "b"), ("kv-ttl", "60")])).await.unwrap();
    let replace =
        |target, entries: &[(&str, &str)]| CopyObject { attributes: Some(meta(entries)), ..copy("k", target) };
    assert_eq!(rig.store.copy(replace("l", &[("c", "d")])).await.unwrap().expires_at, None);
    let written = rig.store.copy(replace("l", &[("kv-ttl", "9")])).await.unwrap();
    assert_eq!(written.expires_at, Some(rig.double.now() + Duration::from_secs(9)));
    assert_eq!(rig.head("l").await.unwrap().info.attributes.user, meta(&[("kv-ttl", "9")]).user);
    let tagged = CopyObject { tags: Some(tags(&[("kv-ttl", "7")])), ..copy("k", "l") };
    let written = rig.store.copy(tagged).await.unwrap();
    assert_eq!(written.expires_at, Some(rig.double.now() + Duration::from_secs(7)));
    assert!(matches!(
        refused(rig.store.copy(replace("l", &[("blockgate", "v")])).await),
        StoreError::InvalidArgument(_)
    ));
    assert!(matches!(refused(rig.store.copy(copy("k", "strict:l")).await), StoreError::InvalidArgument(_)));
}

#[tokio::test]
async fn a_copy_onto_itself_must_change_something() {
    let rig = rig();
    rig.put_with("k", b"block", with_meta(&[("a", "b")])).await.unwrap();
    assert!(matches!(refused(rig.store.copy(copy("k", "k")).await), StoreError::InvalidArgument(_)));
    let change = CopyObject { attributes: Some(meta(&[("c", "d")])), ..copy("k", "k") };
    rig.store.copy(change).await.unwrap();
    let served = rig.get("k").await.unwrap();
    assert_eq!((served.tier, &served.info.attributes.user), (Tier::Memory, &meta(&[("c", "d")]).user));
    same(read(served).await.unwrap(), "block");
}

#[tokio::test]
async fn only_what_may_be_read_is_copied() {
    let rig = rig();
    rig.put_with("k", b"block", with_meta(&[("kv-ttl", "60")])).await.unwrap();
    let with = |source_conditions| CopyObject { source_conditions, ..copy("k", "l") };
    for conditions in [
        Conditions { if_match: Some("other".into()), ..Conditions::default() },
        Conditions { if_none_match: Some(etag_of(b"block")), ..Conditions::default() },
    ] {
        assert!(matches!(refused(rig.store.copy(with(conditions)).await), StoreError::PreconditionFailed));
    }
    let same = Conditions { if_match: Some(etag_of(b"block")), ..Conditions::default() };
    rig.store.copy(with(same)).await.unwrap();
    let absent = refused(rig.store.copy(copy("absent", "l")).await);
    assert!(matches!(absent, StoreError::Upstream(UpstreamError::NoSuchKey)), "{absent}");
    let conditional = CopyObject {
        conditions: Conditions { if_none_match: Some("*".into()), ..Conditions::default() },
        ..copy("k", "m")
    };
    assert!(matches!(refused(rig.store.copy(conditional).await), StoreError::Upstream(UpstreamError::NotSupported(_))));
    rig.double.pass(Duration::from_secs(60));
    assert_eq!(missed(rig.store.copy(copy("k", "m")).await), MissReason::Expired);
}

#[tokio::test]
async fn copies_between_buckets_of_different_modes() {
    let rig = rig();
    rig.put("k", b"block").await;
    let written = rig.store.copy(copy("k", "past:l")).await.unwrap();
    assert!(written.etag.starts_with("up-"));
    same(rig.bytes("past:l").await, "block");
    // An object without a record stays without one, unless it must expire.
    rig.store.copy(copy("past:l", "m")).await.unwrap();
    assert!(rig.head("m").await.unwrap().info.record.is_none());
    same(rig.bytes("m").await, "block");
    let written = rig.store.copy(copy("past:l", "minute:m")).await.unwrap();
    assert_eq!(written.etag, etag_of(b"block"));
    assert_eq!(written.expires_at, Some(rig.double.now() + Duration::from_secs(60)));
}

#[tokio::test]
async fn a_copy_replaces_what_memory_had() {
    let rig = rig();
    rig.put("k", b"new").await;
    rig.put("l", b"old").await;
    rig.store.copy(copy("k", "l")).await.unwrap();
    same(rig.bytes("l").await, "new");
    rig.put("past:k", b"newer").await;
    rig.store.copy(copy("past:k", "l")).await.unwrap();
    same(rig.bytes("l").await, "newer");
}

#[tokio::test]
async fn a_ttl_tag_renews_from_now_and_moves_no_bytes() {
    let rig = rig();
    let original = rig.put_with("k", b"block", with_meta(&[("a", "b"), ("kv-ttl", "60")])).await.unwrap();
    rig.double.pass(Duration::from_secs(50));
    rig.store.set_tags(&named("k"), tags(&[("kv-ttl", "100"), ("t", "u")])).await.unwrap();
    let until = Some(rig.double.now() + Duration::from_secs(100));
    let found = rig.head("k").await.unwrap();
    assert_eq!((found.tier, found.info.expires_at(), found.info.tag_count), (Tier::Memory, until, 2));
    assert_eq!(*found.info, *rig.another().head("k").await.unwrap().info);
    assert_eq!((&found.info.etag, found.info.last_modified), (&original.etag, original.stored_at));
    assert_eq!((rig.double.count("get"), rig.double.count("put")), (0, 1));
    // Other tags leave the expiry as it is.
    rig.store.set_tags(&named("k"), tags(&[("x", "y")])).await.unwrap();
    assert_eq!(rig.store.tags(&named("k")).await.unwrap(), tags(&[("x", "y")]));
    assert_eq!(rig.head("k").await.unwrap().info.expires_at(), until);
    let error = refused(rig.store.set_tags(&named("k"), tags(&[("kv-ttl", "soon")])).await);
    assert!(matches!(error, StoreError::InvalidArgument(_)), "{error}");
    rig.double.pass(Duration::from_secs(100));
    assert_eq!(missed(rig.get("k").await), MissReason::Expired);
    assert_eq!(missed(rig.store.set_tags(&named("k"), tags(&[("kv-ttl", "1")])).await), MissReason::Expired);
}

#[tokio::test]
async fn a_foreign_object_can_be_given_a_ttl() {
    let rig = rig();
    rig.double.plant("k", "object", meta(&[]));
    rig.store.set_tags(&named("k"), tags(&[("kv-ttl", "10")])).await.unwrap();
    assert_eq!(rig.head("k").await.unwrap().info.etag, etag_of(b"object"));
    rig.double.plant("large", pattern(BLOCK_MAX + 1, 1), meta(&[]));
    let error = refused(rig.store.set_tags(&named("large"), tags(&[("kv-ttl", "10")])).await);
    assert!(matches!(error, StoreError::InvalidArgument(_)), "{error}");
    rig.double.pass(Duration::from_secs(10));
    assert_eq!(missed(rig.get("k").await), MissReason::Expired);
}

#[tokio::test]
async fn listings_show_the_etags_of_blocks_that_are_known() {
    let rig = rig();
    rig.put("a", b"block").await;
    rig.put("b", b"other").await;
    rig.put("past:a", b"object").await;
    rig.another().put("b", b"newer").await;
    let etags = |page: blockgate_upstream::ListPage| {
        let etag = |entry: &ListEntry| match entry {
            ListEntry::Object { etag, .. } => etag.clone(),
            ListEntry::CommonPrefix(_) => panic!("no delimiter was given"),
        };
        page.entries.iter().map(etag).collect::<Vec<_>>()
    };
    let request = ListRequest { limit: 1000, ..ListRequest::default() };
    let listed = etags(rig.store.list("b", &request).await.unwrap());
    let now_there = rig.double.object("b").unwrap().etag;
    assert_eq!(listed, [etag_of(b"block"), now_there], "what is known of b is out of date, and not shown");
    assert!(etags(rig.store.list("past", &request).await.unwrap())[0].starts_with("up-"));
    let conditions = Conditions { if_match: Some(listed[0].clone()), ..Conditions::default() };
    assert!(rig.store.get(&named("a"), ReadRequest { conditions, ..ReadRequest::default() }).await.is_ok());
}
