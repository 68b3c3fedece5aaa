//! Operations on keys whose block is still on its way.

use super::*;

#[tokio::test]
async fn a_delete_beats_an_upload_that_has_not_begun() {
    let back = back_with(one_at_a_time()).await;
    back.rig.double.hold_put(When::After(0));
    back.rig.put("first", b"under way").await;
    settle().await;
    back.rig.put("k", b"block").await;
    back.rig.put("l", b"block").await;
    back.rig.store.delete(&named("k")).await.unwrap();
    assert_eq!(back.rig.store.delete_keys(&key_list(&["l", "m"])).await.unwrap(), 2);
    for key in ["k", "l"] {
        assert_eq!(missed(back.rig.get(key).await), MissReason::Absent);
    }
    back.rig.double.release();
    back.rig.store.drain().await;
    assert_eq!((back.puts(), back.rig.double.keys()), (1, vec!["first".to_owned()]));
    let back = back.restart().await;
    back.rig.store.drain().await;
    for key in ["k", "l"] {
        assert_eq!(missed(back.rig.get(key).await), MissReason::Absent);
    }
    assert_eq!(back.rig.double.keys(), ["first"]);
}

#[tokio::test]
async fn a_delete_waits_for_an_upload_under_way() {
    let back = back().await;
    back.hold();
    back.rig.put("k", b"block").await;
    settle().await;
    let store = Arc::clone(&back.rig.store);
    let delete = tokio::spawn(async move { store.delete(&named("k")).await });
    settle().await;
    assert!(!delete.is_finished(), "it must not land after the delete");
    same(back.rig.bytes("k").await, "block");
    back.let_go().await;
    delete.await.unwrap().unwrap();
    assert_eq!(missed(back.rig.get("k").await), MissReason::Absent);
    assert!(back.rig.double.keys().is_empty());
    let back = back.restart().await;
    assert_eq!(missed(back.rig.get("k").await), MissReason::Absent);
    assert!(back.rig.double.keys().is_empty());
}

#[tokio::test]
async fn a_delete_that_fails_leaves_what_was_acknowledged() {
    let back = back().await;
    back.rig.put("bucket", b"known").await;
    back.rig.store.drain().await;
    back.outage(true);
    back.rig.put("k", b"block").await;
    assert!(back.rig.store.delete(&named("k")).await.is_err());
    same(back.rig.bytes("k").await, "block");
    let back = back.restart().await;
    same(back.rig.bytes("k").await, "block");
    back.outage(false);
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("k").await, "block");
}

#[tokio::test]
async fn deletes_by_prefix_and_fingerprint_see_what_is_on_its_way() {
    let back = back_with(one_at_a_time()).await;
    let of = |fingerprint| with_meta(&[("kv-fingerprint", fingerprint)]);
    for key in ["p/1", "x", "y"] {
        back.rig.put_with(key, b"first", of("f")).await.unwrap();
    }
    back.rig.store.drain().await;
    back.rig.double.hold_put(When::After(0));
    back.rig.put("first", b"under way").await;
    settle().await;
    back.rig.put_with("p/2", b"on its way", of("g")).await.unwrap();
    back.rig.put_with("x", b"on its way", of("g")).await.unwrap();
    back.rig.put_with("z", b"on its way", of("f")).await.unwrap();
    assert_eq!(back.rig.store.delete_prefix("b", "p/").await.unwrap(), 2);
    assert_eq!(back.rig.store.delete_fingerprint("b", "f").await.unwrap(), 2, "y and z; x is overwritten already");
    same(back.rig.bytes("x").await, "on its way");
    back.rig.double.release();
    back.rig.store.drain().await;
    assert_eq!(back.rig.double.keys(), ["first", "x"]);
    same(back.elsewhere().bytes("x").await, "on its way");
}

