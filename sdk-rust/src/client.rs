//! The client: what all calls share.

use std::fmt::Display;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blockgate_api::keys::{BlockHash, ChainSeed, compute_keys};
use blockgate_api::limits;
use tokio::time::Instant;

use crate::builder::Builder;
use crate::metrics::{Counters, LocalStats};
use crate::route::{Attempts, Router};

/// Longest that a gateway gets less than the call, so that what it says at its deadline arrives by the call's.
const MARGIN_MAX: Duration = Duration::from_millis(20);

/// A client of one bucket behind one gateway or several. Cheap to clone; clones share connections, breakers and counters.
///
/// Reads never fail: what can't be had is a [`Miss`](crate::Miss). Writes return a [`Result`]. Calls must be made within a
/// Tokio runtime; [`blocking::Client`](crate::blocking::Client) brings its own.
///
/// ```no_run
/// # async fn example() -> Result<(), blockgate_sdk::Error> {
/// use blockgate_sdk::{Client, LoadOptions, PutOptions};
///
/// let client = Client::builder()
///     .endpoint("http://127.0.0.1:9800")
///     .access_key("AKEXAMPLE")
///     .secret_key("secret")
///     .bucket("blocks")
///     .build()?;
/// client.put("block-0", vec![7; 65_536], &PutOptions::default()).await?;
/// let mut buffers = [vec![0; 65_536]];
/// let outcome = client.get_into(&["block-0"], &mut buffers, &LoadOptions::default()).await;
/// assert!(outcome.is_complete());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scope: Arc<Scope>,
}

/// What clones share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) router: Router,
    pub(crate) counters: Counters,
    /// Path of the bucket's operations, without a slash at its end.
    pub(crate) base_path: String,
    pub(crate) deadline: Duration,
    pub(crate) block_bytes_max: u64,
}

/// What keys and blocks belong to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) namespace: String,
    pub(crate) key_prefix: String,
    pub(crate) key_suffix: String,
    pub(crate) fingerprint: Option<String>,
}

impl Scope {
    /// A key as the bucket knows it.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}{key}{}", self.key_prefix, self.key_suffix)
    }
}

impl Client {
    /// Begins to build a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same client for blocks of another fingerprint.
    #[must_use]
    pub fn with_fingerprint(&self, fingerprint: impl Into<String>) -> Self {
        let scope = Scope { fingerprint: Some(fingerprint.into()), ..(*self.scope).clone() };
        Self { shared: self.shared.clone(), scope: Arc::new(scope) }
    }

    /// The keys of a prompt's full blocks of `block_size` tokens, seeded with this client's namespace and fingerprint.
    ///
    /// ```
    /// use std::num::NonZero;
    /// # let builder = blockgate_sdk::Client::builder().endpoint("http://127.0.0.1:9800");
    /// # let builder = builder.access_key("a").secret_key("s").bucket("blocks");
    /// let client = builder.namespace("tenant-a").fingerprint("llama-3.1-8b/bf16/tp1").build()?;
    /// let keys = client.compute_keys(&[1, 2, 3, 4, 5], NonZero::new(2).unwrap());
    /// assert_eq!(keys.len(), 2);
    /// assert_ne!(keys, client.with_fingerprint("another").compute_keys(&[1, 2, 3, 4, 5], NonZero::new(2).unwrap()));
    /// # Ok::<(), blockgate_sdk::Error>(())
    /// ```
    #[must_use]
    pub fn compute_keys(&self, tokens: &[u32], block_size: NonZero<usize>) -> Vec<BlockHash> {
        let fingerprint = self.scope.fingerprint.as_deref().unwrap_or_default();
        compute_keys(&ChainSeed::new(&self.scope.namespace, fingerprint), tokens, block_size)
    }

    /// What this client counted so far.
    #[must_use]
    pub fn stats_local(&self) -> LocalStats {
        let Router { gateways, failovers, .. } = &self.shared.router;
        let gateways = gateways.iter().map(|gateway| gateway.stats()).collect();
        self.shared.counters.snapshot(failovers.load(Ordering::Relaxed), gateways)
    }

    /// When a call must have ended.
    pub(crate) fn deadline(&self, own: Option<Duration>) -> Instant {
        let longest = Duration::from_millis(limits::DEADLINE_MS_MAX);
        Instant::now() + own.unwrap_or(self.shared.deadline).min(longest)
    }

    /// The way of a call through the gateways: all calls of a chain take the same.
    pub(crate) fn attempts(&self, chain: Option<&str>, keys: &[String], deadline: Instant) -> Attempts<'_> {
        let first = chain.or(keys.first().map(String::as_str)).unwrap_or_default();
        self.shared.router.attempts(&self.scope.full(first), deadline)
    }
}

/// What a gateway is told of a deadline: the time left less what its answer needs to arrive.
pub(crate) fn told_ms(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    let told = left - (left / 10).min(MARGIN_MAX);
    u64::try_from(told.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Times to live count in seconds; a part of one counts as one.
pub(crate) fn whole_seconds(ttl: Duration) -> u64 {
    ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0))
}

/// Keys as requests hold them.
pub(crate) fn texts<K: Display>(keys: &[K]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}
