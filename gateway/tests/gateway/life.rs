//! Starting, draining and dying.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;

use crate::http::{Connection, ask, get};
use crate::process::{Gateway, run};

/// More than sockets hold, so that a reader that pauses keeps the request in flight.
const LARGE_BYTES: usize = 48 << 20;

/// Waits until something is so; what never becomes so is a failure of the test.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

#[test]
fn ready_once_started() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[]);
    assert_eq!(get(gateway.ops, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(gateway.ops, "/readyz"), (200, "ready\n".to_owned()));
    let (status, metrics) = get(gateway.ops, "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nblockgate_memory_capacity_bytes 134217728\n"), "{metrics}");
    let series = metrics.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let mut series: Vec<&str> = series.map(|(series, _)| series).collect();
    let count = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), count, "each series is shown once");
}

#[test]
fn not_ready_while_the_upstream_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = [
        ("UPSTREAM__KIND", "s3"),
        // Nothing listens on the discard port.
        ("UPSTREAM__ENDPOINT", "http://127.0.0.1:9"),
        ("UPSTREAM__ACCESS_KEY", "upstream-key"),
        ("UPSTREAM__SECRET_KEY", "upstream-secret"),
    ];
    let gateway = Gateway::start(&directory, &upstream);
    assert_eq!(get(gateway.ops, "/healthz").0, 200);
    let (status, why) = get(gateway.ops, "/readyz");
    assert_eq!(status, 503);
    assert!(why.starts_with("not ready: upstream: "), "{why}");
}

#[test]
fn credentials_are_created_once_and_the_secret_is_shown_once() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let mut gateway = Gateway::start_with(&directory, &[]);
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.ended().code(), Some(0));
        gateway.stdout()
    };
    let first = start();
    let path = directory.path().join("blockgate-data/.blockgate/credentials");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let written = fs::read_to_string(&path).unwrap();
    let value = |name: &str| {
        let line = written.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(" = ").unwrap().1.to_owned()
    };
    let (id, secret) = (value("aws_access_key_id"), value("aws_secret_access_key"));
    assert!(first.contains(&format!("  export AWS_ACCESS_KEY_ID={id}\n")), "{first}");
    assert!(first.contains(&format!("  export AWS_SECRET_ACCESS_KEY={secret}\n")), "{first}");

    let second = start();
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    assert!(second.contains("  export AWS_SHARED_CREDENTIALS_FILE="), "{second}");
    assert!(!second.contains(&secret), "output that is kept shows no secret again");
}

#[test]
fn a_listener_may_stand_for_a_bucket_which_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let listener = [("SERVER__LISTENER__0__LISTEN", "127.0.0.1:0"), ("SERVER__LISTENER__0__DEFAULT_BUCKET", "kvcache")];
    let gateway = Gateway::start(&directory, &listener);
    let [all, kvcache] = gateway.s3[..] else { panic!("{:?}", gateway.s3) };
    assert_eq!(ask(kvcache, "PUT", "/block", b"bytes").0, 200);
    assert_eq!(ask(all, "GET", "/kvcache/block", b""), (200, b"bytes".to_vec()));
}

#[test]
fn draining_lets_a_slow_download_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start(&directory, &[]);
    let s3 = gateway.s3[0];
    let block: Vec<u8> = (0..LARGE_BYTES).map(|n| (n / 7) as u8).collect();
    assert_eq!(ask(s3, "PUT", "/drain", b"").0, 200);
    assert_eq!(ask(s3, "PUT", "/drain/block", &block).0, 200);

    let mut idle = Connection::open(s3);
    assert_eq!(idle.ask("HEAD", "/drain/block", b"").0.status, 200);
    let mut slow = Connection::open(s3);
    slow.send_head("GET", "/drain/block", 0);
    let head = slow.read_head();
    assert_eq!(head.status, 200);

    gateway.signal(Signal::TERM);
    wait_until("not ready", || get(gateway.ops, "/readyz") == (503, "not ready: draining\n".to_owned()));
    wait_until("no new connections", || {
        TcpStream::connect(s3).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    assert!(idle.is_closed(), "nobody waits for idle connections");
    assert!(gateway.process.try_wait().unwrap().is_none(), "a request is in flight");

    assert!(slow.read_body(&head) == block);
    assert!(slow.is_closed());
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn draining_lets_a_slow_upload_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start(&directory, &[]);
    let s3 = gateway.s3[0];
    assert_eq!(ask(s3, "PUT", "/drain", b"").0, 200);
    let mut slow = Connection::open(s3);
    slow.begin_upload("/drain/block", 10);
    slow.send(b"01234");
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    assert_eq!(get(gateway.ops, "/readyz").0, 503);
    slow.send(b"56789");
    assert_eq!(slow.read_head().status, 200);
    assert_eq!(gateway.ended().code(), Some(0));

    let gateway = Gateway::start(&directory, &[]);
    assert_eq!(ask(gateway.s3[0], "GET", "/drain/block", b""), (200, b"0123456789".to_vec()));
}

#[test]
fn draining_takes_no_longer_than_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start(&directory, &[("SERVER__DRAIN_TIMEOUT", "50ms")]);
    let s3 = gateway.s3[0];
    assert_eq!(ask(s3, "PUT", "/drain", b"").0, 200);
    let mut stuck = Connection::open(s3);
    stuck.begin_upload("/drain/block", 10);
    stuck.send(b"01234");
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("requests in flight were cut");
    assert_eq!(gateway.ended().code(), Some(0));
    drop(stuck);
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start(&directory, &[("SERVER__DRAIN_TIMEOUT", "1h")]);
    let s3 = gateway.s3[0];
    assert_eq!(ask(s3, "PUT", "/drain", b"").0, 200);
    let mut stuck = Connection::open(s3);
    stuck.begin_upload("/drain/block", 10);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    gateway.signal(Signal::INT);
    assert_eq!(gateway.ended().code(), Some(130));
    drop(stuck);
}

#[test]
fn blocks_outlive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start(&directory, &[]);
    assert_eq!(ask(gateway.s3[0], "PUT", "/last", b"").0, 200);
    assert_eq!(ask(gateway.s3[0], "PUT", "/last/block", b"bytes").0, 200);
    gateway.signal(Signal::KILL);
    gateway.ended();
    let gateway = Gateway::start(&directory, &[]);
    let (head, body) = Connection::open(gateway.s3[0]).ask("GET", "/last/block", b"");
    assert_eq!((head.status, body), (200, b"bytes".to_vec()));
    assert_eq!(head.header("x-kv-tier"), Some("upstream"));
}

#[test]
fn an_address_in_use_is_named_and_nothing_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(directory.path(), &["serve"], &[("SERVER__LISTEN", &address)]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains(&format!("blockgate: [server] listen: cannot listen on {address}: Address already in use")),
        "{stderr}"
    );
    assert!(!directory.path().join("blockgate-data").exists());
}
