//! Makes the parts of a gateway from its configuration.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use blockgate_auth::{AccessKey, AccessKeys};
use blockgate_block::Arena;
use blockgate_kv::{Identity, KvFace, KvParts};
use blockgate_s3::{Face, FaceSettings};
use blockgate_staging::{OpenError, Stats};
use blockgate_store::{Store, StoreParts};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{FsUpstream, Mapped, S3Settings, S3Upstream, Upstream, UpstreamError};
use thiserror::Error;

use crate::config::{self, Config};
use crate::credentials::{self, CredentialsError, Generated};
use crate::mount::KvMount;

/// Where the fs upstream keeps what is its own; the credentials lie there too.
const OWN_DIRECTORY: &str = ".blockgate";

/// Why the parts can't be made.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    /// The upstream can't be opened.
    #[error("[upstream]: {0}")]
    Upstream(#[from] UpstreamError),
    /// The memory tier can't be had.
    #[error("[memory] capacity: {capacity}: {reason}")]
    Memory {
        /// What was asked for.
        capacity: config::Size,
        /// Why it can't be had.
        reason: String,
    },
    /// The staging tier can't be opened.
    #[error("[staging]: {0}")]
    Staging(#[from] OpenError),
    /// The access keys can't be used.
    #[error("[[access]]: {0}")]
    Access(String),
    /// Credentials can't be created.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// The parts that all listeners share.
pub(crate) struct Gateway {
    /// The shared store.
    pub(crate) upstream: Arc<dyn Upstream>,
    /// The client of an `s3` upstream, for what only the store itself knows.
    client: Option<aws_sdk_s3::Client>,
    /// The tiers over it.
    pub(crate) store: Arc<Store>,
    keys: Arc<AccessKeys>,
    /// The KV face, the same on every listener.
    kv: KvFace,
    /// The credentials, where they were not configured.
    pub(crate) generated: Option<Generated>,
    /// What everyone counts in.
    pub(crate) metrics: Metrics,
}

impl Gateway {
    /// Makes the parts, the upstream first.
    ///
    /// # Errors
    /// See [`WireError`].
    pub(crate) async fn build(config: &Config) -> Result<Self, WireError> {
        let metrics = Metrics::new();
        let (upstream, client) = open_upstream(&config.upstream).await?;
        let generated = generated_credentials(config)?;
        let keys = generated.as_ref().map_or_else(|| config.access.clone(), |generated| vec![generated.key.clone()]);
        let store = open_store(config, upstream.clone(), config.memory_capacity_bytes, metrics.clone()).await?;
        let keys = Arc::new(access_keys(keys)?);
        let (identity, metrics_too) = (identity(), metrics.clone());
        let kv = KvFace::new(KvParts { store: store.clone(), keys: keys.clone(), metrics: metrics_too, identity });
        Ok(Self { upstream, client, store, keys, kv, generated, metrics })
    }

    /// The face of one listener: S3, and the KV extension mounted beside it.
    pub(crate) fn face(&self, server: &config::Server, default_bucket: Option<&str>) -> Face {
        let settings = FaceSettings {
            domains: server.domains.clone(),
            default_bucket: default_bucket.map(str::to_owned),
            region: server.region.clone(),
            anonymous_read: server.anonymous_read,
            body_stall: server.limits.body_stall_timeout,
        };
        let (store, keys, metrics) = (self.store.clone(), self.keys.clone(), self.metrics.clone());
        let mount = Arc::new(KvMount(self.kv.clone()));
        Face::new(store, keys, settings, metrics, self.client.clone(), Some(mount))
    }
}

/// This run of this program.
fn identity() -> Identity {
    let started_at = SystemTime::now();
    let chance = RandomState::new().hash_one(started_at);
    Identity { gateway_id: format!("{chance:016x}"), version: env!("CARGO_PKG_VERSION").to_owned(), started_at }
}

/// Opens the upstream; of an `s3` one also returns the client.
///
/// # Errors
/// When it can't be used, or its settings make no sense. Whether a store answers is not asked here: a gateway starts before
/// its store, and is ready when the store is.
pub(crate) async fn open_upstream(
    config: &config::Upstream,
) -> Result<(Arc<dyn Upstream>, Option<aws_sdk_s3::Client>), WireError> {
    match config {
        config::Upstream::Fs { path } => Ok((Arc::new(FsUpstream::open(path).await?), None)),
        config::Upstream::S3(settings) => {
            let store = S3Upstream::connect(S3Settings::clone(settings))?;
            let client = store.client();
            Ok((Arc::new(Mapped::new(store)), Some(client)))
        }
    }
}

/// The tiers over an upstream. What is staged is found, which takes a moment.
///
/// # Errors
/// When memory or the staging directory can't be had.
pub(crate) async fn open_store(
    config: &Config,
    upstream: Arc<dyn Upstream>,
    memory_capacity_bytes: u64,
    metrics: Metrics,
) -> Result<Arc<Store>, WireError> {
    let parts = StoreParts {
        upstream,
        arena: arena(memory_capacity_bytes)?,
        index_entries: config.index.entries_max,
        negative_ttl: config.index.negative_ttl,
        policies: config.buckets.clone(),
        metrics,
    };
    let Some(settings) = config.staging.clone() else { return Ok(Store::new(parts)) };
    let path = settings.path.display().to_string();
    let opening = tokio::task::spawn_blocking(move || Store::open(parts, settings));
    let store = opening.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    if let Some(Stats { blocks, block_bytes, pending_blocks, pending_bytes, .. }) = store.staging_stats() {
        tracing::info!(path, blocks, block_bytes, pending_blocks, pending_bytes, "staging is open");
    }
    Ok(store)
}

/// The access keys, if they can be used.
///
/// # Errors
/// What is wrong with one of them.
pub(crate) fn access_keys(keys: Vec<AccessKey>) -> Result<AccessKeys, WireError> {
    AccessKeys::new(keys).map_err(|error| WireError::Access(error.to_string()))
}

/// The credentials that lie beside the data, where there are some; nothing is created.
///
/// # Errors
/// When they can't be used.
pub(crate) fn existing_credentials(config: &Config) -> Result<Option<Generated>, WireError> {
    match &config.upstream {
        config::Upstream::Fs { path } => Ok(credentials::load(&path.join(OWN_DIRECTORY))?),
        config::Upstream::S3(_) => Ok(None),
    }
}

/// Without configured access keys: those that lie beside the data.
fn generated_credentials(config: &Config) -> Result<Option<Generated>, WireError> {
    match &config.upstream {
        config::Upstream::Fs { path } if config.access.is_empty() => {
            Ok(Some(credentials::load_or_create(&path.join(OWN_DIRECTORY))?))
        }
        _ => Ok(None),
    }
}

fn arena(capacity_bytes: u64) -> Result<Arena, WireError> {
    let refused = |reason: String| WireError::Memory { capacity: config::Size(capacity_bytes), reason };
    check_memory(capacity_bytes).map_err(refused)?;
    Arena::new(capacity_bytes).map_err(|error| refused(error.to_string()))
}

/// Refuses a capacity that the machine does not have: touching it all would end in the kernel's killing someone.
///
/// # Errors
/// Says what the machine has.
pub(crate) fn check_memory(capacity_bytes: u64) -> Result<(), String> {
    let limits =
        ["/proc/meminfo", "/sys/fs/cgroup/memory.max"].map(|path| memory_of(&std::fs::read_to_string(path).ok()?));
    match limits.into_iter().flatten().min() {
        Some(machine) if capacity_bytes > machine => {
            Err(format!("the machine has {}", config::Size(machine >> 20 << 20)))
        }
        _ => Ok(()),
    }
}

/// The machine's memory, written `MemTotal: n kB`, or a control group's, written as a number of bytes (or `max`).
fn memory_of(text: &str) -> Option<u64> {
    match text.strip_prefix("MemTotal:") {
        Some(rest) => Some(rest.split_whitespace().next()?.parse::<u64>().ok()? << 10),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_machine_and_control_group_allow() {
        assert_eq!(memory_of("MemTotal:       24684092 kB\nMemFree: 1 kB\n"), Some(24_684_092 << 10));
        assert_eq!(memory_of("1073741824\n"), Some(1 << 30));
        assert_eq!(memory_of("max\n"), None);
        assert!(check_memory(1 << 20).is_ok());
        assert!(check_memory(1 << 60).unwrap_err().starts_with("the machine has "));
    }
}
