//! How much of a chain is there, and what it takes to find out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_block::{BlockRecord, Crc64, KeyList, MissReason, RECORD_META};
use blockgate_store::{ChainMatch, ChainRequest, ReadRequest, Result, StoreError};
use blockgate_upstream::UpstreamError;
use bytes::Bytes;
use proptest::prelude::*;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// The first `len` keys of the chain, in bucket `b`.
pub fn chain(len: usize) -> Arc<KeyList> {
    chain_in("b", len)
}

pub fn chain_in(bucket: &str, len: usize) -> Arc<KeyList> {
    Arc::new(KeyList::new(bucket, "k", "", (0..len).map(|n| n.to_string()).collect()).unwrap())
}

/// Puts a block at the upstream, as another gateway does.
pub fn plant(rig: &Rig, n: usize, bytes: impl Into<Bytes>, expires_in: Option<Duration>, fingerprint: Option<&str>) {
    let bytes = bytes.into();
    let now = rig.double.now();
    let record = BlockRecord {
        crc64: Crc64::of(&bytes),
        len_bytes: bytes.len() as u64,
        stored_at: now,
        expires_at: expires_in.map(|time| now + time),
        group: None,
        tenant: None,
    };
    let mut attributes = meta(&[(RECORD_META, &record.to_string())]);
    if let Some(fingerprint) = fingerprint {
        attributes.user.insert("kv-fingerprint".into(), fingerprint.into());
    }
    rig.double.plant(&format!("k{n}"), bytes, attributes);
}

pub async fn lookup(rig: &Rig, keys: &Arc<KeyList>) -> ChainMatch {
    rig.store.lookup(keys, ChainRequest::default()).await.unwrap()
}

async fn lookup_for(rig: &Rig, keys: &Arc<KeyList>, fingerprint: &str) -> ChainMatch {
    let request = ChainRequest { fingerprint: Some(fingerprint.into()), ..ChainRequest::default() };
    rig.store.lookup(keys, request).await.unwrap()
}

pub fn ends(found: &ChainMatch) -> (usize, Option<MissReason>) {
    assert_eq!(found.tiers.memory + found.tiers.staging + found.tiers.upstream, found.matched as u64);
    if let Some((at, _)) = found.miss {
        assert_eq!(at, found.matched);
    }
    (found.matched, found.miss.map(|(_, reason)| reason))
}

/// A lookup, and how often it waited for the upstream.
async fn lookup_in_waves(rig: &Rig, keys: &Arc<KeyList>) -> (ChainMatch, usize) {
    rig.double.heads_wait.store(true, Ordering::SeqCst);
    let (store, keys) = (Arc::clone(&rig.store), Arc::clone(keys));
    let lookup = tokio::spawn(async move { store.lookup(&keys, ChainRequest::default()).await });
    let mut waves = 0;
    settle().await;
    while !lookup.is_finished() {
        waves += 1;
        assert!(waves < 20, "a question at a time");
        rig.double.release();
        settle().await;
    }
    (lookup.await.unwrap().unwrap(), waves)
}

#[tokio::test]
async fn a_cold_chain_takes_few_rounds_and_few_questions() {
    let first = rig();
    let keys = chain(4096);
    let mut planted = 0;
    for len in [0, 1, 2, 16, 17, 18, 255, 256, 1000, 2048, 4000, 4095, 4096] {
        (planted..len).for_each(|n| plant(&first, n, vec![0; 10], None, None));
        planted = len;
        let rig = first.another();
        let before = rig.double.count("head");
        let (found, waves) = lookup_in_waves(&rig, &keys).await;
        let whole = len == 4096;
        assert_eq!(ends(&found), (len, (!whole).then_some(MissReason::Absent)));
        assert_eq!(found.bytes, 10 * len as u64, "blocks of unknown length count like their neighbours");
        let asked = rig.double.count("head") - before;
        assert!(waves <= 3 && asked <= 3 * 17, "{len}: {asked} questions in {waves} rounds");
        assert_eq!(rig.metric("blockgate_lookup_upstream_rounds_sum"), waves as u64);
        if len == 0 || whole {
            assert_eq!(waves, 1);
        }
        let again = lookup(&rig, &keys).await;
        assert_eq!(ends(&again), ends(&found));
        assert_eq!(rig.double.count("head") - before, asked, "answers are remembered");
        assert_eq!(rig.metric("blockgate_lookup_keys_total{bucket=\"b\"}"), 2 * 4096);
        assert_eq!(rig.metric("blockgate_lookup_matched_blocks_total{bucket=\"b\"}"), 2 * len as u64);
    }
}

