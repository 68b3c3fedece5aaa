//! Multipart uploads.

use std::time::Duration;

use blockgate_block::{Attributes, BlockRecord, Crc64};
use bytes::Bytes;

use super::Bench;
use super::tools::{assert_fails, failing, if_match, if_none_match, pattern, streamed};
use crate::{
    BodyError, Conditions, MultipartRequest, PartCopyRequest, PartRef, Payload, Result, Stored, UploadListRequest,
    UpstreamError,
};

/// The smallest part that is not the last.
const PART: usize = 5 << 20;

/// An upload of this check.
struct Upload<'a> {
    bench: &'a Bench,
    key: String,
    id: String,
}

impl<'a> Upload<'a> {
    async fn begin(bench: &'a Bench, name: &str, request: MultipartRequest) -> Self {
        let key = bench.key(name);
        let id = bench.upstream.create_multipart(&bench.bucket, &key, request).await.unwrap();
        Self { bench, key, id }
    }

    async fn part(&self, number: u32, bytes: &Bytes) -> PartRef {
        let etag = self.put_part(number, Payload::Bytes(bytes.clone())).await.unwrap();
        PartRef { number, etag }
    }

    async fn put_part(&self, number: u32, payload: Payload) -> Result<String> {
        self.bench.upstream.upload_part(&self.bench.bucket, &self.key, &self.id, number, payload).await
    }

    async fn complete(&self, parts: &[PartRef]) -> Result<Stored> {
        self.complete_if(parts, &Conditions::default()).await
    }

    async fn complete_if(&self, parts: &[PartRef], conditions: &Conditions) -> Result<Stored> {
        let Self { bench, key, id } = self;
        bench.upstream.complete_multipart(&bench.bucket, key, id, parts, conditions, None).await
    }

    async fn abort(&self) -> Result<()> {
        self.bench.upstream.abort_multipart(&self.bench.bucket, &self.key, &self.id).await
    }
}

fn attributes() -> Attributes {
    Attributes {
        content_type: Some("application/x-kv".to_owned()),
        user: [("a".to_owned(), "b".to_owned())].into(),
        ..Attributes::default()
    }
}

pub(super) async fn parts_become_one_object(bench: Bench) {
    for part_md5 in [false, true] {
        let tags =
            if bench.upstream.capabilities().tagging { vec![("t".to_owned(), "1".to_owned())] } else { Vec::new() };
        let request = MultipartRequest { attributes: attributes(), tags: tags.clone(), part_md5 };
        let upload = Upload::begin(&bench, &format!("a-{part_md5}"), request).await;
        let (first, last) = (pattern(1, PART), pattern(2, 1000));
        let last_etag = upload.put_part(9000, streamed(1000, &last, 33)).await.unwrap();
        let parts = [upload.part(3, &first).await, PartRef { number: 9000, etag: last_etag }];
        bench.assert_absent(&upload.key).await;
        let stored = upload.complete(&parts).await.unwrap();
        assert!(stored.upstream_etag.ends_with("-2"), "{stored:?}");
        let info = bench.head(&upload.key).await.unwrap();
        assert_eq!((info.size_bytes, &info.upstream_etag), (PART as u64 + 1000, &stored.upstream_etag));
        assert_eq!((info.attributes, info.record), (attributes(), None));
        assert!(bench.get(&upload.key).await == [first, last].concat());
        if bench.upstream.capabilities().tagging {
            assert_eq!(bench.upstream.tags(&bench.bucket, &upload.key).await.unwrap(), tags);
        }
        assert_fails!(upload.put_part(1, Payload::Bytes(Bytes::new())).await, UpstreamError::NoSuchUpload);
    }
}

