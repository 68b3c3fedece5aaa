//! XML and JSON documents: bound to the signature, well-formed, of the right shape.

use sha2::{Digest as _, Sha256};

use super::client::{UNSIGNED, exchange};
use super::{Draft, Server, assert_done, assert_refused};

const DELETE: &str = "<Delete><Object><Key>a</Key></Object></Delete>";
const COMPLETE: &str =
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";
const TAGGING: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const BUCKET: &str = "<CreateBucketConfiguration></CreateBucketConfiguration>";

fn delete() -> Draft {
    Draft::new("POST", "/kvs").query("delete", "")
}

fn complete() -> Draft {
    Draft::new("POST", "/kvs/k").query("uploadId", "u")
}

fn tagging() -> Draft {
    Draft::new("PUT", "/kvs/k").query("tagging", "")
}

/// Every operation that reads XML, with a document that it takes.
fn operations() -> [(Draft, &'static str, &'static str); 4] {
    [
        (delete(), DELETE, "delete kvs/a"),
        (complete(), COMPLETE, "complete kvs/k of 1"),
        (tagging(), TAGGING, "tag kvs/k 1"),
        (Draft::new("PUT", "/kvs"), BUCKET, "create kvs"),
    ]
}

#[tokio::test]
async fn right_documents_work() {
    let server = Server::start().await;
    for (draft, document, done) in operations() {
        assert_done(&server, &draft.clone().hashed_body(document.as_bytes()).send(&server).await, done);
        let declared = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{document}\n");
        assert_done(&server, &draft.hashed_body(declared.as_bytes()).send(&server).await, done);
    }
    let policy = Draft::new("PUT", "/kvs").query("policy", "").hashed_body(b"{\"Statement\":[]}");
    assert_done(&server, &policy.send(&server).await, "policy kvs");
}

#[tokio::test]
async fn a_signature_does_not_serve_for_another_body() {
    let server = Server::start().await;
    for (draft, document, _) in operations() {
        let signed = draft.hashed_body(document.as_bytes());
        let other = document.replacen("</", " </", 1);
        let other = &other[..document.len()];
        let replayed = signed.clone().with(|draft| draft.body = other.as_bytes().to_vec());
        assert_refused(&server, &replayed.send(&server).await, 400, "XAmzContentSHA256Mismatch");
    }
    // Without a hash, a digest that is not signed could be replaced together with the body.
    let unsigned = delete().body(DELETE.as_bytes());
    assert_refused(&server, &unsigned.send(&server).await, 400, "InvalidRequest");
    assert_refused(&server, &unsigned.send_presigned(&server, "60").await, 400, "InvalidRequest");
    let late = unsigned.clone().late_header("x-amz-checksum-crc32", "AAAAAA==");
    assert_refused(&server, &late.send(&server).await, 403, "AccessDenied");
    let hash = hex::encode(Sha256::digest(DELETE.as_bytes()));
    let presigned = unsigned.clone().header("x-amz-content-sha256", &hash).send_presigned(&server, "60").await;
    assert_done(&server, &presigned, "delete kvs/a");
    let wrong = unsigned.header("x-amz-checksum-crc32", "AAAAAA==");
    assert_refused(&server, &wrong.send(&server).await, 400, "BadDigest");
    assert_done(&server, &complete().body(COMPLETE.as_bytes()).send(&server).await, "complete kvs/k of 1");
}

#[tokio::test]
async fn an_empty_body_under_the_hash_of_another_is_refused() {
    let server = Server::start().await;
    let hash = hex::encode(Sha256::digest(DELETE.as_bytes()));
    let emptied = delete().header("content-length", "0").with(|draft| draft.hash = hash);
    assert_refused(&server, &emptied.send(&server).await, 400, "XAmzContentSHA256Mismatch");
    let empty = delete().hashed_body(b"");
    let reply = empty.send(&server).await;
    assert!((400..500).contains(&reply.status) && server.done().is_empty(), "{reply:?}");
}

#[tokio::test]
async fn hostile_documents_are_refused_by_every_operation() {
    let server = Server::start().await;
    for (draft, document, _) in operations() {
        let entity = format!("<!DOCTYPE x [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>{document}");
        let bomb = format!("<!DOCTYPE x [<!ENTITY a \"a\"><!ENTITY b \"&a;&a;\">]>{document}");
        let deep = "<a>".repeat(100_000);
        for hostile in [
            entity.as_str(),
            &bomb,
            &deep,
            "<Other/>",
            "not xml",
            "<?x y?><a/>",
            &document[..document.len() - 1],
            &format!("{document}{document}"),
            &document.replacen("</", "<![CDATA[x]]></", 1),
            "\u{1}",
        ] {
            let reply = draft.clone().hashed_body(hostile.as_bytes()).send(&server).await;
            assert_refused(&server, &reply, 400, "MalformedXML");
        }
        let reply = draft.clone().hashed_body(b"\xff\xfe<\0a\0>\0").send(&server).await;
        assert_refused(&server, &reply, 400, "MalformedXML");
    }
    let deep = "[".repeat(100_000);
    let policy = Draft::new("PUT", "/kvs").query("policy", "").hashed_body(deep.as_bytes());
    assert_refused(&server, &policy.send(&server).await, 400, "MalformedPolicy");
}

#[tokio::test]
async fn counts_and_numbers_are_those_of_s3() {
    let server = Server::start().await;
    let object = "<Object><Key>a</Key></Object>";
    let many = |count: usize| delete().hashed_body(format!("<Delete>{}</Delete>", object.repeat(count)).as_bytes());
    assert_refused(&server, &many(1_001).send(&server).await, 400, "MalformedXML");
    assert_refused(&server, &many(0).send(&server).await, 400, "MalformedXML");
    assert_eq!(many(1_000).send(&server).await.status, 200);
    assert_eq!(server.done().len(), 1);
    for (number, code) in [("0", "InvalidArgument"), ("10001", "InvalidArgument"), ("4294967297", "MalformedXML")] {
        let document = COMPLETE.replacen(">1<", &format!(">{number}<"), 1);
        assert_refused(&server, &complete().hashed_body(document.as_bytes()).send(&server).await, 400, code);
    }
}

#[tokio::test]
async fn documents_are_not_sent_in_chunks() {
    let server = Server::start().await;
    let body = b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
    let chunked = tagging()
        .header("x-amz-trailer", "x-amz-checksum-crc32")
        .header("x-amz-decoded-content-length", "0")
        .body(body)
        .with(|draft| draft.hash = "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned());
    assert_refused(&server, &chunked.send(&server).await, 400, "InvalidRequest");
}

#[tokio::test]
async fn a_document_in_http_chunks_has_no_length() {
    let server = Server::start().await;
    let mut draft = complete().with(|draft| draft.hash = UNSIGNED.to_owned());
    draft.headers.push(("transfer-encoding".to_owned(), "chunked".to_owned()));
    let (head, _) = draft.signed(&server);
    let body = format!("{:x}\r\n{COMPLETE}\r\n0\r\n\r\n", COMPLETE.len());
    let reply = exchange(&server, format!("{head}{body}").as_bytes()).await;
    assert_refused(&server, &reply, 411, "MissingContentLength");
}