#[tokio::test]
async fn what_is_known_is_not_asked_about() {
    let rig = rig();
    for n in 0..50 {
        rig.put(&format!("k{n}"), &pattern(100 + n, n as u64)).await;
    }
    let found = lookup(&rig, &chain(50)).await;
    assert_eq!(ends(&found), (50, None));
    assert_eq!((found.tiers.memory, found.bytes), (50, (0..50).map(|n| 100 + n).sum()));
    rig.store.delete(&named("k20")).await.unwrap();
    assert_eq!(ends(&lookup(&rig, &chain(50)).await), (20, Some(MissReason::Absent)));
    assert_eq!(rig.double.count("head"), 0);
    // A hole bounds the prefix whatever lies beyond; nothing is asked to find that out.
    let cold = rig.another();
    assert_eq!(missed(cold.head("k20").await), MissReason::Absent);
    let before = cold.double.count("head");
    assert_eq!(ends(&lookup(&cold, &chain(50)).await), (20, Some(MissReason::Absent)));
    assert!(cold.double.count("head") - before <= 2 * 17);
}

#[tokio::test]
async fn a_list_of_no_keys_matches_nothing() {
    let rig = rig();
    assert_eq!(ends(&lookup(&rig, &chain(0)).await), (0, None));
    assert_eq!(rig.store.exists(&chain(0), None, None).await.unwrap(), [false; 0]);
    let refused = rig.store.lookup(&chain_in("past", 3), ChainRequest::default()).await;
    assert!(matches!(refused, Err(StoreError::Upstream(UpstreamError::NotSupported(_)))));
    let refused = rig.store.exists(&chain_in("past", 3), None, None).await;
    assert!(matches!(refused, Err(StoreError::Upstream(UpstreamError::NotSupported(_)))));
}

#[tokio::test]
async fn blocks_of_another_fingerprint_end_the_chain() {
    let rig = rig();
    for n in 0..6 {
        let request = with_meta(&[("kv-fingerprint", if n < 4 { "ours" } else { "theirs" })]);
        rig.put_with(&format!("k{n}"), b"bytes", request).await.unwrap();
    }
    for rig in [&rig, &rig.another()] {
        assert_eq!(ends(&lookup_for(rig, &chain(6), "ours").await), (4, Some(MissReason::Fingerprint)));
        assert_eq!(ends(&lookup_for(rig, &chain(6), "theirs").await), (0, Some(MissReason::Fingerprint)));
        assert_eq!(ends(&lookup(rig, &chain(6)).await), (6, None));
        let present = rig.store.exists(&chain(6), Some("theirs"), None).await.unwrap();
        assert_eq!(present, [false, false, false, false, true, true]);
    }
}

#[tokio::test]
async fn what_has_expired_is_never_supposed_to_be_there() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    for n in 0..8 {
        let ttl: &[(&str, &str)] = if n == 3 { &[("kv-ttl", "60")] } else { &[] };
        rig.put_with(&format!("k{n}"), b"bytes", with_meta(ttl)).await.unwrap();
    }
    assert_eq!(ends(&lookup(&rig, &chain(8)).await), (8, None));
    rig.double.pass(60 * SECOND);
    assert_eq!(ends(&lookup(&rig, &chain(8)).await), (3, Some(MissReason::Expired)));
    assert_eq!(ends(&lookup(&rig.another(), &chain(4)).await), (3, Some(MissReason::Expired)));
    let present = rig.store.exists(&chain(8), None, None).await.unwrap();
    assert_eq!(present, [true, true, true, false, true, true, true, true]);
    // Renewed through another gateway, which this one learns by asking.
    rig.another().put("k3", b"other").await;
    assert_eq!(ends(&lookup(&rig, &chain(8)).await), (8, None));
}

#[tokio::test]
async fn what_was_found_absent_is_never_supposed_to_be_there() {
    for negative_ttl in [Duration::ZERO, SECOND] {
        let rig = rig_with(limits(), 16 << 20, negative_ttl);
        for n in 0..8 {
            rig.put(&format!("k{n}"), b"bytes").await;
        }
        rig.store.delete(&named("k3")).await.unwrap();
        for _ in 0..3 {
            assert_eq!(ends(&lookup(&rig, &chain(8)).await), (3, Some(MissReason::Absent)));
            rig.double.pass(2 * SECOND);
        }
        rig.another().put("k3", b"bytes").await;
        assert_eq!(ends(&lookup(&rig, &chain(8)).await), (8, None));
    }
}

#[tokio::test]
async fn a_chain_that_another_gateway_renewed_is_found_step_by_step() {
    let rig = rig_with(limits(), 16 << 20, Duration::ZERO);
    let len = 300;
    (0..len).for_each(|n| plant(&rig, n, "bytes", Some(60 * SECOND), None));
    assert!(rig.store.exists(&chain(len), None, None).await.unwrap().iter().all(|present| *present));
    rig.double.pass(61 * SECOND);
    (0..len).for_each(|n| plant(&rig, n, "bytes", Some(60 * SECOND), None));
    let first = lookup(&rig, &chain(len)).await;
    assert!(first.matched >= 100, "{first:?}");
    assert_eq!(first.miss, Some((first.matched, MissReason::Expired)));
    lookup(&rig, &chain(len)).await;
    assert_eq!(ends(&lookup(&rig, &chain(len)).await), (len, None));
}

