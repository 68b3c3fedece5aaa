//! Requests written byte by byte, signed rightly or wrongly.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use s3s_sigv4::{AmzDate, Payload};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::server::{OWNER, REGION, Server, secret};

/// No answer by then is a failure of the test.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// A response as it came.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// The S3 error code.
    pub(super) fn code(&self) -> &str {
        self.body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map_or("", |(code, _)| code)
    }
}

/// Sends bytes and reads what comes back until the server closes or the response is complete.
pub(super) async fn exchange(server: &Server, bytes: &[u8]) -> Reply {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    // The server may answer and close before it has read everything.
    let _ = socket.write_all(bytes).await;
    read_reply(&mut socket).await
}

pub(super) async fn read_reply(socket: &mut TcpStream) -> Reply {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !is_complete(&text) {
        match timeout(PATIENCE, socket.read(&mut buffer)).await.expect("an answer") {
            Ok(0) | Err(_) => break,
            Ok(len) => text.extend_from_slice(&buffer[..len]),
        }
    }
    Reply::parse(&String::from_utf8_lossy(&text))
}

fn is_complete(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// A request that is being put together. What is not said is right.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) method: &'static str,
    /// As it is sent; what it decodes to is signed.
    pub(super) path: String,
    /// Decoded.
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(String, String)>,
    /// Added after the signature was made.
    pub(super) late_headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// `x-amz-content-sha256`.
    pub(super) hash: String,
    pub(super) access_key: &'static str,
    pub(super) region: &'static str,
    pub(super) service: &'static str,
    /// Date of the credential scope, where it is not the request's.
    pub(super) scope_date: Option<String>,
    pub(super) at: SystemTime,
    pub(super) sign_host: bool,
}

