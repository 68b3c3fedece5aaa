//! Settings of a client.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use blockgate_api::{BASE_PATH, limits};
use http::Method;

use crate::client::{Scope, Shared};
use crate::endpoint::Endpoint;
use crate::gateway::Gateway;
use crate::metrics::Counters;
use crate::route::{Clock, Router};
use crate::sign::{BodyHash, Signer};
use crate::transport::{Request, Transport, no_tls, tls};
use crate::{Client, Error};

/// Most gateways of one client.
const ENDPOINTS_MAX: usize = 1024;
/// Largest block that gateways keep in their tiers, where they are not told otherwise.
const BLOCK_BYTES_DEFAULT: u64 = 64 << 20;

/// Builds a [`Client`].
///
/// ```
/// let client = blockgate_sdk::Client::builder()
///     .endpoint("http://10.0.0.1:9800")
///     .endpoint("http://10.0.0.2:9800")
///     .access_key("AKEXAMPLE")
///     .secret_key("secret")
///     .bucket("blocks")
///     .fingerprint("llama-3.1-8b/bf16/tp1")
///     .deadline(std::time::Duration::from_millis(200))
///     .build()?;
/// assert_eq!(client.stats_local().gateways.len(), 2);
/// # Ok::<(), blockgate_sdk::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    endpoints: Vec<String>,
    access_key: String,
    secret_key: String,
    region: String,
    bucket: String,
    scope: Scope,
    deadline: Duration,
    connect_timeout: Duration,
    connections: usize,
    block_bytes_max: u64,
    ca_file: Option<PathBuf>,
    clock: Clock,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoints, bucket, scope, .. } = self;
        let mut debug = f.debug_struct("Builder");
        debug.field("endpoints", endpoints).field("bucket", bucket).field("scope", scope).finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            access_key: String::new(),
            secret_key: String::new(),
            region: "us-east-1".to_owned(),
            bucket: String::new(),
            scope: Scope::default(),
            deadline: Duration::from_secs(5),
            connect_timeout: Duration::from_millis(500),
            connections: 32,
            block_bytes_max: BLOCK_BYTES_DEFAULT,
            ca_file: None,
            clock: Arc::new(Instant::now),
        }
    }
}

