//! Each section of the configuration: its settings, their defaults and limits, and what contradicts what.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use blockgate_auth::{AccessKey, AccessKeys, Permission, Secret};
use blockgate_telemetry::LogFormat;
use blockgate_upstream::S3Settings;

use super::buckets::buckets;
use super::kinds::{HostPort, Kind, Size, words};
use super::reader::Section;
use super::staging::staging;
use super::tree::Value;
use super::{Config, Index, Limits, Listener, Server, Telemetry, Tls, Upstream};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Where S3 is served by default.
const LISTEN: &str = "127.0.0.1:9800";
/// Where health and metrics are served by default.
const OPS_LISTEN: &str = "127.0.0.1:9801";
/// Which upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpstreamKind {
    Fs,
    S3,
}

words!(UpstreamKind, "\"fs\" or \"s3\"", "fs" => UpstreamKind::Fs, "s3" => UpstreamKind::S3);
words!(Permission, "\"read\" or \"write\"", "read" => Permission::Read, "write" => Permission::Write);
words!(LogFormat, "\"text\" or \"json\"", "text" => LogFormat::Text, "json" => LogFormat::Json);

/// A bucket's name.
struct BucketName(String);

impl Kind for BucketName {
    const ACCEPTED: &'static str = "a bucket name: 3 to 63 of a-z, 0-9, \"-\" and \".\", not beginning with a sign";

