//! A directory as the shared store: on a local disk, or on NFS with any number of gateways.
//!
//! What is where is told in [`names`], [`format`] and [`root`]; how writers keep out of each other's way in [`publish`].
//! Everything acknowledged is durable: the file and the directory that names it are synced first.

mod bucket;
mod clock;
mod conditions;
mod dir;
mod error;
mod format;
mod list;
mod multipart;
mod names;
mod publish;
mod read;
mod root;
mod temp;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use blockgate_block::{Attributes, BlockKey, BlockRecord, KeyError, ObjectInfo};
use tokio::sync::Semaphore;

use self::error::failed;
use self::multipart::Completion;
use self::names::KeyPath;
use self::root::Root;
use crate::{
    BucketInfo, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListPage, ListRequest, MultipartRequest,
    PartCopyRequest, PartList, PartRef, Payload, PutRequest, Result, Stored, UploadList, UploadListRequest, Upstream,
    UpstreamError,
};

/// Calls that wait for the file system at once; more wait for their turn.
const CALLS_MAX: usize = 64;

/// How long a deletion that was begun is left to its gateway.
const LEASE: Duration = Duration::from_secs(10);

/// The largest object, and the largest part (S3's own limits).
const OBJECT_BYTES_MAX: u64 = 5 << 40;
const PART_BYTES_MAX: u64 = 5 << 30;

/// A store of objects in a directory.
#[derive(Clone, Debug)]
pub struct FsUpstream {
    root: Arc<Root>,
    calls: Arc<Semaphore>,
}

impl FsUpstream {
    /// Opens the store at `path`, creating it where it is absent.
    ///
    /// # Errors
    /// When it can't be read or written, when its file system has no hard links, folds names or can't sync, and when it
    /// was written in another format.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with_lease(path.as_ref(), LEASE).await
    }

    async fn open_with_lease(path: &Path, lease: Duration) -> Result<Self> {
        let path = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || Root::open(&path, lease)).await;
        let root = Arc::new(opened.map_err(|error| UpstreamError::Unavailable(error.to_string()))??);
        Ok(Self { root, calls: Arc::new(Semaphore::new(CALLS_MAX)) })
    }

    /// Runs what waits for the file system. Once begun it runs to its end, even if nobody waits for it any more.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Arc<Root>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let unavailable = |error: &dyn std::error::Error| UpstreamError::Unavailable(error.to_string());
        let permit = self.calls.clone().acquire_owned().await.map_err(|error| unavailable(&error))?;
        let root = self.root.clone();
        let called = tokio::task::spawn_blocking(move || {
            let result = call(&root);
            drop(permit);
            result
        });
        called.await.map_err(|error| unavailable(&error))?
    }
}

