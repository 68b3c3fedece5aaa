//! A server's loop: for each request load what is cached, compute the rest, store it. The cache may be slow, empty or dead: the
//! loop never fails for it, it only computes more. Kill the gateway while it runs, and start it again.
//!
//! Run it against `make run`, with the AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY that it prints. The bucket, `blocks` or
//! BLOCKGATE_BUCKET, must exist. BLOCKGATE_ENDPOINT may name several gateways, with commas between.

use std::env;
use std::num::NonZero;
use std::time::{Duration, Instant};

use blockgate_sdk::keys::BlockHash;
use blockgate_sdk::{Block, LoadOptions, PutOptions, blocking};

const BLOCK_TOKENS: NonZero<usize> = NonZero::new(16).unwrap();
const BLOCK_BYTES: usize = 256 << 10;
/// Time that one block takes to compute.
const PREFILL: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: u32 = env::var("REQUESTS").map_or(Ok(40), |text| text.parse())?;
    let builder = blockgate_sdk::Client::builder()
        .endpoints(env::var("BLOCKGATE_ENDPOINT").unwrap_or_else(|_| "http://127.0.0.1:9800".to_owned()).split(','))
        .access_key(env::var("AWS_ACCESS_KEY_ID")?)
        .secret_key(env::var("AWS_SECRET_ACCESS_KEY")?)
        .bucket(env::var("BLOCKGATE_BUCKET").unwrap_or_else(|_| "blocks".to_owned()))
        .fingerprint("example-model/bf16/tp1")
        .key_prefix("cache-aside/")
        .deadline(Duration::from_millis(200));
    let client = blocking::Client::new(builder)?;
    // One pool of buffers, used again for every request.
    let mut buffers = vec![vec![0; BLOCK_BYTES]; 16];
    for request in 0..requests {
        // Four conversations that grow.
        let length = 64 + 16 * (request / 4 % 12);
        let tokens: Vec<u32> = (0..length).map(|position| request % 4 * 10_000 + position).collect();
        let keys = client.inner().compute_keys(&tokens, BLOCK_TOKENS);
        let began = Instant::now();
        let outcome = client.get_into(&keys, &mut buffers[..keys.len()], &LoadOptions::default());
        let why = outcome.misses.first().map_or_else(|| "all".to_owned(), |miss| miss.reason.to_string());
        prefill(&keys[outcome.loaded..], &mut buffers[outcome.loaded..]);
        println!(
            "request {request}: {} of {} blocks loaded ({why}), {:?}",
            outcome.loaded,
            keys.len(),
            began.elapsed()
        );

        let computed = keys.iter().zip(&buffers).skip(outcome.loaded);
        let blocks: Vec<Block> = computed.map(|(key, bytes)| Block::new(key, bytes.clone())).collect();
        // In one chain with what was loaded, so at one gateway.
        let options = PutOptions { chain: keys.first().map(ToString::to_string), ..PutOptions::default() };
        if let Err(error) = client.put_many(&blocks, &options) {
            println!("not stored: {error}");
        }
    }
    println!("{:#?}", client.stats_local());
    Ok(())
}

/// A fake prefill.
fn prefill(keys: &[BlockHash], buffers: &mut [Vec<u8>]) {
    for (key, buffer) in keys.iter().zip(buffers) {
        std::thread::sleep(PREFILL);
        buffer.iter_mut().zip(key.as_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
    }
}
