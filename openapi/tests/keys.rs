//! Block keys against what vLLM's released code computes (`tests/engines/test_vllm_keys.py` keeps the vectors true).

#![allow(clippy::unwrap_used)]

use std::num::NonZero;

use blockgate_api::keys::{BlockHash, Chain, ChainSeed, ExtraKey, compute_keys, compute_keys_with};
use proptest::prelude::*;
use serde_json::Value;

const VECTORS: &str = include_str!("vectors/vllm.json");

fn cases() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

fn size(block_size: u64) -> NonZero<usize> {
    NonZero::new(usize::try_from(block_size).unwrap()).unwrap()
}

fn seed(case: &Value) -> ChainSeed {
    match case["namespace"].as_str() {
        Some(namespace) => ChainSeed::new(namespace, case["fingerprint"].as_str().unwrap()),
        None => ChainSeed::vllm(case["hash_seed"].as_str().unwrap_or(ChainSeed::VLLM_DEFAULT_HASH_SEED)),
    }
}

fn tokens(case: &Value) -> Vec<u32> {
    case["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap().try_into().unwrap()).collect()
}

fn extra_key(value: &Value) -> ExtraKey {
    match value {
        Value::String(text) => ExtraKey::Text(text.clone()),
        Value::Number(number) => ExtraKey::Int(number.as_i64().unwrap()),
        Value::Array(keys) => ExtraKey::Tuple(keys.iter().map(extra_key).collect()),
        Value::Object(bytes) => ExtraKey::Bytes(hex::decode(bytes["bytes"].as_str().unwrap()).unwrap()),
        other => panic!("no extra key: {other}"),
    }
}

/// The extra keys of a block, none where vLLM has null.
fn extra_keys(case: &Value, block: usize) -> Vec<ExtraKey> {
    case["extra_keys"][block].as_array().map(|keys| keys.iter().map(extra_key).collect()).unwrap_or_default()
}

#[test]
fn equal_to_vllms() {
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let expected: Vec<BlockHash> =
            case["hashes"].as_array().unwrap().iter().map(|hash| hash.as_str().unwrap().parse().unwrap()).collect();
        let block_size = size(case["block_size"].as_u64().unwrap());
        assert_eq!(seed(&case).hash().to_string(), case["seed"].as_str().unwrap(), "{name}");
        let keys = compute_keys_with(&seed(&case), &tokens(&case), block_size, |block| extra_keys(&case, block));
        assert_eq!(keys, expected, "{name}");
        let plain = compute_keys(&seed(&case), &tokens(&case), block_size);
        assert_eq!(plain == expected, (0..expected.len()).all(|block| extra_keys(&case, block).is_empty()), "{name}");
    }
}

/// The constructors make what vLLM makes, in vLLM's order.
#[test]
fn extra_keys_of_vllm() {
    let cases = cases();
    let case = cases.iter().find(|case| case["name"] == "all of it").unwrap();
    let image = |block: i64| ExtraKey::multimodal("image-a", 3 - 16 * block);
    let first = [ExtraKey::lora("l", "p"), image(0), ExtraKey::cache_salt("s"), ExtraKey::prompt_embeds([0x33; 32])];
    assert_eq!(extra_keys(case, 0), first);
    assert_eq!(extra_keys(case, 1), [ExtraKey::lora("l", "p"), image(1), ExtraKey::prompt_embeds([0x44; 32])]);
}

#[test]
fn seeds_stay_apart() {
    let seeds = [
        ChainSeed::new("a", "b"),
        ChainSeed::new("b", "a"),
        ChainSeed::new("ab", ""),
        ChainSeed::new("", "ab"),
        ChainSeed::vllm("ab"),
        ChainSeed::vllm("a"),
    ];
    for (index, seed) in seeds.iter().enumerate() {
        assert_eq!(seeds.iter().position(|other| other == seed), Some(index));
    }
}

#[test]
fn text_and_back() {
    let hash = ChainSeed::vllm("0").hash();
    assert_eq!(hash.to_string().parse(), Ok(hash));
    assert_eq!(hash.to_string().len(), 64);
    for bad in ["", "0", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
        assert!(bad.parse::<BlockHash>().is_err(), "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_gives_the_same_keys(
        tokens in proptest::collection::vec(any::<u32>(), 0..60),
        block_size in 1u64..9,
        cuts in proptest::collection::vec(0usize..60, 0..5),
    ) {
        let seed = ChainSeed::new("tenant", "model");
        // Extra keys by position, so that a position told wrongly shows.
        let extra = |block: usize| vec![ExtraKey::Int(block as i64)];
        let whole = compute_keys_with(&seed, &tokens, size(block_size), extra);
        prop_assert_eq!(whole.len(), tokens.len() / block_size as usize);

        let mut chain = Chain::new(&seed, size(block_size));
        let mut grown = Vec::new();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(tokens.len())).chain([tokens.len()]).collect();
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts {
            grown.extend(chain.extend_with(&tokens[from..cut], extra));
            prop_assert_eq!(chain.blocks(), grown.len());
            from = cut;
        }
        prop_assert_eq!(grown, whole);
    }
}
