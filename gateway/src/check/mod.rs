//! `blockgate check`: what is in force, whether it can work, and what the upstream at hand does.

mod keys;
mod staging;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::Client;
use blockgate_upstream::{Capabilities, Payload, PutRequest, Upstream};
use bytes::Bytes;
use tokio::time::{Instant, timeout};

use crate::config::{self, Config, Size};
use crate::wire::WireError;
use crate::{server, wire};

/// How long the upstream may take to answer one question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Prints what is in force, then tries it.
///
/// # Errors
/// What keeps the gateway from working; all of it has been printed.
pub(crate) async fn check(config: &Config, offline: bool) -> Result<(), String> {
    print!("{}", config.in_force());
    println!();
    let mut problems = Problems::default();
    if let Some(tls) = &config.server.tls {
        problems.report("certificate and key", server::acceptor(tls).map(|_| "belong together".to_owned()));
    }
    problems
        .report("memory", wire::check_memory(config.memory_capacity_bytes).map(|()| "the machine has it".to_owned()));
    problems.report("access keys", access_keys(config));
    too_large_blocks(config);
    staging::staging(config, &mut problems);
    if offline {
        println!("upstream: not asked (--offline)");
    } else {
        upstream(config, &mut problems).await;
    }
    match problems.0 {
        0 => Ok(()),
        1 => Err("1 problem".to_owned()),
        count => Err(format!("{count} problems")),
    }
}

fn access_keys(config: &Config) -> Result<String, WireError> {
    if config.access.is_empty() {
        return Ok(match wire::existing_credentials(config)? {
            Some(found) => format!("{} from {}", found.key.access_key, found.path.display()),
            None => "none configured: `blockgate serve` creates one beside the data".to_owned(),
        });
    }
    wire::access_keys(config.access.clone()).map(|_| format!("{} configured", config.access.len()))
}

/// Names the buckets whose largest blocks can't be held in memory.
fn too_large_blocks(config: &Config) {
    let room_bytes = config.memory_capacity_bytes / 8 * 7;
    for (bucket, policy) in config.buckets.all().filter(|(_, policy)| policy.max_block_bytes > room_bytes) {
        println!(
            "memory: NOTE: blocks above {} are served from the upstream alone, although max_block_bytes of {bucket} is {}",
            Size(room_bytes),
            Size(policy.max_block_bytes),
        );
    }
}

/// Counts what is wrong.
#[derive(Default)]
struct Problems(usize);

impl Problems {
    fn report<E: std::fmt::Display>(&mut self, what: &str, outcome: Result<String, E>) -> bool {
        match outcome {
            Ok(text) => println!("{what}: {text}"),
            Err(error) => {
                self.0 += 1;
                println!("{what}: PROBLEM: {error}");
                return false;
            }
        }
        true
    }
}

async fn upstream(config: &Config, problems: &mut Problems) {
    if let config::Upstream::Fs { path } = &config.upstream
        && !path.exists()
    {
        println!("upstream: {} is not there: `blockgate serve` creates it", path.display());
        return;
    }
    let (upstream, client) = match wire::open_upstream(&config.upstream).await {
        Ok(opened) => opened,
        Err(error) => {
            problems.report("upstream", Err(error));
            return;
        }
    };
    let start = Instant::now();
    let ping = match timeout(ANSWER_TIMEOUT, upstream.ping()).await {
        Ok(Ok(())) => Ok(format!("{} answers in {:.1} ms", upstream.name(), start.elapsed().as_secs_f64() * 1e3)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_TIMEOUT:?}")),
    };
    if !problems.report("upstream", ping) {
        return;
    }
    println!("upstream clock: {}", clock(upstream.now(), SystemTime::now()));
    let bucket = format!("blockgate-check-{:08x}", std::process::id());
    if let Err(error) = upstream.create_bucket(&bucket).await {
        println!("upstream capabilities and keys: not tried: no bucket {bucket} can be created: {error}");
        return;
    }
    in_bucket(&upstream, client.as_ref(), &bucket, problems).await;
    keys::empty(upstream.as_ref(), client.as_ref(), &bucket).await;
    if let Err(error) = upstream.delete_bucket(&bucket).await {
        println!("bucket {bucket} is left behind: {error}");
    }
}

async fn in_bucket(upstream: &Arc<dyn Upstream>, client: Option<&Client>, bucket: &str, problems: &mut Problems) {
    let write =
        upstream.put(bucket, "check", PutRequest::default(), Payload::Bytes(Bytes::from_static(b"check"))).await;
    if !problems.report("upstream writes", write.map(|_| "work".to_owned())) {
        return;
    }
    println!("upstream capabilities: {}", capabilities(upstream.capabilities()));
    if let Some(client) = client {
        println!("upstream keys, as the store itself keeps them:");
        for (pair, behaviour) in keys::behaviours(&keys::Raw { client, bucket }).await {
            println!("  {pair}: {behaviour}");
        }
    }
    let confused = keys::behaviours(&keys::ThroughBlockgate { upstream: upstream.as_ref(), bucket }).await;
    let confused: Vec<_> = confused.into_iter().filter(|(_, behaviour)| *behaviour != keys::Behaviour::Apart).collect();
    for (pair, behaviour) in &confused {
        problems.report("keys through blockgate", Err::<String, _>(format!("{pair}: {behaviour}")));
    }
    if confused.is_empty() {
        println!("keys through blockgate: all stay apart and are listed");
    }
}

fn clock(upstream: SystemTime, here: SystemTime) -> String {
    match upstream.duration_since(here) {
        Ok(ahead) => format!("{} ms ahead of this host's", ahead.as_millis()),
        Err(behind) => format!("{} ms behind this host's", behind.duration().as_millis()),
    }
}

fn capabilities(capabilities: Capabilities) -> String {
    let text = format!("{capabilities:?}");
    text.trim_start_matches("Capabilities { ")
        .trim_end_matches(" }")
        .replace(": true", " yes")
        .replace(": false", " no")
}
