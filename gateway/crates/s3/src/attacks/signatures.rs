//! Signatures: in one place, of one kind, over everything that matters, now.

use std::time::{Duration, SystemTime};

use super::client::exchange;
use super::server::{READER, TEAM};
use super::{Draft, Server, assert_done, assert_refused};

fn get() -> Draft {
    Draft::new("GET", "/kvs/k")
}

#[tokio::test]
async fn a_right_signature_works_in_the_header_and_in_the_query() {
    let server = Server::start().await;
    assert_done(&server, &get().send(&server).await, "get kvs/k");
    assert_done(&server, &get().send_presigned(&server, "604800").await, "get kvs/k");
    let reply = get().send(&server).await;
    assert!(reply.head.contains("x-amz-request-id: ") && reply.head.contains("x-amz-id-2: "), "{reply:?}");
}

#[tokio::test]
async fn a_wrong_or_unknown_key_is_refused() {
    let server = Server::start().await;
    let (head, signature) = get().signed(&server);
    let forged = head.replace(&signature, &"0".repeat(64));
    assert_refused(&server, &exchange(&server, forged.as_bytes()).await, 403, "SignatureDoesNotMatch");
    let other_path = head.replacen("/kvs/k ", "/kvs/other ", 1);
    assert_refused(&server, &exchange(&server, other_path.as_bytes()).await, 403, "SignatureDoesNotMatch");
    let unknown = get().with(|draft| draft.access_key = "BGNOBODY");
    assert_refused(&server, &unknown.send(&server).await, 403, "InvalidAccessKeyId");
    assert_refused(&server, &get().send_unsigned(&server).await, 403, "AccessDenied");
}

#[tokio::test]
async fn an_unsigned_amz_header_beside_a_right_signature_is_refused() {
    let server = Server::start().await;
    let put = || Draft::new("PUT", "/kvs/k").body(b"x");
    assert_done(&server, &put().header("x-amz-meta-a", "1").send(&server).await, "put kvs/k = x");
    for (name, value) in
        [("x-amz-copy-source", "/secret/k"), ("x-amz-meta-a", "1"), ("x-amz-tagging", "a=b"), ("x-amz-acl", "private")]
    {
        let put = put().late_header(name, value);
        assert_refused(&server, &put.send(&server).await, 403, "AccessDenied");
        assert_refused(&server, &put.send_presigned(&server, "60").await, 403, "AccessDenied");
    }
    // In the query they are signed, and would mean nothing.
    let hoisted = put().query("x-amz-copy-source", "/secret/k").send_presigned(&server, "60").await;
    assert_refused(&server, &hoisted, 400, "InvalidArgument");
}

#[tokio::test]
async fn the_host_is_signed() {
    let server = Server::start().await;
    let unsigned_host = get().with(|draft| draft.sign_host = false);
    assert_refused(&server, &unsigned_host.send(&server).await, 400, "AuthorizationHeaderMalformed");
    let presigned = unsigned_host.send_presigned(&server, "60").await;
    assert_refused(&server, &presigned, 400, "AuthorizationQueryParametersError");
}

#[tokio::test]
async fn the_scope_is_this_service_this_region_and_this_day() {
    let server = Server::start().await;
    for (change, status, code) in [
        ((|draft: &mut Draft| draft.service = "sts") as fn(&mut Draft), 400, "AuthorizationHeaderMalformed"),
        (|draft| draft.service = "s3express", 400, "AuthorizationHeaderMalformed"),
        (|draft| draft.region = "eu-west-1", 400, "AuthorizationHeaderMalformed"),
        (|draft| draft.scope_date = Some("20200101".to_owned()), 403, "SignatureDoesNotMatch"),
    ] {
        let draft = get().with(change);
        assert_refused(&server, &draft.send(&server).await, status, code);
        let presigned = draft.send_presigned(&server, "60").await;
        assert!((400..500).contains(&presigned.status), "{presigned:?}");
        assert!(server.done().is_empty());
    }
    let anywhere = Server::start_with(|settings| settings.region = None).await;
    let elsewhere = get().with(|draft| draft.region = "eu-west-1");
    assert_done(&anywhere, &elsewhere.send(&anywhere).await, "get kvs/k");
}

