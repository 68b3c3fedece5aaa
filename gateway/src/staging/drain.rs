//! `blockgate staging drain`: uploads what the upstream does not have yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blockgate_staging::{Settings, Stats, pending_buckets};
use blockgate_store::Store;
use blockgate_telemetry::Metrics;
use blockgate_upstream::{Upstream, UpstreamError};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::NOT_CONFIGURED;
use super::progress::Progress;
use super::table::{bytes, counted};
use crate::config::Config;
use crate::{serve, wire};

/// How long the upstream may take to show that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long no block may be uploaded before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked.
const TICK: Duration = Duration::from_millis(100);
/// Files open beside the log's segments.
const OTHER_FILES: u64 = 1_024;
/// Enough memory to upload from, a few blocks at once; a gateway's own capacity is for its clients.
const MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Uploads all that waits.
///
/// # Errors
/// Says what remains and why.
pub(super) fn run(config: &Config) -> Result<(), String> {
    let settings = config.staging.as_ref().ok_or(NOT_CONFIGURED)?;
    serve::raise_open_files(serve::segments(config) + OTHER_FILES);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(drain(config, settings));
    runtime.shutdown_background();
    outcome
}

async fn drain(config: &Config, settings: &Settings) -> Result<(), String> {
    let (upstream, _) = wire::open_upstream(&config.upstream).await.map_err(|error| error.to_string())?;
    match timeout(PING_TIMEOUT, upstream.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(format!("[upstream]: {error}")),
        Err(_) => return Err(format!("[upstream]: no answer within {PING_TIMEOUT:?}")),
    }
    let buckets = pending_buckets(&settings.path).map_err(|error| format!("[staging]: {error}"))?;
    expect_buckets(upstream.as_ref(), buckets).await?;
    let memory_bytes = config.memory_capacity_bytes.min(MEMORY_MAX_BYTES);
    let store = wire::open_store(config, upstream, memory_bytes, Metrics::new());
    let store = store.await.map_err(|error| error.to_string())?;
    let found = store.staging_stats().unwrap_or_default();
    let why = uploaded(&store, &found).await.err();
    store.close().await;
    let left = store.staging_stats().unwrap_or_default();
    println!("{}", summary(&found, &left, store.lost_blocks()));
    match (left.pending_blocks, store.lost_blocks()) {
        (0, 0) => Ok(()),
        (0, lost) => Err(format!("{} can't be uploaded, ever: the log says why", counted(lost, "block"))),
        (..) => Err(why.unwrap_or("not all could be uploaded").to_owned()),
    }
}

/// Whether this is the store that the blocks were for: in another one they would wait for a bucket that never comes.
async fn expect_buckets(upstream: &dyn Upstream, buckets: BTreeSet<String>) -> Result<(), String> {
    for bucket in buckets {
        match upstream.head_bucket(&bucket).await {
            Ok(_) => {}
            Err(UpstreamError::NoSuchBucket) => {
                return Err(format!(
                    "[upstream]: blocks wait to be uploaded to the bucket {bucket}, which is not there: create it, or \
                     configure the store that has it"
                ));
            }
            Err(error) => return Err(format!("[upstream]: bucket {bucket}: {error}")),
        }
    }
    Ok(())
}

/// Waits until all that was found is uploaded.
async fn uploaded(store: &Arc<Store>, found: &Stats) -> Result<(), &'static str> {
    let mut progress = Progress::new("uploading");
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut since) = (found.pending_blocks, Instant::now());
    let drained = store.drain();
    tokio::pin!(drained);
    loop {
        tokio::select! {
            () = &mut drained => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Err("interrupted"),
            _ = ticks.tick() => {}
        }
        let now = store.staging_stats().unwrap_or_default();
        progress.at(found.pending_bytes.saturating_sub(now.pending_bytes), found.pending_bytes);
        if now.pending_blocks != last {
            (last, since) = (now.pending_blocks, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err("no block could be uploaded for a minute");
        }
    }
}

fn summary(found: &Stats, left: &Stats, lost: u64) -> String {
    let waited =
        format!("{}, {}, waited to be uploaded", counted(found.pending_blocks, "block"), bytes(found.pending_bytes));
    match (found.pending_blocks, left.pending_blocks) {
        (0, 0) => "no block waits to be uploaded".to_owned(),
        (_, 0) if lost == 0 => format!("{waited}: none is left"),
        (_, 0) => format!("{waited}: none is left, {lost} lost"),
        (_, blocks) => {
            format!("{waited}: {}, {}, left in staging", counted(blocks, "block"), bytes(left.pending_bytes))
        }
    }
}
