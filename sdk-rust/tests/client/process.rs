//! The real gateway, as child processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use s3s_sigv4::{AmzDate, Payload, calculate_signature, create_canonical_request, create_string_to_sign};
use tempfile::TempDir;
use time::OffsetDateTime;
use time::macros::format_description;

use blockgate_sdk::{Builder, Client};

const ACCESS_KEY: &str = "TESTACCESSKEY";
const SECRET_KEY: &str = "test-secret-of-no-use-elsewhere";
const BUCKET: &str = "blocks";

/// A running gateway; killed when dropped.
pub(crate) struct Gateway {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Where it takes TLS, with the authority in `cert.pem` of its directory.
    pub(crate) tls_address: Option<SocketAddr>,
}

/// What `cargo build --package blockgate` makes, beside this test.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("blockgate");
    assert!(binary.is_file(), "{} is missing: build the package blockgate first", binary.display());
    binary
}

impl Gateway {
    /// Starts on a directory, which several may share, and makes sure that there is a bucket.
    pub(crate) fn start(directory: &TempDir) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), directory.path())
    }

    /// The same at an address.
    pub(crate) fn listen(address: SocketAddr, directory: &Path) -> Self {
        Self::run(directory, &[("BLOCKGATE__SERVER__LISTEN", &address.to_string())])
    }

    /// The same with a listener for TLS.
    pub(crate) fn start_tls(directory: &TempDir) -> Self {
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(directory.path().join("cert.pem"), pair.cert.pem()).unwrap();
        fs::write(directory.path().join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
        Self::run(
            directory.path(),
            &[
                ("BLOCKGATE__SERVER__TLS__CERT", "cert.pem"),
                ("BLOCKGATE__SERVER__TLS__KEY", "key.pem"),
                ("BLOCKGATE__SERVER__LISTEN", "127.0.0.1:0"),
                ("BLOCKGATE__SERVER__LISTENER__0__LISTEN", "127.0.0.1:0"),
                ("BLOCKGATE__SERVER__LISTENER__0__TLS", "false"),
            ],
        )
    }

    fn run(directory: &Path, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(binary())
            .arg("serve")
            .current_dir(directory)
            .env_clear()
            .envs([
                ("BLOCKGATE__SERVER__OPS_LISTEN", "127.0.0.1:0"),
                ("BLOCKGATE__MEMORY__CAPACITY", "128MiB"),
                ("BLOCKGATE__TELEMETRY__LOG_FORMAT", "json"),
                ("BLOCKGATE__ACCESS__0__ACCESS_KEY", ACCESS_KEY),
                ("BLOCKGATE__ACCESS__0__SECRET_KEY", SECRET_KEY),
            ])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut addresses: Vec<SocketAddr> = Vec::new();
        loop {
            let line = log.next().expect("the gateway ended").unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            match line["message"].as_str() {
                Some("serving S3") => addresses.push(line["address"].as_str().unwrap().parse().unwrap()),
                Some("serving operations") => break,
                _ => {}
            }
        }
        // So that it never waits for a reader of its log.
        std::thread::spawn(move || log.count());
        // The last is always one without TLS.
        let (tls_address, address) = (addresses.first().copied(), addresses.pop().unwrap());
        let gateway = Self { process, address, tls_address: tls_address.filter(|first| *first != address) };
        gateway.create_bucket();
        gateway
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn create_bucket(&self) {
        let (host, path) = (self.address.to_string(), format!("/{BUCKET}"));
        let format = format_description!("[year][month][day]T[hour][minute][second]Z");
        let stamp = OffsetDateTime::now_utc().format(format).unwrap();
        let date = AmzDate::parse(&stamp).unwrap();
        let headers = [("host", host.as_str()), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-date", &stamp)];
        let canonical = create_canonical_request("PUT", &path, &[] as &[(&str, &str)], headers, Payload::Unsigned);
        let to_sign = create_string_to_sign(&canonical, &date, "us-east-1", "s3");
        let signature = calculate_signature(&to_sign, SECRET_KEY, &date, "us-east-1", "s3");
        let scope = format!("{}/us-east-1/s3/aws4_request", date.fmt_date());
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "PUT {path} HTTP/1.1\r\nhost: {host}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: {stamp}\r\n\
             authorization: AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let made = ["HTTP/1.1 200", "HTTP/1.1 409"].iter().any(|status| answer.starts_with(status));
        assert!(made, "{answer}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client of these.
pub(crate) fn builder(gateways: &[&Gateway]) -> Builder {
    let urls = gateways.iter().map(|gateway| format!("http://{}", gateway.address));
    Client::builder().endpoints(urls).access_key(ACCESS_KEY).secret_key(SECRET_KEY).bucket(BUCKET)
}
