//! S3 operations end to end: HTTP in, a directory behind, HTTP out.

// Each test file uses its own part of `common`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Gateway, READER};

fn url(key: &str) -> String {
    percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn object(key: &str) -> String {
    format!("/kv-bucket/{}", url(key))
}

#[tokio::test]
async fn buckets_come_and_go() {
    let g = Gateway::new().await;
    assert_eq!(g.head("/kv-bucket").send().await.status, 404);
    assert_eq!(g.get("/kv-bucket").fails().await, (404, "NoSuchBucket".into()));
    let config =
        "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>";
    let created = g.put("/kv-bucket").body(config).ok().await;
    assert_eq!(created.header("location"), Some("/kv-bucket"));
    assert_eq!(g.put("/kv-bucket").send().await.status, 200, "again, as in AWS's first region");
    assert_eq!(g.head("/kv-bucket").ok().await.header("x-amz-bucket-region"), Some("us-east-1"));
    assert_eq!(g.get("/kv-bucket?location").ok().await.element("LocationConstraint"), Some(String::new()));
    assert!(g.get("/kv-bucket?versioning").ok().await.element("Status").is_none());

    g.put("/kv-bucket/k").body("x").ok().await;
    assert_eq!(g.delete("/kv-bucket").fails().await, (409, "BucketNotEmpty".into()));
    g.delete("/kv-bucket/k").ok().await;
    assert_eq!(g.delete("/kv-bucket").ok().await.status, 204);
    assert_eq!(g.delete("/kv-bucket").fails().await, (404, "NoSuchBucket".into()));
}

#[tokio::test]
async fn a_key_sees_its_own_buckets() {
    let g = Gateway::new().await;
    for bucket in ["kv-a", "kv-b", "other"] {
        g.put(&format!("/{bucket}")).ok().await;
    }
    let names = async |target: &str, by| g.get(target).by(Some(by)).ok().await.elements("Name");
    assert_eq!(names("/", common::ADMIN).await, ["kv-a", "kv-b", "other"]);
    assert_eq!(names("/", READER).await, ["kv-a", "kv-b"]);
    assert_eq!(names("/?prefix=kv-b", common::ADMIN).await, ["kv-b"]);
    let page = g.get("/?max-buckets=2").ok().await;
    let token = page.element("ContinuationToken").unwrap();
    assert_eq!(names(&format!("/?max-buckets=2&continuation-token={token}"), common::ADMIN).await, ["other"]);
    assert_eq!(g.get("/?continuation-token=x").fails().await, (400, "InvalidArgument".into()));
    assert_eq!(g.get("/?max-buckets=0").fails().await, (400, "InvalidArgument".into()));
}

#[tokio::test]
async fn a_block_is_stored_and_read_with_all_that_came_with_it() {
    let g = Gateway::with_bucket().await;
    let put = g
        .put("/kv-bucket/k")
        .header("content-type", "text/plain")
        .header("cache-control", "max-age=5")
        .header("content-disposition", "attachment")
        .header("content-encoding", "gzip")
        .header("content-language", "en")
        .header("expires", "Wed, 21 Oct 2065 07:28:00 GMT")
        .header("x-amz-meta-kv-ttl", "600")
        .header("x-amz-meta-umlaut", "=?UTF-8?B?w6k=?=")
        .header("x-amz-tagging", "a=b&c=d")
        .header("x-amz-checksum-crc32", "y/Q5Jg==")
        .body("123456789")
        .ok()
        .await;
    let etag = "\"ae8b14860a7998880000000000000009-1\"";
    assert_eq!(put.header("etag"), Some(etag));
    assert_eq!(put.header("x-amz-checksum-crc64nvme"), Some("rosUhgp5mIg="));
    assert_eq!(put.header("x-amz-checksum-crc32"), Some("y/Q5Jg=="));
    assert_eq!(put.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert!(put.header("x-amz-expiration").unwrap().ends_with("GMT\", rule-id=\"kv-ttl\""));

    for method in ["GET", "HEAD"] {
        let ask = if method == "GET" { g.get("/kv-bucket/k") } else { g.head("/kv-bucket/k") };
        let answer = ask.ok().await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.text(), if method == "GET" { "123456789" } else { "" });
        for (name, value) in [
            ("etag", etag),
            ("content-length", "9"),
            ("content-type", "text/plain"),
            ("cache-control", "max-age=5"),
            ("content-disposition", "attachment"),
            ("content-encoding", "gzip"),
            ("content-language", "en"),
            ("expires", "Wed, 21 Oct 2065 07:28:00 GMT"),
            ("x-amz-meta-kv-ttl", "600"),
            ("x-amz-meta-umlaut", "=?UTF-8?B?w6k=?="),
            ("x-amz-tagging-count", "2"),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("x-amz-checksum-type", "FULL_OBJECT"),
            ("accept-ranges", "bytes"),
            ("x-kv-tier", "memory"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{method} {name}");
        }
        assert_eq!(answer.header("x-amz-expiration"), put.header("x-amz-expiration"));
        assert!(answer.header("last-modified").unwrap().ends_with("GMT"));
        assert!(answer.header("x-amz-meta-blockgate").is_none());
    }
}

#[tokio::test]
async fn an_object_without_attributes_has_the_type_that_aws_gives_it() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").body("x").ok().await;
    let answer = g.get("/kv-bucket/k").ok().await;
    assert_eq!(answer.header("content-type"), Some("binary/octet-stream"));
    assert!(answer.header("x-amz-expiration").is_none() && answer.header("x-amz-tagging-count").is_none());
}

#[tokio::test]
async fn misses_say_why() {
    let g = Gateway::with_bucket().await;
    let miss = g.get("/kv-bucket/k").send().await;
    assert_eq!((miss.status, miss.element("Code").as_deref()), (404, Some("NoSuchKey")));
    assert_eq!((miss.header("x-kv-miss"), miss.header("content-type")), (Some("absent"), Some("application/xml")));
    assert_eq!(g.head("/kv-bucket/k").send().await.header("x-kv-miss"), Some("absent"));

    g.put("/kv-bucket/k").header("x-amz-meta-kv-fingerprint", "llama").body("x").ok().await;
    g.get("/kv-bucket/k").header("x-kv-fingerprint", "llama").ok().await;
    g.head("/kv-bucket/k").header("x-amz-meta-kv-fingerprint", "llama").ok().await;
    let other = g.get("/kv-bucket/k").header("x-kv-fingerprint", "qwen").send().await;
    assert_eq!((other.status, other.header("x-kv-miss")), (404, Some("fingerprint")));

    g.get("/kv-bucket/k").header("x-kv-deadline-ms", "60000").ok().await;
    let refused = g.get("/kv-bucket/k").header("x-kv-deadline-ms", "0").fails().await;
    assert_eq!(refused, (400, "InvalidArgument".into()));
}

#[tokio::test]
async fn ranges() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").body("0123456789").ok().await;
    for (range, body, shown) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-5", "2345", "bytes 2-5/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=0-8388607", "0123456789", "bytes 0-9/10"),
    ] {
        let get = g.get("/kv-bucket/k").header("range", range).ok().await;
        assert_eq!((get.status, get.text().as_str()), (206, body), "{range}");
        assert_eq!(get.header("content-range"), Some(shown));
        assert_eq!(get.header("content-length"), Some(body.len().to_string().as_str()));
        assert!(get.header("x-amz-checksum-crc64nvme").is_none(), "a checksum is of the whole");
        let head = g.head("/kv-bucket/k").header("range", range).ok().await;
        assert_eq!((head.status, head.header("content-range")), (206, Some(shown)));
    }
    for range in ["bytes=10-", "bytes=10-20", "bytes=-0"] {
        let get = g.get("/kv-bucket/k").header("range", range).send().await;
        assert_eq!((get.status, get.element("Code").as_deref()), (416, Some("InvalidRange")), "{range}");
        assert_eq!(get.header("content-range"), Some("bytes */10"));
        assert_eq!(g.head("/kv-bucket/k").header("range", range).send().await.status, 416);
    }
    g.put("/kv-bucket/empty").ok().await;
    assert_eq!(g.get("/kv-bucket/empty").ok().await.header("content-length"), Some("0"));
    assert_eq!(g.get("/kv-bucket/empty").header("range", "bytes=0-").send().await.status, 416);
}

