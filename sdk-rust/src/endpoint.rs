//! Where a gateway listens.

use http::Uri;
use http::uri::{Authority, Scheme};

use crate::Error;

/// A gateway's address: `http://host:port` or `https://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    scheme: Scheme,
    authority: Authority,
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let refused = |reason: &str| Error::Configuration { setting: "endpoint", reason: format!("{text:?} {reason}") };
        let uri: Uri = text.parse().map_err(|_| refused("is no URL"))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let scheme = scheme.ok_or_else(|| refused("must begin with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| refused("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(Error::Configuration { setting: "endpoint", reason: "must hold no credentials".to_owned() });
        }
        match parts.path_and_query {
            Some(path) if path != "/" => Err(refused("must have no path")),
            _ => Ok(Self { scheme, authority }),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// What the `Host` header says: the port only where it is not the scheme's own.
    pub(crate) fn host(&self) -> &str {
        let usual = if self.is_tls() { 443 } else { 80 };
        if self.authority.port_u16() == Some(usual) { self.authority.host() } else { self.authority.as_str() }
    }

    /// A URL below the endpoint.
    pub(crate) fn uri(&self, path_and_query: &str) -> Result<Uri, Error> {
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        uri.path_and_query(path_and_query).build().map_err(Error::protocol)
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let endpoint = Endpoint::parse("http://10.0.0.1:9800/").unwrap();
        assert_eq!((endpoint.host(), endpoint.to_string().as_str()), ("10.0.0.1:9800", "http://10.0.0.1:9800"));
        assert_eq!(Endpoint::parse("https://kv.example:443").unwrap().host(), "kv.example");
        assert_eq!(Endpoint::parse("http://[::1]:9800").unwrap().host(), "[::1]:9800");
        for wrong in ["", "kv.example:9800", "ftp://kv.example", "http://kv.example/path", "http://a:b@kv.example"] {
            assert!(matches!(Endpoint::parse(wrong), Err(Error::Configuration { setting: "endpoint", .. })), "{wrong}");
        }
        assert!(!Endpoint::parse("http://user:hush@kv.example").unwrap_err().to_string().contains("hush"));
    }
}
