//! The client and the real gateway.

use std::num::NonZero;
use std::time::Duration;

use blockgate_sdk::{
    Block, ByteRange, Client, Error, ErrorCode, GetMode, GetOptions, GetOrder, LoadOptions, LookupOptions, Miss,
    MissReason, Piece, Pieces, PutOptions,
};
use tempfile::TempDir;

use crate::process::{Gateway, builder};

const LEN: usize = 65_536;
const COUNT: usize = 12;

/// Deadlines that no test means to reach.
const PATIENCE: Duration = Duration::from_secs(60);

fn content(index: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 31 + index) as u8).collect()
}

fn chain(client: &Client) -> Vec<Block> {
    let tokens: Vec<u32> = (0..COUNT as u32 * 16).collect();
    let keys = client.compute_keys(&tokens, NonZero::new(16).unwrap());
    keys.iter().enumerate().map(|(index, key)| Block::new(key, content(index))).collect()
}

fn keys(blocks: &[Block]) -> Vec<&str> {
    blocks.iter().map(|block| block.key.as_str()).collect()
}

fn patient(builder: blockgate_sdk::Builder) -> Client {
    builder.deadline(PATIENCE).key_prefix("test/").key_suffix(".kv").fingerprint("f/1").build().unwrap()
}

#[tokio::test]
async fn a_chain_from_put_to_delete() {
    let directory = TempDir::new().unwrap();
    let gateway = Gateway::start(&directory);
    let client = patient(builder(&[&gateway]));
    let blocks = chain(&client);
    let keys = keys(&blocks);

    let stored = client.put_many(&blocks[..8], &PutOptions::default()).await.unwrap();
    assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    let found = client.lookup(&keys, &LookupOptions::default()).await;
    assert_eq!((found.matched, found.bytes), (8, 8 * LEN as u64));
    assert_eq!(found.miss, Some(Miss { index: 8, reason: MissReason::Absent }));
    assert_eq!(client.exists(&keys, None).await.count(), 8);

    let mut buffers = vec![vec![0; LEN]; COUNT];
    let outcome = client.get_into(&keys, &mut buffers, &LoadOptions::default()).await;
    assert_eq!((outcome.loaded, outcome.misses.len()), (8, 1));
    assert!((0..8).all(|index| buffers[index] == content(index)));

    let stranger = client.with_fingerprint("f/2");
    let found = stranger.lookup(&keys, &LookupOptions::default()).await;
    assert_eq!(found.miss.map(|miss| miss.reason), Some(MissReason::Fingerprint));

    client.put_group(&blocks[8..], &PutOptions { ttl: Some(PATIENCE), ..PutOptions::default() }).await.unwrap();
    assert_eq!(client.touch(&keys, Duration::from_secs(600), None).await, Ok(COUNT as u64));
    let outcome = client.get_into(&keys, &mut buffers, &LoadOptions::default()).await;
    assert!(outcome.is_complete(), "{outcome:?}");

    assert_eq!(client.delete(&keys[2..4], None).await.unwrap().blocks, 2);
    let all = LoadOptions { mode: GetMode::All, ..LoadOptions::default() };
    let outcome = client.get_into(&keys, &mut buffers, &all).await;
    assert_eq!(outcome.misses.iter().map(|miss| miss.index).collect::<Vec<_>>(), [2, 3]);
    client.delete_fingerprint("f/1", None).await.unwrap();
    client.delete_prefix("", None).await.unwrap();
    assert_eq!(client.exists(&keys, None).await.count(), 0);
    assert_eq!(client.stats(None).await.unwrap().bucket, "blocks");
}

#[tokio::test]
async fn a_group_is_stored_whole_or_not_at_all() {
    let directory = TempDir::new().unwrap();
    let gateway = Gateway::start(&directory);
    let client = patient(builder(&[&gateway]));
    let blocks = [Block::new("sound", vec![1; 100]), Block::new("k".repeat(1025), vec![2; 100])];
    let group = client.put_group(&blocks, &PutOptions::default()).await;
    assert!(matches!(group, Err(Error::Refused { .. })), "{group:?}");
    assert_eq!(client.exists(&["sound"], None).await.count(), 0);
    let each = client.put_many(&blocks, &PutOptions::default()).await.unwrap();
    assert_eq!(each.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false], "{each:?}");
    assert_eq!(client.exists(&["sound"], None).await.count(), 1);
}

#[tokio::test]
async fn streams_in_every_form() {
    let directory = TempDir::new().unwrap();
    let gateway = Gateway::start(&directory);
    let client = patient(builder(&[&gateway]));
    let blocks = chain(&client);
    client.put_group(&blocks, &PutOptions::default()).await.unwrap();
    let ranges = vec![ByteRange { offset: 0, length: 10 }, ByteRange { offset: 5, length: 1000 }];
    for order in [GetOrder::Request, GetOrder::Ready] {
        for pieces in [Pieces::Whole, Pieces::Stripes(7), Pieces::Ranges(ranges.clone())] {
            let options = GetOptions { order, pieces: pieces.clone(), ..GetOptions::default() };
            let mut stream = client.get(&keys(&blocks), &options).await;
            assert_eq!(stream.matched(), Some(COUNT));
            let mut gathered = vec![Vec::new(); COUNT];
            while let Some(piece) = stream.next().await {
                let Piece::Bytes { index, bytes, .. } = piece else { panic!("{piece:?}") };
                gathered[index].extend_from_slice(&bytes);
            }
            for (index, gathered) in gathered.iter().enumerate() {
                let content = content(index);
                let expected = if pieces == Pieces::Ranges(ranges.clone()) {
                    [&content[..10], &content[5..1005]].concat()
                } else {
                    content
                };
                assert!(*gathered == expected, "block {index}, {order:?}, {pieces:?}");
            }
        }
    }
}