#[async_trait]
impl Upstream for FsUpstream {
    fn name(&self) -> &'static str {
        "fs"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            put_if_none_match: true,
            put_if_match: true,
            conditional_complete: true,
            crc64nvme: true,
            tagging: true,
            copy_if_match: true,
        }
    }

    fn now(&self) -> SystemTime {
        self.root.clock.now()
    }

    async fn ping(&self) -> Result<()> {
        self.blocking(|root| root.ping()).await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.blocking(|root| bucket::list(root)).await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let bucket = bucket.to_owned();
        self.blocking(move |root| bucket::create(root, &bucket)).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        let bucket = bucket.to_owned();
        self.blocking(move |root| bucket::delete(root, &bucket)).await
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        let bucket = bucket.to_owned();
        self.blocking(move |root| bucket::head(root, &bucket)).await
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        let (bucket, key, conditions) = (bucket.to_owned(), key.to_owned(), conditions.clone());
        self.blocking(move |root| {
            let object = root.object(&bucket, &key)?;
            conditions::judge_read(&conditions, &object.meta.etag, object.meta.stored_at())?;
            Ok(object.info())
        })
        .await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        let (bucket, key, conditions) = (bucket.to_owned(), key.to_owned(), conditions.clone());
        let opened = self.blocking(move |root| read::open(root, &bucket, &key, range, &conditions)).await?;
        Ok(GetReply { info: opened.object.info(), range: opened.range.clone(), body: read::body(opened) })
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        check_length(&payload, OBJECT_BYTES_MAX)?;
        check_key(key)?;
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let md5 = request.crc64.is_none();
        let finish = move |root: &Arc<Root>, temp| write::put(root, &bucket, &key, request, temp);
        self.receive(payload, md5, finish).await
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.delete_many(bucket, &[key.to_owned()]).await?.pop().unwrap_or(Ok(()))
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        let (bucket, keys) = (bucket.to_owned(), keys.to_vec());
        self.blocking(move |root| delete_many(root, &bucket, &keys)).await
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        check_key(&request.key)?;
        self.blocking(move |root| write::copy(root, &request)).await
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        let (bucket, request) = (bucket.to_owned(), request.clone());
        self.blocking(move |root| list::list(root, &bucket, &request)).await
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |root| Ok(root.object(&bucket, &key)?.meta.tags)).await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        let (bucket, key, tags) = (bucket.to_owned(), key.to_owned(), tags.to_vec());
        self.blocking(move |root| write::set_tags(root, &bucket, &key, &tags)).await
    }

    async fn create_multipart(&self, bucket: &str, key: &str, request: MultipartRequest) -> Result<String> {
        check_key(key)?;
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |root| multipart::create(root, &bucket, &key, request)).await
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        check_length(&payload, PART_BYTES_MAX)?;
        let names = || (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let (bucket, key, id) = names();
        let md5 = self.blocking(move |root| multipart::check_part(root, &bucket, &key, &id, number)).await?;
        let (bucket, key, id) = names();
        let finish = move |root: &Arc<Root>, temp| multipart::put_part(root, &bucket, &key, &id, number, temp);
        Ok(self.receive(payload, md5, finish).await?.upstream_etag)
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        self.blocking(move |root| multipart::copy_part(root, &request)).await
    }

    async fn complete_multipart(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        parts: &[PartRef],
        conditions: &Conditions,
        record: Option<(&Attributes, BlockRecord)>,
    ) -> Result<Stored> {
        let (bucket, key, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let record = record.map(|(attributes, record)| (attributes.clone(), record));
        let request = Completion { parts: parts.to_vec(), conditions: conditions.clone(), record };
        self.blocking(move |root| multipart::complete(root, &bucket, &key, &id, request)).await
    }

    async fn abort_multipart(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        let (bucket, key, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        self.blocking(move |root| multipart::abort(root, &bucket, &key, &id)).await
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: u32, limit: u32) -> Result<PartList> {
        let (bucket, key, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        self.blocking(move |root| multipart::list_parts(root, &bucket, &key, &id, after, limit)).await
    }

    async fn list_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        let (bucket, request) = (bucket.to_owned(), request.clone());
        self.blocking(move |root| multipart::list_uploads(root, &bucket, &request)).await
    }
}

fn check_length(payload: &Payload, max: u64) -> Result<()> {
    if payload.len_bytes() > max { Err(UpstreamError::EntityTooLarge) } else { Ok(()) }
}

/// Refuses to store what no listing could show.
fn check_key(key: &str) -> Result<()> {
    match BlockKey::validate(key) {
        Ok(()) | Err(KeyError::Reserved) => Ok(()),
        Err(error) => Err(UpstreamError::InvalidRequest(error.to_string())),
    }
}

/// Removes objects; each directory is synced once.
fn delete_many(root: &Root, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
    let bucket = root.bucket(bucket)?;
    let mut touched = BTreeMap::new();
    let mut outcomes = Vec::with_capacity(keys.len());
    for key in keys {
        let path = KeyPath::of(key);
        let removed = publish::remove(root, &bucket, &path);
        outcomes.push(removed.map(|parent| {
            if let Some(parent) = parent {
                touched.insert(path.dirs.clone(), (parent, path));
            }
        }));
    }
    for (parent, _) in touched.values() {
        parent.sync().map_err(failed("cannot sync a directory"))?;
    }
    for (_, path) in touched.values().rev() {
        bucket.prune(path).map_err(failed("cannot open a directory"))?;
    }
    Ok(outcomes)
}
