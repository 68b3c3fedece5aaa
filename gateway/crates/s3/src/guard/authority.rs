//! One host: that of the `Host` header, of `:authority` and of an absolute request target.

use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Version};
use s3s::{S3Result, s3_error};

/// Makes sure that the request names one host, in the `Host` header, where the signature covers it.
pub(crate) fn check(parts: &mut Parts) -> S3Result<()> {
    let target = parts.uri.authority();
    let Some(host) = parts.headers.get(HOST) else {
        // HTTP/2 names the host in `:authority`.
        let Some(target) = target.filter(|_| parts.version >= Version::HTTP_2) else {
            return Err(s3_error!(InvalidRequest, "The request has no Host header."));
        };
        let host = HeaderValue::from_str(target.as_str())
            .map_err(|_| s3_error!(InvalidRequest, "The request target names no valid host."))?;
        parts.headers.insert(HOST, host);
        return Ok(());
    };
    let host = host.to_str().ok().filter(|host| !host.contains('@')).and_then(|host| host.parse::<Authority>().ok());
    let Some(host) = host else { return Err(s3_error!(InvalidRequest, "The Host header is not a host.")) };
    let web = |scheme: &Scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS;
    match target {
        Some(_) if !parts.uri.scheme().is_some_and(web) => {
            Err(s3_error!(InvalidRequest, "The request target is no http or https address."))
        }
        Some(target) if !is_same(target, &host, parts.uri.scheme()) => {
            Err(s3_error!(InvalidRequest, "The request target names another host than the Host header."))
        }
        _ => Ok(()),
    }
}

fn is_same(one: &Authority, other: &Authority, scheme: Option<&Scheme>) -> bool {
    let default_port = scheme.map_or(80, |scheme| if *scheme == Scheme::HTTPS { 443 } else { 80 });
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    !one.as_str().contains('@') && one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(target: &str, host: Option<&str>, version: Version) -> Parts {
        let mut request = Request::builder().uri(target).version(version);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn one_host() {
        for (target, host, good) in [
            ("/b/k", Some("h:9800"), true),
            ("/b/k", Some("127.0.0.1:9800"), true),
            ("/b/k", Some("[::1]:9800"), true),
            ("http://h:9800/b/k", Some("h:9800"), true),
            ("http://H/b/k", Some("h:80"), true),
            ("https://h/b/k", Some("h:443"), true),
            ("http://h/b/k", Some("h:443"), false),
            ("ftp://h/b/k", Some("h"), false),
            ("http://evil/b/k", Some("h"), false),
            ("http://u@h/b/k", Some("h"), false),
            ("/b/k", Some("u@h"), false),
            ("/b/k", Some("h/x"), false),
            ("/b/k", Some("h h"), false),
            ("/b/k", Some(""), false),
            ("/b/k", None, false),
            ("http://h/b/k", None, false),
        ] {
            let result = check(&mut parts(target, host, Version::HTTP_11));
            assert_eq!(result.is_ok(), good, "{target} {host:?}");
        }
    }

    #[test]
    fn http2_names_the_host_in_its_authority() {
        let mut parts = parts("http://h:9800/b/k", None, Version::HTTP_2);
        check(&mut parts).unwrap();
        assert_eq!(parts.headers[HOST], "h:9800");
    }
}
