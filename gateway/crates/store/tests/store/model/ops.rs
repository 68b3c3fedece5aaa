//! Random operations.

use proptest::collection::vec;
use proptest::prelude::*;

/// Keys of the model, by number; two prefixes.
pub const KEYS: [&str; 6] = ["a/0", "a/1", "a/2", "b/0", "b/1", "b/2"];
pub const GATEWAYS: usize = 2;
/// Lengths of blocks: from tiny to larger than the arena.
pub const SIZES: [usize; 4] = [16, 5_000, 40_000, 150_000];
pub const FINGERPRINTS: [Option<&str>; 3] = [None, Some("f"), Some("g")];
/// Times to live in seconds; 0 is for ever.
pub const TTLS: [u64; 3] = [0, 10, 60];

/// One operation through one gateway.
#[derive(Clone, Debug)]
pub struct Op {
    pub gateway: usize,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Put { key: usize, block: Block, condition: Condition, fails: bool },
    Group { keys: Vec<usize>, block: Block, condition: Condition, fault: Option<GroupFault> },
    Touch { keys: Vec<usize>, ttl_s: u64, is_lost: bool },
    DeleteKeys { keys: Vec<usize> },
    DeletePrefix { prefix: &'static str },
    DeleteFingerprint { fingerprint: &'static str },
    Pass { seconds: u64 },
    Restart,
    Pressure { blocks: usize },
    Get { key: usize, asked: usize, how: GetHow },
    Head { key: usize, asked: usize },
    Lookup { keys: Vec<usize>, asked: usize, prefetch: bool },
    Exists { keys: Vec<usize>, asked: usize },
}

/// A block to store.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub size: usize,
    pub fingerprint: usize,
    pub ttl: usize,
    /// The bytes that are there, once more.
    pub is_same: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    None,
    Absent,
    Present,
    TheSame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFault {
    /// One write fails.
    Fail(usize),
    /// The gateway dies before that write.
    Die(usize),
    /// No answer to the commit, which is carried out or not.
    Lose { is_stored: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetHow {
    Stream,
    Whole,
    Held,
    /// One bit of what the upstream sends is wrong.
    Flipped,
    /// The upstream does not answer.
    Outage,
}

pub fn ops(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<Op>> {
    vec((0..GATEWAYS, what()).prop_map(|(gateway, what)| Op { gateway, what }), count)
}

fn key() -> impl Strategy<Value = usize> {
    0..KEYS.len()
}

fn keys() -> impl Strategy<Value = Vec<usize>> {
    vec(key(), 1..KEYS.len())
}

fn distinct_keys() -> impl Strategy<Value = Vec<usize>> {
    proptest::sample::subsequence((0..KEYS.len()).collect::<Vec<_>>(), 1..=KEYS.len()).prop_shuffle()
}

fn block() -> impl Strategy<Value = Block> {
    let rarely = prop::bool::weighted(0.2);
    (0..SIZES.len(), 0..FINGERPRINTS.len(), 0..TTLS.len(), rarely).prop_map(|(size, fingerprint, ttl, is_same)| Block {
        size,
        fingerprint,
        ttl,
        is_same,
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        6 => Just(Condition::None),
        2 => Just(Condition::Absent),
        1 => Just(Condition::Present),
        1 => Just(Condition::TheSame),
    ]
}

fn group_fault() -> impl Strategy<Value = Option<GroupFault>> {
    prop_oneof![
        4 => Just(None),
        1 => (0..KEYS.len()).prop_map(|step| Some(GroupFault::Fail(step))),
        2 => (0..=KEYS.len()).prop_map(|step| Some(GroupFault::Die(step))),
        1 => any::<bool>().prop_map(|is_stored| Some(GroupFault::Lose { is_stored })),
    ]
}

fn get_how() -> impl Strategy<Value = GetHow> {
    prop_oneof![
        4 => Just(GetHow::Stream),
        2 => Just(GetHow::Whole),
        2 => Just(GetHow::Held),
        1 => Just(GetHow::Flipped),
        1 => Just(GetHow::Outage),
    ]
}

fn what() -> impl Strategy<Value = What> {
    let asked = || 0..FINGERPRINTS.len();
    let rarely = || prop::bool::weighted(0.1);
    prop_oneof![
        6 => (key(), block(), condition(), rarely())
            .prop_map(|(key, block, condition, fails)| What::Put { key, block, condition, fails }),
        4 => (distinct_keys(), block(), condition(), group_fault())
            .prop_map(|(keys, block, condition, fault)| What::Group { keys, block, condition, fault }),
        3 => (distinct_keys(), 1..40u64, rarely())
            .prop_map(|(keys, ttl_s, is_lost)| What::Touch { keys, ttl_s, is_lost }),
        1 => keys().prop_map(|keys| What::DeleteKeys { keys }),
        1 => prop_oneof![Just("a/"), Just("b/"), Just("")].prop_map(|prefix| What::DeletePrefix { prefix }),
        1 => prop_oneof![Just("f"), Just("g")].prop_map(|fingerprint| What::DeleteFingerprint { fingerprint }),
        4 => (1..15u64).prop_map(|seconds| What::Pass { seconds }),
        1 => Just(What::Restart),
        2 => (1..4usize).prop_map(|blocks| What::Pressure { blocks }),
        12 => (key(), asked(), get_how()).prop_map(|(key, asked, how)| What::Get { key, asked, how }),
        6 => (key(), asked()).prop_map(|(key, asked)| What::Head { key, asked }),
        4 => (distinct_keys(), asked(), rarely())
            .prop_map(|(keys, asked, prefetch)| What::Lookup { keys, asked, prefetch }),
        2 => (distinct_keys(), asked()).prop_map(|(keys, asked)| What::Exists { keys, asked }),
    ]
}