impl Builder {
    /// A gateway: `http://host:port` or `https://host:port`. At least one; call it again for others.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoints.push(url.into());
        self
    }

    /// Several gateways.
    pub fn endpoints(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.endpoints.extend(urls.into_iter().map(Into::into));
        self
    }

    /// The access key.
    pub fn access_key(mut self, access_key: impl Into<String>) -> Self {
        self.access_key = access_key.into();
        self
    }

    /// Its secret.
    pub fn secret_key(mut self, secret_key: impl Into<String>) -> Self {
        self.secret_key = secret_key.into();
        self
    }

    /// The region that requests are signed for; `us-east-1` by default.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = region.into();
        self
    }

    /// The bucket of all blocks.
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.bucket = bucket.into();
        self
    }

    /// Who shares blocks with whom: part of the seed of [`Client::compute_keys`].
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.scope.namespace = namespace.into();
        self
    }

    /// Stands before every key.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.scope.key_prefix = prefix.into();
        self
    }

    /// Stands after every key.
    pub fn key_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.scope.key_suffix = suffix.into();
        self
    }

    /// Everything that must be equal for KV bytes to be reusable: model and revision, tokenizer, dtype, layout, block size,
    /// ranks. Blocks are stored with it, and those stored with another are misses.
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.scope.fingerprint = Some(fingerprint.into());
        self
    }

    /// Time that a call may take, where it is not told another; 5 s by default, at most an hour.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Time that connecting may take; 500 ms by default. A call never waits beyond its deadline.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Most connections to each gateway, one request on each; 32 by default. Further calls wait their turn.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Largest piece that [`Client::get`] gathers in memory, in bytes; 64 MiB by default, as gateways' `max_block_bytes`.
    pub fn max_block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes_max = bytes;
        self
    }

    /// A PEM file with the authorities to trust in `https://` endpoints, instead of those that this host trusts.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Where the time of breakers comes from: for tests. Deadlines are Tokio's.
    pub fn clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Builds the client. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Configuration`], naming the setting.
    pub fn build(self) -> Result<Client, Error> {
        self.validate()?;
        let endpoints: Vec<Endpoint> =
            self.endpoints.iter().map(|url| Endpoint::parse(url)).collect::<Result<_, Error>>()?;
        let any_tls = endpoints.iter().any(Endpoint::is_tls);
        let tls = if any_tls { tls(self.ca_file.as_deref())? } else { no_tls()? };
        let signer = Signer::new(self.access_key, self.secret_key, self.region);
        let transport = Transport::new(signer, tls, self.connect_timeout, self.connections);
        let gateways = endpoints.into_iter().map(|at| Arc::new(Gateway::new(at, transport.clone(), self.connections)));
        let base_path = format!("{BASE_PATH}/{}", self.bucket);
        let probe = Request {
            method: Method::GET,
            path: format!("{base_path}/stats"),
            query: None,
            media_type: None,
            hash: BodyHash::of(b""),
            body: Vec::new(),
        };
        let router = Router { gateways: gateways.collect(), clock: self.clock, probe, failovers: AtomicU64::new(0) };
        let shared = Shared {
            router,
            counters: Counters::default(),
            base_path,
            deadline: self.deadline,
            block_bytes_max: self.block_bytes_max,
        };
        Ok(Client { shared: Arc::new(shared), scope: Arc::new(self.scope) })
    }

    fn validate(&self) -> Result<(), Error> {
        let wrong = |setting, reason: &str| Err(Error::Configuration { setting, reason: reason.to_owned() });
        let is_bucket_char = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_scope_char = |c: char| c.is_ascii_graphic() && !"/,=".contains(c);
        if self.endpoints.is_empty() || self.endpoints.len() > ENDPOINTS_MAX {
            return wrong("endpoint", &format!("there must be 1 to {ENDPOINTS_MAX}"));
        }
        for (setting, value) in [("access_key", &self.access_key), ("region", &self.region)] {
            if value.is_empty() || !value.chars().all(is_scope_char) {
                return wrong(setting, "must be set, without spaces, slashes, commas and equals signs");
            }
        }
        if self.secret_key.is_empty() {
            return wrong("secret_key", "must be set");
        }
        if self.bucket.is_empty() || self.bucket.starts_with('_') || !self.bucket.chars().all(is_bucket_char) {
            return wrong("bucket", "must be set to the name of a bucket");
        }
        if self.scope.fingerprint.as_ref().is_some_and(|text| text.len() > limits::FINGERPRINT_BYTES_MAX) {
            return wrong("fingerprint", &format!("may have {} bytes", limits::FINGERPRINT_BYTES_MAX));
        }
        if self.connections == 0 || self.connections > tokio::sync::Semaphore::MAX_PERMITS {
            return wrong("connections", "there must be one or more");
        }
        if self.deadline.is_zero() || self.connect_timeout.is_zero() {
            return wrong("deadline", "neither the deadline nor the connect timeout may be 0");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Builder {
        Client::builder().endpoint("http://127.0.0.1:1").access_key("AK").secret_key("top-secret").bucket("blocks")
    }

    #[test]
    fn what_is_wrong_is_named() {
        let setting = |builder: Builder| match builder.build() {
            Err(Error::Configuration { setting, .. }) => setting,
            other => panic!("{other:?}"),
        };
        assert!(complete().build().is_ok());
        assert_eq!(setting(Client::builder()), "endpoint");
        assert_eq!(setting(complete().endpoint("kv.example")), "endpoint");
        assert_eq!(setting(complete().access_key("A K")), "access_key");
        assert_eq!(setting(complete().secret_key("")), "secret_key");
        assert_eq!(setting(complete().region("")), "region");
        assert_eq!(setting(complete().bucket("_kv")), "bucket");
        assert_eq!(setting(complete().bucket("a/../b")), "bucket");
        assert_eq!(setting(complete().fingerprint("f".repeat(513))), "fingerprint");
        assert_eq!(setting(complete().connections(0)), "connections");
        assert_eq!(setting(complete().deadline(Duration::ZERO)), "deadline");
        assert_eq!(setting(complete().endpoint("https://a").ca_file("/no/such.pem")), "ca_file");
    }

    #[test]
    fn secrets_do_not_show() {
        let shown = format!("{:?} {:?}", complete(), complete().build().unwrap());
        assert!(!shown.contains("top-secret"), "{shown}");
    }
}