pub(super) async fn parts_become_one_block(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest { attributes: attributes(), ..Default::default() }).await;
    let whole = pattern(1, PART + 1000);
    let parts = [upload.part(1, &whole.slice(..PART)).await, upload.part(2, &whole.slice(PART..)).await];
    let stored_at = std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let expires_at = Some(stored_at + Duration::from_secs(3_000_000_000));
    let record = BlockRecord {
        crc64: Crc64::of(&whole),
        len_bytes: whole.len() as u64,
        stored_at,
        expires_at,
        group: None,
        tenant: None,
    };
    let stored = bench
        .upstream
        .complete_multipart(
            &bench.bucket,
            &upload.key,
            &upload.id,
            &parts,
            &Conditions::default(),
            Some((&attributes(), record)),
        )
        .await
        .unwrap();
    let info = bench.head(&upload.key).await.unwrap();
    assert_eq!((info.record, info.attributes), (Some(record), attributes()));
    assert_eq!((info.etag, info.upstream_etag), (record.etag().to_string(), stored.upstream_etag));
    assert!(bench.get(&upload.key).await == whole);
}

pub(super) async fn parts_are_listed_and_replaced(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    for number in [1, 2, 10, 10_000] {
        upload.part(number, &pattern(u64::from(number), 100)).await;
    }
    let replaced = upload.part(2, &pattern(0, 50)).await;
    let list = async |after, limit| {
        let list = bench.upstream.list_parts(&bench.bucket, &upload.key, &upload.id, after, limit).await.unwrap();
        (list.parts.iter().map(|part| part.number).collect::<Vec<_>>(), list)
    };
    let (numbers, all) = list(0, 1000).await;
    assert_eq!((numbers, all.truncated), (vec![1, 2, 10, 10_000], false));
    assert_eq!((all.parts[1].size_bytes, &all.parts[1].etag), (50, &replaced.etag));
    let (numbers, page) = list(1, 2).await;
    assert_eq!((numbers, page.truncated), (vec![2, 10], true));
    let (numbers, page) = list(10, 2).await;
    assert_eq!((numbers, page.truncated), (vec![10_000], false));
    upload.abort().await.unwrap();
    let list = bench.upstream.list_parts(&bench.bucket, &upload.key, &upload.id, 0, 10).await;
    assert_fails!(list, UpstreamError::NoSuchUpload);
}

/// Parts that Complete does not name are dropped, and of a part stored twice the latter counts.
pub(super) async fn some_parts_are_enough(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    for number in [1, 2, 10] {
        upload.part(number, &pattern(u64::from(number), 100)).await;
    }
    let replaced = upload.part(2, &pattern(0, 50)).await;
    upload.complete(&[replaced]).await.unwrap();
    assert_eq!(bench.get(&upload.key).await, pattern(0, 50));
}

pub(super) async fn uploads_are_listed(bench: Bench) {
    let mut uploads = Vec::new();
    for name in ["b/2", "a", "b/1", "b/1", "c"] {
        uploads.push(Upload::begin(&bench, name, MultipartRequest::default()).await);
    }
    let mut expected: Vec<(String, String)> =
        uploads.iter().map(|upload| (upload.key.clone(), upload.id.clone())).collect();
    expected.sort_unstable();
    let list = async |prefix: &str, after: Option<(String, Option<String>)>, limit| {
        let request = UploadListRequest { prefix: bench.key(prefix), after, limit };
        let list = bench.upstream.list_uploads(&bench.bucket, &request).await.unwrap();
        let names: Vec<_> = list.uploads.into_iter().map(|upload| (upload.key, upload.upload_id)).collect();
        (names, list.truncated)
    };
    let (mut all, truncated) = list("", None, 1000).await;
    assert!(all.is_sorted_by_key(|(key, _)| key.clone()) && !truncated);
    all.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!(list("b/", None, 1000).await.0.len(), 3);
    let (page, truncated) = list("", Some((bench.key("a"), None)), 3).await;
    assert_eq!(
        (page.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), truncated),
        (vec![bench.key("b/1").as_str(), &bench.key("b/1"), &bench.key("b/2")], true)
    );
    let (next, _) = list("", Some((page[0].0.clone(), Some(page[0].1.clone()))), 1000).await;
    assert_eq!(next[..2], page[1..]);
    assert_eq!(next.len(), 3);
    for upload in &uploads {
        upload.abort().await.unwrap();
    }
    assert_eq!(list("", None, 1000).await, (Vec::new(), false));
}

