//! What lies in the directory.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::super::FsUpstream;
use super::temp_dir;
use crate::{
    Conditions, GetReply, ListEntry, ListRequest, MultipartRequest, PartRef, Payload, PutRequest, Upstream,
    UpstreamError,
};

const NO: Conditions =
    Conditions { if_match: None, if_none_match: None, if_modified_since: None, if_unmodified_since: None };

async fn store() -> (tempfile::TempDir, FsUpstream) {
    let dir = temp_dir();
    let fs = FsUpstream::open(dir.path().join("data")).await.unwrap();
    fs.create_bucket("bucket").await.unwrap();
    (dir, fs)
}

fn payload(bytes: &str) -> Payload {
    Payload::Bytes(Bytes::copy_from_slice(bytes.as_bytes()))
}

async fn put(fs: &FsUpstream, key: &str, bytes: &str) {
    fs.put("bucket", key, PutRequest::default(), payload(bytes)).await.unwrap();
}

async fn bytes_of(reply: GetReply) -> Vec<u8> {
    let mut body = reply.body;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    bytes
}

async fn get(fs: &FsUpstream, key: &str) -> Vec<u8> {
    bytes_of(fs.get("bucket", key, None, &NO).await.unwrap()).await
}

async fn listed(fs: &FsUpstream) -> Vec<String> {
    let page = fs.list("bucket", &ListRequest { limit: 1000, ..ListRequest::default() }).await.unwrap();
    page.entries.iter().map(|entry| entry.name().to_owned()).collect()
}

#[tokio::test]
async fn an_object_is_a_file_that_begins_with_its_bytes() {
    let (dir, fs) = store().await;
    put(&fs, "model/x@1", "some block").await;
    let file = std::fs::read(dir.path().join("data/bucket/model.d/x@1")).unwrap();
    assert!(file.starts_with(b"some block") && file.ends_with(b"BLKGATE\n"));
    assert_eq!(get(&fs, "model/x@1").await, b"some block");
}

#[tokio::test]
async fn a_file_that_was_moved_is_not_taken_for_another_object() {
    let (dir, fs) = store().await;
    for key in ["a", "b"] {
        put(&fs, key, key).await;
    }
    let at = |key: &str| dir.path().join("data/bucket").join(key);
    std::fs::copy(at("a"), at("b")).unwrap();
    std::fs::rename(at("a"), at("c")).unwrap();
    for key in ["b", "c"] {
        let error = fs.get("bucket", key, None, &NO).await.unwrap_err();
        assert!(matches!(&error, UpstreamError::Damaged(why) if why.contains("of another key")), "{error}");
        put(&fs, key, "new").await;
        assert_eq!(get(&fs, key).await, b"new");
    }
}

