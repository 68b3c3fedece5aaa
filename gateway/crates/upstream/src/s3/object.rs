//! One object: HEAD, GET, PUT, DELETE, tags.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream as SdkStream;
use aws_sdk_s3::types::{Delete, ObjectIdentifier, Tag, Tagging};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blockgate_block::ObjectInfo;
use futures::StreamExt as _;
use md5::{Digest as _, Md5};

use super::S3Upstream;
use super::body::{Download, Guarded, Progress};
use super::error::{Subject, mapped, unquoted};
use super::meta::{attributes_of, headers_of, tags_to_wire};
use crate::{BodyError, Conditions, Deleted, GetReply, Payload, PutRequest, Result, Stored, UpstreamError};

/// Describes the object of a `HeadObjectOutput` or a `GetObjectOutput`.
macro_rules! info_of {
    ($output:expr, $size_bytes:expr) => {{
        let etag = unquoted($output.e_tag().unwrap_or_default());
        let mut info =
            ObjectInfo::from_upstream($size_bytes, etag, time($output.last_modified()), attributes_of!($output));
        info.tag_count = $output.tag_count().and_then(|count| count.try_into().ok()).unwrap_or(0);
        info.parts_count = $output.parts_count().and_then(|count| count.try_into().ok());
        info
    }};
}

impl S3Upstream {
    pub(super) async fn head_object(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        let wire = ReadConditions::of(conditions);
        let head = self.sdk().head_object().bucket(bucket).key(key);
        let head = head.set_if_match(wire.if_match).set_if_none_match(wire.if_none_match);
        let head = head.set_if_modified_since(wire.if_modified_since).set_if_unmodified_since(wire.if_unmodified_since);
        let output = match self.call(Subject::Object, head.send()).await {
            Err(UpstreamError::NoSuchKey) => return Err(self.key_or_bucket_is_missing(bucket).await),
            result => result?,
        };
        self.saw(bucket);
        let size_bytes = output.content_length().and_then(|length| length.try_into().ok()).unwrap_or(0);
        unless_refused(info_of!(output, size_bytes), wire.not_if_exists)
    }

    /// What a 404 without a code means.
    async fn key_or_bucket_is_missing(&self, bucket: &str) -> UpstreamError {
        if self.inner.seen.lately(bucket, self.local_now()) {
            return UpstreamError::NoSuchKey;
        }
        match self.describe_bucket(bucket).await {
            Err(error @ (UpstreamError::NoSuchBucket | UpstreamError::Unavailable(_) | UpstreamError::SlowDown)) => {
                error
            }
            _ => UpstreamError::NoSuchKey,
        }
    }

    pub(super) async fn get_object(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        let wire = ReadConditions::of(conditions);
        if wire.not_if_exists {
            // Not every store knows `If-None-Match: *`: a HEAD tells whether there is something.
            return Err(not_modified(self.head_object(bucket, key, &Conditions::default()).await?));
        }
        let get = self.sdk().get_object().bucket(bucket).key(key);
        let get = get.set_if_match(wire.if_match).set_if_none_match(wire.if_none_match);
        let get = get.set_if_modified_since(wire.if_modified_since).set_if_unmodified_since(wire.if_unmodified_since);
        let get = get.set_range(range.as_ref().map(range_header));
        let permit = self.permit().await?;
        let output = match get.send().await.map_err(|error| mapped(&error, Subject::Object)) {
            Err(UpstreamError::InvalidRange { size_bytes: 0 }) => {
                drop(permit);
                let info = self.head_object(bucket, key, &Conditions::default()).await?;
                return Err(UpstreamError::InvalidRange { size_bytes: info.size_bytes });
            }
            result => result?,
        };
        self.saw(bucket);
        let length: u64 = output.content_length().and_then(|length| length.try_into().ok()).unwrap_or(0);
        let (sent, size_bytes) = match output.content_range() {
            Some(text) => parse_content_range(text).ok_or_else(|| broken("Content-Range", text))?,
            None => (0..length, length),
        };
        let as_asked = range.is_none_or(|range| range.start == sent.start && sent.end == range.end.min(size_bytes));
        if !as_asked || sent.end - sent.start != length {
            return Err(broken("range", output.content_range().unwrap_or("none")));
        }
        let info = info_of!(output, size_bytes);
        Ok(GetReply { info, range: sent, body: Download::stream(output.body, length, permit) })
    }

