//! Buckets, hosts and operations: what a request is really about.

use super::client::exchange;
use super::server::{READER, TEAM};
use super::{Draft, Server, assert_done, assert_refused};

#[tokio::test]
async fn who_copies_must_be_allowed_to_read_the_source() {
    let server = Server::start().await;
    let copy = |source: &str| Draft::new("PUT", "/kvs/copy").header("x-amz-copy-source", source);
    let by_team = |draft: Draft| draft.with(|draft| draft.access_key = TEAM);
    assert_done(&server, &by_team(copy("/kv-other/k")).send(&server).await, "copy to kvs/copy");
    for source in ["/secret/k", "secret/k", "%2Fsecret%2Fk", "/secret/k?versionId=null"] {
        assert_refused(&server, &by_team(copy(source)).send(&server).await, 403, "AccessDenied");
    }
    for source in
        ["", "/", "nonsense", "/kv-other/", "/kv-other/%00", "/kv-other/%FF", &format!("/kvs/{}", "k".repeat(1025))]
    {
        let reply = by_team(copy(source)).send(&server).await;
        assert!((400..500).contains(&reply.status), "{source}: {reply:?}");
        assert!(server.done().is_empty(), "{source}");
    }
    let with_body = copy("/kv-other/k").hashed_body(b"body");
    assert_refused(&server, &with_body.send(&server).await, 400, "InvalidRequest");
}

#[tokio::test]
async fn an_operation_is_not_taken_for_another() {
    let server = Server::start().await;
    assert_done(&server, &Draft::new("DELETE", "/kvs").send(&server).await, "delete bucket kvs");
    for (method, path, parameter) in [
        ("DELETE", "/kvs", "versioning"),
        ("DELETE", "/kvs", "uploads"),
        ("DELETE", "/kvs/k", "acl"),
        ("DELETE", "/kvs/k", "uploads"),
        ("PUT", "/kvs", "versions"),
        ("GET", "/kvs/k", "versions"),
    ] {
        let reply = Draft::new(method, path).query(parameter, "").send(&server).await;
        assert_refused(&server, &reply, 405, "MethodNotAllowed");
    }
    let part = |query: &[(&str, &str)]| {
        query.iter().fold(Draft::new("PUT", "/kvs/k").body(b"x"), |draft, (name, value)| draft.query(name, value))
    };
    assert_done(&server, &part(&[("partNumber", "1"), ("uploadId", "u")]).send(&server).await, "part 1 of kvs/k = x");
    assert_refused(&server, &part(&[("uploadId", "u")]).send(&server).await, 405, "MethodNotAllowed");
    assert_refused(&server, &part(&[("partNumber", "1")]).send(&server).await, 405, "MethodNotAllowed");
    for number in ["0", "10001", "4294967297", "-1", "x"] {
        let reply = part(&[("partNumber", number), ("uploadId", "u")]).send(&server).await;
        assert_refused(&server, &reply, 400, "InvalidArgument");
    }
    // The name of an operation in the query does not choose one.
    let named = Draft::new("GET", "/kvs/k").query("x-id", "PutObject").send(&server).await;
    assert_done(&server, &named, "get kvs/k");
}

