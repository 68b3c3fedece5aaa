//! Staging in the real binary: what outlives a process, and what operators see.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::http::{Connection, ask};
use crate::process::{ACCESS_KEY, Gateway, SECRET_KEY, run};

/// A small log in the test's directory.
const STAGING: [(&str, &str); 3] =
    [("STAGING__PATH", "staging"), ("STAGING__CAPACITY", "16MiB"), ("STAGING__SEGMENT", "4MiB")];
/// A store that is out, and nobody waits for it at the end.
const OUT: [(&str, &str); 5] = [
    ("UPSTREAM__KIND", "s3"),
    // Nothing listens on the discard port.
    ("UPSTREAM__ENDPOINT", "http://127.0.0.1:9"),
    ("UPSTREAM__ACCESS_KEY", "upstream-key"),
    ("UPSTREAM__SECRET_KEY", "upstream-secret"),
    ("SERVER__DRAIN_TIMEOUT", "0s"),
];

fn staged() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Status, tier and body.
fn get(server: SocketAddr, path: &str) -> (u16, Option<String>, Vec<u8>) {
    let (head, body) = Connection::open(server).ask("GET", path, b"");
    (head.status, head.header("x-kv-tier").map(str::to_owned), body)
}

fn stop(mut gateway: Gateway) {
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.ended().code(), Some(0));
}

