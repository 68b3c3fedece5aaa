//! What reads bring, and in which form.

use std::time::Duration;

use blockgate_sdk::{GetMode, GetOptions, GetOrder, LoadOptions, LookupOptions, Miss, MissReason, Piece};

use crate::double::{Double, builder};

const ABSENT: MissReason = MissReason::Absent;

fn all() -> LoadOptions {
    LoadOptions { mode: GetMode::All, ..LoadOptions::default() }
}

#[tokio::test]
async fn blocks_land_in_their_buffers() {
    let double = Double::start(&[4000, 0, 70_000]).await;
    let client = builder(&[&double]).build().unwrap();
    let mut buffers = [vec![9; 4000], vec![], vec![9; 70_000]];
    let outcome = client.get_into(&["k0", "k1", "k2"], &mut buffers, &LoadOptions::default()).await;
    assert_eq!((outcome.loaded, outcome.bytes, outcome.misses), (3, 74_000, vec![]));
    assert_eq!(buffers, [vec![0; 4000], vec![], vec![2; 70_000]]);
    let stats = client.stats_local();
    assert_eq!((stats.blocks_loaded, stats.bytes_loaded), (3, 74_000));
}

#[tokio::test]
async fn a_prefix_ends_at_its_first_miss_and_all_goes_on() {
    let double = Double::start(&[10, 10, 10, 10]).await;
    double.remove("k1");
    let client = builder(&[&double]).build().unwrap();
    let mut buffers = [[9; 10]; 4];
    let keys = ["k0", "k1", "k2", "k3"];
    let prefix = client.get_into(&keys, &mut buffers, &LoadOptions::default()).await;
    assert_eq!((prefix.loaded, prefix.misses), (1, vec![Miss { index: 1, reason: ABSENT }]));
    let outcome = client.get_into(&keys, &mut buffers, &all()).await;
    assert_eq!((outcome.loaded, outcome.misses), (3, vec![Miss { index: 1, reason: ABSENT }]));
    assert_eq!((buffers[0], buffers[2], buffers[3]), ([0; 10], [2; 10], [3; 10]));
    assert_eq!(client.stats_local().misses["absent"], 2);
}

#[tokio::test]
async fn a_buffer_of_another_length_is_a_miss() {
    let double = Double::start(&[10, 10, 10]).await;
    let client = builder(&[&double]).build().unwrap();
    let keys = ["k0", "k1", "k2"];
    for len in [9, 11] {
        let mut buffers = [vec![9; 10], vec![9; len], vec![9; 10]];
        let outcome = client.get_into(&keys, &mut buffers, &all()).await;
        assert_eq!(outcome.misses, [Miss { index: 1, reason: MissReason::BufferLength }]);
        assert_eq!((outcome.loaded, &buffers[0], &buffers[2]), (2, &vec![0; 10], &vec![2; 10]));
        let outcome = client.get_into(&keys, &mut buffers, &LoadOptions::default()).await;
        assert_eq!((outcome.loaded, outcome.misses.len()), (1, 1));
    }
    let outcome = client.get_into(&keys, &mut [vec![9; 10]], &all()).await;
    assert_eq!((outcome.loaded, outcome.misses.len()), (1, 2), "keys without buffers");
}

#[tokio::test]
async fn a_stream_yields_blocks_in_the_order_asked_for() {
    let double = Double::start(&[10, 5000, 10]).await;
    let client = builder(&[&double]).build().unwrap();
    for (order, expected) in [(GetOrder::Request, [0, 1, 2]), (GetOrder::Ready, [2, 1, 0])] {
        let mut blocks = client.get(&["k0", "k1", "k2"], &GetOptions { order, ..GetOptions::default() }).await;
        assert_eq!((blocks.matched(), blocks.promised_bytes()), (Some(3), Some(5020)));
        let mut found = Vec::new();
        while let Some(piece) = blocks.next().await {
            let Piece::Bytes { index, piece: 0, bytes } = piece else { panic!("{piece:?}") };
            assert!(bytes.iter().all(|byte| *byte == index as u8));
            found.push(index);
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_stream_names_what_it_lacks() {
    let double = Double::start(&[10, 10, 10]).await;
    double.remove("k1");
    let client = builder(&[&double]).build().unwrap();
    for (mode, pieces) in [(GetMode::Prefix, 1), (GetMode::All, 2)] {
        let mut blocks = client.get(&["k0", "k1", "k2"], &GetOptions { mode, ..GetOptions::default() }).await;
        let (mut whole, mut misses) = (0, Vec::new());
        while let Some(piece) = blocks.next().await {
            match piece {
                Piece::Bytes { .. } => whole += 1,
                Piece::Miss(miss) => misses.push(miss),
            }
        }
        assert_eq!((whole, misses), (pieces, vec![Miss { index: 1, reason: ABSENT }]), "{mode:?}");
    }
}

#[tokio::test]
async fn lookups_and_existence() {
    let double = Double::start(&[10, 10, 10]).await;
    double.remove("k1");
    let client = builder(&[&double]).build().unwrap();
    let found = client.lookup(&["k0", "k1", "k2"], &LookupOptions::default()).await;
    assert_eq!((found.matched, found.miss), (1, Some(Miss { index: 1, reason: ABSENT })));
    assert_eq!((found.tiers.memory, found.estimate), (1, Duration::from_micros(1500)));
    let exists = client.exists(&["k0", "k1", "k2"], None).await;
    assert_eq!((exists.present, exists.failure), (vec![true, false, true], None));
}

#[tokio::test]
async fn long_chains_are_split() {
    let double = Double::start(&[1]).await;
    let client = builder(&[&double]).build().unwrap();
    let keys = vec!["k0"; 65_537];
    let found = client.lookup(&keys, &LookupOptions::default()).await;
    assert_eq!((found.matched, found.miss), (65_537, None));
    let mut keys = keys;
    keys.push("absent");
    let found = client.lookup(&keys, &LookupOptions::default()).await;
    assert_eq!((found.matched, found.miss), (65_537, Some(Miss { index: 65_537, reason: ABSENT })));
    assert_eq!(client.exists(&keys, None).await.count(), 65_537);
    let mut blocks = client.get(&keys, &GetOptions::default()).await;
    assert!(matches!(blocks.next().await, Some(Piece::Miss(Miss { index: 0, reason: MissReason::Refused(_) }))));
}

#[tokio::test]
async fn nothing_asked_is_nothing_missed() {
    let double = Double::start(&[]).await;
    let client = builder(&[&double]).build().unwrap();
    assert_eq!(client.lookup(&[] as &[&str], &LookupOptions::default()).await.miss, None);
    assert!(client.get_into(&[] as &[&str], &mut [] as &mut [Vec<u8>], &all()).await.is_complete());
    assert_eq!(client.get(&[] as &[&str], &GetOptions::default()).await.next().await, None);
    assert_eq!(double.requests(), 0);
}

#[tokio::test]
async fn gateways_are_told_the_deadline_and_the_scope() {
    let double = Double::start(&[10]).await;
    let client = builder(&[&double]).key_prefix("p/").key_suffix("/s").fingerprint("f").build().unwrap();
    let options = LoadOptions { deadline: Some(Duration::from_secs(2)), ..all() };
    client.get_into(&["k0"], &mut [[0; 10]], &options).await;
    let told = double.last_get();
    assert!((1..2000).contains(&told.deadline_ms.unwrap()));
    assert_eq!(
        (told.key_prefix.as_str(), told.key_suffix.as_str(), told.fingerprint.as_deref()),
        ("p/", "/s", Some("f"))
    );
}