impl Draft {
    pub(super) fn new(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            late_headers: Vec::new(),
            body: Vec::new(),
            hash: UNSIGNED.to_owned(),
            access_key: OWNER,
            region: REGION,
            service: "s3",
            scope_date: None,
            at: SystemTime::now(),
            sign_host: true,
        }
    }

    pub(super) fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn late_header(mut self, name: &str, value: &str) -> Self {
        self.late_headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A body with its length, and its hash in the signature.
    pub(super) fn hashed_body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.hash = hex::encode(Sha256::digest(body));
        self.header("content-length", &body.len().to_string())
    }

    /// A body with its length, which the signature does not cover.
    pub(super) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.header("content-length", &body.len().to_string())
    }

    pub(super) fn amz_date(&self) -> AmzDate {
        AmzDate::parse(&amz_date(self.at)).unwrap()
    }

    fn host(server: &Server) -> String {
        server.address.to_string()
    }

    /// Signs in the Authorization header; returns the request without its body, and the signature.
    pub(super) fn signed(&self, server: &Server) -> (String, String) {
        let mut headers = self.headers.clone();
        if !headers.iter().any(|(name, _)| name == "host") {
            headers.push(("host".to_owned(), Self::host(server)));
        }
        headers.push(("x-amz-date".to_owned(), amz_date(self.at)));
        if !self.hash.is_empty() {
            headers.push(("x-amz-content-sha256".to_owned(), self.hash.clone()));
        }
        let covered = self.covered(&headers);
        let path = crate::guard::unescape_path(&self.path).unwrap_or_else(|| self.path.as_str().into());
        let payload = match self.hash.as_str() {
            UNSIGNED | "" => Payload::Unsigned,
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Payload::MultipleChunks,
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Payload::MultipleChunksWithTrailer,
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Payload::UnsignedMultipleChunksWithTrailer,
            hash => Payload::SingleChunk(hash),
        };
        let pairs: Vec<(&str, &str)> = covered.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let query = self.sorted_query();
        let canonical = s3s_sigv4::create_canonical_request(self.method, &path, &query, &pairs, payload);
        let signature = self.signature(&canonical);
        let names: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}, SignedHeaders={}, Signature={signature}",
            self.credential(),
            names.join(";")
        );
        headers.push(("authorization".to_owned(), authorization));
        headers.extend(self.late_headers.iter().cloned());
        (self.head(&self.encoded_query(), &headers), signature)
    }

    /// Signs in the query, for `expires_s` seconds.
    pub(super) fn presigned(&self, server: &Server, expires_s: &str) -> String {
        let mut headers = self.headers.clone();
        if !headers.iter().any(|(name, _)| name == "host") {
            headers.push(("host".to_owned(), Self::host(server)));
        }
        let covered = self.covered(&headers);
        let pairs: Vec<(&str, &str)> = covered.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let names: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
        let mut draft = self.clone();
        for (name, value) in [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &self.credential()),
            ("X-Amz-Date", &amz_date(self.at)),
            ("X-Amz-Expires", expires_s),
            ("X-Amz-SignedHeaders", &names.join(";")),
        ] {
            draft = draft.query(name, value);
        }
        let path = crate::guard::unescape_path(&self.path).unwrap_or_else(|| self.path.as_str().into());
        let query = draft.sorted_query();
        let canonical = s3s_sigv4::create_presigned_canonical_request(self.method, &path, &query, &pairs);
        let draft = draft.query("X-Amz-Signature", &self.signature(&canonical));
        headers.extend(self.late_headers.iter().cloned());
        self.head(&draft.encoded_query(), &headers)
    }

    pub(super) async fn send(&self, server: &Server) -> Reply {
        let (head, _) = self.signed(server);
        exchange(server, &[head.as_bytes(), &self.body].concat()).await
    }

    pub(super) async fn send_presigned(&self, server: &Server, expires_s: &str) -> Reply {
        let head = self.presigned(server, expires_s);
        exchange(server, &[head.as_bytes(), &self.body].concat()).await
    }

    /// The request without any signature.
    pub(super) async fn send_unsigned(&self, server: &Server) -> Reply {
        let mut headers = self.headers.clone();
        headers.push(("host".to_owned(), Self::host(server)));
        headers.extend(self.late_headers.iter().cloned());
        let head = self.head(&self.encoded_query(), &headers);
        exchange(server, &[head.as_bytes(), &self.body].concat()).await
    }

    /// Headers that a client signs.
    fn covered(&self, headers: &[(String, String)]) -> Vec<(String, String)> {
        let covers =
            |name: &str| (name == "host" && self.sign_host) || name.starts_with("x-amz-") || name == "content-md5";
        let mut covered: Vec<_> = headers.iter().filter(|(name, _)| covers(name)).cloned().collect();
        covered.sort();
        covered
    }

    fn credential(&self) -> String {
        let date = self.scope_date.clone().unwrap_or_else(|| amz_date(self.at)[..8].to_owned());
        format!("{}/{date}/{}/{}/aws4_request", self.access_key, self.region, self.service)
    }

    fn signature(&self, canonical: &str) -> String {
        let date = self.amz_date();
        let text = s3s_sigv4::create_string_to_sign(canonical, &date, self.region, self.service);
        s3s_sigv4::calculate_signature(&text, secret(self.access_key), &date, self.region, self.service)
    }

    fn sorted_query(&self) -> Vec<(String, String)> {
        let mut query = self.query.clone();
        query.sort();
        query
    }

    fn encoded_query(&self) -> String {
        let pairs: Vec<String> = self.query.iter().map(|(n, v)| format!("{}={}", encode(n), encode(v))).collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    fn head(&self, query: &str, headers: &[(String, String)]) -> String {
        let mut head = format!("{} {}{query} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head + "\r\n"
    }
}

pub(super) fn amz_date(at: SystemTime) -> String {
    const FORMAT: &[time::format_description::FormatItem<'_>] =
        time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
    time::OffsetDateTime::from(at).format(FORMAT).unwrap()
}

pub(super) fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
