//! Listings of buckets with blocks on their way.

use super::*;

#[tokio::test]
async fn listings_are_of_both_in_pages() {
    let back = back().await;
    for key in ["a/1", "b", "c/1", "d"] {
        back.rig.put(key, b"at the upstream").await;
    }
    back.rig.store.drain().await;
    back.hold();
    for key in ["a/2", "aa", "b", "c/0", "e/1", "e/2", "f"] {
        back.rig.put(key, b"not yet").await;
    }
    let mut request = ListRequest { delimiter: Some("/".into()), limit: 2, ..ListRequest::default() };
    let mut pages = Vec::new();
    loop {
        let page = back.rig.store.list("b", &request).await.unwrap();
        request.start_after = page.entries.last().map(|last| last.name().to_owned());
        pages.push(page.entries.iter().map(|entry| entry.name().to_owned()).collect::<Vec<_>>());
        if !page.truncated {
            break;
        }
    }
    assert_eq!(pages.concat(), ["a/", "aa", "b", "c/", "d", "e/", "f"]);
    assert!(pages.iter().all(|page| page.len() <= 2));
    let under = back.list(&ListRequest { prefix: "c/".into(), ..all() }).await;
    assert_eq!(under.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["c/0", "c/1"]);
    let of_b = back.list(&ListRequest { prefix: "b".into(), ..all() }).await;
    assert_eq!(of_b, [("b".to_owned(), Some(etag_of(b"not yet")))]);
    back.let_go().await;
}

#[tokio::test]
async fn a_bucket_with_blocks_on_their_way_is_not_empty() {
    let back = back().await;
    back.hold();
    back.rig.put("k", b"block").await;
    let error = refused(back.rig.store.delete_bucket("b").await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::BucketNotEmpty)), "{error}");
    back.let_go().await;
}