    pub(super) async fn put_object(
        &self,
        bucket: &str,
        key: &str,
        request: PutRequest,
        payload: Payload,
    ) -> Result<Stored> {
        let conditions = self.put_conditions(bucket, &request.conditions).await?;
        let mut headers = headers_of(&request.attributes)?;
        if !request.tags.is_empty() {
            headers.push("x-amz-tagging", &tags_to_wire(&request.tags))?;
        }
        let crc64 = match request.crc64 {
            // A store that can't be tried out now gets no checksum; its answer to the PUT will say what ails it.
            Some(crc64) if self.abilities(bucket).await.unwrap_or_default().crc64nvme => Some(crc64),
            _ => None,
        };
        let (attempt, operation) = self.upload_patience(payload.len_bytes());
        let mut config = self.patience(attempt, operation);
        let conditional = conditions.any();
        if conditional {
            // After a first try that succeeded unheard, a second would be told that the condition does not hold.
            config = config.retry_config(RetryConfig::disabled());
        }
        let body = RequestBody::of(payload).await?;
        let content_length = i64::try_from(body.len_bytes).map_err(|_| UpstreamError::EntityTooLarge)?;
        let put = self.sdk().put_object().bucket(bucket).key(key).body(body.stream).content_length(content_length);
        let put = put.set_if_match(conditions.if_match).set_if_none_match(conditions.if_none_match);
        let put = put.set_checksum_crc64_nvme(crc64.map(|crc64| BASE64.encode(crc64.to_be_bytes())));
        let put = put.customize().mutate_request(move |request| headers.apply(request));
        let send = put.disable_payload_signing().config_override(config).send();
        let output = match self.upload(Subject::Bucket, send, body.progress).await {
            // How radosgw names a race that was lost.
            Err(UpstreamError::Unavailable(words)) if conditional && words == "UnknownError" => {
                return Err(UpstreamError::Conflict);
            }
            result => result?,
        };
        self.saw(bucket);
        Ok(Stored { upstream_etag: unquoted(output.e_tag().unwrap_or_default()), stored_at: self.inner.clock.now() })
    }

    /// Sends a request with a body, which may fail on its own account.
    pub(super) async fn upload<T, E>(
        &self,
        subject: Subject,
        send: impl Future<Output = std::result::Result<T, SdkError<E, HttpResponse>>> + Send,
        progress: Option<Arc<Progress>>,
    ) -> Result<T>
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let Some(progress) = progress else { return self.call(subject, send).await };
        let no_answer = async {
            progress.sent().await;
            tokio::time::sleep(self.inner.settings.operation_timeout).await;
        };
        tokio::select! {
            result = self.call(subject, send) => {
                result.map_err(|error| progress.failure().map_or(error, UpstreamError::Body))
            }
            () = no_answer => Err(UpstreamError::Unavailable("no answer to the upload in time".to_owned())),
        }
    }

    async fn put_conditions(&self, bucket: &str, conditions: &Conditions) -> Result<WriteConditions> {
        let wire = WriteConditions::of(conditions)?;
        if wire.any() {
            let abilities = self.abilities(bucket).await?;
            let missing = wire.if_match.is_some() && !abilities.put_if_match
                || wire.if_none_match.is_some() && !abilities.put_if_none_match;
            if missing {
                return Err(UpstreamError::NotSupported("conditional PUT"));
            }
        }
        Ok(wire)
    }

    pub(super) async fn delete_object(&self, bucket: &str, key: &str) -> Result<()> {
        match self.call(Subject::Bucket, self.sdk().delete_object().bucket(bucket).key(key).send()).await {
            Err(UpstreamError::NoSuchKey) => Ok(()),
            result => result.map(drop),
        }
    }

    pub(super) async fn delete_objects(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let named = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build());
        let named = named.collect::<std::result::Result<_, _>>().map_err(incomplete)?;
        let list = Delete::builder().set_objects(Some(named)).quiet(true).build().map_err(incomplete)?;
        let send = self.sdk().delete_objects().bucket(bucket).delete(list).customize().mutate_request(add_md5).send();
        let output = self.call(Subject::Bucket, send).await?;
        self.saw(bucket);
        let failure = |key: &String| {
            let error = output.errors().iter().find(|error| error.key() == Some(key))?;
            (error.code() != Some("NoSuchKey")).then(|| deletion_failure(error))
        };
        Ok(keys.iter().map(|key| failure(key).map_or(Ok(()), Err)).collect())
    }

    pub(super) async fn object_tags(&self, bucket: &str, key: &str) -> Result<Vec<(String, String)>> {
        let permit = self.permit().await?;
        let answer = self.sdk().get_object_tagging().bucket(bucket).key(key).send().await;
        drop(permit);
        let tags: Vec<_> = match answer {
            Ok(output) => output.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect(),
            Err(error) if is_empty_success(error.raw_response()) => Vec::new(),
            Err(error) => return Err(mapped(&error, Subject::Object)),
        };
        if tags.is_empty() {
            // SeaweedFS answers so for a directory, too.
            self.head_object(bucket, key, &Conditions::default()).await?;
        }
        Ok(tags)
    }

    pub(super) async fn set_object_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        // SeaweedFS would tag a directory.
        self.head_object(bucket, key, &Conditions::default()).await?;
        if tags.is_empty() {
            let send = self.sdk().delete_object_tagging().bucket(bucket).key(key).send();
            return self.call(Subject::Object, send).await.map(drop);
        }
        let set = tags.iter().map(|(name, value)| Tag::builder().key(name).value(value).build());
        let set = set.collect::<std::result::Result<_, _>>().map_err(incomplete)?;
        let tagging = Tagging::builder().set_tag_set(Some(set)).build().map_err(incomplete)?;
        let put = self.sdk().put_object_tagging().bucket(bucket).key(key).tagging(tagging);
        self.call(Subject::Object, put.customize().mutate_request(add_md5).send()).await.map(drop)
    }
}