pub(super) async fn aborted_uploads_are_gone(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    let part = upload.part(1, &pattern(1, 10)).await;
    upload.abort().await.unwrap();
    assert_fails!(upload.complete(std::slice::from_ref(&part)).await, UpstreamError::NoSuchUpload);
    assert_fails!(upload.put_part(1, Payload::Bytes(pattern(1, 10))).await, UpstreamError::NoSuchUpload);
    let list = bench.upstream.list_parts(&bench.bucket, &upload.key, &upload.id, 0, 10).await;
    assert_fails!(list, UpstreamError::NoSuchUpload);
    bench.assert_absent(&upload.key).await;
    for id in ["none", "../../x", &"0".repeat(32)] {
        let never = Upload { bench: &bench, key: upload.key.clone(), id: id.to_owned() };
        assert_fails!(never.put_part(1, Payload::Bytes(pattern(1, 10))).await, UpstreamError::NoSuchUpload);
        assert_fails!(never.complete(std::slice::from_ref(&part)).await, UpstreamError::NoSuchUpload);
        assert_fails!(never.abort().await, UpstreamError::NoSuchUpload);
    }
}

pub(super) async fn wrong_completions(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    let bytes = pattern(1, PART);
    let [one, two, small] =
        [upload.part(1, &bytes).await, upload.part(2, &bytes).await, upload.part(3, &pattern(3, 10)).await];
    let wrong = PartRef { number: 2, etag: small.etag.clone() };
    let never = PartRef { number: 4, etag: one.etag.clone() };
    assert_fails!(upload.complete(&[two.clone(), one.clone()]).await, UpstreamError::InvalidPartOrder);
    assert_fails!(
        upload.complete(&[one.clone(), one.clone()]).await,
        UpstreamError::InvalidPartOrder | UpstreamError::InvalidPart { .. }
    );
    assert_fails!(upload.complete(&[one.clone(), wrong]).await, UpstreamError::InvalidPart { .. });
    assert_fails!(upload.complete(&[one.clone(), never]).await, UpstreamError::InvalidPart { .. });
    assert!(upload.complete(&[]).await.is_err());
    for number in [0, 10_001, u32::MAX] {
        assert!(upload.put_part(number, Payload::Bytes(pattern(1, 10))).await.is_err(), "part {number} is refused");
    }
    bench.assert_absent(&upload.key).await;
    upload.complete(&[one, two, small]).await.unwrap();
    assert!(bench.get(&upload.key).await == [bytes.clone(), bytes, pattern(3, 10)].concat());

    let upload = Upload::begin(&bench, "small", MultipartRequest::default()).await;
    let parts = [upload.part(1, &pattern(1, 10)).await, upload.part(2, &pattern(2, 10)).await];
    assert_fails!(upload.complete(&parts).await, UpstreamError::EntityTooSmall);
    bench.assert_absent(&upload.key).await;
    upload.abort().await.unwrap();
}

