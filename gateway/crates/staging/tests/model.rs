//! Random lives of a log, crashes among them, against a map that says what must be there.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::collections::BTreeMap;

use blockgate_staging::{PutError, Settings};
use common::{Opened, block, bytes, copy, eventually, key, open, settings};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put { name: u8, len: usize, pending: bool },
    Offer { name: u8, len: usize },
    Read { name: u8 },
    Remove { name: u8 },
    Amend { name: u8 },
    Uploaded { name: u8 },
    Restart,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0u8..10;
    let len = prop_oneof![1usize..5000, 1usize..70_000];
    let step = prop_oneof![
        8 => (name.clone(), len.clone(), proptest::bool::weighted(0.3)).prop_map(|(name, len, pending)| Step::Put { name, len, pending }),
        3 => (name.clone(), len).prop_map(|(name, len)| Step::Offer { name, len }),
        5 => name.clone().prop_map(|name| Step::Read { name }),
        2 => name.clone().prop_map(|name| Step::Remove { name }),
        1 => name.clone().prop_map(|name| Step::Amend { name }),
        3 => name.prop_map(|name| Step::Uploaded { name }),
        1 => Just(Step::Restart),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..80)
}

/// What a block must be, if it is there; and whether it must be.
#[derive(Clone, Debug)]
struct Expected {
    bytes: Vec<u8>,
    pending: bool,
    /// It was uploaded, and a crash may have forgotten that.
    was_pending: bool,
    amended: bool,
}

struct Life {
    dir: tempfile::TempDir,
    log: Opened,
    expected: BTreeMap<String, Expected>,
    seed: u64,
}

impl Life {
    async fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = open(&small(&dir)).await;
        Self { dir, log, expected: BTreeMap::new(), seed: 0 }
    }

    fn new_bytes(&mut self, len: usize) -> Vec<u8> {
        self.seed += 1;
        bytes(self.seed, len)
    }

    fn stored(&mut self, name: String, bytes: Vec<u8>, pending: bool) {
        self.expected.insert(name, Expected { bytes, pending, was_pending: pending, amended: false });
    }

    async fn step(&mut self, step: Step) {
        let of = |name: u8| format!("k{name}");
        match step {
            Step::Put { name, len, pending } => {
                let bytes = self.new_bytes(len);
                match self.log.put(&of(name), &bytes, pending).await {
                    Ok(_) => self.stored(of(name), bytes, pending),
                    Err(error) => assert_eq!(error, PutError::Full),
                }
            }
            Step::Offer { name, len } => {
                let bytes = self.new_bytes(len);
                let digest = key(&of(name)).digest();
                let (before, refused) = (self.log.staging.find(digest), self.log.staging.stats().refused);
                self.log.staging.offer(block(&of(name), &bytes, false));
                let version = before.map(|before| before.version);
                // What is reclaimed meanwhile is not there: only a later version is the offered one.
                let is_taken = || self.log.staging.find(digest).is_some_and(|now| Some(now.version) > version);
                eventually(|| is_taken() || self.log.staging.stats().refused > refused).await;
                if is_taken() {
                    assert!(!self.expected.get(&of(name)).is_some_and(|expected| expected.pending));
                    self.stored(of(name), bytes, false);
                }
            }
            Step::Read { name } => self.check(&of(name)).await,
            Step::Remove { name } => {
                self.log.staging.remove(&key(&of(name))).await.unwrap();
                self.expected.remove(&of(name));
                self.check(&of(name)).await;
            }
            Step::Amend { name } => {
                self.log.staging.amend(&key(&of(name))).await.unwrap();
                if let Some(expected) = self.expected.get_mut(&of(name)) {
                    expected.amended = true;
                }
            }
            Step::Uploaded { name } => {
                let Some(staged) = self.log.staging.find(key(&of(name)).digest()) else { return };
                self.log.staging.uploaded(&key(&of(name)), staged.version);
                self.expected.get_mut(&of(name)).unwrap().pending = false;
            }
            Step::Restart => {
                self.log.staging.close().await;
                self.expected.values_mut().for_each(|expected| expected.was_pending = expected.pending);
                // Closed, it still is in use: a copy is opened.
                self.reopen().await;
            }
            Step::Crash => self.reopen().await,
        }
    }

    /// Opens what is there now, elsewhere.
    async fn reopen(&mut self) {
        let left = tempfile::tempdir().unwrap();
        copy(self.dir.path(), left.path());
        self.log = open(&small(&left)).await;
        self.dir = left;
        self.compare();
    }

    /// A block that is there is what it was; one that is not is gone for good.
    async fn check(&mut self, name: &str) {
        let read = self.log.get(name).await;
        let digest = key(name).digest();
        // It may be reclaimed just now.
        let is_told = || self.log.there.lock().get(&digest).copied().unwrap_or_default();
        eventually(|| is_told() == self.log.is_there(name)).await;
        match (read, self.expected.get(name)) {
            (Some(read), Some(expected)) => {
                assert!(read == expected.bytes, "{name} is another one");
                if let Some(staged) = self.log.staging.find(digest) {
                    assert_eq!((staged.pending, staged.amended), (expected.pending, expected.amended), "{name}");
                }
            }
            (Some(_), None) => panic!("{name} rose again"),
            (None, Some(expected)) => {
                assert!(!expected.pending, "{name} is lost");
                self.expected.remove(name);
            }
            (None, None) => {}
        }
    }

    /// What a start found, with what must have been.
    fn compare(&mut self) {
        for block in &self.log.pending {
            let expected = self.expected.get_mut(block.key.key()).expect("a pending block rose again");
            assert!(expected.was_pending, "{} waits again", block.key);
            expected.pending = true;
        }
        let pending = self.expected.values().filter(|expected| expected.pending).count();
        assert_eq!(self.log.pending.len(), pending, "a pending block is lost");
    }
}

fn small(dir: &tempfile::TempDir) -> Settings {
    settings(dir.path(), 5)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 60, ..ProptestConfig::with_cases(12) })]
    #[test]
    fn a_log_is_a_map_that_forgets_only_what_it_may(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut life = Life::begin().await;
            for step in steps {
                life.step(step).await;
            }
            for name in 0..10 {
                life.check(&format!("k{name}")).await;
            }
        });
    }
}
