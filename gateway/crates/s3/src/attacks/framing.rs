//! Lengths, chunks of HTTP, and what is sent before anyone may send it.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{exchange, read_reply};
use super::{Draft, Server, assert_done, assert_refused};

fn put() -> Draft {
    Draft::new("PUT", "/kvs/k")
}

#[tokio::test]
async fn a_put_says_its_length_once() {
    let server = Server::start().await;
    assert_done(&server, &put().body(b"bytes").send(&server).await, "put kvs/k = bytes");
    assert_done(&server, &put().body(b"").send(&server).await, "put kvs/k = ");
    assert_refused(&server, &put().send(&server).await, 411, "MissingContentLength");
    assert_refused(&server, &put().send_presigned(&server, "60").await, 411, "MissingContentLength");
    let chunked =
        put().header("transfer-encoding", "chunked").with(|draft| draft.body = b"1\r\nx\r\n0\r\n\r\n".to_vec());
    assert_refused(&server, &chunked.send(&server).await, 411, "MissingContentLength");
    assert_refused(&server, &chunked.send_presigned(&server, "60").await, 411, "MissingContentLength");
    // hyper takes the length away where there are chunks too; what is left has no length.
    let both = chunked.header("content-length", "13");
    assert_refused(&server, &both.send(&server).await, 411, "MissingContentLength");
    let hashed = put().hashed_body(b"x").with(|draft| {
        draft.headers.clear();
        draft.headers.push(("transfer-encoding".to_owned(), "chunked".to_owned()));
        draft.body = b"1\r\nx\r\n0\r\n\r\n".to_vec();
    });
    assert_refused(&server, &hashed.send(&server).await, 411, "MissingContentLength");
}

#[tokio::test]
async fn too_long_is_refused_before_a_byte_is_read() {
    let server = Server::start().await;
    for length in ["5368709121", "9223372036854775808"] {
        let reply = put().header("content-length", length).send(&server).await;
        assert_refused(&server, &reply, 400, "EntityTooLarge");
    }
    let document = Draft::new("POST", "/kvs").query("delete", "").header("content-length", "8388609");
    let document = document.header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    assert_refused(&server, &document.send(&server).await, 400, "MaxMessageLengthExceeded");
}

#[tokio::test]
async fn reads_have_no_body() {
    let server = Server::start().await;
    for method in ["GET", "DELETE"] {
        let reply = Draft::new(method, "/kvs/k").body(b"x").send(&server).await;
        assert_refused(&server, &reply, 400, "InvalidRequest");
    }
    let reply = Draft::new("GET", "/kvs/k").header("content-length", "0").send(&server).await;
    assert_done(&server, &reply, "get kvs/k");
}

#[tokio::test]
async fn a_body_cut_short_is_not_stored() {
    let server = Server::start().await;
    for draft in [put().body(b"0123456789"), put().hashed_body(b"0123456789")] {
        let (head, _) = draft.signed(&server);
        for sent in [0, 5, 9] {
            let mut socket = TcpStream::connect(server.address).await.unwrap();
            socket.write_all(head.as_bytes()).await.unwrap();
            socket.write_all(&draft.body[..sent]).await.unwrap();
            socket.shutdown().await.unwrap();
            let reply = read_reply(&mut socket).await;
            assert!(reply.status == 0 || reply.status == 400, "{reply:?}");
            assert!(server.done().is_empty());
        }
    }
}

#[tokio::test]
async fn continue_is_said_only_to_who_may_go_on() {
    let server = Server::start().await;
    let expecting = put().body(b"bytes").header("expect", "100-continue");
    let (head, signature) = expecting.signed(&server);

    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = [0; 25];
    socket.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"bytes").await.unwrap();
    assert_done(&server, &read_reply(&mut socket).await, "put kvs/k = bytes");

    let forged = head.replace(&signature, &"0".repeat(64));
    assert_refused(&server, &exchange(&server, forged.as_bytes()).await, 403, "SignatureDoesNotMatch");
    let denied = expecting.with(|draft| draft.access_key = super::server::READER);
    let (head, _) = denied.signed(&server);
    assert_refused(&server, &exchange(&server, head.as_bytes()).await, 403, "AccessDenied");
}

#[tokio::test]
async fn a_refusal_arrives_although_the_body_was_not_wanted() {
    let server = Server::start().await;
    let body = vec![b'x'; 900_000];
    for draft in [put().header("x-amz-copy-source", "nonsense"), put().with(|draft| draft.region = "elsewhere")] {
        let (head, _) = draft.body(&body).signed(&server);
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&body).await.unwrap();
        let reply = read_reply(&mut socket).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.head.contains("connection: close"), "{reply:?}");
        assert!(server.done().is_empty());
    }
}

#[tokio::test]
async fn a_stalled_body_is_given_up() {
    let server = Server::start_with(|settings| settings.body_stall = Duration::from_millis(50)).await;
    let (head, _) = put().body(b"0123456789").signed(&server);
    let reply = exchange(&server, format!("{head}01").as_bytes()).await;
    assert_refused(&server, &reply, 400, "RequestTimeout");
}

#[tokio::test]
async fn promised_checksums_are_kept() {
    let server = Server::start().await;
    let put = |name: &str, value: &str| put().body(b"bytes").header(name, value);
    for (name, wrong, code) in [
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==", "BadDigest"),
        ("content-md5", "nonsense", "InvalidDigest"),
        ("x-amz-checksum-crc32", "AAAAAA==", "BadDigest"),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", "BadDigest"),
        ("x-amz-checksum-sha256", "AAAA", "InvalidRequest"),
        ("x-amz-checksum-crc99", "AAAA", "InvalidRequest"),
    ] {
        assert_refused(&server, &put(name, wrong).send(&server).await, 400, code);
    }
    let md5 = {
        use base64::Engine as _;
        use md5::Digest as _;
        base64::prelude::BASE64_STANDARD.encode(md5::Md5::digest(b"bytes"))
    };
    assert_done(&server, &put("content-md5", &md5).send(&server).await, "put kvs/k = bytes");
}
