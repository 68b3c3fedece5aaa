//! What is there, and what each gateway may still believe.
//!
//! The truth is simple: a key holds the last version stored, until it expires or is deleted. A gateway must answer by the
//! truth or by what it learned before another gateway changed the truth: until there is a change log, such a belief may
//! outlive the change, an absence for the negative TTL, a version until it expires. A change through the gateway
//! itself leaves it no belief but the new truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use blockgate_block::MissReason;
use bytes::Bytes;

/// What a key holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Version {
    pub bytes: Bytes,
    pub fingerprint: Option<&'static str>,
    pub expires_at: Option<SystemTime>,
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let begin = &self.bytes[..self.bytes.len().min(4)];
        write!(f, "{} bytes {begin:02x?} {:?} until {:?}", self.bytes.len(), self.fingerprint, self.expires_at)
    }
}

impl Version {
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    fn answer(&self, fingerprint: Option<&str>, now: SystemTime) -> Answer {
        if self.is_expired(now) {
            Answer::Miss(MissReason::Expired)
        } else if fingerprint.is_some() && fingerprint != self.fingerprint {
            Answer::Miss(MissReason::Fingerprint)
        } else {
            Answer::Hit(self.clone())
        }
    }
}

/// What a gateway learned of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belief {
    Present(Version),
    Absent { since: SystemTime },
}

/// What a read may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Hit(Version),
    Miss(MissReason),
}

/// The model.
pub struct Reference {
    pub truth: BTreeMap<usize, Version>,
    beliefs: BTreeMap<(usize, usize), Vec<Belief>>,
    /// Where a gateway changed the truth itself and has not looked since: it holds what it believes.
    certain: BTreeSet<(usize, usize)>,
    negative_ttl: Duration,
    /// What a gateway may still have on its disk: what it believed since it last changed the truth itself. None where nothing is
    /// staged.
    staged: Option<BTreeMap<(usize, usize), Vec<Version>>>,
}

impl Reference {
    pub fn new(negative_ttl: Duration, stage: bool) -> Self {
        let staged = stage.then(BTreeMap::new);
        Self { truth: BTreeMap::new(), beliefs: BTreeMap::new(), certain: BTreeSet::new(), negative_ttl, staged }
    }

    /// What is there to clients.
    pub fn live(&self, key: usize, now: SystemTime) -> Option<&Version> {
        self.truth.get(&key).filter(|version| !version.is_expired(now))
    }

    /// The answers that a gateway may give, and what it then believes.
    pub fn answers(
        &self,
        gateway: usize,
        key: usize,
        fingerprint: Option<&str>,
        now: SystemTime,
    ) -> Vec<(Answer, Belief)> {
        let truth = match self.truth.get(&key) {
            Some(version) => Belief::Present(version.clone()),
            None => Belief::Absent { since: now },
        };
        let staged = self.staged.iter().filter_map(|staged| staged.get(&(gateway, key))).flatten();
        let staged: Vec<Belief> = staged.map(|version| Belief::Present(version.clone())).collect();
        let believed = self.beliefs.get(&(gateway, key)).into_iter().flatten().chain(&staged);
        let believed = believed.filter(|belief| match belief {
            Belief::Present(_) => true,
            Belief::Absent { since } => now < *since + self.negative_ttl,
        });
        std::iter::once(&truth)
            .chain(believed)
            .map(|belief| match belief {
                Belief::Present(version) => (version.answer(fingerprint, now), belief.clone()),
                Belief::Absent { .. } => (Answer::Miss(MissReason::Absent), belief.clone()),
            })
            .collect()
    }