#[tokio::test]
async fn clocks_may_be_off_by_a_quarter_of_an_hour() {
    let server = Server::start().await;
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let at = |at: SystemTime| get().with(|draft| draft.at = at);
    let now = SystemTime::now();
    assert_done(&server, &at(now - minutes(14)).send(&server).await, "get kvs/k");
    assert_done(&server, &at(now + minutes(14)).send(&server).await, "get kvs/k");
    for wrong in [now - minutes(16), now + minutes(16)] {
        assert_refused(&server, &at(wrong).send(&server).await, 403, "RequestTimeTooSkewed");
    }
    assert_done(&server, &at(now - minutes(60)).send_presigned(&server, "3700").await, "get kvs/k");
    assert_refused(&server, &at(now - minutes(60)).send_presigned(&server, "3500").await, 403, "AccessDenied");
    let ahead = at(now + minutes(16)).send_presigned(&server, "3600").await;
    assert_refused(&server, &ahead, 403, "RequestTimeTooSkewed");
    for expires in ["604801", "0", "-1", "1e3", "99999999999"] {
        let reply = get().send_presigned(&server, expires).await;
        assert_refused(&server, &reply, 400, "AuthorizationQueryParametersError");
    }
}

#[tokio::test]
async fn one_signature_of_one_kind() {
    let server = Server::start().await;
    let query: String = get().presigned(&server, "60").split(' ').nth(1).unwrap().to_owned();
    let (signed, _) = get().signed(&server);
    let both = signed.replacen("/kvs/k", &query, 1);
    assert_refused(&server, &exchange(&server, both.as_bytes()).await, 400, "InvalidArgument");
    let authorization = signed.lines().find(|line| line.starts_with("authorization")).unwrap();
    let twice = signed.replacen(authorization, &format!("{authorization}\r\n{authorization}"), 1);
    assert_refused(&server, &exchange(&server, twice.as_bytes()).await, 400, "InvalidRequest");
    let host = server.address;
    for old in [
        format!("GET /kvs/k HTTP/1.1\r\nhost: {host}\r\nauthorization: AWS BGOWNER:c2ln\r\n\r\n"),
        format!("GET /kvs/k?AWSAccessKeyId=BGOWNER&Expires=9999999999&Signature=c2ln HTTP/1.1\r\nhost: {host}\r\n\r\n"),
        format!("GET /kvs/k HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer x\r\n\r\n"),
    ] {
        assert_refused(&server, &exchange(&server, old.as_bytes()).await, 400, "InvalidRequest");
    }
}

#[tokio::test]
async fn what_comes_twice_is_refused() {
    let server = Server::start().await;
    for name in ["x-amz-date", "host", "range", "x-amz-content-sha256"] {
        let reply = get().late_header(name, "a").late_header(name, "b").send(&server).await;
        assert!(reply.status == 400, "{name}: {reply:?}");
        assert!(server.done().is_empty());
    }
    let doubled = get().query("versionId", "null").query("versionId", "null").send(&server).await;
    assert_refused(&server, &doubled, 400, "InvalidArgument");
}

#[tokio::test]
async fn a_payload_hash_is_there_and_is_one() {
    let server = Server::start().await;
    let with_hash = |hash: &str| get().with(|draft| draft.hash = hash.to_owned());
    assert_refused(&server, &with_hash("").send(&server).await, 400, "InvalidRequest");
    assert_refused(&server, &with_hash("nonsense").send(&server).await, 400, "InvalidArgument");
    assert_refused(&server, &with_hash(&"0".repeat(64)).send(&server).await, 400, "XAmzContentSHA256Mismatch");
    let put = Draft::new("PUT", "/kvs/k").hashed_body(b"true bytes");
    assert_done(&server, &put.send(&server).await, "put kvs/k = true bytes");
    let other = put.with(|draft| draft.body = b"other byte".to_vec());
    assert_refused(&server, &other.send(&server).await, 400, "XAmzContentSHA256Mismatch");
}

#[tokio::test]
async fn keys_may_only_what_they_are_given() {
    let server = Server::start().await;
    let by = |draft: Draft, access_key: &'static str| draft.with(|draft| draft.access_key = access_key);
    let put = Draft::new("PUT", "/kvs/k").body(b"x");
    assert_done(&server, &by(put.clone(), TEAM).send(&server).await, "put kvs/k = x");
    assert_done(&server, &by(get(), READER).send(&server).await, "get kvs/k");
    assert_refused(&server, &by(put, READER).send(&server).await, 403, "AccessDenied");
    let elsewhere = by(Draft::new("GET", "/secret/k"), TEAM);
    assert_refused(&server, &elsewhere.send(&server).await, 403, "AccessDenied");
}