/// A request body in the SDK's form.
pub(super) struct RequestBody {
    pub(super) stream: SdkStream,
    pub(super) len_bytes: u64,
    /// `None` for bytes that are all there, which can't fail.
    pub(super) progress: Option<Arc<Progress>>,
}

impl RequestBody {
    pub(super) async fn of(payload: Payload) -> Result<Self> {
        let len_bytes = payload.len_bytes();
        match payload {
            Payload::Bytes(bytes) => Ok(Self { stream: SdkStream::from(bytes), len_bytes, progress: None }),
            Payload::Stream { len_bytes: 0, mut stream } => {
                // Nothing would be read of a body of no bytes, nor would it be seen to fail.
                while let Some(chunk) = stream.next().await {
                    let got = chunk.map_err(UpstreamError::Body)?.len() as u64;
                    if got > 0 {
                        return Err(UpstreamError::Body(BodyError::Length { announced: 0, got }));
                    }
                }
                Ok(Self { stream: SdkStream::from_static(b""), len_bytes, progress: None })
            }
            Payload::Stream { stream, .. } => {
                let (body, progress) = Guarded::new(stream, len_bytes);
                Ok(Self { stream: body.into_sdk(), len_bytes, progress: Some(progress) })
            }
        }
    }
}

/// Conditions of a read, as every store understands them. `*` is not sent: some stores take it for an ETag.
struct ReadConditions {
    if_match: Option<String>,
    if_none_match: Option<String>,
    not_if_exists: bool,
    if_modified_since: Option<aws_sdk_s3::primitives::DateTime>,
    if_unmodified_since: Option<aws_sdk_s3::primitives::DateTime>,
}

impl ReadConditions {
    fn of(conditions: &Conditions) -> Self {
        let etag = |etag: &Option<String>| etag.as_ref().filter(|etag| *etag != "*").map(|etag| format!("\"{etag}\""));
        Self {
            if_match: etag(&conditions.if_match),
            if_none_match: etag(&conditions.if_none_match),
            not_if_exists: conditions.if_none_match.as_deref() == Some("*"),
            if_modified_since: conditions.if_modified_since.map(Into::into),
            if_unmodified_since: conditions.if_unmodified_since.map(Into::into),
        }
    }
}

/// Conditions of a write that a store may know.
pub(super) struct WriteConditions {
    pub(super) if_match: Option<String>,
    pub(super) if_none_match: Option<String>,
}