#[tokio::test]
async fn blocks_that_wait_for_their_upload_are_there() {
    let rig = rig();
    rig.double.hold_puts.store(true, Ordering::SeqCst);
    let keys = chain_in("async", 5);
    assert_eq!(ends(&lookup(&rig, &keys).await), (0, Some(MissReason::Absent)));
    for n in 0..4 {
        rig.put(&format!("async:k{n}"), &pattern(100, n)).await;
    }
    let found = lookup(&rig, &keys).await;
    assert_eq!((ends(&found), found.tiers.memory, found.bytes), ((4, Some(MissReason::Absent)), 4, 400));
    assert_eq!(rig.store.exists(&keys, None, None).await.unwrap(), [true, true, true, true, false]);
    rig.double.hold_puts.store(false, Ordering::SeqCst);
    rig.double.release();
    rig.store.drain().await;
    assert_eq!(ends(&lookup(&rig, &keys).await), (4, Some(MissReason::Absent)));
}

#[tokio::test]
async fn objects_of_other_tools_are_found_and_not_asked_about_for_ever() {
    let rig = rig();
    for n in 0..40 {
        rig.double.plant(&format!("k{n}"), pattern(10, n), meta(&[]));
    }
    assert_eq!(ends(&lookup(&rig, &chain(50)).await), (40, Some(MissReason::Absent)));
    let asked = rig.double.count("head");
    let found = lookup(&rig, &chain(50)).await;
    assert_eq!((ends(&found), found.bytes), ((40, Some(MissReason::Absent)), 400));
    assert!(rig.double.count("head") - asked <= 17, "what was asked a moment ago is not asked again");
    // In memory they are found without the upstream.
    for n in 0..40 {
        rig.bytes(&format!("k{n}")).await;
    }
    rig.double.outage.store(true, Ordering::SeqCst);
    let found = lookup(&rig, &chain(50)).await;
    assert_eq!((found.matched, found.tiers.memory), (40, 40));
}

#[tokio::test]
async fn an_outage_ends_a_chain_where_it_is_no_longer_known() {
    let rig = rig();
    for n in 0..3 {
        rig.put(&format!("k{n}"), b"bytes").await;
        rig.put(&format!("errors:k{n}"), b"bytes").await;
    }
    rig.double.outage.store(true, Ordering::SeqCst);
    assert_eq!(ends(&lookup(&rig, &chain(100)).await), (3, Some(MissReason::UpstreamUnavailable)));
    assert_eq!(rig.store.exists(&chain(4), None, None).await.unwrap(), [true, true, true, false]);
    let keys = chain_in("errors", 100);
    let error = refused(rig.store.lookup(&keys, ChainRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::Unavailable(_))), "{error}");
    assert!(rig.store.exists(&keys, None, None).await.is_err());
    assert_eq!(ends(&lookup(&rig, &chain_in("errors", 3)).await), (3, None), "nothing need be asked");
    let nowhere = rig.another();
    nowhere.double.outage.store(false, Ordering::SeqCst);
    let error = refused(nowhere.store.lookup(&chain_in("no-such", 3), ChainRequest::default()).await);
    assert!(matches!(error, StoreError::Upstream(UpstreamError::NoSuchBucket)), "{error}");
}

#[tokio::test]
async fn each_key_is_asked_about_once_where_all_must_be_known() {
    let rig = rig();
    (0..300).filter(|n| n % 3 != 1).for_each(|n| plant(&rig, n, "bytes", None, None));
    let expected: Vec<bool> = (0..300).map(|n| n % 3 != 1).collect();
    assert_eq!(rig.store.exists(&chain(300), None, None).await.unwrap(), expected);
    assert_eq!(rig.double.count("head"), 300);
    assert_eq!(rig.store.exists(&chain(300), None, None).await.unwrap(), expected);
    assert_eq!(rig.double.count("head"), 300);
}

/// A key as the upstream has it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Ours,
    Theirs,
    Expired,
    Foreign,
    Nothing,
}

impl Kept {
    fn miss(self) -> Option<MissReason> {
        match self {
            Self::Ours | Self::Foreign => None,
            Self::Theirs => Some(MissReason::Fingerprint),
            Self::Expired => Some(MissReason::Expired),
            Self::Nothing => Some(MissReason::Absent),
        }
    }
}

fn kept() -> impl Strategy<Value = Kept> {
    prop_oneof![
        30 => Just(Kept::Ours), 1 => Just(Kept::Theirs), 1 => Just(Kept::Expired), 1 => Just(Kept::Foreign), 1 => Just(Kept::Nothing),
    ]
}

fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn plant_all(rig: &Rig, chain: &[Kept]) {
    for (n, kept) in chain.iter().enumerate() {
        match kept {
            Kept::Ours => plant(rig, n, vec![1; n + 1], None, Some("ours")),
            Kept::Theirs => plant(rig, n, vec![1; n + 1], None, Some("theirs")),
            Kept::Expired => plant(rig, n, vec![1; n + 1], Some(SECOND), Some("ours")),
            Kept::Foreign => {
                rig.double.plant(&format!("k{n}"), vec![1; n + 1], meta(&[("kv-fingerprint", "ours")]));
            }
            Kept::Nothing => {}
        }
    }
}

fn reference(chain: &[Kept]) -> (usize, Option<MissReason>) {
    let end = chain.iter().position(|kept| kept.miss().is_some());
    (end.unwrap_or(chain.len()), end.and_then(|at| chain[at].miss()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lookups_are_those_of_a_model(
        model in proptest::collection::vec(kept(), 1..120),
        known in proptest::collection::vec(any::<bool>(), 120),
        whole in any::<bool>(),
    ) {
        in_runtime(async {
            let rig = rig_with(limits(), 1 << 20, Duration::from_secs(3600));
            let keys = chain(model.len());
            // Either with holes, or stored from its head as engines do.
            let model: Vec<Kept> = if whole {
                let (len, _) = reference(&model);
                let end = model.get(len).copied().unwrap_or(Kept::Nothing);
                (0..model.len()).map(|n| if n < len { Kept::Ours } else { end }).collect()
            } else { model };
            plant_all(&rig, &model);
            rig.double.pass(2 * SECOND);
            for (n, _) in known.iter().take(model.len()).enumerate().filter(|(_, known)| **known) {
                drop(rig.head(&format!("k{n}")).await);
            }
            let found = lookup_for(&rig, &keys, "ours").await;
            let expected = reference(&model);
            if whole {
                assert_eq!(ends(&found), expected);
            }
            // Nothing known to be missing is claimed, and the end is one.
            assert!(found.matched >= expected.0);
            assert!((0..found.matched).all(|n| !known[n] || model[n].miss().is_none()));
            assert_eq!(found.miss.map(|(_, reason)| reason), model.get(found.matched).and_then(|kept| kept.miss()));
            // Once every key is known, the answer is exact, and nothing is asked.
            let present = rig.store.exists(&keys, Some("ours"), None).await.unwrap();
            assert_eq!(present, model.iter().map(|kept| kept.miss().is_none()).collect::<Vec<_>>());
            let asked = rig.double.count("head");
            let found = lookup_for(&rig, &keys, "ours").await;
            assert_eq!(ends(&found), expected);
            assert_eq!(rig.double.count("head"), asked);
            // Objects of other tools are not in the index, so that their lengths are supposed.
            if !model.contains(&Kept::Foreign) {
                assert_eq!(found.bytes, (1..=expected.0 as u64).sum::<u64>());
            }
        });
    }
}

/// What a lookup takes: run with `--ignored --nocapture`, optimised.
#[tokio::test]
#[ignore = "a measurement"]
async fn measure_a_lookup_of_4000_indexed_keys() {
    let rig = rig();
    let keys: Vec<String> = (0..4000).map(|n| format!("{n:064x}")).collect();
    let prefix = "vllm@meta-llama/Llama-3.1-8B-Instruct@1@0@";
    for key in &keys {
        rig.put(&format!("{prefix}{key}"), b"bytes").await;
    }
    let keys = Arc::new(KeyList::new("b", prefix, "@bfloat16", keys).unwrap());
    let plain = Arc::new(KeyList::new("b", prefix, "", (0..4000).map(|n| format!("{n:064x}")).collect()).unwrap());
    assert_eq!(lookup(&rig, &plain).await.matched, 4000);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..500 {
        let begun = std::time::Instant::now();
        assert_eq!(lookup(&rig, &plain).await.matched, 4000);
        times.push(begun.elapsed());
    }
    times.sort();
    println!("4000 keys: least {:?}, p50 {:?}, p99 {:?}", times[0], times[250], times[495]);
    let mut digests: Vec<Duration> = Vec::new();
    for _ in 0..500 {
        let begun = std::time::Instant::now();
        let all = (0..4000).fold(0, |all, at| all ^ plain.digest(at).0);
        digests.push(begun.elapsed());
        assert_ne!(all, 0);
    }
    digests.sort();
    println!("their digests alone: least {:?}, p50 {:?}", digests[0], digests[250]);
    assert_eq!(lookup(&rig, &keys).await.matched, 0);
    let read: Result<_> = rig.store.get(&plain.get(0), ReadRequest::default()).await;
    assert!(read.is_ok());
}
