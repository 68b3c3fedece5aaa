//! Multipart uploads and forms, end to end.

// Each test file uses its own part of `common`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Answer, Gateway};

/// The smallest part that is not the last.
const PART: usize = 5 << 20;

async fn begin(g: &Gateway, target: &str) -> String {
    g.post(&format!("{target}?uploads")).ok().await.element("UploadId").unwrap()
}

fn complete(parts: &[(u32, &str)]) -> String {
    let parts: String = parts
        .iter()
        .map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"))
        .collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

#[tokio::test]
async fn an_upload_ends_as_one_block() {
    let g = Gateway::with_bucket().await;
    let created = g
        .post("/kv-bucket/big?uploads")
        .header("content-type", "text/plain")
        .header("x-amz-meta-kv-ttl", "600")
        .header("x-amz-checksum-algorithm", "CRC64NVME")
        .ok()
        .await;
    assert_eq!(
        (created.element("Bucket").as_deref(), created.element("Key").as_deref()),
        (Some("kv-bucket"), Some("big"))
    );
    let id = created.element("UploadId").unwrap();
    let part = |number| format!("/kv-bucket/big?partNumber={number}&uploadId={id}");
    let one = g.put(&part(1)).body(vec![1; PART]).ok().await.header("etag").unwrap().to_owned();
    let two = g.put(&part(2)).header("x-amz-checksum-crc32", "y/Q5Jg==").body("123456789").ok().await;
    assert_eq!(two.header("x-amz-checksum-crc32"), Some("y/Q5Jg=="));
    let two = two.header("etag").unwrap();

    let parts = g.get(&format!("/kv-bucket/big?uploadId={id}")).ok().await;
    assert_eq!(parts.elements("PartNumber"), ["1", "2"]);
    assert_eq!(parts.elements("Size"), [PART.to_string(), "9".into()]);
    assert_eq!(parts.elements("ETag"), [one.as_str(), two]);
    let page = g.get(&format!("/kv-bucket/big?uploadId={id}&max-parts=1")).ok().await;
    assert_eq!(
        (page.element("IsTruncated").as_deref(), page.element("NextPartNumberMarker").as_deref()),
        (Some("true"), Some("1"))
    );
    let page = g.get(&format!("/kv-bucket/big?uploadId={id}&part-number-marker=1")).ok().await;
    assert_eq!(page.elements("PartNumber"), ["2"]);

    let done = complete(&[(1, &one), (2, two)]);
    let wrong = g.post(&format!("/kv-bucket/big?uploadId={id}")).header("x-amz-mp-object-size", "5").body(done.clone());
    assert_eq!(wrong.fails().await, (400, "InvalidRequest".into()));
    let size = (PART + 9).to_string();
    let answer =
        g.post(&format!("/kv-bucket/big?uploadId={id}")).header("x-amz-mp-object-size", &size).body(done).ok().await;
    let etag = answer.element("ETag").unwrap();
    assert_eq!(answer.element("Location").as_deref(), Some("/kv-bucket/big"));
    let get = g.get("/kv-bucket/big").ok().await;
    assert_eq!((get.header("etag"), get.header("content-length")), (Some(etag.as_str()), Some(size.as_str())));
    assert_eq!((get.header("content-type"), get.header("x-kv-tier")), (Some("text/plain"), Some("memory")));
    assert!(get.header("x-amz-expiration").is_some());
    assert_eq!(get.header("x-amz-checksum-crc64nvme").map(str::to_owned), answer.element("ChecksumCRC64NVME"));
    let range = g.get("/kv-bucket/big").header("range", format!("bytes={}-", PART - 1)).header("if-match", etag);
    assert_eq!(range.ok().await.body.unwrap(), b"\x01123456789".as_slice());
}

#[tokio::test]
async fn a_complete_that_is_wrong_makes_nothing() {
    let g = Gateway::with_bucket().await;
    let id = begin(&g, "/kv-bucket/k").await;
    let part = |number: u32| format!("/kv-bucket/k?partNumber={number}&uploadId={id}");
    let one = g.put(&part(1)).body("small").ok().await.header("etag").unwrap().to_owned();
    let two = g.put(&part(2)).body("last").ok().await.header("etag").unwrap().to_owned();
    for (document, status, code) in [
        (complete(&[(2, &two), (1, &one)]), 400, "InvalidPartOrder"),
        (complete(&[(1, &one), (2, &two)]), 400, "EntityTooSmall"),
        (complete(&[(1, "\"none\"")]), 400, "InvalidPart"),
        (complete(&[(3, &one)]), 400, "InvalidPart"),
        (complete(&[]), 400, "MalformedXML"),
        ("<CompleteMultipartUpload>".into(), 400, "MalformedXML"),
    ] {
        let answer = g.post(&format!("/kv-bucket/k?uploadId={id}")).body(document.clone()).fails().await;
        assert_eq!(answer, (status, code.into()), "{document}");
    }
    assert_eq!(g.get("/kv-bucket/k").fails().await, (404, "NoSuchKey".into()));
    for number in ["0", "10001", "4294967296", "-1", "x"] {
        let target = format!("/kv-bucket/k?partNumber={number}&uploadId={id}");
        assert_eq!(g.put(&target).body("x").send().await.status, 400, "{number}");
    }

    g.put("/kv-bucket/k").body("there").ok().await;
    let document = complete(&[(1, &one)]);
    let taken = g.post(&format!("/kv-bucket/k?uploadId={id}")).header("if-none-match", "*").body(document.clone());
    assert_eq!(taken.fails().await, (412, "PreconditionFailed".into()));
    g.post(&format!("/kv-bucket/k?uploadId={id}")).body(document).ok().await;
    assert_eq!(g.get("/kv-bucket/k").ok().await.text(), "small");
}

#[tokio::test]
async fn an_upload_can_be_abandoned() {
    let g = Gateway::with_bucket().await;
    let id = begin(&g, "/kv-bucket/k").await;
    assert_eq!(g.delete(&format!("/kv-bucket/k?uploadId={id}")).ok().await.status, 204);
    for answer in [
        g.put(&format!("/kv-bucket/k?partNumber=1&uploadId={id}")).body("x").fails().await,
        g.get(&format!("/kv-bucket/k?uploadId={id}")).fails().await,
        g.get(&format!("/kv-bucket/k?uploadId={id}&max-parts=0")).fails().await,
        g.delete("/kv-bucket/k?uploadId=..%2F..").fails().await,
    ] {
        assert_eq!(answer, (404, "NoSuchUpload".into()));
    }
}

#[tokio::test]
async fn parts_are_made_of_objects() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/from").body("0123456789").ok().await;
    let id = begin(&g, "/kv-bucket/to").await;
    let copy = |range: Option<&str>| {
        let ask = g.put(&format!("/kv-bucket/to?partNumber=1&uploadId={id}"));
        let ask = ask.header("x-amz-copy-source", "kv-bucket/from");
        range.into_iter().fold(ask, |ask, range| ask.header("x-amz-copy-source-range", range))
    };
    for bad in ["bytes=0-10", "bytes=10-12", "bytes=3-1", "bytes=3-", "3-4"] {
        assert_eq!(copy(Some(bad)).fails().await, (400, "InvalidArgument".into()), "{bad}");
    }
    let refused = copy(None).header("x-amz-copy-source-if-match", "\"other\"").fails().await;
    assert_eq!(refused, (412, "PreconditionFailed".into()));
    let copied: Answer = copy(Some("bytes=2-5")).ok().await;
    let etag = copied.element("ETag").unwrap();
    g.post(&format!("/kv-bucket/to?uploadId={id}")).body(complete(&[(1, &etag)])).ok().await;
    assert_eq!(g.get("/kv-bucket/to").ok().await.text(), "2345");
}

#[tokio::test]
async fn unfinished_uploads_are_listed() {
    let g = Gateway::with_bucket().await;
    let mut ids = Vec::new();
    for key in ["a", "b/1", "b/2", "c", "c"] {
        ids.push(begin(&g, &format!("/kv-bucket/{key}")).await);
    }
    let keys = async |query: &str| g.get(&format!("/kv-bucket?uploads{query}")).ok().await.elements("Key");
    assert_eq!(keys("").await, ["a", "b/1", "b/2", "c", "c"]);
    assert_eq!(keys("&prefix=b%2F").await, ["b/1", "b/2"]);
    assert_eq!(keys("&key-marker=b%2F1").await, ["b/2", "c", "c"]);
}
