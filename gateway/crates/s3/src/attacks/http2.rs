//! The same over HTTP/2, where the host is in `:authority` and a body needs no length.

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::BoxBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::{Draft, Reply, Server, assert_done, assert_refused};

type Sent = BoxBody<Bytes, std::io::Error>;

fn empty() -> Sent {
    Empty::new().map_err(|never| match never {}).boxed()
}

fn known(bytes: &'static [u8]) -> Sent {
    Full::new(Bytes::from_static(bytes)).map_err(|never| match never {}).boxed()
}

/// A body whose length nobody knows before its end.
fn unknown(bytes: &'static [u8]) -> Sent {
    let frames = futures::stream::iter([Ok(http_body::Frame::data(Bytes::from_static(bytes)))]);
    BoxBody::new(StreamBody::new(frames))
}

/// Sends `draft`, signed in its header, with `body` and `authority` for its host.
async fn send(server: &Server, draft: &Draft, authority: &str, body: Sent) -> Reply {
    let (head, _) = draft.clone().header("host", authority).signed(server);
    let mut lines = head.lines();
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().to_owned();
    let mut request = Request::builder().method(draft.method).uri(format!("http://{authority}{target}"));
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("host:")) {
        let (name, value) = line.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    let request = request.version(Version::HTTP_2).body(body).unwrap();
    let socket = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    Reply { status, head: String::new(), body: String::from_utf8_lossy(&body).into_owned() }
}

#[tokio::test]
async fn requests_over_http2_work() {
    let server = Server::start().await;
    let authority = server.address.to_string();
    assert_done(&server, &send(&server, &Draft::new("GET", "/kvs/k"), &authority, empty()).await, "get kvs/k");
    let virtual_host = Draft::new("GET", "/k");
    assert_done(&server, &send(&server, &virtual_host, "kvs.localhost:9800", empty()).await, "get kvs/k");
    let put = Draft::new("PUT", "/kvs/k").header("content-length", "5");
    assert_done(&server, &send(&server, &put, &authority, known(b"bytes")).await, "put kvs/k = bytes");
    let chunked = Draft::new("PUT", "/kvs/k")
        .header("x-amz-decoded-content-length", "5")
        .header("x-amz-trailer", "x-amz-checksum-crc32")
        .with(|draft| draft.hash = "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned());
    let body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    assert_done(&server, &send(&server, &chunked, &authority, unknown(body)).await, "put kvs/k = hello");
}

#[tokio::test]
async fn a_default_bucket_is_for_addresses_too() {
    let server = Server::start_with(|settings| settings.default_bucket = Some("kvs".to_owned())).await;
    let authority = server.address.to_string();
    assert_done(&server, &send(&server, &Draft::new("GET", "//a"), &authority, empty()).await, "get kvs//a");
}

#[tokio::test]
async fn what_is_refused_over_http1_is_refused_over_http2() {
    let server = Server::start().await;
    let authority = server.address.to_string();
    let put = || Draft::new("PUT", "/kvs/k");
    let no_length = send(&server, &put(), &authority, unknown(b"bytes")).await;
    assert_refused(&server, &no_length, 411, "MissingContentLength");
    let unsigned = send(&server, &put().late_header("x-amz-acl", "private"), &authority, empty()).await;
    assert_refused(&server, &unsigned, 403, "AccessDenied");
    let elsewhere = put().header("content-length", "9").with(|draft| draft.region = "elsewhere");
    let reply = send(&server, &elsewhere, &authority, known(b"123456789")).await;
    assert_refused(&server, &reply, 400, "AuthorizationHeaderMalformed");
    let delete = Draft::new("POST", "/kvs").query("delete", "").hashed_body(b"<Delete/>");
    let other = send(&server, &delete, &authority, known(b"<DELETE/>")).await;
    assert_refused(&server, &other, 400, "XAmzContentSHA256Mismatch");
}
