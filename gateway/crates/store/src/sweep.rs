//! Deleting by prefix or by fingerprint: everything that the bucket lists, and everything that this gateway knows of.

use std::collections::HashSet;
use std::sync::Arc;

use blockgate_block::{BlockKey, ObjectInfo, RESERVED_PREFIX};
use blockgate_upstream::{Conditions, ListEntry, ListRequest, UpstreamError};

use crate::core::{Core, each, to_the_end};
use crate::limits::{CALLS_AT_ONCE_MAX, DELETE_KEYS_MAX};
use crate::{Result, Store, StoreError};

impl Store {
    /// Removes all objects whose keys begin with `prefix`, those not yet at the upstream included, and says how many.
    /// Objects stored meanwhile may stay.
    ///
    /// # Errors
    /// [`StoreError::InvalidArgument`] for a reserved prefix; the upstream's, after everything else was removed.
    pub async fn delete_prefix(&self, bucket: &str, prefix: &str) -> Result<u64> {
        if prefix.starts_with(RESERVED_PREFIX) {
            return Err(StoreError::InvalidArgument(format!("keys under {RESERVED_PREFIX} are reserved")));
        }
        let core = &self.core;
        let mut count = Count::default();
        let known = core.known_keys(bucket, |key, _| key.key().starts_with(prefix));
        count.add(core.delete_many(&known).await?);
        let mut pages = Pages::of(prefix);
        while let Some(page) = core.next_page(bucket, &mut pages).await? {
            count.add(core.delete_many(&page).await?);
        }
        count.result()
    }

    /// Removes all blocks that were stored for `fingerprint`, those not yet at the upstream included, and says how many.
    /// Blocks stored meanwhile may stay, and so does a block whose fingerprint can't be learned.
    ///
    /// # Errors
    /// The upstream's, after everything else was removed.
    pub async fn delete_fingerprint(&self, bucket: &str, fingerprint: &str) -> Result<u64> {
        if !self.core.policy(bucket).is_kv() {
            return Err(StoreError::Upstream(UpstreamError::NotSupported("fingerprints in a passthrough bucket")));
        }
        let core = &self.core;
        let mut count = Count::default();
        let known = core.known_keys(bucket, |_, info| info.fingerprint() == Some(fingerprint));
        count.add(each(known, CALLS_AT_ONCE_MAX, |key| core.delete_if_of(key, fingerprint)).await);
        let mut pages = Pages::of("");
        while let Some(page) = core.next_page(bucket, &mut pages).await? {
            count.add(each(page, CALLS_AT_ONCE_MAX, |key| core.delete_listed_if_of(key, fingerprint)).await);
        }
        count.result()
    }
}

/// A listing under way.
struct Pages {
    next: Option<ListRequest>,
}

impl Pages {
    fn of(prefix: &str) -> Self {
        #[allow(clippy::cast_possible_truncation)] // a thousand
        let limit = DELETE_KEYS_MAX as u32;
        Self { next: Some(ListRequest { prefix: prefix.to_owned(), limit, ..ListRequest::default() }) }
    }
}

/// How many are gone, and the first failure.
#[derive(Default)]
struct Count {
    gone: u64,
    failure: Option<StoreError>,
}