#[tokio::test]
async fn an_object_is_its_own_first_and_only_part() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").body("0123456789").ok().await;
    for answer in [g.get("/kv-bucket/k?partNumber=1").ok().await, g.head("/kv-bucket/k?partNumber=1").ok().await] {
        assert_eq!((answer.status, answer.header("x-amz-mp-parts-count")), (206, Some("1")));
        assert_eq!(answer.header("content-range"), Some("bytes 0-9/10"));
    }
    assert_eq!(g.get("/kv-bucket/k?partNumber=2").fails().await, (416, "InvalidPartNumber".into()));
    assert_eq!(g.head("/kv-bucket/k?partNumber=2").send().await.status, 416);
    assert_eq!(g.get("/kv-bucket/none?partNumber=2").fails().await, (404, "NoSuchKey".into()));
    assert_eq!(g.get("/kv-bucket/k?partNumber=0").fails().await, (400, "InvalidArgument".into()));
    let both = g.get("/kv-bucket/k?partNumber=1").header("range", "bytes=0-1").fails().await;
    assert_eq!(both, (400, "InvalidRequest".into()));
}

#[tokio::test]
async fn conditions() {
    let g = Gateway::with_bucket().await;
    let etag = g.put("/kv-bucket/k").body("x").ok().await.header("etag").unwrap().to_owned();
    let modified = g.head("/kv-bucket/k").ok().await.header("last-modified").unwrap().to_owned();
    let (past, future) = ("Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (name, value, status) in [
        ("if-match", etag.as_str(), 200),
        ("if-match", etag.trim_matches('"'), 200),
        ("if-match", "*", 200),
        ("if-match", "\"other\"", 412),
        ("if-none-match", etag.as_str(), 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"other\"", 200),
        ("if-modified-since", past, 200),
        ("if-modified-since", &modified, 304),
        ("if-unmodified-since", past, 412),
        ("if-unmodified-since", future, 200),
    ] {
        let get = g.get("/kv-bucket/k").header(name, value).send().await;
        let head = g.head("/kv-bucket/k").header(name, value).send().await;
        assert_eq!((get.status, head.status), (status, status), "{name}: {value}");
        if status == 304 {
            assert_eq!((get.header("etag"), get.header("last-modified")), (Some(etag.as_str()), Some(&*modified)));
            assert_eq!(get.text(), "");
        }
    }
    let weak = format!("W/{etag}");
    assert_eq!(g.get("/kv-bucket/k").header("if-none-match", weak).send().await.status, 304);

    let put = async |key: &str, name: &str, value: &str| {
        g.put(&format!("/kv-bucket/{key}")).header(name, value).body("y").send().await.status
    };
    assert_eq!(put("k", "if-none-match", "*").await, 412);
    assert_eq!(put("new", "if-none-match", "*").await, 200);
    assert_eq!(put("k", "if-match", "\"other\"").await, 412);
    assert_eq!(put("k", "if-match", &etag).await, 200);
    assert_eq!(put("k", "if-match", &etag).await, 412);
    assert_eq!(put("k", "if-none-match", "\"other\"").await, 501);
    assert_eq!(g.get("/kv-bucket/k").ok().await.text(), "y");
}

