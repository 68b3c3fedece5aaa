//! Which bucket a host name stands for.

use http::header::HOST;
use http::{HeaderMap, HeaderValue};
use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// Reads bucket names from hosts below the configured domains. Every other host (addresses, the domains themselves,
/// names of services) is path style.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// In lower case.
    domains: Vec<String>,
    default_bucket: Option<String>,
}

impl Hosts {
    pub(crate) fn new(domains: &[String], default_bucket: Option<String>) -> Self {
        let domains = domains.iter().map(|domain| domain.trim_end_matches('.').to_ascii_lowercase()).collect();
        Self { domains, default_bucket }
    }

    /// Makes s3s ask [`S3Host`] for addresses too, which it takes for path style unasked, where a default bucket is set.
    ///
    /// A blank before the value does it: the value is then no address to s3s, while the signature is made over the
    /// trimmed value and so stays what it is.
    pub(crate) fn prepare(&self, headers: &mut HeaderMap) {
        if self.default_bucket.is_none() {
            return;
        }
        let value = headers.get(HOST).map(|host| [b" ", host.as_bytes()].concat());
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(&value).ok()) {
            headers.insert(HOST, value);
        }
    }

    /// The bucket that `host` stands for.
    pub(crate) fn bucket_of(&self, host: &str) -> Option<String> {
        if self.default_bucket.is_some() {
            return self.default_bucket.clone();
        }
        let name = without_port(host).trim_end_matches('.').to_ascii_lowercase();
        self.domains.iter().find_map(|domain| {
            let bucket = name.strip_suffix(domain.as_str())?.strip_suffix('.')?;
            Some(bucket.to_owned())
        })
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let virtual_host = VirtualHost::new(host);
        Ok(match self.bucket_of(host) {
            Some(bucket) => virtual_host.with_bucket(bucket),
            None => virtual_host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(hosts: &Hosts, host: &str) -> Option<String> {
        hosts.parse_host_header(host).unwrap().bucket().map(str::to_owned)
    }

    #[test]
    fn buckets_below_the_domains_and_nowhere_else() {
        let hosts = Hosts::new(&["localhost".to_owned(), "S3.example.com".to_owned()], None);
        for (host, expected) in [
            ("kv.localhost", Some("kv")),
            ("kv.localhost:9800", Some("kv")),
            ("KV.LocalHost", Some("kv")),
            ("kv.localhost.", Some("kv")),
            ("a.b.s3.example.com", Some("a.b")),
            ("localhost", None),
            ("localhost:9800", None),
            ("s3.example.com", None),
            ("example.com", None),
            ("kvlocalhost", None),
            ("blockgate.storage.svc.cluster.local:9800", None),
            ("blockgate", None),
            ("127.0.0.1:9800", None),
            ("[::1]:9800", None),
        ] {
            assert_eq!(bucket(&hosts, host).as_deref(), expected, "{host}");
        }
    }

    #[test]
    fn a_default_bucket_is_for_every_host_addresses_too() {
        let hosts = Hosts::new(&["localhost".to_owned()], Some("kv".to_owned()));
        for host in ["localhost", "other.localhost:9800", " 127.0.0.1:9800", "anything"] {
            assert_eq!(bucket(&hosts, host).as_deref(), Some("kv"), "{host}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:9800"));
        hosts.prepare(&mut headers);
        assert_eq!(headers[HOST], " 127.0.0.1:9800");
        Hosts::new(&[], None).prepare(&mut headers);
        assert_eq!(headers[HOST], " 127.0.0.1:9800");
    }
}
