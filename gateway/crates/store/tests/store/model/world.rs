//! Two gateways on one upstream, held against the reference.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use blockgate_block::{BlockKey, KeyList, ObjectInfo};
use blockgate_store::{Store, WriteRequest, Written};
use blockgate_upstream::{Conditions, Payload, Upstream};
use tempfile::TempDir;

use super::gateways::{Gateways, NEGATIVE_TTL};
use super::ops::{Block, Condition, FINGERPRINTS, GATEWAYS, GetHow, GroupFault, KEYS, Op, SIZES, TTLS, What};
use super::reads::reading;
use super::reference::{Answer, Reference, Version};
use crate::double::{Double, Handle, When};
use crate::support::*;

/// What a step found wrong.
pub(super) type Checked = std::result::Result<(), String>;

pub struct World {
    pub(super) bucket: &'static str,
    pub(super) upstream: Arc<dyn Upstream>,
    /// What misbehaves, where that is possible.
    pub(super) double: Option<Arc<Double>>,
    pub(super) gateways: Gateways,
    /// None while it is replaced.
    stores: Vec<Option<Arc<Store>>>,
    pub(super) reference: Reference,
    pub(super) seed: u64,
}

impl World {
    pub fn on_double(bucket: &'static str) -> Self {
        let double = Double::new();
        Self::new(bucket, Arc::new(Handle(Arc::clone(&double))), Some(double), None)
    }

    /// Of gateways that stage, and write back.
    pub fn staged() -> Self {
        let (double, disk) = (Double::new(), tempfile::tempdir().unwrap());
        Self::new("back", Arc::new(Handle(Arc::clone(&double))), Some(double), Some(disk))
    }

    /// On an upstream that always does as it should, and whose clock is not the test's.
    pub fn on(bucket: &'static str, upstream: Arc<dyn Upstream>) -> Self {
        Self::new(bucket, upstream, None, None)
    }

    fn new(
        bucket: &'static str,
        upstream: Arc<dyn Upstream>,
        double: Option<Arc<Double>>,
        disk: Option<TempDir>,
    ) -> Self {
        let reference = Reference::new(NEGATIVE_TTL, disk.is_some());
        let gateways = Gateways::new(Arc::clone(&upstream), bucket, disk);
        Self { bucket, upstream, double, gateways, stores: Vec::new(), reference, seed: 0 }
    }

    pub async fn begin(&mut self) {
        for number in 0..GATEWAYS {
            let store = self.gateways.begin(number).await;
            self.stores.push(Some(store));
        }
    }

    pub(super) fn store(&self, gateway: usize) -> Arc<Store> {
        Arc::clone(self.stores[gateway].as_ref().unwrap())
    }

    pub(super) fn now(&self) -> SystemTime {
        self.upstream.now()
    }

    pub(super) fn key(&self, key: usize) -> BlockKey {
        BlockKey::new(self.bucket, KEYS[key]).unwrap()
    }

    pub(super) fn key_list(&self, keys: &[usize]) -> Arc<KeyList> {
        let keys = keys.iter().map(|&key| KEYS[key].to_owned()).collect();
        Arc::new(KeyList::new(self.bucket, "", "", keys).unwrap())
    }

