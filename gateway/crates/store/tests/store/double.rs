//! An upstream in memory that does as it is told: its clock is set, its answers fail, hang or lie on request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use blockgate_block::{Attributes, BlockRecord, Crc64, ObjectInfo, RECORD_META, RESERVED_PREFIX};
use blockgate_upstream::{
    BodyError, BucketInfo, ByteStream, Capabilities, Conditions, CopyRequest, Deleted, GetReply, ListEntry, ListPage,
    ListRequest, MultipartRequest, PartCopyRequest, PartInfo, PartList, PartRef, Payload, PutRequest, Result, Stored,
    UploadList, UploadListRequest, Upstream, UpstreamError,
};
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::faults::When;
use self::faults::{PutFault, PutPlan};

mod faults;

/// Bodies are sent in chunks of this size.
pub const CHUNK: usize = 1000;

#[derive(Clone)]
pub struct Object {
    pub bytes: Bytes,
    pub etag: String,
    pub attributes: Attributes,
    pub tags: Vec<(String, String)>,
    pub stored_at: SystemTime,
}

struct Upload {
    request: MultipartRequest,
    parts: BTreeMap<u32, (String, Bytes)>,
}

/// What one GET does instead of what it should.
#[derive(Clone, Copy, Debug)]
pub enum Trick {
    /// Never answers.
    Silent,
    /// Waits, before it answers, until [`Double::release`].
    Wait,
    /// Sends so many bytes, then waits until [`Double::release`].
    WaitAfter(usize),
    /// Sends so many bytes, then fails.
    CutAfter(usize),
    /// Sends so many bytes, then nothing ever.
    StallAfter(usize),
    /// One bit of the byte at this place is wrong.
    Flip(usize),
}

#[derive(Default)]
pub struct Double {
    plan: Mutex<PutPlan>,
    commit_heads_fail: AtomicBool,
    heads_fail_of: Mutex<String>,
    refused: Mutex<String>,
    /// No bucket is there any more, while set.
    pub bucket_is_gone: AtomicBool,
    overwrite: Mutex<Option<(String, Bytes, Attributes)>>,
    /// So many copies are made and not answered.
    pub lose_copies: AtomicUsize,
    copies: AtomicUsize,
    /// The most copies that were under way at the same time.
    pub most_copies: AtomicUsize,
    objects: Mutex<BTreeMap<(String, String), Object>>,
    uploads: Mutex<HashMap<String, Upload>>,
    clock_ms: AtomicU64,
    versions: AtomicU64,
    tricks: Mutex<VecDeque<Trick>>,
    /// Every call fails while set.
    pub outage: AtomicBool,
    /// PUTs wait before they commit, while set, until [`Double::release`].
    pub hold_puts: AtomicBool,
    /// HEADs never answer, while set.
    pub hold_heads: AtomicBool,
    /// HEADs wait before they answer, while set, until [`Double::release`].
    pub heads_wait: AtomicBool,
    /// So many calls of PUT fail.
    pub failing_puts: AtomicUsize,
    /// Every call gives way to others so often, at most, before and after it acts; 0 for never.
    pub jitter: AtomicU64,
    seed: AtomicU64,
    release: Notify,
    counts: Mutex<HashMap<&'static str, usize>>,
}

impl Double {
    pub fn new() -> Arc<Self> {
        let double = Self::default();
        double.clock_ms.store(1_700_000_000_000, Ordering::SeqCst);
        Arc::new(double)
    }

    pub fn count(&self, operation: &str) -> usize {
        self.counts.lock().get(operation).copied().unwrap_or(0)
    }

