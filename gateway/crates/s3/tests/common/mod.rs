//! A face on a store on a directory, and a client that signs.

use std::sync::Arc;
use std::time::Duration;

use blockgate_auth::{AccessKey, AccessKeys, Permission, Secret};
use blockgate_block::Arena;
use blockgate_s3::{Face, FaceSettings};
use blockgate_store::{BucketPolicies, Store, StoreParts};
use blockgate_telemetry::Metrics;
use blockgate_upstream::FsUpstream;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use tempfile::TempDir;
use time::macros::format_description;

const HOST: &str = "127.0.0.1:9800";
const REGION: &str = "us-east-1";
const SECRET: &str = "not-a-secret-but-long-enough";
/// May do everything.
pub const ADMIN: &str = "TESTADMINISTRATOR";
/// May only read, and only buckets that begin with `kv-`.
pub const READER: &str = "TESTREADER";

/// A gateway in this process.
pub struct Gateway {
    face: Face,
    dir: TempDir,
}

impl Gateway {
    /// An empty gateway.
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let metrics = Metrics::new();
        let store = Store::new(StoreParts {
            upstream: Arc::new(FsUpstream::open(dir.path()).await.unwrap()),
            arena: Arena::new(64 << 20).unwrap(),
            index_entries: 10_000,
            negative_ttl: Duration::from_secs(1),
            policies: BucketPolicies::default(),
            metrics: metrics.clone(),
        });
        let settings = FaceSettings {
            domains: vec!["localhost".into()],
            default_bucket: None,
            region: Some(REGION.into()),
            anonymous_read: true,
            body_stall: Duration::from_secs(10),
        };
        Self { face: Face::new(store, Arc::new(access_keys()), settings, metrics, None, None), dir }
    }

    /// A gateway with one bucket, `kv-bucket`.
    pub async fn with_bucket() -> Self {
        let gateway = Self::new().await;
        gateway.put("/kv-bucket").ok().await;
        gateway
    }

    pub fn get(&self, target: &str) -> Ask<'_> {
        self.ask("GET", target)
    }
    pub fn head(&self, target: &str) -> Ask<'_> {
        self.ask("HEAD", target)
    }
    pub fn put(&self, target: &str) -> Ask<'_> {
        self.ask("PUT", target)
    }
    pub fn post(&self, target: &str) -> Ask<'_> {
        self.ask("POST", target)
    }
    pub fn delete(&self, target: &str) -> Ask<'_> {
        self.ask("DELETE", target)
    }

    pub fn ask(&self, method: &'static str, target: &str) -> Ask<'_> {
        Ask {
            gateway: self,
            method,
            target: target.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            access_key: Some(ADMIN),
        }
    }
}

fn access_keys() -> AccessKeys {
    let key = |name: &str, buckets: &[&str], permissions: &[Permission]| AccessKey {
        access_key: name.into(),
        secret_key: Secret::new(SECRET.into()),
        tenant: None,
        buckets: buckets.iter().map(|b| (*b).to_owned()).collect(),
        permissions: permissions.to_vec(),
    };
    let both = [Permission::Read, Permission::Write];
    AccessKeys::new(vec![key(ADMIN, &[], &both), key(READER, &["kv-*"], &[Permission::Read])]).unwrap()
}

/// A request in the making. `target` is path and query as they go over the wire.
pub struct Ask<'a> {
    gateway: &'a Gateway,
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    access_key: Option<&'static str>,
}

impl Ask<'_> {
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Signs with another key, or not at all.
    pub fn by(mut self, access_key: Option<&'static str>) -> Self {
        self.access_key = access_key;
        self
    }

    /// Sends, and expects success.
    pub async fn ok(self) -> Answer {
        let what = format!("{} {}", self.method, self.target);
        let answer = self.send().await;
        assert!((200..300).contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
        answer
    }

    /// Sends, and expects an error: its status and code.
    pub async fn fails(self) -> (u16, String) {
        let answer = self.send().await;
        (answer.status, answer.element("Code").unwrap_or_default())
    }

    pub async fn send(mut self) -> Answer {
        let now = time::OffsetDateTime::now_utc();
        let date = now.format(format_description!("[year][month][day]T[hour][minute][second]Z")).unwrap();
        self.headers.push(("host".into(), HOST.into()));
        let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&self.body));
        if let Some(access_key) = self.access_key {
            self.headers.push(("x-amz-date".into(), date.clone()));
            self.headers.push(("x-amz-content-sha256".into(), hash.clone()));
            let authorization = self.authorization(access_key, &date, &hash);
            self.headers.push(("authorization".into(), authorization));
        }
        let mut request = Request::builder().method(self.method).uri(&self.target);
        if !self.body.is_empty() || matches!(self.method, "PUT" | "POST") {
            request = request.header("content-length", self.body.len());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.as_bytes());
        }
        let response = self.gateway.face.call(request.body(Full::new(self.body)).unwrap()).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string());
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    fn authorization(&mut self, access_key: &str, date: &str, hash: &str) -> String {
        self.headers.sort();
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let query: Vec<(String, String)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect();
        let signed: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let payload = s3s_sigv4::Payload::SingleChunk(hash);
        let canonical =
            s3s_sigv4::create_canonical_request_with_raw_uri_path(self.method, path, &query, &signed, payload);
        let date = s3s_sigv4::AmzDate::parse(date).unwrap();
        let to_sign = s3s_sigv4::create_string_to_sign(&canonical, &date, REGION, "s3");
        let signature = s3s_sigv4::calculate_signature(&to_sign, SECRET, &date, REGION, "s3");
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        format!(
            "AWS4-HMAC-SHA256 Credential={access_key}/{}/{REGION}/s3/aws4_request, SignedHeaders={}, \
             Signature={signature}",
            date.fmt_date(),
            names.join(";")
        )
    }
}

/// An answer, read to its end.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// What came, or how it broke off.
    pub body: Result<Bytes, String>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.body.as_deref().unwrap_or_default()).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The text of the first XML element of this name.
    pub fn element(&self, name: &str) -> Option<String> {
        self.elements(name).into_iter().next()
    }

    /// The texts of all XML elements of this name.
    pub fn elements(&self, name: &str) -> Vec<String> {
        use quick_xml::events::Event;
        let text = self.text();
        let mut reader = quick_xml::Reader::from_str(&text);
        let (mut found, mut inside): (Vec<String>, bool) = (Vec::new(), false);
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error}: {text}")) {
                Event::Start(tag) if tag.name().as_ref() == name => {
                    inside = true;
                    found.push(String::new());
                }
                Event::End(tag) if tag.name().as_ref() == name => inside = false,
                Event::Text(part) if inside => found.last_mut().unwrap().push_str(&part.xml10_content()),
                Event::GeneralRef(part) if inside => {
                    let reference = format!("&{};", part.xml10_content());
                    found.last_mut().unwrap().push_str(&quick_xml::escape::unescape(&reference).unwrap());
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }
}