    /// Whether a lookup may claim the blocks of a chain: the last one by what is there or believed, and those before it
    /// because a block implies its predecessors, unless the gateway must know better.
    pub fn may_claim(&self, gateway: usize, chain: &[usize], fingerprint: Option<&str>, now: SystemTime) -> bool {
        let may_hit = |key| {
            let answers = self.answers(gateway, key, fingerprint, now);
            answers.iter().any(|(answer, _)| matches!(answer, Answer::Hit(_)))
        };
        let knows_better = |key| {
            // An absence is known for the negative TTL, and then the truth again counts as unknown.
            let is_held = |belief: &Belief| match belief {
                Belief::Present(_) => true,
                Belief::Absent { since } => now < *since + self.negative_ttl,
            };
            self.certain.contains(&(gateway, key)) && self.beliefs[&(gateway, key)].iter().all(is_held)
        };
        let Some((&last, before)) = chain.split_last() else { return true };
        may_hit(last) && before.iter().all(|&key| may_hit(key) || !knows_better(key))
    }

    /// A gateway answered: it believes what lets it do so. Fails if nothing does.
    pub fn observe(
        &mut self,
        gateway: usize,
        key: usize,
        fingerprint: Option<&str>,
        now: SystemTime,
        is_answer: impl Fn(&Answer) -> bool,
    ) -> Result<(), String> {
        let answers = self.answers(gateway, key, fingerprint, now);
        let mut beliefs: Vec<Belief> = Vec::new();
        for (_, belief) in answers.iter().filter(|(answer, _)| is_answer(answer)) {
            if !beliefs.contains(belief) {
                beliefs.push(belief.clone());
            }
        }
        if beliefs.is_empty() {
            return Err(format!("gateway {gateway}, key {key}, at {now:?}: only these are right: {answers:#?}"));
        }
        self.believes(gateway, key, beliefs);
        self.certain.remove(&(gateway, key));
        Ok(())
    }

    fn believes(&mut self, gateway: usize, key: usize, beliefs: Vec<Belief>) {
        if let Some(staged) = &mut self.staged {
            let staged = staged.entry((gateway, key)).or_default();
            for belief in &beliefs {
                if let Belief::Present(version) = belief
                    && !staged.contains(version)
                {
                    staged.push(version.clone());
                }
            }
        }
        self.beliefs.insert((gateway, key), beliefs);
    }

    /// A gateway changed the truth: of what was there before it has nothing on its disk.
    pub fn unstages(&mut self, gateway: usize, key: usize) {
        if let Some(staged) = &mut self.staged {
            staged.remove(&(gateway, key));
        }
    }

    /// A gateway may have looked at the truth, and may not.
    pub fn may_know(&mut self, gateway: usize, key: usize, now: SystemTime) {
        let known = self.answers(gateway, key, None, now).into_iter().map(|(_, belief)| belief);
        self.believes(gateway, key, known.collect());
        self.certain.remove(&(gateway, key));
    }

    /// A gateway changed the truth, or knows it now.
    pub fn knows(&mut self, gateway: usize, key: usize, now: SystemTime) {
        self.forgets(gateway, key);
        self.may_know(gateway, key, now);
        self.certain.insert((gateway, key));
    }

    /// A gateway has no belief but the truth, when it looks.
    pub fn forgets(&mut self, gateway: usize, key: usize) {
        self.beliefs.remove(&(gateway, key));
        self.certain.remove(&(gateway, key));
    }

    /// A gateway begins anew.
    pub fn restarts(&mut self, gateway: usize) {
        self.beliefs.retain(|(of, _), _| *of != gateway);
        self.certain.retain(|(of, _)| *of != gateway);
    }

    /// A gateway believes no more in versions stored for `fingerprint`: it looked, and knows where nothing is.
    pub fn unlearns(&mut self, gateway: usize, fingerprint: &str, now: SystemTime) {
        for ((_, key), beliefs) in self.beliefs.iter_mut().filter(|((of, _), _)| *of == gateway) {
            let count = beliefs.len();
            beliefs.retain(|belief| match belief {
                Belief::Present(version) => version.fingerprint != Some(fingerprint),
                Belief::Absent { .. } => true,
            });
            if beliefs.len() == count {
                continue;
            }
            if self.truth.contains_key(key) {
                // It found another's block, and knows of none until it looks again.
                self.certain.remove(&(gateway, *key));
            } else {
                beliefs.push(Belief::Absent { since: now });
            }
        }
    }
}