    /// Carries out an operation and holds what came of it against the reference.
    pub async fn step(&mut self, op: &Op) -> Checked {
        let gateway = op.gateway;
        let store = self.store(gateway);
        match &op.what {
            What::Put { key, block, condition, fails } => {
                drop(store);
                self.put(gateway, *key, *block, *condition, *fails && self.double.is_some()).await
            }
            What::Group { keys, block, condition, fault } => {
                drop(store);
                let fault = fault.filter(|_| self.double.is_some());
                self.put_group(gateway, keys, *block, *condition, fault).await
            }
            What::Touch { keys, ttl_s, is_lost } => self.touch(gateway, keys, *ttl_s, *is_lost).await,
            What::DeleteKeys { keys } => {
                let deleted = store.delete_keys(&self.key_list(keys)).await;
                let mut distinct = keys.clone();
                distinct.sort_unstable();
                distinct.dedup();
                self.deleted(gateway, &distinct);
                expect("deleted", deleted.unwrap(), distinct.len() as u64)
            }
            What::DeletePrefix { prefix } => {
                let _ = store.delete_prefix(self.bucket, prefix).await.unwrap();
                let is_under = |key: &usize| KEYS[*key].starts_with(prefix);
                let is_there = |key: &usize| self.reference.truth.contains_key(key);
                let under = (0..KEYS.len()).filter(is_under);
                let (there, others): (Vec<usize>, Vec<usize>) = under.partition(is_there);
                self.deleted(gateway, &there);
                // What it believed in is gone, too; of what it did not know it need not have learned.
                let now = self.now();
                for key in others {
                    self.reference.knows(gateway, key, now);
                    self.reference.may_know(gateway, key, now);
                }
                Ok(())
            }
            What::DeleteFingerprint { fingerprint } => {
                let deleted = store.delete_fingerprint(self.bucket, fingerprint).await.unwrap();
                let is_of = |key: &usize| {
                    self.reference.truth.get(key).is_some_and(|version| version.fingerprint == Some(fingerprint))
                };
                let gone: Vec<usize> = (0..KEYS.len()).filter(is_of).collect();
                self.reference.unlearns(gateway, fingerprint, self.upstream.now());
                self.deleted(gateway, &gone);
                expect("deleted", deleted, gone.len() as u64)
            }
            What::Pass { seconds } => {
                if let Some(double) = &self.double {
                    double.pass(Duration::from_secs(*seconds));
                }
                Ok(())
            }
            What::Restart => {
                store.drain().await;
                drop(store);
                self.restart(gateway).await;
                Ok(())
            }
            What::Pressure { blocks } => {
                for n in 0..*blocks {
                    self.seed += 1;
                    let key = BlockKey::new(self.bucket, &format!("filler/{n}")).unwrap();
                    let payload = Payload::Bytes(pattern(30_000, self.seed).into());
                    let _ = store.put(&key, WriteRequest::default(), payload).await.unwrap();
                    store.drain().await;
                }
                Ok(())
            }
            What::Get { key, asked, how } => self.get(gateway, *key, FINGERPRINTS[*asked], *how).await,
            What::Head { key, asked } => {
                let request = reading(FINGERPRINTS[*asked]);
                let found = store.head(&self.key(*key), request).await;
                self.described(gateway, *key, FINGERPRINTS[*asked], found.map(|found| found.info))
            }
            What::Lookup { keys, asked, prefetch } => self.lookup(gateway, keys, FINGERPRINTS[*asked], *prefetch).await,
            What::Exists { keys, asked } => {
                let list = self.key_list(keys);
                let present = store.exists(&list, FINGERPRINTS[*asked], None).await.unwrap();
                let now = self.now();
                keys.iter().zip(present).try_for_each(|(&key, present)| {
                    self.reference.observe(gateway, key, FINGERPRINTS[*asked], now, |answer| {
                        matches!(answer, Answer::Hit(_)) == present
                    })
                })
            }
        }
    }

    /// A gateway ends well, and another takes its place.
    async fn restart(&mut self, gateway: usize) {
        self.store(gateway).close().await;
        self.kill(gateway).await;
    }

    /// A gateway is killed, and another takes its place. Nobody else may hold it. What it uploaded right before may go up once
    /// more, though others have deleted it since: so this is for when nothing was.
    async fn kill(&mut self, gateway: usize) {
        self.stores[gateway] = None;
        self.stores[gateway] = Some(self.gateways.begin(gateway).await);
        self.reference.restarts(gateway);
    }

    fn outage(&self, is_out: bool) {
        if let Some(double) = &self.double {
            double.outage.store(is_out, Ordering::SeqCst);
        }
    }

    fn deleted(&mut self, gateway: usize, keys: &[usize]) {
        for &key in keys {
            self.reference.truth.remove(&key);
            self.reference.unstages(gateway, key);
            self.reference.knows(gateway, key, self.now());
        }
    }

