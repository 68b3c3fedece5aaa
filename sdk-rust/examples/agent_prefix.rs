//! An agent keeps the KV cache of its long system prompt: the first turn computes and stores it, later turns, of this agent or of
//! any other with the same prompt, restore it and compute what is new alone.
//!
//! Run it twice against `make run`, with the AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY that it prints. The bucket, `blocks` or
//! BLOCKGATE_BUCKET, must exist.

use std::env;
use std::num::NonZero;
use std::time::{Duration, Instant};

use blockgate_sdk::keys::BlockHash;
use blockgate_sdk::{Block, Client, LoadOptions, LookupOptions, PutOptions};

/// Tokens of a block.
const BLOCK_TOKENS: NonZero<usize> = NonZero::new(256).unwrap();
/// KV bytes of a block: what a small model with few layers needs.
const BLOCK_BYTES: usize = 1 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = client()?;
    let system_prompt: Vec<u32> = (0..8 * 256).collect();
    for turn in 1..=3_u32 {
        // What came so far, and this turn's message.
        let tokens: Vec<u32> =
            system_prompt.iter().copied().chain((1..=turn).flat_map(|turn| vec![turn; 300])).collect();
        let keys = client.compute_keys(&tokens, BLOCK_TOKENS);
        let began = Instant::now();
        let mut blocks = restore(&client, &keys).await;
        let restored = blocks.len();
        // The engine would start its prefill behind the last restored block.
        blocks.extend(keys[restored..].iter().map(compute));
        println!("turn {turn}: {restored} of {} blocks restored, the rest computed, {:?}", keys.len(), began.elapsed());
        store(&client, &keys, restored, blocks.split_off(restored)).await;
    }
    println!("{:#?}", client.stats_local());
    Ok(())
}

fn client() -> Result<Client, Box<dyn std::error::Error>> {
    let client = Client::builder()
        .endpoints(env::var("BLOCKGATE_ENDPOINT").unwrap_or_else(|_| "http://127.0.0.1:9800".to_owned()).split(','))
        .access_key(env::var("AWS_ACCESS_KEY_ID")?)
        .secret_key(env::var("AWS_SECRET_ACCESS_KEY")?)
        .bucket(env::var("BLOCKGATE_BUCKET").unwrap_or_else(|_| "blocks".to_owned()))
        .namespace("agents")
        .fingerprint("example-model/bf16/tp1")
        .key_prefix("agent/");
    Ok(client.build()?)
}

/// The blocks of the longest prefix that is there and worth loading.
async fn restore(client: &Client, keys: &[BlockHash]) -> Vec<Vec<u8>> {
    let options = LookupOptions { deadline: Some(Duration::from_millis(500)), ..LookupOptions::default() };
    let found = client.lookup(keys, &options).await;
    let mut blocks = vec![vec![0; BLOCK_BYTES]; found.matched];
    let outcome = client.get_into(&keys[..found.matched], &mut blocks, &LoadOptions::default()).await;
    blocks.truncate(outcome.loaded);
    blocks
}

/// Stores new blocks, all or none, for a day. An engine would do this beside its work.
async fn store(client: &Client, keys: &[BlockHash], restored: usize, blocks: Vec<Vec<u8>>) {
    let blocks: Vec<Block> = keys[restored..].iter().zip(blocks).map(|(key, bytes)| Block::new(key, bytes)).collect();
    let chain = keys.first().map(ToString::to_string);
    let options = PutOptions { ttl: Some(Duration::from_secs(86_400)), chain, ..PutOptions::default() };
    if let Err(error) = client.put_group(&blocks, &options).await {
        println!("not stored, to be computed again next time: {error}");
    }
}

/// A fake prefill of one block.
fn compute(key: &BlockHash) -> Vec<u8> {
    std::thread::sleep(Duration::from_millis(20));
    key.as_bytes().iter().copied().cycle().take(BLOCK_BYTES).collect()
}