#[tokio::test]
async fn keys_are_any_utf8_and_nothing_else() {
    let server = Server::start().await;
    for (path, key) in [
        ("/kvs/%2e%2e/%2e%2e/etc/passwd", "../../etc/passwd"),
        ("/kvs/../../etc/passwd", "../../etc/passwd"),
        ("/kvs/..%2F..%2Fetc", "../../etc"),
        ("/kvs//a", "/a"),
        ("/kvs/%5C..%5C", "\\..\\"),
        ("/kvs/%01%07", "\u{1}\u{7}"),
        ("/kvs/%25%252e", "%%2e"),
        ("/kvs/a+b", "a+b"),
    ] {
        assert_done(&server, &Draft::new("GET", path).send(&server).await, &format!("get kvs/{key}"));
    }
    for path in ["/kvs/%00", "/kvs/a%00b", "/kvs/%FF", "/kvs/%C0%AE", "/kvs/%zz", "/kvs/%", "/kvs/%2"] {
        assert_refused(&server, &Draft::new("GET", path).send(&server).await, 400, "InvalidURI");
    }
    let long = format!("/kvs/{}", "k".repeat(1025));
    assert_refused(&server, &Draft::new("GET", &long).send(&server).await, 400, "KeyTooLongError");
    assert_done(
        &server,
        &Draft::new("GET", &long[..long.len() - 1]).send(&server).await,
        &format!("get {}", &long[1..long.len() - 1]),
    );
    for bucket in ["/..", "/%2e%2e/k", "/.blockgate/k", "/KV/k", "/a_b/k"] {
        assert_refused(&server, &Draft::new("GET", bucket).send(&server).await, 400, "InvalidBucketName");
    }
    let listed = Draft::new("GET", "/kvs").query("list-type", "2").query("prefix", "a\u{1}").send(&server).await;
    assert_done(&server, &listed, "list kvs a\u{1}");
    let raw = format!("GET /kvs?list-type=2&prefix=%FF HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    assert_refused(&server, &exchange(&server, raw.as_bytes()).await, 400, "InvalidURI");
}

#[tokio::test]
async fn virtual_hosts_and_absolute_targets() {
    let server = Server::start().await;
    let port = server.address.port();
    let by_host = Draft::new("GET", "/a/b").header("host", &format!("kvs.localhost:{port}"));
    assert_done(&server, &by_host.send(&server).await, "get kvs/a/b");
    let by_name = Draft::new("GET", "/kvs/b").header("host", "cache.storage.svc.cluster.local");
    assert_done(&server, &by_name.send(&server).await, "get kvs/b");
    let (head, _) = Draft::new("GET", "/kvs/k").signed(&server);
    let absolute = head.replacen("GET /", &format!("GET http://{}/", server.address), 1);
    assert_done(&server, &exchange(&server, absolute.as_bytes()).await, "get kvs/k");
    let elsewhere = head.replacen("GET /", "GET http://elsewhere/", 1);
    assert_refused(&server, &exchange(&server, elsewhere.as_bytes()).await, 400, "InvalidRequest");
    let no_host = "GET /kvs/k HTTP/1.1\r\n\r\n";
    assert_refused(&server, &exchange(&server, no_host.as_bytes()).await, 400, "InvalidRequest");
}

#[tokio::test]
async fn a_default_bucket_is_for_every_host_and_no_other_bucket_is_reached() {
    let server = Server::start_with(|settings| settings.default_bucket = Some("kvs".to_owned())).await;
    for host in
        [server.address.to_string(), "kvs.localhost".to_owned(), "anything:80".to_owned(), "[::1]:9800".to_owned()]
    {
        let get = |path: &str| Draft::new("GET", path).header("host", &host);
        assert_done(&server, &get("/a%40b").send(&server).await, "get kvs/a@b");
        assert_done(&server, &get("//a").send(&server).await, "get kvs//a");
        assert_done(&server, &get("/secret/k").send(&server).await, "get kvs/secret/k");
        assert_done(&server, &get("/a").send_presigned(&server, "60").await, "get kvs/a");
    }
    let by_reader = Draft::new("GET", "/a").with(|draft| draft.access_key = READER);
    assert_done(&server, &by_reader.send(&server).await, "get kvs/a");
    let put = Draft::new("PUT", "/a").body(b"x").with(|draft| draft.access_key = READER);
    assert_refused(&server, &put.send(&server).await, 403, "AccessDenied");
    let list = Draft::new("GET", "/").query("list-type", "2").query("prefix", "m@");
    assert_done(&server, &list.send(&server).await, "list kvs m@");
}

#[tokio::test]
async fn anonymous_requests_read_where_allowed_and_never_write() {
    let server = Server::start_with(|settings| settings.anonymous_read = true).await;
    assert_done(&server, &Draft::new("GET", "/kvs/k").send_unsigned(&server).await, "get kvs/k");
    for (method, path) in [("PUT", "/kvs/k"), ("DELETE", "/kvs/k"), ("POST", "/kvs/k"), ("GET", "/")] {
        let reply = Draft::new(method, path).header("content-length", "0").send_unsigned(&server).await;
        assert_refused(&server, &reply, 403, "AccessDenied");
    }
    let chosen = Draft::new("GET", "/kvs/k").query("response-content-type", "text/html").send_unsigned(&server).await;
    assert_refused(&server, &chosen, 400, "InvalidRequest");
}

#[tokio::test]
async fn other_methods_are_not_allowed() {
    let server = Server::start().await;
    for method in ["PATCH", "TRACE", "CONNECT2", "PROPFIND"] {
        assert_refused(&server, &Draft::new(method, "/kvs/k").send(&server).await, 405, "MethodNotAllowed");
    }
    assert_refused(&server, &Draft::new("OPTIONS", "/kvs/k").send_unsigned(&server).await, 403, "AccessDenied");
}