impl WriteConditions {
    pub(super) fn of(conditions: &Conditions) -> Result<Self> {
        if conditions.if_modified_since.is_some() || conditions.if_unmodified_since.is_some() {
            return Err(UpstreamError::NotSupported("writes under conditions of time"));
        }
        if conditions.if_none_match.as_ref().is_some_and(|etag| etag != "*") {
            return Err(UpstreamError::NotSupported("writes under If-None-Match with an ETag"));
        }
        let if_match = conditions.if_match.as_deref();
        let if_match = if_match.map(|etag| if etag == "*" { etag.to_owned() } else { format!("\"{etag}\"") });
        Ok(Self { if_match, if_none_match: conditions.if_none_match.clone() })
    }

    pub(super) const fn any(&self) -> bool {
        self.if_match.is_some() || self.if_none_match.is_some()
    }
}

fn unless_refused(info: ObjectInfo, refused: bool) -> Result<ObjectInfo> {
    if refused { Err(not_modified(info)) } else { Ok(info) }
}

fn not_modified(info: ObjectInfo) -> UpstreamError {
    UpstreamError::NotModified { etag: Some(info.upstream_etag) }
}

/// A time of the store's; its absence is no reason to fail.
pub(super) fn time(at: Option<&aws_sdk_s3::primitives::DateTime>) -> SystemTime {
    at.and_then(|at| SystemTime::try_from(*at).ok()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The header for a range that is not empty.
pub(super) fn range_header(range: &Range<u64>) -> String {
    format!("bytes={}-{}", range.start, range.end.saturating_sub(1))
}

/// Reads `bytes FIRST-LAST/SIZE`.
fn parse_content_range(text: &str) -> Option<(Range<u64>, u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size): (u64, u64, u64) = (first.parse().ok()?, last.parse().ok()?, size.parse().ok()?);
    (first <= last && last < size).then_some((first..last + 1, size))
}

fn broken(what: &str, text: &str) -> UpstreamError {
    UpstreamError::Unavailable(format!("the store answered with another {what} than it was asked for: {text}"))
}

pub(super) fn incomplete(error: aws_sdk_s3::error::BuildError) -> UpstreamError {
    UpstreamError::InvalidRequest(error.to_string())
}

fn deletion_failure(error: &aws_sdk_s3::types::Error) -> UpstreamError {
    let words = format!("{}: {}", error.code().unwrap_or_default(), error.message().unwrap_or_default());
    match error.code() {
        Some("AccessDenied") => UpstreamError::AccessDenied(words),
        Some("SlowDown") => UpstreamError::SlowDown,
        _ => UpstreamError::Unavailable(words),
    }
}

/// radosgw answers so when it is asked for tags that it did not understand when they were set.
fn is_empty_success(response: Option<&HttpResponse>) -> bool {
    response.is_some_and(|response| response.status().is_success() && response.body().bytes() == Some(b""))
}

/// Old stores demand a `Content-MD5` where new ones demand some checksum.
fn add_md5(request: &mut HttpRequest) {
    if let Some(md5) = request.body().bytes().map(|bytes| BASE64.encode(Md5::digest(bytes))) {
        request.headers_mut().insert("content-md5", md5);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_range() {
        assert_eq!(parse_content_range("bytes 2-4/9"), Some((2..5, 9)));
        for bad in ["bytes */9", "bytes 4-2/9", "bytes 0-9/9", "2-4/9", "bytes 2-4"] {
            assert_eq!(parse_content_range(bad), None, "{bad}");
        }
        assert_eq!(range_header(&(2..5)), "bytes=2-4");
    }

    #[test]
    fn conditions_on_the_wire() {
        let conditions = |if_match: Option<&str>, if_none_match: Option<&str>| Conditions {
            if_match: if_match.map(str::to_owned),
            if_none_match: if_none_match.map(str::to_owned),
            ..Conditions::default()
        };
        let read = ReadConditions::of(&conditions(Some("*"), Some("*")));
        assert!(read.if_match.is_none() && read.if_none_match.is_none() && read.not_if_exists);
        let read = ReadConditions::of(&conditions(Some("a"), Some("b")));
        assert_eq!((read.if_match.as_deref(), read.if_none_match.as_deref()), (Some("\"a\""), Some("\"b\"")));
        assert!(WriteConditions::of(&conditions(None, Some("b"))).is_err());
        let write = WriteConditions::of(&conditions(Some("a"), None)).unwrap();
        assert!(write.any() && write.if_match.as_deref() == Some("\"a\""));
    }
}