    /// The version that `block` makes of a key, and the request that stores it.
    fn version(&mut self, key: usize, block: Block, condition: Condition) -> (Version, WriteRequest) {
        self.seed += 1;
        let there = self.reference.truth.get(&key).filter(|_| block.is_same).map(|version| version.bytes.clone());
        let bytes = there.unwrap_or_else(|| pattern(SIZES[block.size], self.seed).into());
        let fingerprint = FINGERPRINTS[block.fingerprint];
        let ttl_s = Some(TTLS[block.ttl]).filter(|&ttl_s| ttl_s > 0);
        let mut user = Vec::new();
        let text = ttl_s.map(|ttl_s| ttl_s.to_string());
        user.extend(text.as_deref().map(|text| ("kv-ttl", text)));
        user.extend(fingerprint.map(|fingerprint| ("kv-fingerprint", fingerprint)));
        let etag = || self.reference.truth.get(&key).map_or_else(|| "none".into(), |there| etag_of(&there.bytes));
        let conditions = match condition {
            Condition::None => Conditions::default(),
            Condition::Absent => Conditions { if_none_match: Some("*".into()), ..Conditions::default() },
            Condition::Present => Conditions { if_match: Some("*".into()), ..Conditions::default() },
            Condition::TheSame => Conditions { if_match: Some(etag()), ..Conditions::default() },
        };
        let expires_at = ttl_s.map(|ttl_s| whole_ms(self.now()) + Duration::from_secs(ttl_s));
        (Version { bytes, fingerprint, expires_at }, WriteRequest { conditions, ..with_meta(&user) })
    }

    /// Whether a write on this condition succeeds.
    fn may_write(&self, key: usize, condition: Condition) -> bool {
        match (condition, self.reference.live(key, self.now())) {
            (Condition::None, _) | (Condition::Absent, None) | (Condition::Present | Condition::TheSame, Some(_)) => {
                true
            }
            (Condition::Absent, Some(_)) | (Condition::Present | Condition::TheSame, None) => false,
        }
    }

    async fn put(&mut self, gateway: usize, key: usize, block: Block, condition: Condition, fails: bool) -> Checked {
        let (mut version, request) = self.version(key, block, condition);
        let is_right = self.may_write(key, condition);
        let is_out = fails && self.gateways.stage() && condition == Condition::None;
        if is_out {
            self.restart(gateway).await;
            self.gateways.show_bucket(&self.store(gateway)).await;
            self.outage(true);
        }
        let store = self.store(gateway);
        // An acknowledged block would be uploaded again.
        let fails = fails && self.bucket == "b";
        if let Some(double) = self.double.as_ref().filter(|_| fails) {
            double.fail_put(When::After(0));
        }
        let written = store.put(&self.key(key), request, Payload::Bytes(version.bytes.clone())).await;
        if let Some(double) = self.double.as_ref().filter(|_| !is_out) {
            double.revive();
        }
        if written.is_ok() != (is_right && !fails) {
            return Err(format!("put on {condition:?}: {written:?}"));
        }
        let Ok(written) = written else {
            self.reference.forgets(gateway, key);
            return Ok(());
        };
        check_written(&written, &mut version, self.double.is_some())?;
        self.reference.truth.insert(key, version);
        self.reference.unstages(gateway, key);
        self.reference.knows(gateway, key, self.now());
        // Read before it is uploaded.
        self.get(gateway, key, None, GetHow::Held).await?;
        if is_out {
            drop(store);
            self.kill(gateway).await;
            self.get(gateway, key, None, GetHow::Whole).await?;
            self.outage(false);
        }
        self.store(gateway).drain().await;
        Ok(())
    }