    pub fn pass(&self, time: Duration) {
        self.clock_ms.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// The keys in bucket `b`, blockgate's own left out.
    pub fn keys(&self) -> Vec<String> {
        let objects = self.objects.lock();
        objects
            .keys()
            .filter(|(b, key)| b == "b" && !key.starts_with(RESERVED_PREFIX))
            .map(|(_, key)| key.clone())
            .collect()
    }

    /// blockgate's own objects in bucket `b`.
    pub fn reserved(&self) -> Vec<(String, Bytes)> {
        let objects = self.objects.lock();
        let own = objects.iter().filter(|((b, key), _)| b == "b" && key.starts_with(RESERVED_PREFIX));
        own.map(|((_, key), object)| (key.clone(), object.bytes.clone())).collect()
    }

    /// What the next GET does.
    pub fn trick(&self, trick: Trick) {
        self.tricks.lock().push_back(trick);
    }

    /// GETs are as usual again.
    pub fn forget_tricks(&self) {
        self.tricks.lock().clear();
    }

    /// Lets go all who wait.
    pub fn release(&self) {
        self.release.notify_waiters();
    }

    pub fn object(&self, key: &str) -> Option<Object> {
        self.objects.lock().get(&("b".to_owned(), key.to_owned())).cloned()
    }

    /// Stores an object as another tool would.
    pub fn plant(&self, key: &str, bytes: impl Into<Bytes>, attributes: Attributes) {
        self.commit("b", key, bytes.into(), attributes, Vec::new());
    }

    /// Removes an object as another tool would.
    pub fn steal(&self, key: &str) {
        self.objects.lock().remove(&("b".to_owned(), key.to_owned()));
    }

    fn commit(
        &self,
        bucket: &str,
        key: &str,
        bytes: Bytes,
        attributes: Attributes,
        tags: Vec<(String, String)>,
    ) -> Stored {
        let version = self.versions.fetch_add(1, Ordering::SeqCst);
        let etag = format!("up-{version}");
        let object = Object { bytes, etag: etag.clone(), attributes, tags, stored_at: self.now() };
        self.objects.lock().insert((bucket.to_owned(), key.to_owned()), object);
        Stored { upstream_etag: etag, stored_at: self.now() }
    }

    async fn call(&self, operation: &'static str, bucket: &str) -> Result<()> {
        *self.counts.lock().entry(operation).or_default() += 1;
        self.shake().await;
        if self.outage.load(Ordering::SeqCst) {
            return Err(UpstreamError::Unavailable("told to".into()));
        }
        if bucket.starts_with("no-such") || (!bucket.is_empty() && self.bucket_is_gone.load(Ordering::SeqCst)) {
            Err(UpstreamError::NoSuchBucket)
        } else {
            Ok(())
        }
    }

    /// Gives way to others, differently each time, and the same way for the same seed.
    async fn shake(&self) {
        let most = self.jitter.load(Ordering::SeqCst);
        if most > 0 {
            let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            let mixed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
            for _ in 0..mixed % (most + 1) {
                tokio::task::yield_now().await;
            }
        }
    }

    fn find(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<Object> {
        let object = self.objects.lock().get(&(bucket.to_owned(), key.to_owned())).cloned();
        let object = object.ok_or(UpstreamError::NoSuchKey)?;
        let is = |tag: &String| *tag == "*" || *tag == object.etag;
        if conditions.if_match.as_ref().is_some_and(|tag| !is(tag)) {
            return Err(UpstreamError::PreconditionFailed);
        }
        if conditions.if_none_match.as_ref().is_some_and(is) {
            return Err(UpstreamError::NotModified { etag: Some(object.etag) });
        }
        Ok(object)
    }

    fn may_write(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<()> {
        match self.find(bucket, key, conditions) {
            Ok(_) => Ok(()),
            Err(UpstreamError::NoSuchKey) if conditions.if_match.is_none() => Ok(()),
            Err(UpstreamError::NotModified { .. }) => Err(UpstreamError::PreconditionFailed),
            Err(error) => Err(error),
        }
    }

    async fn gather(payload: Payload) -> Result<Bytes> {
        let announced = payload.len_bytes();
        let mut stream = payload.into_stream();
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next().await {
            bytes.extend_from_slice(&chunk.map_err(UpstreamError::Body)?);
        }
        let got = bytes.len() as u64;
        if got == announced { Ok(bytes.into()) } else { Err(UpstreamError::Body(BodyError::Length { announced, got })) }
    }

    fn body(self: &Arc<Self>, bytes: Bytes, trick: Option<Trick>) -> ByteStream {
        let double = Arc::clone(self);
        let stop = match trick {
            Some(Trick::WaitAfter(at) | Trick::CutAfter(at) | Trick::StallAfter(at)) => at,
            _ => usize::MAX,
        };
        Box::pin(futures::stream::unfold((0, double), move |(at, double)| {
            let bytes = bytes.clone();
            async move {
                if at >= bytes.len() {
                    return None;
                }
                if at == stop {
                    match trick {
                        Some(Trick::WaitAfter(_)) => double.release.notified().await,
                        Some(Trick::StallAfter(_)) => std::future::pending().await,
                        _ => return Some((Err(BodyError::Cut("told to".into())), (usize::MAX, double))),
                    }
                }
                // Readers see a body arrive, as from a network.
                tokio::task::yield_now().await;
                double.shake().await;
                let mut end = (at + CHUNK).min(bytes.len());
                if at < stop {
                    end = end.min(stop);
                }
                let mut chunk = bytes.slice(at..end);
                if let Some(Trick::Flip(place)) = trick
                    && (at..end).contains(&place)
                {
                    let mut wrong = chunk.to_vec();
                    wrong[place - at] ^= 1;
                    chunk = wrong.into();
                }
                Some((Ok(chunk), (end, double)))
            }
        }))
    }
}

fn info(object: &Object) -> ObjectInfo {
    let mut info = ObjectInfo::from_upstream(
        object.bytes.len() as u64,
        object.etag.clone(),
        object.stored_at,
        object.attributes.clone(),
    );
    info.tag_count = u32::try_from(object.tags.len()).unwrap();
    info
}

/// The double as a store holds it.
pub struct Handle(pub Arc<Double>);

#[async_trait]
impl Upstream for Handle {
    fn name(&self) -> &'static str {
        "double"
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
        self.0.now()
    }

    async fn ping(&self) -> Result<()> {
        self.0.call("ping", "").await
    }

    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        Ok(Vec::new())
    }

    async fn create_bucket(&self, _: &str) -> Result<()> {
        Ok(())
    }

    async fn delete_bucket(&self, _: &str) -> Result<()> {
        Ok(())
    }

    async fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.0.call("head_bucket", bucket).await?;
        Ok(BucketInfo { name: bucket.to_owned(), created_at: None })
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        self.0.call("head", bucket).await?;
        if self.0.hold_heads.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if key.starts_with(RESERVED_PREFIX) && self.0.commit_heads_fail.load(Ordering::SeqCst) {
            return Err(UpstreamError::Unavailable("told to".into()));
        }
        if key == *self.0.heads_fail_of.lock() {
            return Err(UpstreamError::SlowDown);
        }
        if self.0.heads_wait.load(Ordering::SeqCst) {
            self.0.release.notified().await;
        }
        let object = self.0.find(bucket, key, conditions)?;
        self.0.shake().await;
        Ok(info(&object))
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        self.0.call("get", bucket).await?;
        let trick = self.0.tricks.lock().pop_front();
        match trick {
            Some(Trick::Silent) => std::future::pending().await,
            Some(Trick::Wait) => self.0.release.notified().await,
            _ => {}
        }
        let object = self.0.find(bucket, key, conditions)?;
        self.0.shake().await;
        let info = info(&object);
        let is_ranged = range.is_some();
        let range = range.unwrap_or(0..info.size_bytes);
        let range = range.start..range.end.min(info.size_bytes);
        if range.start >= range.end && is_ranged {
            return Err(UpstreamError::InvalidRange { size_bytes: info.size_bytes });
        }
        let bytes = object.bytes.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        Ok(GetReply { info, range, body: self.0.body(bytes, trick) })
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        self.0.call("put", bucket).await?;
        let bytes = Double::gather(payload).await?;
        if request.crc64.is_some_and(|crc64| crc64 != Crc64::of(&bytes)) {
            return Err(UpstreamError::InvalidRequest("BadDigest".into()));
        }
        if key == *self.0.refused.lock() {
            return Err(UpstreamError::InvalidRequest("told to".into()));
        }
        if self.0.hold_puts.load(Ordering::SeqCst) {
            self.0.release.notified().await;
        }
        let fails = self.0.failing_puts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fails.is_ok() {
            return Err(UpstreamError::Unavailable("told to".into()));
        }
        let lost = || UpstreamError::Unavailable("told to".into());
        // A PUT whose condition fails is no step of anything.
        self.0.may_write(bucket, key, &request.conditions)?;
        let fault = self.0.planned();
        match fault {
            Some(PutFault::Hold) => self.0.release.notified().await,
            Some(PutFault::Fail | PutFault::Die | PutFault::Lose { is_stored: false }) => return Err(lost()),
            Some(PutFault::Lose { is_stored: true }) | None => {}
        }
        self.0.shake().await;
        self.0.may_write(bucket, key, &request.conditions)?;
        let stored = self.0.commit(bucket, key, bytes, request.attributes, request.tags);
        self.0.shake().await;
        if matches!(fault, Some(PutFault::Lose { .. })) { Err(lost()) } else { Ok(stored) }
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.0.call("delete", bucket).await?;
        self.0.objects.lock().remove(&(bucket.to_owned(), key.to_owned()));
        self.0.shake().await;
        Ok(())
    }

    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        self.0.call("delete_many", bucket).await?;
        let mut outcomes = Vec::new();
        for key in keys {
            if key.starts_with("locked") {
                outcomes.push(Err(UpstreamError::AccessDenied("locked".into())));
            } else {
                self.0.objects.lock().remove(&(bucket.to_owned(), key.clone()));
                outcomes.push(Ok(()));
            }
        }
        self.0.shake().await;
        Ok(outcomes)
    }

    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        let under_way = self.0.copies.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_copies.fetch_max(under_way, Ordering::SeqCst);
        let called = self.0.call("copy", &request.bucket).await;
        self.0.copies.fetch_sub(1, Ordering::SeqCst);
        called?;
        if let Some((key, bytes, attributes)) = self.0.overwrite.lock().take() {
            self.0.plant(&key, bytes, attributes);
        }
        let source = self.0.find(&request.source_bucket, &request.source_key, &request.source_conditions)?;
        let tags = request.tags.unwrap_or(source.tags);
        let stored = self.0.commit(&request.bucket, &request.key, source.bytes, request.attributes, tags);
        self.0.shake().await;
        let lost = self.0.lose_copies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if lost.is_ok() { Err(UpstreamError::Unavailable("told to".into())) } else { Ok(stored) }
    }

    async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        self.0.call("list", bucket).await?;
        let objects = self.0.objects.lock();
        let own = request.prefix.starts_with(RESERVED_PREFIX);
        let after = request.start_after.as_deref().unwrap_or_default();
        let objects = objects
            .iter()
            .filter(|((b, key), _)| b == bucket && key.starts_with(&request.prefix))
            .filter(|((_, key), _)| own || !key.starts_with(RESERVED_PREFIX));
        let mut entries: Vec<ListEntry> = Vec::new();
        for ((_, key), object) in objects {
            let rest = &key[request.prefix.len()..];
            let end = request.delimiter.as_ref().and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
            let entry = match end {
                Some(end) => ListEntry::CommonPrefix(key[..request.prefix.len() + end].to_owned()),
                None => ListEntry::Object {
                    key: key.clone(),
                    size_bytes: object.bytes.len() as u64,
                    etag: object.etag.clone(),
                    last_modified: object.stored_at,
                },
            };
            if entry.name() > after && entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        let truncated = entries.len() > request.limit as usize;
        entries.truncate(request.limit as usize);
        Ok(ListPage { entries, truncated })
    }

    async fn tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        self.0.call("tags", bucket).await?;
        Ok(self.0.find(bucket, key, &Conditions::default())?.tags)
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        self.0.call("set_tags", bucket).await?;
        let mut objects = self.0.objects.lock();
        let object = objects.get_mut(&(bucket.to_owned(), key.to_owned())).ok_or(UpstreamError::NoSuchKey)?;
        object.tags = tags.to_vec();
        Ok(())
    }

    async fn create_multipart(&self, bucket: &str, _: &str, request: MultipartRequest) -> Result<String> {
        self.0.call("create_multipart", bucket).await?;
        let mut uploads = self.0.uploads.lock();
        let id = format!("upload-{}", self.0.versions.fetch_add(1, Ordering::SeqCst));
        uploads.insert(id.clone(), Upload { request, parts: BTreeMap::new() });
        Ok(id)
    }

    async fn upload_part(&self, bucket: &str, _: &str, id: &str, number: u32, payload: Payload) -> Result<String> {
        self.0.call("upload_part", bucket).await?;
        let bytes = Double::gather(payload).await?;
        let etag = format!("part-{}", Crc64::of(&bytes));
        let mut uploads = self.0.uploads.lock();
        let upload = uploads.get_mut(id).ok_or(UpstreamError::NoSuchUpload)?;
        upload.parts.insert(number, (etag.clone(), bytes));
        Ok(etag)
    }

    async fn upload_part_copy(&self, request: PartCopyRequest) -> Result<Stored> {
        self.0.call("upload_part_copy", &request.bucket).await?;
        let source = self.0.find(&request.source_bucket, &request.source_key, &request.source_conditions)?;
        let range = request.source_range.unwrap_or(0..source.bytes.len() as u64);
        let bytes = source.bytes.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        let etag = format!("part-{}", Crc64::of(&bytes));
        let mut uploads = self.0.uploads.lock();
        let upload = uploads.get_mut(&request.upload_id).ok_or(UpstreamError::NoSuchUpload)?;
        upload.parts.insert(request.number, (etag.clone(), bytes));
        Ok(Stored { upstream_etag: etag, stored_at: self.0.now() })
    }

    async fn complete_multipart(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
        parts: &[PartRef],
        conditions: &Conditions,
        record: Option<(&Attributes, BlockRecord)>,
    ) -> Result<Stored> {
        self.0.call("complete_multipart", bucket).await?;
        let (bytes, request) = {
            let uploads = self.0.uploads.lock();
            let upload = uploads.get(id).ok_or(UpstreamError::NoSuchUpload)?;
            let mut bytes = Vec::new();
            for part in parts {
                match upload.parts.get(&part.number) {
                    Some((etag, part_bytes)) if *etag == part.etag => bytes.extend_from_slice(part_bytes),
                    _ => return Err(UpstreamError::InvalidPart { number: part.number }),
                }
            }
            (bytes, upload.request.clone())
        };
        self.0.may_write(bucket, key, conditions)?;
        self.0.uploads.lock().remove(id);
        let mut attributes = request.attributes;
        if let Some((given, record)) = record {
            assert_eq!(*given, attributes, "the attributes are those of create");
            attributes.user.insert(RECORD_META.into(), record.to_string());
        }
        Ok(self.0.commit(bucket, key, bytes.into(), attributes, request.tags))
    }

    async fn abort_multipart(&self, bucket: &str, _: &str, id: &str) -> Result<()> {
        self.0.call("abort_multipart", bucket).await?;
        self.0.uploads.lock().remove(id).map(|_| ()).ok_or(UpstreamError::NoSuchUpload)
    }

    async fn list_parts(&self, _: &str, _: &str, id: &str, after: u32, limit: u32) -> Result<PartList> {
        let uploads = self.0.uploads.lock();
        let upload = uploads.get(id).ok_or(UpstreamError::NoSuchUpload)?;
        let parts = upload.parts.range(after + 1..).take(limit as usize).map(|(&number, (etag, bytes))| PartInfo {
            number,
            etag: etag.clone(),
            size_bytes: bytes.len() as u64,
            last_modified: self.0.now(),
        });
        Ok(PartList { parts: parts.collect(), truncated: false })
    }

    async fn list_uploads(&self, _: &str, _: &UploadListRequest) -> Result<UploadList> {
        Ok(UploadList::default())
    }
}

impl Double {
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.clock_ms.load(Ordering::SeqCst))
    }
}
