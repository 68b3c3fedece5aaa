//! Limits of listeners: what is over one is refused, and nothing stops.

use crate::http::{Connection, ask, get};
use crate::process::Gateway;

#[test]
fn headers_that_are_too_large_are_answered_431() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[("SERVER__LIMITS__MAX_HEADER_BYTES", "16KiB")]);
    let s3 = gateway.s3[0];
    // Beyond the setting, and beyond what a connection reads at all.
    for bytes in [20 << 10, 1 << 20] {
        let mut connection = Connection::open(s3);
        let filler = "x".repeat(bytes);
        connection.send(format!("GET / HTTP/1.1\r\nhost: {s3}\r\nx-filler: {filler}\r\n\r\n").as_bytes());
        assert_eq!(connection.read_head().status, 431, "{bytes}");
    }
    assert_eq!(ask(s3, "GET", "/", b"").0, 200);
}

#[test]
fn a_connection_that_asks_for_nothing_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[("SERVER__LIMITS__HEADER_TIMEOUT", "200ms")]);
    let s3 = gateway.s3[0];
    // Nothing at all, the beginning of HTTP/2, half a head, and nothing after an answer.
    for beginning in ["", "PRI * HTTP", "GET / HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut connection = Connection::open(s3);
        connection.send(beginning.as_bytes());
        assert!(connection.is_closed(), "{beginning:?}");
    }
    let mut connection = Connection::open(s3);
    assert_eq!(connection.ask("GET", "/", b"").0.status, 200);
    assert!(connection.is_closed());
}

#[test]
fn a_reader_that_stands_still_loses_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    let limits = [("SERVER__LIMITS__BODY_STALL_TIMEOUT", "200ms"), ("SERVER__LIMITS__MAX_CONCURRENT_REQUESTS", "1")];
    let gateway = Gateway::start(&directory, &limits);
    let s3 = gateway.s3[0];
    assert_eq!(ask(s3, "PUT", "/stall", b"").0, 200);
    assert_eq!(ask(s3, "PUT", "/stall/block", &vec![7; 48 << 20]).0, 200);
    let mut stalled = Connection::open(s3);
    stalled.send_head("GET", "/stall/block", 0);
    assert_eq!(stalled.read_head().status, 200);
    // Its place is free again once it has been given up.
    while ask(s3, "HEAD", "/stall/block", b"").0 != 200 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(stalled);
}

#[test]
fn more_requests_than_allowed_are_asked_to_slow_down() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[("SERVER__LIMITS__MAX_CONCURRENT_REQUESTS", "1")]);
    let s3 = gateway.s3[0];
    assert_eq!(ask(s3, "PUT", "/shed", b"").0, 200);
    let mut first = Connection::open(s3);
    first.begin_upload("/shed/block", 4);
    let (status, refusal) = ask(s3, "GET", "/", b"");
    assert_eq!(status, 503);
    let refusal = String::from_utf8(refusal).unwrap();
    assert!(refusal.contains("<Code>SlowDown</Code>"), "{refusal}");
    let (_, metrics) = get(gateway.ops, "/metrics");
    assert!(metrics.contains("limit=\"max_concurrent_requests\""), "{metrics}");
    first.send(b"abcd");
    assert_eq!(first.read_head().status, 200);
    assert_eq!(ask(s3, "GET", "/shed/block", b""), (200, b"abcd".to_vec()));
}

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[("SERVER__LIMITS__MAX_CONNECTIONS", "1")]);
    let s3 = gateway.s3[0];
    let mut first = Connection::open(s3);
    assert_eq!(first.ask("GET", "/", b"").0.status, 200);
    let mut second = Connection::open(s3);
    second.send_head("GET", "/", 0);
    assert_eq!(first.ask("GET", "/", b"").0.status, 200);
    drop(first);
    assert_eq!(second.read_head().status, 200);
}