    async fn put_group(
        &mut self,
        gateway: usize,
        keys: &[usize],
        block: Block,
        condition: Condition,
        fault: Option<GroupFault>,
    ) -> Checked {
        let store = self.store(gateway);
        let (mut members, mut versions) = (Vec::new(), Vec::new());
        for &key in keys {
            let (version, request) = self.version(key, block, condition);
            let body = store.take_in(self.bucket, Payload::Bytes(version.bytes.clone())).await.unwrap();
            members.push((self.key(key), request, body));
            versions.push(version);
        }
        let is_right = keys.iter().all(|&key| self.may_write(key, condition));
        let before = self.at_upstream(keys).await;
        if let Some((double, fault)) = self.double.as_ref().zip(fault) {
            match fault {
                GroupFault::Fail(step) => double.fail_put(When::After(step.min(keys.len() - 1))),
                GroupFault::Die(step) => double.die_at_put(step),
                GroupFault::Lose { is_stored } => double.lose_puts_from(keys.len(), is_stored),
            }
        }
        let written = store.put_group(members).await;
        if let Some(double) = &self.double {
            double.revive();
        }
        let dies_late = matches!(fault, Some(GroupFault::Die(step)) if step > keys.len());
        if written.is_ok() != (is_right && (fault.is_none() || dies_late)) {
            return Err(format!("group on {condition:?} with {fault:?}: {:?}", written.err()));
        }
        let is_stored = written.is_ok() || (is_right && fault == Some(GroupFault::Lose { is_stored: true }));
        if let Ok(written) = &written {
            for (version, written) in versions.iter_mut().zip(written) {
                check_written(written, version, self.double.is_some())?;
            }
        }
        let after = self.at_upstream(keys).await;
        for (index, &key) in keys.iter().enumerate() {
            if is_stored {
                self.reference.truth.insert(key, versions[index].clone());
            } else if after[index] != before[index] {
                // Overwritten by what was never committed, or taken back.
                self.reference.truth.remove(&key);
            }
            self.reference.forgets(gateway, key);
            if written.is_ok() {
                self.reference.unstages(gateway, key);
                self.reference.knows(gateway, key, self.now());
            }
        }
        if let Some(GroupFault::Die(_)) = fault {
            drop(store);
            self.restart(gateway).await;
        }
        Ok(())
    }

    async fn at_upstream(&self, keys: &[usize]) -> Vec<Option<ObjectInfo>> {
        let mut infos = Vec::new();
        for &key in keys {
            infos.push(self.upstream.head(self.bucket, KEYS[key], &Conditions::default()).await.ok());
        }
        infos
    }

    async fn touch(&mut self, gateway: usize, keys: &[usize], ttl_s: u64, is_lost: bool) -> Checked {
        // Where it is not known when a touch was, what it did is not known either.
        let Some(double) = self.double.clone() else { return Ok(()) };
        let (now, store) = (self.now(), self.store(gateway));
        let live: Vec<usize> = keys.iter().copied().filter(|&key| self.reference.live(key, now).is_some()).collect();
        double.lose_copies.store(usize::from(is_lost), Ordering::SeqCst);
        let touched = store.touch(&self.key_list(keys), Duration::from_secs(ttl_s)).await;
        let lost = usize::from(is_lost) - double.lose_copies.swap(0, Ordering::SeqCst);
        for &key in keys {
            if let Some(version) = self.reference.truth.get_mut(&key).filter(|version| !version.is_expired(now)) {
                version.expires_at = Some(now + Duration::from_secs(ttl_s));
            }
            if lost == 0 && live.contains(&key) {
                self.reference.unstages(gateway, key);
            }
            // Of the one whose answer was lost, it believes what it did.
            if lost > 0 {
                self.reference.may_know(gateway, key, now);
            } else {
                self.reference.knows(gateway, key, now);
            }
        }
        match touched {
            Ok(count) => expect("touched", count, live.len() as u64),
            Err(_) if lost > 0 => Ok(()),
            Err(error) => Err(format!("touch: {error}")),
        }
    }
}

/// Takes the expiry from the answer where the clock is not the test's.
fn check_written(written: &Written, version: &mut Version, clock_is_ours: bool) -> Checked {
    if !clock_is_ours {
        version.expires_at = written.expires_at;
    }
    let right = written.expires_at == version.expires_at && written.etag == etag_of(&version.bytes);
    if right { Ok(()) } else { Err(format!("{written:?} for {version:?}")) }
}

pub(super) fn expect(what: &str, got: u64, expected: u64) -> Checked {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got}, not {expected}")) }
}

fn whole_ms(at: SystemTime) -> SystemTime {
    let since = at.duration_since(std::time::UNIX_EPOCH).unwrap();
    std::time::UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap())
}
