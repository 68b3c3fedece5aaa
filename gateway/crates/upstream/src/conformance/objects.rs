//! Objects: written, described, read, removed.

use std::time::{Duration, SystemTime};

use blockgate_block::{Attributes, BlockRecord, Crc64, GroupId, RECORD_META, TenantId};
use bytes::Bytes;

use super::Bench;
use super::tools::{assert_fails, pattern, read_all, streamed};
use crate::{Conditions, CopyRequest, Payload, PutRequest, UpstreamError};

const MIB: usize = 1 << 20;

pub(super) async fn objects_of_every_size(bench: Bench) {
    let sizes = [0, 1, 4095, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB + 7];
    for (seed, size) in sizes.into_iter().enumerate() {
        let bytes = pattern(seed as u64, size);
        for (how, payload) in [("whole", Payload::Bytes(bytes.clone())), ("streamed", streamed(size, &bytes, 60_000))] {
            let key = bench.key(&format!("{how}-{size}"));
            let stored = bench.upstream.put(&bench.bucket, &key, PutRequest::default(), payload).await.unwrap();
            let info = bench.head(&key).await.unwrap();
            assert_eq!((info.size_bytes, &info.upstream_etag), (size as u64, &stored.upstream_etag), "{key}");
            assert!(!info.upstream_etag.contains('"'), "ETags have no quotes");
            let reply = bench.upstream.get(&bench.bucket, &key, None, &Conditions::default()).await.unwrap();
            assert_eq!((&reply.info, &reply.range), (&info, &(0..size as u64)), "{key}");
            assert!(read_all(reply).await == bytes, "{key} has other bytes");
        }
    }
}

