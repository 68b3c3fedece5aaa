//! The client for threads, with a runtime of its own.
//!
//! Calls block their thread and may be made from any thread but an async runtime's, where they are refused with
//! [`Error::InsideRuntime`] or a miss with [`MissReason::InsideRuntime`].

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder as RuntimeBuilder, Handle, Runtime};

use crate::outcome::Miss;
use crate::{
    Block, Builder, Deleted, Error, Exists, GetMode, GetOptions, GetOutcome, LoadOptions, LocalStats, Lookup,
    LookupOptions, MissReason, Piece, PutOptions, StatsResponse, Stored,
};

/// [`Client`](crate::Client) without async. Cheap to clone.
///
/// ```no_run
/// use blockgate_sdk::{Client, LookupOptions, blocking};
///
/// let builder = Client::builder().endpoint("http://127.0.0.1:9800").bucket("blocks");
/// let client = blocking::Client::new(builder.access_key("AKEXAMPLE").secret_key("secret"))?;
/// let found = client.lookup(&["k0", "k1"], &LookupOptions::default());
/// println!("{} of 2 blocks", found.matched);
/// # Ok::<(), blockgate_sdk::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    runtime: Arc<Background>,
}

/// One thread that drives connections and probes, also between calls.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        // Waiting for its thread would panic in async code, where a client may be dropped.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Builds a client.
    ///
    /// # Errors
    /// As [`Builder::build`]; and where the thread can't be started.
    pub fn new(builder: Builder) -> Result<Self, Error> {
        let inner = builder.build()?;
        let runtime =
            RuntimeBuilder::new_multi_thread().worker_threads(1).thread_name("blockgate-sdk").enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::Configuration { setting: "runtime", reason: error.to_string() })?;
        Ok(Self { inner, runtime: Arc::new(Background(Some(runtime))) })
    }

    /// The asynchronous client that this one is made of, sharing connections and counters. To be used within
    /// a runtime.
    #[must_use]
    pub const fn inner(&self) -> &crate::Client {
        &self.inner
    }

    /// As [`Client::with_fingerprint`](crate::Client::with_fingerprint).
    #[must_use]
    pub fn with_fingerprint(&self, fingerprint: impl Into<String>) -> Self {
        Self { inner: self.inner.with_fingerprint(fingerprint), runtime: self.runtime.clone() }
    }

    /// As [`Client::lookup`](crate::Client::lookup).
    pub fn lookup<K: Display>(&self, keys: &[K], options: &LookupOptions) -> Lookup {
        let refused = |error: Error| Lookup::missed(0, error.miss_reason());
        self.wait(self.inner.lookup(keys, options)).unwrap_or_else(refused)
    }

    /// As [`Client::exists`](crate::Client::exists).
    pub fn exists<K: Display>(&self, keys: &[K], deadline: Option<Duration>) -> Exists {
        let refused = |error: Error| Exists { present: vec![false; keys.len()], failure: Some(error.miss_reason()) };
        self.wait(self.inner.exists(keys, deadline)).unwrap_or_else(refused)
    }

    /// As [`Client::get_into`](crate::Client::get_into).
    pub fn get_into<K: Display, B: AsMut<[u8]>>(
        &self,
        keys: &[K],
        buffers: &mut [B],
        options: &LoadOptions,
    ) -> GetOutcome {
        let count = if options.mode == GetMode::Prefix { keys.len().min(1) } else { keys.len() };
        self.wait(self.inner.get_into(keys, buffers, options)).unwrap_or_else(|error| GetOutcome {
            misses: (0..count).map(|index| Miss { index, reason: error.miss_reason() }).collect(),
            ..GetOutcome::default()
        })
    }

    /// As [`Client::get`](crate::Client::get).
    pub fn get<K: Display>(&self, keys: &[K], options: &GetOptions) -> Blocks {
        match self.wait(self.inner.get(keys, options)) {
            Ok(blocks) => Blocks { client: self.clone(), blocks: Some(blocks), refused: None },
            Err(error) => Blocks { client: self.clone(), blocks: None, refused: Some(error.miss_reason()) },
        }
    }

    /// As [`Client::put`](crate::Client::put).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn put(&self, key: impl Display, bytes: impl Into<Bytes>, options: &PutOptions) -> Result<Stored, Error> {
        self.wait(self.inner.put(key, bytes, options))?
    }

    /// As [`Client::put_many`](crate::Client::put_many).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn put_many(&self, blocks: &[Block], options: &PutOptions) -> Result<Vec<Result<Stored, Error>>, Error> {
        self.wait(self.inner.put_many(blocks, options))?
    }

    /// As [`Client::put_group`](crate::Client::put_group).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn put_group(&self, blocks: &[Block], options: &PutOptions) -> Result<Vec<Stored>, Error> {
        self.wait(self.inner.put_group(blocks, options))?
    }

    /// As [`Client::touch`](crate::Client::touch).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn touch<K: Display>(&self, keys: &[K], ttl: Duration, deadline: Option<Duration>) -> Result<u64, Error> {
        self.wait(self.inner.touch(keys, ttl, deadline))?
    }

    /// As [`Client::delete`](crate::Client::delete).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn delete<K: Display>(&self, keys: &[K], deadline: Option<Duration>) -> Result<Deleted, Error> {
        self.wait(self.inner.delete(keys, deadline))?
    }

    /// As [`Client::delete_prefix`](crate::Client::delete_prefix).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn delete_prefix(&self, prefix: &str, deadline: Option<Duration>) -> Result<Deleted, Error> {
        self.wait(self.inner.delete_prefix(prefix, deadline))?
    }

    /// As [`Client::delete_fingerprint`](crate::Client::delete_fingerprint).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn delete_fingerprint(&self, fingerprint: &str, deadline: Option<Duration>) -> Result<Deleted, Error> {
        self.wait(self.inner.delete_fingerprint(fingerprint, deadline))?
    }

    /// As [`Client::stats`](crate::Client::stats).
    ///
    /// # Errors
    /// The same, and [`Error::InsideRuntime`].
    pub fn stats(&self, deadline: Option<Duration>) -> Result<StatsResponse, Error> {
        self.wait(self.inner.stats(deadline))?
    }

    /// As [`Client::stats_local`](crate::Client::stats_local).
    #[must_use]
    pub fn stats_local(&self) -> LocalStats {
        self.inner.stats_local()
    }

    /// Waits for a call, where waiting does no harm.
    fn wait<T>(&self, call: impl Future<Output = T>) -> Result<T, Error> {
        match (&self.runtime.0, Handle::try_current()) {
            (Some(runtime), Err(_)) => Ok(runtime.block_on(call)),
            _ => Err(Error::InsideRuntime),
        }
    }
}

/// [`Blocks`](crate::Blocks) without async: an iterator.
#[derive(Debug)]
pub struct Blocks {
    client: Client,
    blocks: Option<crate::Blocks>,
    refused: Option<MissReason>,
}

impl Blocks {
    /// As [`Blocks::matched`](crate::Blocks::matched).
    #[must_use]
    pub fn matched(&self) -> Option<usize> {
        self.blocks.as_ref().and_then(crate::Blocks::matched)
    }

    /// As [`Blocks::promised_bytes`](crate::Blocks::promised_bytes).
    #[must_use]
    pub fn promised_bytes(&self) -> Option<u64> {
        self.blocks.as_ref().and_then(crate::Blocks::promised_bytes)
    }
}

impl Iterator for Blocks {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let Self { client, blocks, refused } = self;
        if let Some(reason) = refused.take() {
            return Some(Piece::Miss(Miss { index: 0, reason }));
        }
        let next = client.wait(blocks.as_mut()?.next());
        next.unwrap_or_else(|error| {
            *blocks = None;
            Some(Piece::Miss(Miss { index: 0, reason: error.miss_reason() }))
        })
    }
}