#[tokio::test]
async fn answers_in_other_words_are_for_those_who_sign() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").header("content-type", "text/plain").body("x").ok().await;
    let target = "/kv-bucket/k?response-content-type=image%2Fpng&response-cache-control=no-store";
    for answer in [g.get(target).ok().await, g.head(target).ok().await] {
        assert_eq!(answer.header("content-type"), Some("image/png"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    assert_eq!(g.get("/kv-bucket/k").by(None).ok().await.text(), "x");
    assert_eq!(g.get(target).by(None).fails().await, (400, "InvalidRequest".into()));
    assert_eq!(g.head(target).by(None).send().await.status, 400);
    assert_eq!(g.get("/kv-bucket/k?response-content-type=a%0Ab").send().await.status, 400);
    assert_eq!(g.head("/kv-bucket/k?response-content-type=a%0Ab").send().await.status, 400);
}

#[tokio::test]
async fn listings_fold_and_page() {
    let g = Gateway::with_bucket().await;
    for key in ["a", "b/1", "b/2", "c", "d/1", "e"] {
        g.put(&format!("/kv-bucket/{key}")).body("x").ok().await;
    }
    let page = g.get("/kv-bucket?list-type=2&delimiter=%2F").ok().await;
    assert_eq!(page.elements("Key"), ["a", "c", "e"]);
    assert_eq!(page.elements("Prefix"), ["", "b/", "d/"]);
    assert_eq!(page.element("KeyCount").as_deref(), Some("5"));
    assert_eq!(page.element("IsTruncated").as_deref(), Some("false"));
    assert!(page.element("Owner").is_none());
    assert!(g.get("/kv-bucket?list-type=2&fetch-owner=true").ok().await.element("Owner").is_some());
    assert!(page.element("ETag").unwrap().ends_with("-1\""));

    // Two at a time, through each kind of listing.
    let v2 = ("list-type=2", "NextContinuationToken", "continuation-token");
    for (query, next, marker) in [v2, ("", "NextMarker", "marker"), ("versions", "NextKeyMarker", "key-marker")] {
        let (mut seen, mut at) = (Vec::new(), String::new());
        loop {
            let page = g.get(&format!("/kv-bucket?{query}&delimiter=%2F&max-keys=2{at}")).ok().await;
            let prefixes = page.elements("Prefix").into_iter().filter(|prefix| !prefix.is_empty());
            seen.extend(page.elements("Key").into_iter().chain(prefixes));
            if page.element("IsTruncated").as_deref() == Some("false") {
                break;
            }
            at = format!("&{marker}={}", url(&page.element(next).unwrap()));
        }
        seen.sort();
        assert_eq!(seen, ["a", "b/", "c", "d/", "e"], "{query}");
    }

    let keys = async |query: &str| g.get(&format!("/kv-bucket?{query}")).ok().await.elements("Key");
    assert_eq!(keys("list-type=2&start-after=c").await, ["d/1", "e"]);
    assert_eq!(keys("marker=c").await, ["d/1", "e"]);
    assert_eq!(keys("versions&key-marker=c&version-id-marker=null").await, ["d/1", "e"]);
    assert_eq!(keys("list-type=2&prefix=b").await, ["b/1", "b/2"]);
    let none = g.get("/kv-bucket?list-type=2&max-keys=0").ok().await;
    assert_eq!((none.elements("Key").len(), none.element("IsTruncated").as_deref()), (0, Some("false")));

    for bad in ["max-keys=-1", "max-keys=x", "list-type=2&continuation-token=x", "encoding-type=base64"] {
        assert_eq!(g.get(&format!("/kv-bucket?{bad}")).fails().await, (400, "InvalidArgument".into()), "{bad}");
    }
}

#[tokio::test]
async fn every_object_has_one_version() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").body("x").ok().await;
    let page = g.get("/kv-bucket?versions").ok().await;
    assert_eq!(page.elements("VersionId"), ["null"]);
    assert_eq!(page.elements("IsLatest"), ["true"]);
    assert_eq!(g.get("/kv-bucket/k?versionId=null").ok().await.header("x-amz-version-id"), Some("null"));
    for target in ["/kv-bucket/k?versionId=other", "/kv-bucket/k?tagging&versionId=other"] {
        assert_eq!(g.get(target).fails().await, (404, "NoSuchVersion".into()));
    }
    assert_eq!(g.delete("/kv-bucket/k?versionId=other").fails().await, (404, "NoSuchVersion".into()));
    assert_eq!(g.delete("/kv-bucket/k?versionId=null").ok().await.status, 204);
    assert_eq!(g.get("/kv-bucket/k").fails().await, (404, "NoSuchKey".into()));
}

#[tokio::test]
async fn many_are_deleted_each_for_itself() {
    let g = Gateway::with_bucket().await;
    for key in ["a", "b&c", "d"] {
        g.put(&object(key)).body("x").ok().await;
    }
    let document = |quiet: &str, objects: &str| format!("<Delete>{quiet}{objects}</Delete>");
    let objects = "<Object><Key>a</Key></Object><Object><Key>b&amp;c</Key><VersionId>null</VersionId></Object>\
                   <Object><Key>none</Key></Object><Object><Key>.blockgate/x</Key></Object>\
                   <Object><Key>d</Key><VersionId>other</VersionId></Object>";
    let answer = g.post("/kv-bucket?delete").body(document("", objects)).ok().await;
    assert_eq!(answer.elements("Key"), ["a", "b&c", "none", ".blockgate/x", "d"]);
    assert_eq!(answer.elements("Code"), ["AccessDenied", "NoSuchVersion"]);
    assert_eq!(g.get("/kv-bucket").ok().await.elements("Key"), ["d"]);

    let quiet = g.post("/kv-bucket?delete").body(document("<Quiet>true</Quiet>", "<Object><Key>d</Key></Object>"));
    assert!(quiet.ok().await.elements("Key").is_empty());
    assert!(g.get("/kv-bucket").ok().await.elements("Key").is_empty());

    let many = "<Object><Key>k</Key></Object>".repeat(1001);
    for objects in ["", many.as_str(), "<Object><Key>&#x1;</Key></Object>"] {
        let refused = g.post("/kv-bucket?delete").body(document("", objects)).fails().await;
        assert_eq!(refused, (400, "MalformedXML".into()));
    }
}

#[tokio::test]
async fn tags() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").header("x-amz-tagging", "a=1&b+c=%2B").body("x").ok().await;
    let tags = async || {
        let answer = g.get("/kv-bucket/k?tagging").ok().await;
        answer.elements("Key").into_iter().zip(answer.elements("Value")).collect::<Vec<_>>()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(tags().await, [pair("a", "1"), pair("b c", "+")]);
    let document = "<Tagging><TagSet><Tag><Key>z</Key><Value>9</Value></Tag></TagSet></Tagging>";
    g.put("/kv-bucket/k?tagging").body(document).ok().await;
    assert_eq!(tags().await, [pair("z", "9")]);
    let twice = "<Tagging><TagSet><Tag><Key>z</Key><Value>9</Value></Tag><Tag><Key>z</Key><Value>8</Value></Tag></TagSet></Tagging>";
    assert_eq!(g.put("/kv-bucket/k?tagging").body(twice).fails().await, (400, "InvalidTag".into()));
    assert_eq!(g.delete("/kv-bucket/k?tagging").ok().await.status, 204);
    assert_eq!(tags().await, []);
    assert_eq!(g.get("/kv-bucket/none?tagging").fails().await, (404, "NoSuchKey".into()));
    let bad = g.put("/kv-bucket/k").header("x-amz-tagging", "a=1&a=2").body("x").fails().await;
    assert_eq!(bad, (400, "InvalidTag".into()));
}

#[tokio::test]
async fn attributes_are_those_asked_for() {
    let g = Gateway::with_bucket().await;
    g.put("/kv-bucket/k").body("123456789").ok().await;
    let all = "ETag,Checksum,ObjectSize,StorageClass,ObjectParts";
    let answer = g.get("/kv-bucket/k?attributes").header("x-amz-object-attributes", all).ok().await;
    assert_eq!(answer.element("ETag").as_deref(), Some("ae8b14860a7998880000000000000009-1"));
    assert_eq!(answer.element("ChecksumCRC64NVME").as_deref(), Some("rosUhgp5mIg="));
    assert_eq!(answer.element("ObjectSize").as_deref(), Some("9"));
    assert_eq!(answer.element("StorageClass").as_deref(), Some("STANDARD"));
    assert!(answer.header("last-modified").is_some() && answer.element("ObjectParts").is_none());
    let size = g.get("/kv-bucket/k?attributes").header("x-amz-object-attributes", "ObjectSize").ok().await;
    assert!(size.element("ETag").is_none() && size.element("ObjectSize").is_some());
    let bad = g.get("/kv-bucket/k?attributes").header("x-amz-object-attributes", "Size").fails().await;
    assert_eq!(bad, (400, "InvalidArgument".into()));
}

#[tokio::test]
async fn what_is_asked_for_and_not_done_is_refused() {
    let g = Gateway::with_bucket().await;
    for (name, value) in [
        ("x-amz-acl", "public-read"),
        ("x-amz-grant-read", "id=x"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-website-redirect-location", "/x"),
    ] {
        let put = g.put("/kv-bucket/k").header(name, value).body("x").fails().await;
        assert_eq!(put, (501, "NotImplemented".into()), "{name}");
        let create = g.post("/kv-bucket/k?uploads").header(name, value).fails().await;
        assert_eq!(create, (501, "NotImplemented".into()), "{name}");
    }
    g.put("/kv-bucket/k").header("x-amz-acl", "private").header("x-amz-storage-class", "STANDARD").body("x").ok().await;
    let conditional = g.delete("/kv-bucket/k").header("if-match", "\"x\"").fails().await;
    assert_eq!(conditional, (501, "NotImplemented".into()));
    let large = g.put("/kv-bucket/k").header("x-amz-meta-a", "x".repeat(2048)).body("x").fails().await;
    assert_eq!(large, (400, "MetadataTooLarge".into()));
    let own = g.put("/kv-bucket/k").header("x-amz-meta-blockgate", "v=1").body("x").fails().await;
    assert_eq!(own, (400, "InvalidArgument".into()));
    let control = g.put("/kv-bucket/k").header("x-amz-meta-a", "=?UTF-8?B?Cg==?=").body("x").fails().await;
    assert_eq!(control, (400, "InvalidArgument".into()));
}

#[tokio::test]
async fn settings_that_a_bucket_has_not() {
    let g = Gateway::with_bucket().await;
    for (query, status, code) in [
        ("policy", 404, "NoSuchBucketPolicy"),
        ("policyStatus", 404, "NoSuchBucketPolicy"),
        ("lifecycle", 404, "NoSuchLifecycleConfiguration"),
        ("cors", 404, "NoSuchCORSConfiguration"),
        ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
        ("publicAccessBlock", 404, "NoSuchPublicAccessBlockConfiguration"),
        ("tagging", 404, "NoSuchTagSet"),
        ("object-lock", 404, "ObjectLockConfigurationNotFoundError"),
        ("website", 404, "NoSuchWebsiteConfiguration"),
        ("replication", 404, "ReplicationConfigurationNotFoundError"),
        ("ownershipControls", 404, "OwnershipControlsNotFoundError"),
        ("metrics", 501, "NotImplemented"),
    ] {
        assert_eq!(g.get(&format!("/kv-bucket?{query}")).fails().await, (status, code.into()), "{query}");
    }
    assert_eq!(g.get("/kv-none?cors").fails().await, (404, "NoSuchBucket".into()));
    for query in ["logging", "notification", "accelerate", "requestPayment"] {
        g.get(&format!("/kv-bucket?{query}")).ok().await;
    }
    g.put("/kv-bucket/k").body("x").ok().await;
    for target in ["/kv-bucket?acl", "/kv-bucket/k?acl"] {
        let acl = g.get(target).ok().await;
        assert_eq!(acl.elements("Permission"), ["FULL_CONTROL"]);
        assert_eq!(g.put(target).header("x-amz-acl", "private").ok().await.status, 200);
        assert_eq!(g.put(target).header("x-amz-acl", "public-read").fails().await, (501, "NotImplemented".into()));
    }
    assert_eq!(g.get("/kv-bucket/none?acl").fails().await, (404, "NoSuchKey".into()));
}