#[tokio::test]
async fn wrong_credentials_and_buckets_are_told_apart() {
    let directory = TempDir::new().unwrap();
    let gateway = Gateway::start(&directory);
    let reason = async |builder: blockgate_sdk::Builder| {
        let client = patient(builder);
        client.lookup(&["k"], &LookupOptions::default()).await.miss.map(|miss| miss.reason)
    };
    let forged = builder(&[&gateway]).secret_key("another");
    assert_eq!(reason(forged).await, Some(MissReason::Refused(ErrorCode::SignatureDoesNotMatch)));
    let unknown = builder(&[&gateway]).access_key("UNKNOWN");
    assert_eq!(reason(unknown).await, Some(MissReason::Refused(ErrorCode::InvalidAccessKeyId)));
    let elsewhere = patient(builder(&[&gateway]).bucket("no-such-bucket"));
    let put = elsewhere.put("k", vec![0; 10], &PutOptions::default()).await;
    assert!(matches!(put, Err(Error::Refused { code: ErrorCode::NoSuchBucket, .. })), "{put:?}");
}

#[tokio::test]
async fn tls_with_the_authority_given_and_no_other() {
    let directory = TempDir::new().unwrap();
    let gateway = Gateway::start_tls(&directory);
    let url = format!("https://{}", gateway.tls_address.unwrap());
    let builder = builder(&[]).endpoint(url).ca_file(directory.path().join("cert.pem"));
    let client = builder.clone().build().unwrap();
    client.put("k", vec![7; LEN], &PutOptions::default()).await.unwrap();
    let mut buffers = [vec![0; LEN]];
    assert!(client.get_into(&["k"], &mut buffers, &LoadOptions::default()).await.is_complete());
    assert!(buffers[0] == vec![7; LEN]);

    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(directory.path().join("other.pem"), other.cert.pem()).unwrap();
    let client = builder.ca_file(directory.path().join("other.pem")).build().unwrap();
    let found = client.lookup(&["k"], &LookupOptions::default()).await;
    assert_eq!(found.miss.map(|miss| miss.reason), Some(MissReason::Unreachable));
}

/// One of two gateways is killed within a loop of loads: every load brings the right bytes or a miss with its reason, and soon all
/// bring everything again.
#[tokio::test]
async fn a_gateway_killed_within_a_loop_is_not_noticed() {
    let directory = TempDir::new().unwrap();
    let (mut one, mut other) = (Gateway::start(&directory), Gateway::start(&directory));
    let client = patient(builder(&[&one, &other]));
    let blocks = chain(&client);
    client.put_group(&blocks, &PutOptions::default()).await.unwrap();
    let keys = keys(&blocks);
    let mut buffers = vec![vec![0; LEN]; COUNT];
    let mut load = async || {
        buffers.iter_mut().for_each(|buffer| buffer.fill(0));
        let outcome = client.get_into(&keys, &mut buffers, &LoadOptions::default()).await;
        assert!((0..outcome.loaded).all(|index| buffers[index] == blocks[index].bytes), "other bytes");
        outcome
    };
    for _ in 0..20 {
        assert!(load().await.is_complete());
    }
    // The one that this chain goes to.
    let busiest = client.stats_local().gateways.iter().max_by_key(|gateway| gateway.calls).unwrap().endpoint.clone();
    let victim = if busiest.ends_with(&one.address.to_string()) { &mut one } else { &mut other };
    let killer = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        victim.kill();
    };
    let loop_of_loads = async {
        for _ in 0..200 {
            let outcome = load().await;
            assert!(outcome.is_complete(), "{outcome:?}");
        }
    };
    tokio::join!(killer, loop_of_loads);
    while client.stats_local().failovers == 0 {
        assert!(load().await.is_complete());
    }
    let stats = client.stats_local();
    assert_eq!(stats.misses.values().sum::<u64>(), 0, "{stats:?}");
    let dead = stats.gateways.iter().find(|gateway| gateway.endpoint == busiest).unwrap();
    assert!(dead.failures > 0, "{stats:?}");
}

/// With the only gateway gone there are misses at once, and when it is back, hits.
#[tokio::test]
async fn the_only_gateway_dies_and_comes_back() {
    let directory = TempDir::new().unwrap();
    let mut gateway = Gateway::start(&directory);
    let client = patient(builder(&[&gateway]));
    let blocks = chain(&client);
    client.put_group(&blocks, &PutOptions::default()).await.unwrap();
    let mut buffers = vec![vec![0; LEN]; COUNT];
    gateway.kill();
    for _ in 0..10 {
        let outcome = client.get_into(&keys(&blocks), &mut buffers, &LoadOptions::default()).await;
        assert_eq!(outcome.misses, [Miss { index: 0, reason: MissReason::Unreachable }]);
    }
    let again = Gateway::listen(gateway.address, directory.path());
    let back = async {
        while !client.get_into(&keys(&blocks), &mut buffers, &LoadOptions::default()).await.is_complete() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.unwrap();
    assert!((0..COUNT).all(|index| buffers[index] == content(index)));
    drop(again);
}