    fn read(value: &Value) -> Option<Self> {
        let text = String::read(value)?;
        ((3..=63).contains(&text.len()) && names_bucket(&text, "-.")).then_some(Self(text))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

/// A bucket's name with `*` for any run of characters and `?` for one.
#[derive(PartialEq, Eq)]
pub(super) struct BucketPattern(pub(super) String);

impl Kind for BucketPattern {
    const ACCEPTED: &'static str = "a bucket name, in which * stands for any run of characters and ? for one";

    fn read(value: &Value) -> Option<Self> {
        let text = String::read(value)?;
        (text.len() <= 63 && names_bucket(&text, "-.*?")).then_some(Self(text))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

fn names_bucket(text: &str, signs: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || signs.contains(c);
    text.chars().all(fits) && !text.starts_with(['-', '.'])
}

/// A host name or domain.
struct Domain(String);

impl Kind for Domain {
    const ACCEPTED: &'static str = "a domain name without a port, such as \"kv.example.com\"";

    fn read(value: &Value) -> Option<Self> {
        let text = String::read(value)?;
        let label = |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        text.split('.').all(label).then(|| Self(text.to_ascii_lowercase()))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

/// Where an S3 store is.
struct Endpoint(String);

impl Kind for Endpoint {
    const ACCEPTED: &'static str = "\"http://host:port\" or \"https://host:port\", without a path";

    fn read(value: &Value) -> Option<Self> {
        let text = String::read(value)?;
        let uri: http::Uri = text.parse().ok()?;
        let sound = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none();
        (sound && matches!(uri.path(), "" | "/")).then(|| Self(text.trim_end_matches('/').to_owned()))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

/// Reads every section. Where a mistake leaves a hole, a placeholder fills it: the report decides.
pub(super) fn read(root: &mut Section<'_>, variables: &BTreeMap<String, String>) -> Config {
    let access = access(root.sections("access"));
    let upstream = upstream(root.section("upstream"), variables);
    if matches!(upstream, Upstream::S3(_)) && access.is_empty() {
        root.mistake("[[access]]: missing; kind = \"s3\" needs at least one access_key and secret_key");
    }
    let staging = root.section_if_given("staging").map(|section| staging(section, &upstream));
    Config {
        server: server(root.section("server")),
        access,
        upstream,
        memory_capacity_bytes: memory(root.section("memory")),
        index: index(root.section("index")),
        buckets: buckets(root.sections("bucket"), staging.is_some()),
        staging,
        telemetry: telemetry(root.section("telemetry")),
        in_force: Vec::new(),
    }
}

fn server(mut section: Section<'_>) -> Server {
    let listen_origin = section.origin_of("listen");
    let listen = section.list("listen", vec![HostPort(LISTEN.into())]);
    let default_bucket = section.optional::<BucketName>("default_bucket").map(|name| name.0);
    let ops_listen = section.get("ops_listen", HostPort(OPS_LISTEN.into())).0;
    let domains = section.list("domains", vec![Domain("localhost".into())]);
    let region = section.get("region", "us-east-1".to_owned());
    let anonymous_read = section.get("anonymous_read", false);
    let drain_grace = section.within("drain_grace", Duration::ZERO, Duration::ZERO..=HOUR);
    let drain_timeout = section.within("drain_timeout", 30 * SECOND, Duration::ZERO..=HOUR);
    let limits = limits(section.section("limits"));
    let tls = section.section_if_given("tls").map(tls);

    let mut listeners: Vec<Listener> = listen
        .into_iter()
        .map(|HostPort(listen)| Listener { listen, default_bucket: default_bucket.clone(), tls: tls.is_some() })
        .collect();
    listeners.extend(section.sections("listener").into_iter().map(|inner| listener(inner, tls.is_some())));
    let addresses = listeners.iter().map(|listener| &listener.listen).chain([&ops_listen]);
    if let Some(twice) = first_double(addresses.filter(|address| !address.ends_with(":0"))) {
        section.refuse("listen", &listen_origin, &format!("{twice} is listened on twice"));
    }
    section.end();
    Server {
        listeners,
        ops_listen,
        tls,
        domains: domains.into_iter().map(|domain| domain.0).collect(),
        region: (region != "any").then_some(region),
        anonymous_read,
        drain_grace,
        drain_timeout,
        limits,
    }
}

fn limits(mut section: Section<'_>) -> Limits {
    let limits = Limits {
        connections_max: section.within("max_connections", 4_096, 1..=1_000_000),
        concurrent_requests_max: section.within("max_concurrent_requests", 4_096, 1..=1_000_000),
        header_bytes_max: bytes(section.within("max_header_bytes", Size(64 << 10), Size(8 << 10)..=Size(192 << 10))),
        header_timeout: section.within("header_timeout", 60 * SECOND, 100 * MS..=HOUR),
        body_stall_timeout: section.within("body_stall_timeout", 30 * SECOND, 100 * MS..=HOUR),
        send_buffer_bytes: bytes(section.within("send_buffer", Size(256 << 10), Size(4 << 10)..=Size(64 << 20))),
    };
    section.end();
    limits
}

/// A size that was kept small.
fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

fn tls(mut section: Section<'_>) -> Tls {
    let why = "[server.tls] needs both cert and key";
    let tls =
        Tls { cert: section.required("cert", why, PathBuf::new()), key: section.required("key", why, PathBuf::new()) };
    section.end();
    tls
}

fn listener(mut section: Section<'_>, has_certificate: bool) -> Listener {
    let listen = section.required("listen", HostPort::ACCEPTED, HostPort(String::new())).0;
    let default_bucket = section.optional::<BucketName>("default_bucket").map(|name| name.0);
    let tls_origin = section.origin_of("tls");
    let tls = section.get("tls", has_certificate);
    if tls && !has_certificate {
        section.refuse("tls", &tls_origin, "true needs [server.tls] cert and key");
    }
    section.end();
    Listener { listen, default_bucket, tls }
}

fn access(sections: Vec<Section<'_>>) -> Vec<AccessKey> {
    let mut keys: Vec<AccessKey> = Vec::new();
    for mut section in sections {
        let origin = section.origin_of("access_key");
        let access_key = section.required("access_key", "every [[access]] has one", String::new());
        if keys.iter().any(|key| key.access_key == access_key) {
            section.refuse("access_key", &origin, &format!("{access_key:?} is given twice"));
        }
        let secret_key = secret(&mut section, "every [[access]] has one");
        let buckets = section.list::<BucketPattern>("buckets", Vec::new());
        let permissions = section.list("permissions", vec![Permission::Read, Permission::Write]);
        let key = AccessKey {
            access_key,
            secret_key,
            tenant: None,
            buckets: buckets.into_iter().map(|pattern| pattern.0).collect(),
            permissions,
        };
        let is_whole = !key.access_key.is_empty() && !key.secret_key.expose().is_empty();
        if let (true, Err(error)) = (is_whole, AccessKeys::new(vec![key.clone()])) {
            section.refuse("access_key", &origin, &error.to_string());
        }
        section.end();
        keys.push(key);
    }
    keys
}

/// `secret_key`, or the file that `secret_key_file` names.
fn secret(section: &mut Section<'_>, why: &str) -> Secret {
    let origin = section.origin_of("secret_key_file");
    let placeholder = || Secret::new(String::new());
    if !section.has("secret_key_file") {
        return section.required("secret_key", why, placeholder());
    }
    section.forbid(&["secret_key"], "contradicts secret_key_file; accepted: one of them");
    let Some(path) = section.optional::<PathBuf>("secret_key_file") else { return placeholder() };
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => Secret::new(text.trim().to_owned()),
        Ok(_) => {
            section.refuse("secret_key_file", &origin, &format!("{} is empty", path.display()));
            placeholder()
        }
        Err(error) => {
            section.refuse("secret_key_file", &origin, &format!("{}: {error}", path.display()));
            placeholder()
        }
    }
}

fn upstream(mut section: Section<'_>, variables: &BTreeMap<String, String>) -> Upstream {
    const S3_ONLY: [&str; 13] = [
        "endpoint",
        "region",
        "path_style",
        "access_key",
        "secret_key",
        "secret_key_file",
        "ca",
        "connect_timeout",
        "attempt_timeout",
        "timeout",
        "stall_timeout",
        "attempts",
        "max_requests",
    ];
    let upstream = match section.get("kind", UpstreamKind::Fs) {
        UpstreamKind::Fs => {
            section.forbid(&S3_ONLY, "kind = \"fs\" has no use for it; accepted: path");
            Upstream::Fs { path: section.get("path", PathBuf::from("./blockgate-data")) }
        }
        UpstreamKind::S3 => {
            section.forbid(&["path"], "kind = \"s3\" has no use for it; accepted: endpoint");
            Upstream::S3(Box::new(s3_upstream(&mut section, variables)))
        }
    };
    section.end();
    upstream
}

fn s3_upstream(section: &mut Section<'_>, variables: &BTreeMap<String, String>) -> S3Settings {
    const WHY: &str = "kind = \"s3\" needs it";
    const WHY_KEYS: &str =
        "kind = \"s3\" needs it, or both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment";
    supply_standard_variables(section, variables);
    let endpoint = section.required("endpoint", WHY, Endpoint(String::new())).0;
    let region = section.get("region", "us-east-1".to_owned());
    let access_key = section.required("access_key", WHY_KEYS, String::new());
    let secret_key = secret(section, WHY_KEYS);
    let default = S3Settings::new(&endpoint, &region, &access_key, secret_key.expose());
    let ca_origin = section.origin_of("ca");
    let ca_pem = section.optional::<PathBuf>("ca").and_then(|path| match std::fs::read(&path) {
        Ok(pem) => Some(pem),
        Err(error) => {
            section.refuse("ca", &ca_origin, &format!("{}: {error}", path.display()));
            None
        }
    });
    let timeout_origin = section.origin_of("timeout");
    let settings = S3Settings {
        path_style: section.get("path_style", default.path_style),
        ca_pem,
        connect_timeout: section.within("connect_timeout", default.connect_timeout, 10 * MS..=HOUR),
        attempt_timeout: section.within("attempt_timeout", default.attempt_timeout, 10 * MS..=HOUR),
        operation_timeout: section.within("timeout", default.operation_timeout, 10 * MS..=HOUR),
        stall_timeout: section.within("stall_timeout", default.stall_timeout, 10 * MS..=HOUR),
        attempts_max: section.within("attempts", default.attempts_max, 1..=20),
        requests_max: section.within("max_requests", default.requests_max, 1..=65_536),
        ..default
    };
    if settings.operation_timeout < settings.attempt_timeout {
        section.refuse("timeout", &timeout_origin, "shorter than attempt_timeout, of which it holds several");
    }
    settings
}

/// What every AWS tool understands counts here too, unless the settings say otherwise. A key never meets another's secret.
fn supply_standard_variables(section: &mut Section<'_>, variables: &BTreeMap<String, String>) {
    let given = ["access_key", "secret_key", "secret_key_file"].map(|name| section.has(name)).contains(&true);
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    if let (Some(id_text), Some(secret_text), false) = (variables.get(id), variables.get(secret), given) {
        section.supply("access_key", id, id_text);
        section.supply("secret_key", secret, secret_text);
    }
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if let Some(region) = variables.get(name).filter(|region| !region.is_empty()) {
            section.supply("region", name, region);
        }
    }
}

fn memory(mut section: Section<'_>) -> u64 {
    let capacity = section.within("capacity", Size(1 << 30), Size(1 << 20)..=Size(16 << 40));
    section.end();
    capacity.0
}

fn index(mut section: Section<'_>) -> Index {
    let index = Index {
        entries_max: section.within("entries", 10_000_000, 1_000..=10_000_000_000),
        negative_ttl: section.within("negative_ttl", SECOND, Duration::ZERO..=HOUR),
    };
    section.end();
    index
}

fn telemetry(mut section: Section<'_>) -> Telemetry {
    let telemetry = Telemetry {
        log_format: section.get("log_format", LogFormat::Text),
        log_level: section.get("log_level", "info".to_owned()),
    };
    section.end();
    telemetry
}

fn first_double<'a>(texts: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = std::collections::BTreeSet::new();
    texts.into_iter().find(|text| !seen.insert(*text))
}
