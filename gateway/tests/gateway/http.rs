//! HTTP by hand, so that tests decide when which byte moves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use s3s_sigv4::{AmzDate, Payload, calculate_signature, create_canonical_request, create_string_to_sign};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::process::{ACCESS_KEY, PATIENCE, SECRET_KEY};

/// A connection.
pub(crate) struct Connection<S = TcpStream> {
    reader: BufReader<S>,
    host: String,
}

/// An answer's head.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Connection {
    pub(crate) fn open(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::over(stream, server)
    }
}

impl<S: Read + Write> Connection<S> {
    pub(crate) fn over(stream: S, server: SocketAddr) -> Self {
        Self { reader: BufReader::new(stream), host: server.to_string() }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
        self.reader.get_mut().flush().unwrap();
    }

    /// Sends the head of a signed request.
    pub(crate) fn send_head(&mut self, method: &str, path: &str, body_bytes: usize) {
        let head = signed_head(method, path, &self.host, body_bytes);
        self.send(head.as_bytes());
    }

    /// The same with further headers, which are not signed.
    pub(crate) fn send_head_with(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body_bytes: usize) {
        let head = signed_head(method, path, &self.host, body_bytes);
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.send(head.replacen("\r\n", &format!("\r\n{more}"), 1).as_bytes());
    }

    /// Sends the head of a signed upload and waits until the server wants its body: then the request is in flight.
    pub(crate) fn begin_upload(&mut self, path: &str, body_bytes: usize) {
        let head = signed_head("PUT", path, &self.host, body_bytes);
        self.send(head.replacen("\r\n", "\r\nexpect: 100-continue\r\n", 1).as_bytes());
        assert_eq!(self.read_head().status, 100);
    }

    /// Reads an answer's head.
    pub(crate) fn read_head(&mut self) -> Head {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            assert!(line.ends_with("\r\n"), "the connection ended within a head: {lines:?} {line:?}");
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Head { status, headers: lines[1..].iter().filter_map(header).collect() }
    }

    /// Reads the body that belongs to a head.
    pub(crate) fn read_body(&mut self, head: &Head) -> Vec<u8> {
        let length = head.header("content-length").expect("a length").parse().unwrap();
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        body
    }

    /// Whether the server closes the connection without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        // A reset is an end too.
        self.reader.read(&mut [0]).unwrap_or(0) == 0
    }

    /// A signed request and its whole answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> (Head, Vec<u8>) {
        self.send_head(method, path, body.len());
        self.send(body);
        let head = self.read_head();
        let body = if method == "HEAD" || head.status == 204 { Vec::new() } else { self.read_body(&head) };
        (head, body)
    }
}

/// A signed request on a connection of its own: status and body.
pub(crate) fn ask(server: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let (head, body) = Connection::open(server).ask(method, path, body);
    (head.status, body)
}

/// An unsigned GET: status and text.
pub(crate) fn get(server: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = Connection::open(server);
    connection.send(format!("GET {path} HTTP/1.1\r\nhost: {server}\r\n\r\n").as_bytes());
    let head = connection.read_head();
    let body = connection.read_body(&head);
    (head.status, String::from_utf8(body).unwrap())
}

fn signed_head(method: &str, path: &str, host: &str, body_bytes: usize) -> String {
    let date =
        OffsetDateTime::now_utc().format(format_description!("[year][month][day]T[hour][minute][second]Z")).unwrap();
    let amz_date = AmzDate::parse(&date).unwrap();
    let signed = [("host", host), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-date", date.as_str())];
    let no_query: [(&str, &str); 0] = [];
    let canonical = create_canonical_request(method, path, &no_query, signed, Payload::Unsigned);
    let to_sign = create_string_to_sign(&canonical, &amz_date, "us-east-1", "s3");
    let signature = calculate_signature(&to_sign, SECRET_KEY, &amz_date, "us-east-1", "s3");
    let day = amz_date.fmt_date();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: {date}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{day}/us-east-1/s3/aws4_request, \
         SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}\r\ncontent-length: {body_bytes}\r\n\r\n"
    )
}