fn attributes() -> Attributes {
    let user = [("kv-fingerprint", "model x, bf16"), ("a", ""), ("b-c_d", "v=1;w=2"), ("long", &"v".repeat(500))];
    Attributes {
        content_type: Some("application/x-kv; v=1".into()),
        content_encoding: Some("zstd".into()),
        content_language: Some("en".into()),
        content_disposition: Some("attachment; filename=\"a b\"".into()),
        cache_control: Some("max-age=60, private".into()),
        expires: Some("Wed, 21 Oct 2026 07:28:00 GMT".into()),
        user: user.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

pub(super) async fn attributes_are_kept(bench: Bench) {
    let key = bench.key("a");
    let mut request = PutRequest { attributes: attributes(), ..PutRequest::default() };
    // Some stores drop empty values.
    request.attributes.user.remove("a");
    bench.put_with(&key, &Bytes::from_static(b"x"), request.clone()).await.unwrap();
    assert_eq!(bench.head(&key).await.unwrap().attributes, request.attributes);
    let reply = bench.upstream.get(&bench.bucket, &key, Some(0..1), &Conditions::default()).await.unwrap();
    assert_eq!(reply.info.attributes, request.attributes);
}

pub(super) async fn records_are_kept(bench: Bench) {
    let key = bench.key("a");
    let bytes = pattern(7, 100_000);
    let record = BlockRecord {
        crc64: Crc64::of(&bytes),
        len_bytes: bytes.len() as u64,
        stored_at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        expires_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(4_000_000_000_456)),
        group: Some(GroupId(1 << 120)),
        tenant: Some(TenantId(u64::MAX)),
    };
    let mut request = PutRequest { crc64: Some(record.crc64), attributes: attributes(), ..PutRequest::default() };
    request.attributes.user.remove("a");
    request.attributes.user.insert(RECORD_META.to_owned(), record.to_string());
    bench.put_with(&key, &bytes, request.clone()).await.unwrap();
    let info = bench.head(&key).await.unwrap();
    assert_eq!((info.record, info.etag.clone()), (Some(record), record.etag().to_string()));
    request.attributes.user.remove(RECORD_META);
    assert_eq!((&info.attributes, info.last_modified), (&request.attributes, record.stored_at));
    assert!(bench.get(&key).await == bytes);
    if bench.upstream.capabilities().crc64nvme {
        let request = PutRequest { crc64: Some(Crc64::of(b"other bytes")), ..PutRequest::default() };
        assert!(bench.put_with(&key, &bytes, request).await.is_err(), "a wrong checksum is refused");
        assert_eq!(bench.head(&key).await.unwrap(), info);
    }
}

pub(super) async fn overwriting_replaces_all(bench: Bench) {
    let key = bench.key("a");
    let mut request = PutRequest { attributes: attributes(), ..PutRequest::default() };
    if bench.upstream.capabilities().tagging {
        request.tags = vec![("a".to_owned(), "b".to_owned())];
    }
    bench.put_with(&key, &pattern(1, 2 * MIB), request).await.unwrap();
    let first = bench.head(&key).await.unwrap();
    bench.put(&key, &pattern(2, 10)).await;
    let second = bench.head(&key).await.unwrap();
    assert_eq!((second.size_bytes, &second.attributes.user), (10, &Attributes::default().user));
    assert_eq!(second.attributes.cache_control, None);
    assert_ne!(first.upstream_etag, second.upstream_etag);
    assert_eq!(bench.get(&key).await, pattern(2, 10));
    if bench.upstream.capabilities().tagging {
        assert_eq!(bench.upstream.tags(&bench.bucket, &key).await.unwrap(), []);
    }
}

pub(super) async fn ranges(bench: Bench) {
    let (key, empty) = (bench.key("a"), bench.key("empty"));
    let size = 2 * MIB + 10;
    let bytes = pattern(3, size);
    bench.put(&key, &bytes).await;
    bench.put(&empty, &Bytes::new()).await;
    let get =
        async |key: &str, range| bench.upstream.get(&bench.bucket, key, Some(range), &Conditions::default()).await;
    for range in
        [0..1, 0..size, 1..size, 5..MIB + 6, MIB - 1..MIB + 1, size - 1..size, 7..size + 1000, 0..usize::MAX >> 1]
    {
        let reply = get(&key, range.start as u64..range.end as u64).await.unwrap();
        let cut = range.start..range.end.min(size);
        assert_eq!(reply.range, cut.start as u64..cut.end as u64);
        assert_eq!(reply.info.size_bytes, size as u64, "the size is the whole object's");
        assert!(read_all(reply).await == bytes.slice(cut), "{range:?} has other bytes");
    }
    let size_bytes = size as u64;
    for start in [size_bytes, size_bytes + 1, 1 << 60] {
        assert_fails!(get(&key, start..start + 1).await, UpstreamError::InvalidRange { .. });
    }
    assert_fails!(get(&empty, 0..1).await, UpstreamError::InvalidRange { .. });
}

pub(super) async fn absent_objects(bench: Bench) {
    let (upstream, bucket, key) = (&bench.upstream, &bench.bucket, bench.key("none"));
    bench.put(&bench.key("none/below"), &Bytes::from_static(b"x")).await;
    let no = Conditions::default();
    for key in [&key, &bench.key("none/below/further"), &bench.key("no/where")] {
        assert_fails!(upstream.head(bucket, key, &no).await, UpstreamError::NoSuchKey);
        assert_fails!(upstream.get(bucket, key, None, &no).await, UpstreamError::NoSuchKey);
        assert_fails!(upstream.get(bucket, key, Some(0..1), &no).await, UpstreamError::NoSuchKey);
        if upstream.capabilities().tagging {
            assert_fails!(upstream.tags(bucket, key).await, UpstreamError::NoSuchKey);
            let tags = [("a".to_owned(), "b".to_owned())];
            assert_fails!(upstream.set_tags(bucket, key, &tags).await, UpstreamError::NoSuchKey);
        }
    }
    let copy = CopyRequest {
        source_bucket: bucket.clone(),
        source_key: key.clone(),
        source_conditions: Conditions::default(),
        bucket: bucket.clone(),
        key: bench.key("target"),
        attributes: Attributes::default(),
        tags: None,
    };
    assert_fails!(upstream.copy(copy).await, UpstreamError::NoSuchKey);
    bench.assert_absent(&bench.key("target")).await;
}

pub(super) async fn deletion(bench: Bench) {
    let keys = ["a", "a/b", "a/b/c"].map(|name| bench.key(name));
    for key in &keys {
        bench.put(key, &Bytes::from(key.clone())).await;
    }
    for (at, key) in keys.iter().enumerate() {
        bench.upstream.delete(&bench.bucket, key).await.unwrap();
        bench.assert_absent(key).await;
        bench.upstream.delete(&bench.bucket, key).await.unwrap();
        for key in &keys[at + 1..] {
            assert_eq!(bench.get(key).await, key.as_bytes(), "{key:?} stays");
        }
    }
    bench.put(&keys[1], &Bytes::from_static(b"again")).await;
    assert_eq!(bench.get(&keys[1]).await, "again");
}

pub(super) async fn deletion_of_many(bench: Bench) {
    let keys: Vec<String> = (0..1000).map(|at| bench.key(&format!("{}/{at}", at % 7))).collect();
    for key in keys.iter().step_by(40) {
        bench.put(key, &Bytes::from_static(b"x")).await;
    }
    let stays = bench.key("stays");
    bench.put(&stays, &Bytes::from_static(b"x")).await;
    let outcomes = bench.upstream.delete_many(&bench.bucket, &keys).await.unwrap();
    assert_eq!(outcomes.len(), keys.len());
    assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|outcome| outcome.is_err()));
    for key in keys.iter().step_by(40) {
        bench.assert_absent(key).await;
    }
    bench.head(&stays).await.unwrap();
    assert!(bench.upstream.delete_many(&bench.bucket, &[]).await.unwrap().is_empty());
}

pub(super) async fn the_clock_runs(bench: Bench) {
    let key = bench.key("a");
    let stored = bench.put(&key, &Bytes::from_static(b"x")).await;
    let info = bench.head(&key).await.unwrap();
    let now = bench.upstream.now();
    let apart = |a: SystemTime, b: SystemTime| a.duration_since(b).unwrap_or_else(|error| error.duration());
    for time in [stored.stored_at, info.last_modified] {
        assert!(apart(time, now) < Duration::from_secs(60), "{time:?} is far from {now:?}");
    }
    assert!(apart(info.last_modified, stored.stored_at) < Duration::from_secs(2));
}

pub(super) async fn answers_to_ping(bench: Bench) {
    bench.upstream.ping().await.unwrap();
    assert!(!bench.upstream.name().is_empty());
}