#[tokio::test]
async fn etags_are_md5s_or_checksums() {
    let (_dir, fs) = store().await;
    put(&fs, "md5", "hello").await;
    assert_eq!(fs.head("bucket", "md5", &NO).await.unwrap().etag, "5d41402abc4b2a76b9719d911017c592");
    let request = PutRequest { crc64: Some(blockgate_block::Crc64::of(b"hello")), ..PutRequest::default() };
    let stored = fs.put("bucket", "crc", request, payload("hello")).await.unwrap();
    assert_eq!(stored.upstream_etag, format!("{}0000000000000005-1", blockgate_block::Crc64::of(b"hello")));
    // As S3 computes it: MD5 of the parts' MD5s.
    let request = MultipartRequest { part_md5: true, ..MultipartRequest::default() };
    let upload = fs.create_multipart("bucket", "parts", request).await.unwrap();
    let etag = fs.upload_part("bucket", "parts", &upload, 1, payload("hello")).await.unwrap();
    assert_eq!(etag, "5d41402abc4b2a76b9719d911017c592");
    let stored = fs.complete_multipart("bucket", "parts", &upload, &[PartRef { number: 1, etag }], &NO, None).await;
    assert_eq!(stored.unwrap().upstream_etag, "62109206880d38a4010a98e11243924a-1");
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let (dir, fs) = store().await;
    for key in ["a/b/c", "a/b/d", "a", &"x".repeat(1000)] {
        put(&fs, key, "1").await;
        put(&fs, key, "2").await;
        fs.set_tags("bucket", key, &[("a".to_owned(), "b".to_owned())]).await.unwrap();
    }
    let upload = fs.create_multipart("bucket", "a", MultipartRequest::default()).await.unwrap();
    let etag = fs.upload_part("bucket", "a", &upload, 1, payload("part")).await.unwrap();
    let parts = [PartRef { number: 1, etag }];
    fs.complete_multipart("bucket", "a", &upload, &parts, &NO, None).await.unwrap();
    let keys = listed(&fs).await;
    assert_eq!(keys.len(), 4);
    fs.delete_many("bucket", &keys).await.unwrap();
    let names = |path: &str| {
        let entries = std::fs::read_dir(dir.path().join("data").join(path)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(".blockgate/tmp"), Vec::<String>::new());
    assert_eq!(names(".blockgate/claims"), Vec::<String>::new());
    assert_eq!(names("bucket/.blockgate/uploads"), Vec::<String>::new());
    assert_eq!(names("bucket"), [".blockgate"]);
    fs.delete_bucket("bucket").await.unwrap();
    assert_eq!(names(""), [".blockgate"]);
}

/// Files that were cut short, changed, or put there by others: never served, always found, never in the way.
#[tokio::test]
async fn damaged_files_are_not_served() {
    let (dir, fs) = store().await;
    let path = dir.path().join("data/bucket/key");
    let flip = |at: usize| {
        let path = path.clone();
        move || {
            let mut file = std::fs::read(&path).unwrap();
            let at = file.len() - at;
            file[at] ^= 1;
            std::fs::write(&path, file).unwrap();
        }
    };
    let damages: Vec<Box<dyn Fn()>> = vec![
        Box::new(flip(1)),
        Box::new(flip(10)),
        Box::new(flip(20)),
        Box::new(flip(25)),
        Box::new(flip(32)),
        Box::new(flip(40)),
        Box::new(|| std::fs::write(&path, "foreign").unwrap()),
        Box::new(|| std::fs::write(&path, "").unwrap()),
        Box::new(|| {
            let file = std::fs::read(&path).unwrap();
            std::fs::write(&path, &file[..file.len() - 1]).unwrap();
        }),
        Box::new(|| {
            let file = std::fs::read(&path).unwrap();
            std::fs::write(&path, &file[1..]).unwrap();
        }),
        Box::new(|| {
            std::fs::remove_file(&path).unwrap();
            symlink("/etc/passwd", &path).unwrap();
        }),
    ];
    for (at, damage) in damages.iter().enumerate() {
        put(&fs, "key", "some bytes").await;
        damage();
        for conditions in [NO, Conditions { if_none_match: Some("x".to_owned()), ..NO }] {
            let head = fs.head("bucket", "key", &conditions).await;
            assert!(matches!(head, Err(UpstreamError::Damaged(_))), "{at}: {head:?}");
            let get = fs.get("bucket", "key", None, &conditions).await;
            assert!(matches!(get, Err(UpstreamError::Damaged(_))), "{at}: {get:?}");
        }
        assert_eq!(listed(&fs).await, ["key"], "{at}");
        put(&fs, "key", "again").await;
        assert_eq!(get(&fs, "key").await, b"again");
        damage();
        fs.delete("bucket", "key").await.unwrap();
        assert_eq!(listed(&fs).await, Vec::<String>::new());
    }
    assert!(std::fs::metadata("/etc/passwd").is_ok());
}

/// Whatever was put into the directory by others: no link leads out, no name that is not a key's is one.
#[tokio::test]
async fn the_root_is_never_left() {
    let (dir, fs) = store().await;
    let bucket = dir.path().join("data/bucket");
    std::fs::create_dir(dir.path().join("outside")).unwrap();
    std::fs::write(dir.path().join("outside/secret"), "secret").unwrap();
    symlink(dir.path().join("outside"), bucket.join("linked.d")).unwrap();
    symlink(dir.path().join("outside"), dir.path().join("data/linked")).unwrap();
    std::fs::write(bucket.join(".hidden"), "x").unwrap();
    std::fs::write(bucket.join("%zz"), "x").unwrap();
    std::fs::create_dir(bucket.join("plain")).unwrap();
    std::fs::write(bucket.join("plain/x"), "x").unwrap();
    for key in
        ["linked/secret", "../../outside/secret", "/../../outside/secret", "../bucket/x", "plain/x", ".hidden", "%zz"]
    {
        let head = fs.head("bucket", key, &NO).await;
        assert!(matches!(head, Err(UpstreamError::NoSuchKey)), "{key}: {head:?}");
    }
    assert!(fs.put("bucket", "linked/x", PutRequest::default(), payload("x")).await.is_err());
    fs.delete("bucket", "linked/secret").await.unwrap();
    for name in ["linked", "../outside", "..", ".blockgate"] {
        assert!(fs.head_bucket(name).await.is_err(), "{name}");
        assert!(fs.list(name, &ListRequest { limit: 10, ..ListRequest::default() }).await.is_err(), "{name}");
    }
    for id in ["../../../../outside", "..", "/", ""] {
        let part = fs.upload_part("bucket", "x", id, 1, payload("x")).await;
        assert!(matches!(part, Err(UpstreamError::NoSuchUpload)), "{id}: {part:?}");
    }
    // `plain` has the name of a key: an object that is damaged, being a directory.
    assert_eq!(listed(&fs).await, ["plain"]);
    assert_eq!(
        fs.list_buckets().await.unwrap().iter().map(|bucket| bucket.name.as_str()).collect::<Vec<_>>(),
        ["bucket"]
    );
    let outside: Vec<_> = std::fs::read_dir(dir.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(std::fs::read(dir.path().join("outside/secret")).unwrap(), b"secret");
}

/// Metadata names the file by which it is claimed: it must not name any other.
#[tokio::test]
async fn hostile_metadata_is_refused() {
    let (dir, fs) = store().await;
    put(&fs, "key", "x").await;
    let path = dir.path().join("data/bucket/key");
    let file = std::fs::read(&path).unwrap();
    let at = file.windows(11).position(|window| window == b"\"version\":\"").unwrap() + 11;
    let mut forged = file.clone();
    forged[at..at + 9].copy_from_slice(b"../../key");
    let end = forged.len() - 16;
    let checksum = blockgate_block::Crc64::of(&forged[1..end]).to_u64().to_le_bytes();
    forged[end..end + 8].copy_from_slice(&checksum);
    std::fs::write(&path, forged).unwrap();
    let head = fs.head("bucket", "key", &NO).await;
    assert!(matches!(&head, Err(UpstreamError::Damaged(why)) if why.contains("can't be read")), "{head:?}");
}

#[tokio::test]
async fn keys_that_no_store_takes_are_refused() {
    let (_dir, fs) = store().await;
    for key in ["", "a\0b", &"x".repeat(1025)] {
        let put = fs.put("bucket", key, PutRequest::default(), payload("x")).await;
        assert!(matches!(put, Err(UpstreamError::InvalidRequest(_))), "{put:?}");
        let create = fs.create_multipart("bucket", key, MultipartRequest::default()).await;
        assert!(matches!(create, Err(UpstreamError::InvalidRequest(_))), "{create:?}");
    }
    assert_eq!(listed(&fs).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_directory_in_another_format_is_refused() {
    let (dir, fs) = store().await;
    drop(fs);
    std::fs::write(dir.path().join("data/.blockgate/format"), "blockgate fs 2\n").unwrap();
    assert!(FsUpstream::open(dir.path().join("data")).await.is_err());
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(FsUpstream::open(dir.path().join("file")).await.is_err());
}

/// What a gateway sees of what another did: at once, all of it.
#[tokio::test(flavor = "multi_thread")]
async fn gateways_share_a_directory() {
    let (dir, one) = store().await;
    let other = Arc::new(FsUpstream::open(dir.path().join("data")).await.unwrap());
    put(&one, "a/b", "1").await;
    assert_eq!(get(&other, "a/b").await, b"1");
    other.delete("bucket", "a/b").await.unwrap();
    assert!(matches!(one.head("bucket", "a/b", &NO).await, Err(UpstreamError::NoSuchKey)));
    let upload = one.create_multipart("bucket", "m", MultipartRequest::default()).await.unwrap();
    let etag = other.upload_part("bucket", "m", &upload, 1, payload("part")).await.unwrap();
    let parts = [PartRef { number: 1, etag }];
    one.complete_multipart("bucket", "m", &upload, &parts, &NO, None).await.unwrap();
    // The answer was lost, and another gateway is asked again.
    let again = other.complete_multipart("bucket", "m", &upload, &parts, &NO, None).await.unwrap();
    assert_eq!(again.upstream_etag, one.head("bucket", "m", &NO).await.unwrap().upstream_etag);
    other.delete_many("bucket", &["m".to_owned()]).await.unwrap();
    other.delete_bucket("bucket").await.unwrap();
    assert!(matches!(one.head_bucket("bucket").await, Err(UpstreamError::NoSuchBucket)));
}

/// The trap of every such store: `!` sorts before `/`, and files before directories of the same name.
#[tokio::test]
async fn pages_of_a_large_directory() {
    let (_dir, fs) = store().await;
    let keys: Vec<String> = (0..300).map(|at| format!("dir{}{at:03}", ["/", "!", ""][at % 3])).collect();
    for key in &keys {
        put(&fs, key, "x").await;
    }
    let mut sorted = keys;
    sorted.sort_unstable();
    let (mut found, mut request) = (Vec::new(), ListRequest { limit: 7, ..ListRequest::default() });
    loop {
        let page = fs.list("bucket", &request).await.unwrap();
        found.extend(page.entries.iter().map(|entry| entry.name().to_owned()));
        assert!(page.entries.iter().all(|entry| matches!(entry, ListEntry::Object { size_bytes: 1, .. })));
        if !page.truncated {
            break;
        }
        request.start_after = found.last().cloned();
    }
    assert_eq!(found, sorted);
}

/// The store's time is the file system's.
#[tokio::test]
async fn the_clock_is_the_file_systems() {
    let (dir, fs) = store().await;
    put(&fs, "key", "x").await;
    let modified = std::fs::metadata(dir.path().join("data/bucket/key")).unwrap().modified().unwrap();
    let stored = fs.head("bucket", "key", &NO).await.unwrap().last_modified;
    let apart = modified.duration_since(stored).unwrap_or_else(|error| error.duration());
    assert!(apart < Duration::from_secs(2), "{apart:?}");
    let created = fs.head_bucket("bucket").await.unwrap().created_at.unwrap();
    assert!(created <= fs.now() + Duration::from_secs(2));
}