pub(super) async fn parts_of_copies(bench: Bench) {
    let source = bench.key("source");
    let bytes = pattern(1, PART + 5000);
    let etag = bench.put(&source, &bytes).await.upstream_etag;
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    let request = |number, source_range, source_conditions| PartCopyRequest {
        source_bucket: bench.bucket.clone(),
        source_key: source.clone(),
        source_range,
        source_conditions,
        bucket: bench.bucket.clone(),
        key: upload.key.clone(),
        upload_id: upload.id.clone(),
        number,
    };
    let no = Conditions::default;
    let mut parts = Vec::new();
    for (number, range) in [(1, None), (2, Some(1000..6000))] {
        let stored = bench.upstream.upload_part_copy(request(number, range, no())).await.unwrap();
        parts.push(PartRef { number, etag: stored.upstream_etag });
    }
    let size = bytes.len() as u64;
    assert!(bench.upstream.upload_part_copy(request(3, Some(size - 1..size + 1), no())).await.is_err());
    if bench.upstream.capabilities().copy_if_match {
        let copy = bench.upstream.upload_part_copy(request(3, None, if_match("another"))).await;
        assert_fails!(copy, UpstreamError::PreconditionFailed);
        bench.upstream.upload_part_copy(request(3, Some(0..1), if_match(&etag))).await.unwrap();
    }
    let absent = PartCopyRequest { source_key: bench.key("none"), ..request(3, None, no()) };
    assert_fails!(bench.upstream.upload_part_copy(absent).await, UpstreamError::NoSuchKey);
    let gone = PartCopyRequest { upload_id: "0".repeat(32), ..request(3, None, no()) };
    assert_fails!(bench.upstream.upload_part_copy(gone).await, UpstreamError::NoSuchUpload);
    upload.complete(&parts).await.unwrap();
    assert!(bench.get(&upload.key).await == [bytes.slice(..), bytes.slice(1000..6000)].concat());
}

pub(super) async fn failed_parts_store_nothing(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    let good = upload.part(1, &pattern(1, 100)).await;
    let cut = || BodyError::Cut("gone".to_owned());
    for number in [1, 2] {
        assert_fails!(
            upload.put_part(number, failing(3 << 20, &pattern(2, 2 << 20), cut())).await,
            UpstreamError::Body(_)
        );
        assert_fails!(upload.put_part(number, streamed(10, &pattern(2, 9), 5)).await, UpstreamError::Body(_));
        assert_fails!(upload.put_part(number, streamed(10, &pattern(2, 11), 5)).await, UpstreamError::Body(_));
    }
    let list = bench.upstream.list_parts(&bench.bucket, &upload.key, &upload.id, 0, 10).await.unwrap();
    assert_eq!(list.parts.iter().map(|part| (part.number, &part.etag)).collect::<Vec<_>>(), [(1, &good.etag)]);
    upload.complete(&[good]).await.unwrap();
    assert_eq!(bench.get(&upload.key).await, pattern(1, 100));
}

pub(super) async fn conditional_completion(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    let parts = [upload.part(1, &pattern(1, 100)).await];
    if !bench.upstream.capabilities().conditional_complete {
        assert_fails!(upload.complete_if(&parts, &if_none_match("*")).await, UpstreamError::NotSupported(_));
        bench.assert_absent(&upload.key).await;
        return upload.abort().await.unwrap();
    }
    let old = bench.put(&upload.key, &pattern(2, 10)).await.upstream_etag;
    assert_fails!(upload.complete_if(&parts, &if_none_match("*")).await, UpstreamError::PreconditionFailed);
    assert_fails!(upload.complete_if(&parts, &if_match("another")).await, UpstreamError::PreconditionFailed);
    assert_eq!(bench.get(&upload.key).await, pattern(2, 10));
    upload.complete_if(&parts, &if_match(&old)).await.unwrap();
    assert_eq!(bench.get(&upload.key).await, pattern(1, 100));
}

/// A client that lost the answer asks again: it is told the same, or that the upload is gone; the object stays.
pub(super) async fn completing_twice(bench: Bench) {
    let upload = Upload::begin(&bench, "a", MultipartRequest::default()).await;
    let parts = [upload.part(1, &pattern(1, 100)).await];
    let stored = upload.complete(&parts).await.unwrap();
    match upload.complete(&parts).await {
        Ok(again) => assert_eq!(again.upstream_etag, stored.upstream_etag),
        Err(UpstreamError::NoSuchUpload) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.get(&upload.key).await, pattern(1, 100));
    bench.put(&upload.key, &pattern(2, 10)).await;
    upload.complete(&parts).await.ok();
    assert_eq!(bench.get(&upload.key).await, pattern(2, 10), "what was written since stays");
}