impl Count {
    fn add(&mut self, outcomes: Vec<Result<impl Into<Gone>>>) {
        for outcome in outcomes {
            match outcome {
                Ok(gone) => self.gone += u64::from(gone.into().0),
                Err(error) => {
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    fn result(self) -> Result<u64> {
        self.failure.map_or(Ok(self.gone), Err)
    }
}

/// Whether something was removed.
struct Gone(bool);

impl From<()> for Gone {
    fn from((): ()) -> Self {
        Self(true)
    }
}

impl From<bool> for Gone {
    fn from(gone: bool) -> Self {
        Self(gone)
    }
}

impl Core {
    /// Keys in `bucket` that this gateway knows something of: blocks on their way to the upstream, in memory, described.
    fn known_keys(&self, bucket: &str, is_meant: impl Fn(&BlockKey, &ObjectInfo) -> bool) -> Vec<BlockKey> {
        let mut keys = HashSet::new();
        let mut look = |key: &BlockKey, info: &Arc<ObjectInfo>| {
            if key.bucket() == bucket && is_meant(key, info) {
                keys.insert(key.clone());
            }
        };
        self.keys.for_each_pending(&mut look);
        self.writeback.for_each(bucket, &mut look);
        self.tiers().for_each(&mut look);
        keys.into_iter().collect()
    }

    async fn next_page(&self, bucket: &str, pages: &mut Pages) -> Result<Option<Vec<BlockKey>>> {
        let Some(request) = &mut pages.next else { return Ok(None) };
        let page = self.upstream.list(bucket, request).await?;
        match page.entries.last() {
            Some(last) if page.truncated => request.start_after = Some(last.name().to_owned()),
            _ => pages.next = None,
        }
        Ok(Some(page.entries.into_iter().filter_map(|entry| listed(bucket, entry)).collect()))
    }

    /// Removes an object that is probably of another fingerprint, and is asked about without stopping those who use it.
    async fn delete_listed_if_of(self: &Arc<Self>, key: BlockKey, fingerprint: &str) -> Result<bool> {
        Ok(self.is_of(&key, fingerprint).await? && self.delete_if_of(key, fingerprint).await?)
    }

    /// Whether an object was stored for `fingerprint`. Only the upstream can say: another gateway may have stored the same
    /// bytes anew for another one, and neither their ETag nor their length would tell.
    async fn is_of(&self, key: &BlockKey, fingerprint: &str) -> Result<bool> {
        match self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await {
            Ok(info) => Ok(info.fingerprint() == Some(fingerprint)),
            // What can't be read was stored for nobody knows what.
            Err(UpstreamError::NoSuchKey | UpstreamError::Damaged(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an object if it was stored for `fingerprint`, and says whether it was.
    async fn delete_if_of(self: &Arc<Self>, key: BlockKey, fingerprint: &str) -> Result<bool> {
        let (core, fingerprint) = (Arc::clone(self), fingerprint.to_owned());
        to_the_end(async move { core.delete_under_lock_if_of(&key, &fingerprint).await }).await
    }

    async fn delete_under_lock_if_of(&self, key: &BlockKey, fingerprint: &str) -> Result<bool> {
        let write = self.keys.write(key).await;
        let staged = self.unstage(key).await?;
        if let Some(pending) = staged.pending() {
            // What lies at the upstream is overwritten already.
            let is_of = pending.info.fingerprint() == Some(fingerprint);
            if is_of {
                self.upstream.delete(key.bucket(), key.key()).await?;
                staged.done(self).await?;
                write.end(|tiers| tiers.note_absent(key, self.upstream.now()));
            } else {
                write.end(|_| {});
            }
            return Ok(is_of);
        }
        match self.upstream.head(key.bucket(), key.key(), &Conditions::default()).await {
            Ok(there) if there.fingerprint() == Some(fingerprint) => {
                self.upstream.delete(key.bucket(), key.key()).await?;
                write.end(|tiers| tiers.note_absent(key, self.upstream.now()));
                Ok(true)
            }
            // Another's by now: what was known of it is out of date, and dropping the write forgets it.
            Ok(_) | Err(UpstreamError::Damaged(_)) => Ok(false),
            Err(UpstreamError::NoSuchKey) => {
                write.end(|tiers| tiers.note_absent(key, self.upstream.now()));
                Ok(false)
            }
            Err(error) => {
                write.end(|_| {});
                Err(error.into())
            }
        }
    }
}

fn listed(bucket: &str, entry: ListEntry) -> Option<BlockKey> {
    match entry {
        // Never one that is reserved: that would be no key.
        ListEntry::Object { key, .. } => BlockKey::new(bucket, &key).ok(),
        ListEntry::CommonPrefix(_) => None,
    }
}
