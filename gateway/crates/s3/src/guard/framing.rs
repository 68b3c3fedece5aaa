//! How long the body is: said once, in one way.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method};
use s3s::{S3Result, s3_error};

/// What the headers say of the body's length on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Nothing: no body on HTTP/1, one of any length on HTTP/2.
    Unsaid,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// Reads the framing, which is either a length or chunks; methods without a body must have none.
pub(crate) fn check(parts: &Parts) -> S3Result<Framing> {
    let framing = read(&parts.headers)?;
    let bodyless = [Method::GET, Method::HEAD, Method::DELETE].contains(&parts.method);
    if bodyless && !matches!(framing, Framing::Unsaid | Framing::Length(0)) {
        return Err(s3_error!(InvalidRequest, "A {} request has no body.", parts.method));
    }
    Ok(framing)
}

fn read(headers: &HeaderMap) -> S3Result<Framing> {
    let length = headers.get(CONTENT_LENGTH);
    let Some(encoding) = headers.get(TRANSFER_ENCODING) else {
        let Some(length) = length else { return Ok(Framing::Unsaid) };
        return decimal(length.as_bytes())
            .map(Framing::Length)
            .ok_or_else(|| s3_error!(InvalidRequest, "Content-Length must be a decimal number."));
    };
    if length.is_some() {
        return Err(s3_error!(InvalidRequest, "Content-Length and Transfer-Encoding exclude each other."));
    }
    if !encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
        return Err(s3_error!(InvalidRequest, "The only Transfer-Encoding is chunked."));
    }
    Ok(Framing::Chunked)
}

/// A number of decimal digits and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn framing(method: Method, headers: &[(&str, &str)]) -> Option<Framing> {
        let mut request = Request::builder().method(method).uri("/b/k");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0).ok()
    }

    #[test]
    fn one_way_to_say_it() {
        let (length, chunked) = ("content-length", ("transfer-encoding", "chunked"));
        assert_eq!(framing(Method::PUT, &[]), Some(Framing::Unsaid));
        assert_eq!(framing(Method::PUT, &[(length, "10")]), Some(Framing::Length(10)));
        assert_eq!(framing(Method::PUT, &[chunked]), Some(Framing::Chunked));
        assert_eq!(framing(Method::PUT, &[chunked, (length, "10")]), None);
        for odd in ["+1", "-1", "0x10", "", "1 ", "18446744073709551616"] {
            assert_eq!(framing(Method::PUT, &[(length, odd)]), None, "{odd}");
        }
        for odd in ["identity", "gzip, chunked", "chunked, chunked", "xchunked"] {
            assert_eq!(framing(Method::PUT, &[("transfer-encoding", odd)]), None, "{odd}");
        }
    }

    #[test]
    fn reads_and_deletes_have_no_body() {
        for method in [Method::GET, Method::HEAD, Method::DELETE] {
            assert_eq!(framing(method.clone(), &[("content-length", "0")]), Some(Framing::Length(0)));
            assert_eq!(framing(method.clone(), &[("content-length", "1")]), None);
            assert_eq!(framing(method, &[("transfer-encoding", "chunked")]), None);
        }
    }
}
