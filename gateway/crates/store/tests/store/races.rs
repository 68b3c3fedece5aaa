//! Random interleavings, seeded: what was acknowledged is what is read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use blockgate_block::MissReason;
use blockgate_store::{CompletePart, CopyObject, StoreError, WriteRequest};
use blockgate_upstream::{BodyError, Conditions, Payload};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::double::Double;
use crate::support::*;

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

/// What one writer did to its key, in order: `None` is a deletion.
#[derive(Default)]
struct History {
    versions: Mutex<Vec<Option<Bytes>>>,
    acknowledged: AtomicUsize,
}

impl History {
    fn begin(&self, version: Option<Bytes>) {
        self.versions.lock().push(version);
    }

    fn end(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Whether a read that began when `acknowledged` writes were acknowledged may give this.
    fn allows(&self, acknowledged: usize, found: &Option<Bytes>) -> bool {
        let versions = self.versions.lock();
        versions[acknowledged.saturating_sub(1)..].contains(found) || (acknowledged == 0 && found.is_none())
    }
}

fn store_of(seed: u64) -> Rig {
    let double = Double::new();
    double.jitter.store(seed % 7, Ordering::SeqCst);
    // Too small for all keys at once, so that blocks come and go.
    rig_on(double, limits(), 64 << 10, Duration::from_secs([0, 3600][usize::from(seed.is_multiple_of(2))]))
}

async fn write(rig: &Rig, random: &mut Random, key: &str, history: &History, size: usize) {
    let name = named(key);
    let bytes = Bytes::from(pattern(size, random.0));
    match random.next(8) {
        0 | 1 => {
            history.begin(None);
            if random.next(2) == 0 {
                rig.store.delete(&name).await.unwrap();
            } else {
                rig.store.delete_many(&[name]).await.unwrap();
            }
        }
        2 => {
            rig.put(&format!("{key}-source"), &bytes).await;
            history.begin(Some(bytes));
            let copy = CopyObject {
                source: named(&format!("{key}-source")),
                source_conditions: Conditions::default(),
                target: name,
                attributes: None,
                tags: None,
                conditions: Conditions::default(),
            };
            rig.store.copy(copy).await.unwrap();
        }
        3 => {
            let id = rig.store.create_multipart(&name, WriteRequest::default()).await.unwrap();
            let part = Payload::Bytes(bytes.clone());
            let etag = rig.store.upload_part(&name, &id, 1, part).await.unwrap();
            history.begin(Some(bytes));
            let parts = vec![CompletePart { number: 1, etag }];
            rig.store.complete_multipart(&name, &id, parts, WriteRequest::default()).await.unwrap();
        }
        4 => {
            let unchanged = history.versions.lock().last().cloned().flatten();
            history.begin(unchanged.clone());
            let renewed = rig.store.set_tags(&name, tags(&[("kv-ttl", "1000")])).await;
            assert_eq!(renewed.is_ok(), unchanged.is_some());
        }
        5 => {
            // A body that fails changes nothing.
            let unchanged = history.versions.lock().last().cloned().flatten();
            history.begin(unchanged);
            let chunks = [Ok(bytes), Err(BodyError::Cut("gone".into()))];
            let payload =
                Payload::Stream { len_bytes: size as u64 + 1, stream: Box::pin(futures::stream::iter(chunks)) };
            assert!(rig.store.put(&name, WriteRequest::default(), payload).await.is_err());
        }
        _ => {
            history.begin(Some(bytes.clone()));
            rig.put(key, &bytes).await;
        }
    }
    history.end();
}

async fn check(rig: &Rig, random: &mut Random, key: &str, history: &History) {
    let acknowledged = history.acknowledged();
    let head = random.next(4) == 0;
    if head {
        match rig.head(key).await {
            Ok(found) => {
                let versions = history.versions.lock();
                let since = &versions[acknowledged.saturating_sub(1)..];
                let etag = &found.info.etag;
                assert!(since.iter().flatten().any(|bytes| etag_of(bytes) == *etag), "a stale HEAD of {key}");
            }
            Err(error) => assert_absent(&error, key, history.allows(acknowledged, &None)),
        }
        return;
    }
    match rig.get(key).await {
        Ok(served) => {
            let found = read(served).await.unwrap();
            assert!(history.allows(acknowledged, &Some(found)), "a stale GET of {key}");
        }
        Err(error) => assert_absent(&error, key, history.allows(acknowledged, &None)),
    }
}

fn assert_absent(error: &StoreError, key: &str, allowed: bool) {
    assert!(matches!(error, StoreError::Miss(MissReason::Absent)), "{key}: {error}");
    assert!(allowed, "{key} was acknowledged and is absent");
}

/// One writer a key, many readers of all keys.
async fn no_stale_read(seed: u64, bucket: &'static str) {
    let rig = Arc::new(store_of(seed));
    let histories: Arc<HashMap<String, History>> =
        Arc::new((0..4).map(|n| (format!("{bucket}:k{n}"), History::default())).collect());
    let mut tasks = Vec::new();
    for n in 0..4u64 {
        let (rig, histories) = (Arc::clone(&rig), Arc::clone(&histories));
        tasks.push(tokio::spawn(async move {
            let mut random = Random((seed << 8 | n) * 2 + 1);
            let key = format!("{bucket}:k{n}");
            for _ in 0..25 {
                let size = 1 + random.next(20_000);
                write(&rig, &mut random, &key, &histories[&key], size).await;
                for _ in 0..random.next(4) {
                    tokio::task::yield_now().await;
                }
            }
        }));
    }
    for n in 0..6u64 {
        let (rig, histories) = (Arc::clone(&rig), Arc::clone(&histories));
        tasks.push(tokio::spawn(async move {
            let mut random = Random((seed << 8 | n | 128) * 2 + 1);
            for _ in 0..60 {
                let key = format!("{bucket}:k{}", random.next(4));
                check(&rig, &mut random, &key, &histories[&key]).await;
                tokio::task::yield_now().await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    rig.store.drain().await;
    for (key, history) in histories.iter() {
        let last = history.versions.lock().last().cloned().flatten();
        for rig in [&*rig, &rig.another()] {
            let found = match rig.get(key).await {
                Ok(served) => Some(read(served).await.unwrap()),
                Err(_) => None,
            };
            assert!(found == last, "seed {seed}, {key} at rest");
        }
    }
}

#[tokio::test]
async fn no_read_is_older_than_what_was_acknowledged_before_it() {
    for seed in 1..=40 {
        no_stale_read(seed, "b").await;
    }
}

#[tokio::test]
async fn nor_where_writes_are_acknowledged_before_they_are_uploaded() {
    for seed in 1..=40 {
        no_stale_read(seed, "async").await;
    }
}

/// Many writers of one key: whatever came last at the upstream is what is read afterwards.
#[tokio::test]
async fn at_rest_memory_and_upstream_agree() {
    for seed in 1..=60u64 {
        let rig = Arc::new(store_of(seed));
        let writers = (0..6u64).map(|n| {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move {
                let mut random = Random((seed << 8 | n) * 2 + 1);
                for _ in 0..10 {
                    let bytes = pattern(1 + random.next(9000), random.0);
                    match random.next(4) {
                        0 => rig.store.delete(&named("k")).await.unwrap(),
                        1 => {
                            let _ = rig.get("k").await;
                        }
                        2 if n == 0 => {
                            // Past the tiers.
                            rig.put("k", &pattern(BLOCK_MAX + 1, random.0)).await;
                        }
                        _ => {
                            rig.put("k", &bytes).await;
                        }
                    }
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let found = match rig.get("k").await {
            Ok(served) => Some(read(served).await.unwrap()),
            Err(_) => None,
        };
        assert!(found == rig.double.object("k").map(|object| object.bytes), "seed {seed}");
    }
}