/// `blockgate staging …` on the log of [`STAGING`].
fn staging(directory: &TempDir, command: &str, more: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let access = [("ACCESS__0__ACCESS_KEY", ACCESS_KEY), ("ACCESS__0__SECRET_KEY", SECRET_KEY)];
    let variables = [&STAGING[..], &access, &[("MEMORY__CAPACITY", "64MiB")], more].concat();
    told(run(directory.path(), &["staging", command], &variables))
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A log that holds the block `/cache/block`, of these bytes and in the store too, and no process.
fn log_of(directory: &TempDir, block: &[u8]) {
    let gateway = Gateway::start(directory, &STAGING);
    assert_eq!(ask(gateway.s3[0], "PUT", "/cache", b"").0, 200);
    assert_eq!(ask(gateway.s3[0], "PUT", "/cache/block", block).0, 200);
    stop(gateway);
}

#[test]
fn staged_blocks_outlive_a_restart() {
    let directory = staged();
    log_of(&directory, b"bytes");
    let gateway = Gateway::start(&directory, &STAGING);
    let hit = |tier: &str| (200, Some(tier.to_owned()), b"bytes".to_vec());
    assert_eq!(get(gateway.s3[0], "/cache/block"), hit("staging"));
    assert_eq!(get(gateway.s3[0], "/cache/block"), hit("memory"));
}

/// A log that holds the block `/cache/block`, which its store does not have and could not take; and its process.
fn waiting(directory: &TempDir) -> Gateway {
    let gateway = Gateway::start(directory, &[&STAGING[..], &[("SERVER__DRAIN_TIMEOUT", "0s")]].concat());
    assert_eq!(ask(gateway.s3[0], "PUT", "/cache", b"").0, 200);
    // No file can be written without it. The next start makes it anew.
    fs::remove_dir(directory.path().join("blockgate-data/.blockgate/tmp")).unwrap();
    assert_eq!(ask(gateway.s3[0], "PUT", "/cache/block", b"bytes").0, 200);
    gateway
}

#[test]
fn what_was_acknowledged_outlives_a_kill_while_the_store_is_out() {
    let directory = staged();
    let mut gateway = waiting(&directory);
    gateway.signal(Signal::KILL);
    gateway.ended();

    let mut gateway = Gateway::start(&directory, &[&STAGING[..], &OUT].concat());
    assert_eq!(get(gateway.s3[0], "/cache/block"), (200, Some("staging".to_owned()), b"bytes".to_vec()));
    gateway.signal(Signal::TERM);
    let left = gateway.wait_for_log("blocks stay in staging until the next start uploads them: none is lost");
    assert_eq!((left["blocks"].as_u64(), left["bytes"].as_u64()), (Some(1), Some(5)));
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn drain_uploads_what_waits() {
    let directory = staged();
    stop(waiting(&directory));

    let (status, stdout, stderr) = staging(&directory, "drain", &OUT);
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("blockgate: [upstream]: "), "{stderr}");
    let (status, _, stderr) = staging(&directory, "drain", &[("UPSTREAM__PATH", "another-store")]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("the bucket cache, which is not there"), "{stderr}");
    let (status, stdout, stderr) = staging(&directory, "drain", &[]);
    assert_eq!((status, stdout.as_str()), (Some(0), "1 block, 5 B, waited to be uploaded: none is left\n"), "{stderr}");
    let (status, stdout, _) = staging(&directory, "drain", &[]);
    assert_eq!((status, stdout.as_str()), (Some(0), "no block waits to be uploaded\n"));

    fs::remove_dir_all(directory.path().join("staging")).unwrap();
    let gateway = Gateway::start(&directory, &[]);
    assert_eq!(ask(gateway.s3[0], "GET", "/cache/block", b""), (200, b"bytes".to_vec()));
}

#[test]
fn a_log_has_one_process() {
    let directory = staged();
    let gateway = Gateway::start(&directory, &STAGING);
    let others =
        [("SERVER__LISTEN", "127.0.0.1:0"), ("SERVER__OPS_LISTEN", "127.0.0.1:0"), ("MEMORY__CAPACITY", "64MiB")];
    let (status, _, stderr) = told(run(directory.path(), &["serve"], &[&STAGING[..], &others].concat()));
    assert_eq!(status, Some(1));
    assert!(stderr.contains("blockgate: [staging]: staging is in use by another process"), "{stderr}");
    for command in ["inspect", "verify", "drain"] {
        let (status, stdout, stderr) = staging(&directory, command, &[]);
        assert_eq!((status, stdout.as_str()), (Some(1), ""), "{command}");
        assert!(stderr.contains("staging is in use by another process"), "{command}: {stderr}");
    }
    assert_eq!(ask(gateway.s3[0], "PUT", "/cache", b"").0, 200, "and it does not mind");
}

#[test]
fn inspect_shows_what_is_in_the_log() {
    let directory = staged();
    log_of(&directory, &[7; 10_000]);
    let (status, shown, stderr) = staging(&directory, "inspect", &[]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(shown.contains("1 block, 16.0 KiB on disk; none waits to be uploaded\n"), "{shown}");
    let by_path = told(run(directory.path(), &["staging", "inspect", "--path", "staging"], &[]));
    assert_eq!(by_path, (Some(0), shown, String::new()));
}

#[test]
fn verify_names_what_is_damaged() {
    let directory = staged();
    let block = b"these bytes lie in the log and nowhere else in it".repeat(100);
    log_of(&directory, &block);
    let (status, shown, stderr) = staging(&directory, "verify", &[]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{shown}");

    flip_a_bit(&directory.path().join("staging"), &block);
    let (status, shown, stderr) = staging(&directory, "verify", &[]);
    assert_eq!(status, Some(1));
    assert!(shown.contains("cache/block"), "{shown}");
    assert_eq!(stderr, "blockgate: 1 record is damaged\n");
}

/// Damages the block where it lies in a segment.
fn flip_a_bit(log: &Path, block: &[u8]) {
    for entry in fs::read_dir(log).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(block.len()).position(|window| window == block) {
            bytes[at + block.len() / 2] ^= 1;
            fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("the block is in no segment");
}

#[test]
fn there_must_be_a_log() {
    let directory = staged();
    let (status, _, stderr) = told(run(directory.path(), &["staging", "inspect"], &[]));
    assert_eq!(status, Some(2));
    assert!(stderr.starts_with("blockgate: [staging] is not configured"), "{stderr}");
    for command in ["inspect", "verify"] {
        let (status, stdout, stderr) = staging(&directory, command, &[]);
        assert_eq!((status, stdout.as_str()), (Some(1), ""));
        assert!(stderr.starts_with("blockgate: staging: "), "{stderr}");
    }
    assert!(!directory.path().join("staging").exists(), "looking creates nothing");
}

#[test]
fn check_tries_the_disk_of_staging() {
    let directory = staged();
    let check = |more: &[(&str, &str)]| {
        let memory = [("MEMORY__CAPACITY", "128MiB")];
        told(run(directory.path(), &["check", "--offline"], &[&STAGING[..], &memory, more].concat()))
    };
    let (status, shown, _) = check(&[]);
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("\nstaging directory: staging is not there: `blockgate serve` creates it\n"), "{shown}");
    assert!(shown.contains("although max_block_bytes of every other bucket is 64MiB"), "{shown}");

    fs::create_dir(directory.path().join("staging")).unwrap();
    let (status, shown, _) = check(&[("STAGING__ENGINE", "threads")]);
    assert_eq!(status, Some(0), "{shown}");
    for start in ["staging directory: can be written", "staging engine: threads", "staging space: "] {
        assert!(shown.lines().any(|line| line.starts_with(start)), "{start}: {shown}");
    }
    assert_eq!(fs::read_dir(directory.path().join("staging")).unwrap().count(), 0, "nothing is left behind");

    let (status, shown, _) = check(&[("STAGING__CAPACITY", "1024TiB"), ("STAGING__SEGMENT", "16GiB")]);
    assert!(shown.contains(" free on the disk, too little for a capacity of 1024TiB"), "{shown}");
    // With less than 64 GiB free there is no room for four segments.
    assert!(matches!(status, Some(0 | 1)));
}
