//! The configuration: one TOML file, each setting also a variable of the environment.
//!
//! [`Config::load`] refuses unknown, malformed and contradictory settings, all at once, each with the place where it was
//! given and what is accepted there. What is in force, and why, can be printed.

mod buckets;
mod kinds;
mod reader;
mod sections;
mod staging;
mod tree;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use blockgate_auth::AccessKey;
use blockgate_store::BucketPolicies;
use blockgate_telemetry::LogFormat;
use blockgate_upstream::S3Settings;

pub(crate) use kinds::Size;

use reader::{InForce, Report, Section};

/// The configuration when nothing at all is configured: besides the defaults, an address that serves one bucket under no
/// name, which is how LMCache addresses.
const QUICKSTART: &str = r#"[[server.listener]]
listen = "127.0.0.1:9802"
default_bucket = "kvcache"
"#;

/// Everything that can be set, valid.
#[derive(Debug)]
pub(crate) struct Config {
    /// `[server]`.
    pub(crate) server: Server,
    /// `[[access]]`; empty where credentials are to be generated.
    pub(crate) access: Vec<AccessKey>,
    /// `[upstream]`.
    pub(crate) upstream: Upstream,
    /// `[memory] capacity`.
    pub(crate) memory_capacity_bytes: u64,
    /// `[index]`.
    pub(crate) index: Index,
    /// `[staging]`; none is no staging.
    pub(crate) staging: Option<blockgate_staging::Settings>,
    /// `[[bucket]]`.
    pub(crate) buckets: BucketPolicies,
    /// `[telemetry]`.
    pub(crate) telemetry: Telemetry,
    in_force: Vec<InForce>,
}

/// `[server]`.
#[derive(Debug)]
pub(crate) struct Server {
    /// `listen` and every `[[server.listener]]`.
    pub(crate) listeners: Vec<Listener>,
    /// Where health and metrics are served.
    pub(crate) ops_listen: String,
    /// Certificate and key of listeners with `tls`.
    pub(crate) tls: Option<Tls>,
    /// `bucket.<domain>` stands for a bucket.
    pub(crate) domains: Vec<String>,
    /// Region of credential scopes; `None` takes any.
    pub(crate) region: Option<String>,
    /// Whether unsigned requests may read.
    pub(crate) anonymous_read: bool,
    /// Time between readiness off and listeners closed.
    pub(crate) drain_grace: Duration,
    /// Longest time that requests in flight may take to end.
    pub(crate) drain_timeout: Duration,
    /// `[server.limits]`.
    pub(crate) limits: Limits,
}

/// One address that serves S3.
#[derive(Debug)]
pub(crate) struct Listener {
    /// `host:port`.
    pub(crate) listen: String,
    /// The bucket that every request here is for.
    pub(crate) default_bucket: Option<String>,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
}

/// `[server.tls]`.
#[derive(Debug)]
pub(crate) struct Tls {
    /// PEM file: the certificate and its chain.
    pub(crate) cert: PathBuf,
    /// PEM file: its private key.
    pub(crate) key: PathBuf,
}

/// `[server.limits]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections of one listener.
    pub(crate) connections_max: u32,
    /// Requests of all listeners, until their last byte; more are answered 503 `SlowDown`.
    pub(crate) concurrent_requests_max: u32,
    /// Request line and headers.
    pub(crate) header_bytes_max: usize,
    /// From a connection's start, or the last response, to the end of a request's headers.
    pub(crate) header_timeout: Duration,
    /// Longest silence while a body moves, either way.
    pub(crate) body_stall_timeout: Duration,
    /// Send buffer of a connection (`SO_SNDBUF`).
    pub(crate) send_buffer_bytes: usize,
}

/// `[upstream]`.
#[derive(Debug)]
pub(crate) enum Upstream {
    /// A local or shared directory.
    Fs {
        /// The directory.
        path: PathBuf,
    },
    /// An S3 store.
    S3(Box<S3Settings>),
}

/// `[index]`.
#[derive(Debug)]
pub(crate) struct Index {
    /// Most blocks known.
    pub(crate) entries_max: u64,
    /// How long an absence is remembered.
    pub(crate) negative_ttl: Duration,
}

/// `[telemetry]`.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// How log lines look.
    pub(crate) log_format: LogFormat,
    /// What is logged: a level, or directives such as `info,blockgate_store=debug`.
    pub(crate) log_level: String,
}

impl Config {
    /// Reads the file (if any) and the variables.
    ///
    /// # Errors
    /// Every mistake found, one a line.
    pub(crate) fn load(file: Option<(&str, &str)>, variables: &BTreeMap<String, String>) -> Result<Self, Vec<String>> {
        let mut settings = match file {
            Some((path, text)) => tree::from_file(path, text).map_err(|mistake| vec![mistake])?,
            None => tree::Table::new(),
        };
        tree::overlay(&mut settings, variables).map_err(|mistake| vec![mistake])?;
        if settings.is_empty() {
            settings = tree::from_file("quickstart", QUICKSTART).map_err(|mistake| vec![mistake])?;
        }
        let report = Report::default();
        let mut root = Section::root(&report, settings);
        let config = sections::read(&mut root, variables);
        root.end();
        Ok(Self { in_force: report.into_result()?, ..config })
    }

    /// What is in force as a TOML file, each line with the place that it comes from, secrets hidden.
    pub(crate) fn in_force(&self) -> String {
        let mut text = String::new();
        for line in &self.in_force {
            let written = match line {
                InForce::Section(label) => writeln!(text, "{}{label}", if text.is_empty() { "" } else { "\n" }),
                InForce::Setting { name, value, origin } => {
                    writeln!(text, "{:<44} # {origin}", format!("{name} = {value}"))
                }
            };
            // Writing to a String can't fail.
            debug_assert!(written.is_ok());
        }
        text
    }
}

#[cfg(test)]
mod tests;
