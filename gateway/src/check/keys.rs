//! Which keys a store takes for one, refuses or does not list.

use std::fmt;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use blockgate_upstream::{Conditions, ListEntry, ListRequest, Payload, PutRequest, Upstream};
use bytes::Bytes;
use futures::TryStreamExt;

/// Most keys that a check leaves in its bucket.
const KEYS_MAX: u32 = 1_000;
/// The longest name that most file systems take, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// What a store makes of two keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Two objects, each itself.
    Apart,
    /// The second write is read under the first key.
    One,
    /// One of them can't be written or read.
    Refused(String),
    /// They stay apart, but a listing leaves this one out.
    Unlisted(String),
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart => f.write_str("stay apart"),
            Self::One => f.write_str("are one object"),
            Self::Refused(key) => write!(f, "{key:?} is refused"),
            Self::Unlisted(key) => write!(f, "{key:?} is not listed"),
        }
    }
}

/// Pairs of keys that some store confuses.
fn pairs() -> Vec<(String, String, String)> {
    let pair = |a: &str, b: &str| (format!("{a:?} and {b:?}"), a.to_owned(), b.to_owned());
    let long = "x".repeat(FILE_NAME_BYTES_MAX);
    vec![
        pair("a", "/a"),
        pair("b", "//b"),
        pair("c/d", "c//d"),
        pair("e/f", "e\\f"),
        pair("g/h", "g/./h"),
        pair("i", "j/../i"),
        pair("k", "k/"),
        pair("l", "l/m"),
        pair("n%2fo", "n/o"),
        pair("p+q", "p q"),
        ("two segments that differ after 255 bytes".to_owned(), format!("{long}1"), format!("{long}2")),
    ]
}

/// Asks about every pair.
pub(super) async fn behaviours(store: &dyn Keeps) -> Vec<(String, Behaviour)> {
    let mut found = Vec::new();
    for (name, first, second) in pairs() {
        found.push((name, behaviour(store, first, second).await));
    }
    found
}

async fn behaviour(store: &dyn Keeps, first: String, second: String) -> Behaviour {
    for (key, byte) in [(&first, b"1"), (&second, b"2")] {
        if !store.put(key, byte).await {
            return Behaviour::Refused(key.clone());
        }
    }
    match (store.get(&first).await.as_deref(), store.get(&second).await.as_deref()) {
        (Some(b"1"), Some(b"2")) => {}
        (Some(_), Some(_)) => return Behaviour::One,
        (None, _) => return Behaviour::Refused(first),
        (_, None) => return Behaviour::Refused(second),
    }
    let listed = store.list().await;
    match [first, second].into_iter().find(|key| !listed.contains(key)) {
        Some(key) => Behaviour::Unlisted(key),
        None => Behaviour::Apart,
    }
}

/// A store of small objects in one bucket.
#[async_trait]
pub(super) trait Keeps: Sync {
    /// Whether a write succeeds.
    async fn put(&self, key: &str, bytes: &'static [u8]) -> bool;
    /// What is read, if anything.
    async fn get(&self, key: &str) -> Option<Bytes>;
    /// The keys that a listing shows.
    async fn list(&self) -> Vec<String>;
}

/// A store spoken to directly.
pub(super) struct Raw<'s> {
    pub(super) client: &'s Client,
    pub(super) bucket: &'s str,
}

#[async_trait]
impl Keeps for Raw<'_> {
    async fn put(&self, key: &str, bytes: &'static [u8]) -> bool {
        let put = self.client.put_object().bucket(self.bucket).key(key).body(ByteStream::from_static(bytes));
        put.send().await.is_ok()
    }

    async fn get(&self, key: &str) -> Option<Bytes> {
        let reply = self.client.get_object().bucket(self.bucket).key(key).send().await.ok()?;
        Some(reply.body.collect().await.ok()?.into_bytes())
    }

    async fn list(&self) -> Vec<String> {
        let page = self.client.list_objects_v2().bucket(self.bucket).send().await;
        let contents = page.ok().and_then(|page| page.contents).unwrap_or_default();
        contents.into_iter().filter_map(|object| object.key).collect()
    }
}

/// A store as blockgate uses it.
pub(super) struct ThroughBlockgate<'s> {
    pub(super) upstream: &'s dyn Upstream,
    pub(super) bucket: &'s str,
}

#[async_trait]
impl Keeps for ThroughBlockgate<'_> {
    async fn put(&self, key: &str, bytes: &'static [u8]) -> bool {
        let payload = Payload::Bytes(Bytes::from_static(bytes));
        self.upstream.put(self.bucket, key, PutRequest::default(), payload).await.is_ok()
    }

    async fn get(&self, key: &str) -> Option<Bytes> {
        let reply = self.upstream.get(self.bucket, key, None, &Conditions::default()).await.ok()?;
        let chunks: Vec<Bytes> = reply.body.try_collect().await.ok()?;
        Some(chunks.concat().into())
    }

    async fn list(&self) -> Vec<String> {
        let request = ListRequest { limit: KEYS_MAX, ..ListRequest::default() };
        let page = self.upstream.list(self.bucket, &request).await.unwrap_or_default();
        page.entries.iter().map(|entry| entry.name().to_owned()).collect()
    }
}

/// Removes whatever the checks left, under the store's own names and under blockgate's.
pub(super) async fn empty(upstream: &dyn Upstream, client: Option<&Client>, bucket: &str) {
    // What can't be removed shows when the bucket can't be.
    let request = ListRequest { limit: KEYS_MAX, ..ListRequest::default() };
    let page = upstream.list(bucket, &request).await.unwrap_or_default();
    for entry in page.entries {
        if let ListEntry::Object { key, .. } = entry {
            let _ = upstream.delete(bucket, &key).await;
        }
    }
    if let Some(client) = client {
        for (_, first, second) in pairs() {
            for key in [first, second] {
                let _ = client.delete_object().bucket(bucket).key(key).send().await;
            }
        }
    }
}