#[tokio::test]
async fn what_goes_by_the_upstream_lets_it_go_up_first() {
    let back = back().await;
    let request = WriteRequest { tags: tags(&[("t", "u")]), ..with_meta(&[("a", "b"), ("kv-ttl", "60")]) };
    back.rig.put_with("touched", b"block", request.clone()).await.unwrap();
    assert_eq!(back.rig.store.touch(&key_list(&["touched"]), Duration::from_secs(100)).await.unwrap(), 1);
    back.rig.put_with("copied", b"block", request.clone()).await.unwrap();
    assert_eq!(back.rig.store.copy(copy("copied", "copy")).await.unwrap().etag, etag_of(b"block"));
    back.rig.put_with("tagged", b"block", request.clone()).await.unwrap();
    back.rig.store.set_tags(&named("tagged"), tags(&[("kv-ttl", "100")])).await.unwrap();
    back.rig.put_with("renewed", b"block", request).await.unwrap();
    let onto_itself = CopyObject { attributes: Some(meta(&[("c", "d")])), ..copy("renewed", "renewed") };
    back.rig.store.copy(onto_itself).await.unwrap();
    let expiry = |seconds| Some(back.rig.double.now() + Duration::from_secs(seconds));
    let before = ["touched", "copied", "copy", "tagged", "renewed"];
    let expected = [expiry(100), expiry(60), expiry(60), expiry(100), None];
    let back = back.restart().await;
    back.rig.store.drain().await;
    for (key, expires_at) in before.into_iter().zip(expected) {
        for rig in [&back.rig, &back.elsewhere()] {
            same(rig.bytes(key).await, "block");
            assert_eq!(rig.head(key).await.unwrap().info.expires_at(), expires_at, "{key}");
        }
    }
    assert_eq!(back.rig.store.tags(&named("tagged")).await.unwrap(), tags(&[("kv-ttl", "100")]));
    assert_eq!(back.rig.head("renewed").await.unwrap().info.attributes, meta(&[("c", "d")]));
}

#[tokio::test]
async fn what_goes_by_the_upstream_fails_while_that_is_out() {
    let back = back().await;
    back.rig.put("bucket", b"known").await;
    back.rig.store.drain().await;
    back.outage(true);
    back.rig.put("k", b"block").await;
    assert!(back.rig.store.touch(&key_list(&["k"]), Duration::from_secs(100)).await.is_err());
    assert!(back.rig.store.copy(copy("k", "l")).await.is_err());
    assert!(back.rig.store.set_tags(&named("k"), tags(&[("t", "u")])).await.is_err());
    same(back.rig.bytes("k").await, "block");
    assert_eq!(back.rig.head("k").await.unwrap().info.tag_count, 0);
    back.outage(false);
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("k").await, "block");
}

#[tokio::test]
async fn a_group_over_blocks_on_their_way_replaces_them() {
    let back = back().await;
    back.rig.put("k", b"before").await;
    back.rig.put("l", b"before").await;
    let body = |bytes: &'static str| back.rig.store.take_in("b", Payload::Bytes(bytes.into()));
    let members = vec![
        (named("k"), WriteRequest::default(), body("one").await.unwrap()),
        (named("l"), WriteRequest::default(), body("two").await.unwrap()),
    ];
    back.rig.store.put_group(members).await.unwrap();
    let back = back.restart().await;
    back.rig.store.drain().await;
    same(back.rig.bytes("k").await, "one");
    same(back.elsewhere().bytes("l").await, "two");
}

#[tokio::test]
async fn an_object_too_large_to_be_a_block_replaces_one_on_its_way() {
    let back = back().await;
    back.hold();
    back.rig.put("k", b"before").await;
    let large = pattern(BLOCK_MAX + 1, 5);
    let payload = Payload::Bytes(large.clone().into());
    let store = Arc::clone(&back.rig.store);
    let put = tokio::spawn(async move { store.put(&named("k"), WriteRequest::default(), payload).await });
    back.let_go().await;
    put.await.unwrap().unwrap();
    same(back.rig.bytes("k").await, &large);
    // What comes while it streams goes up after it.
    back.hold();
    let payload = Payload::Bytes(large.clone().into());
    let store = Arc::clone(&back.rig.store);
    let put = tokio::spawn(async move { store.put(&named("k"), WriteRequest::default(), payload).await });
    settle().await;
    let puts = back.puts();
    back.rig.put("k", b"meanwhile").await;
    settle().await;
    assert_eq!(back.puts(), puts, "it waits for the larger one");
    back.let_go().await;
    put.await.unwrap().unwrap();
    same(back.rig.bytes("k").await, "meanwhile");
    back.rig.store.drain().await;
    same(back.elsewhere().bytes("k").await, "meanwhile");
    let back = back.restart().await;
    same(back.rig.bytes("k").await, "meanwhile");
}
