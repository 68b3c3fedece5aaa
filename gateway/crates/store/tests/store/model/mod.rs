//! Random operations through two gateways against a simple reference: nothing is ever served or claimed that the model says
//! is absent, expired, of another fingerprint or of other bytes, and what is there is served.

mod gateways;
mod ops;
mod reads;
mod reference;
mod world;

use std::sync::Arc;

use blockgate_upstream::{FsUpstream, Upstream};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::ops::{Op, ops};
use self::world::World;

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The first step that fails, and how.
async fn live(mut world: World, ops: &[Op]) -> Result<(), (usize, String)> {
    world.begin().await;
    for (step, op) in ops.iter().enumerate() {
        world.step(op).await.map_err(|text| (step, format!("{op:?}: {text}")))?;
    }
    Ok(())
}

fn judged(lived: Result<(), (usize, String)>) -> Result<(), TestCaseError> {
    lived.map_err(|(step, text)| TestCaseError::fail(format!("step {step}, {text}")))
}

fn on_disk(ops: &[Op]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let upstream: Arc<dyn Upstream> = Arc::new(FsUpstream::open(folder.path()).await.unwrap());
        upstream.create_bucket("bucket").await.unwrap();
        judged(live(World::on("bucket", upstream), ops).await)
    })
}

proptest! {
    #![proptest_config(Config { cases: 256, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() })]
    #[test]
    fn gateways_are_as_the_model(ops in ops(1..80), is_async in any::<bool>()) {
        judged(run(live(World::on_double(if is_async { "async" } else { "b" }), &ops)))?;
    }
}

proptest! {
    #![proptest_config(Config { cases: 12, max_shrink_iters: 500, failure_persistence: None, ..Config::default() })]
    #[test]
    fn gateways_on_a_directory_are_as_the_model(ops in ops(1..60)) {
        on_disk(&ops)?;
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..Config::default() })]
    #[test]
    fn gateways_that_stage_are_as_the_model(ops in ops(1..60)) {
        judged(run(live(World::staged(), &ops)))?;
    }
}

/// Many lives in a row: `BLOCKGATE_MODEL_STEPS` operations each, 20,000 by default, from `BLOCKGATE_MODEL_SEED` on.
#[test]
#[ignore = "long; run by hand"]
fn a_long_life() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (steps, seed) = (number("BLOCKGATE_MODEL_STEPS", 20_000), number("BLOCKGATE_MODEL_SEED", 1));
    for (life, bucket) in (seed..).zip(["b", "async", "back"]) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(life as u64).to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let ops = ops(steps).new_tree(&mut runner).unwrap().current();
        let world = || if bucket == "back" { World::staged() } else { World::on_double(bucket) };
        let fails = |ops: &[Op]| run(async { live(world(), ops).await }).err();
        if let Some((step, _)) = fails(&ops) {
            let few = few_that_fail(&ops[..=step], |ops| fails(ops).is_some());
            panic!("life {life}: {:?}, after {few:#?}", fails(&few));
        }
    }
}

/// Leaves out what is not needed to fail: all but the last, then one after another.
fn few_that_fail(ops: &[Op], fails: impl Fn(&[Op]) -> bool) -> Vec<Op> {
    let begins = std::iter::successors(Some(16), |len| Some(len * 2)).map(|len: usize| ops.len().saturating_sub(len));
    let begin = begins.take_while(|&begin| begin > 0).find(|&begin| fails(&ops[begin..])).unwrap_or(0);
    let mut few = ops[begin..].to_vec();
    for at in (0..few.len()).rev() {
        let mut fewer = few.clone();
        fewer.remove(at);
        if fails(&fewer) {
            few = fewer;
        }
    }
    few
}
