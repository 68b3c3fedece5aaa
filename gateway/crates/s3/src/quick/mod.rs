//! The short way: GET and HEAD of a block in memory, signed in the plainest manner, answered without s3s.
//!
//! It only ever answers, it never refuses. Whatever is unusual (a query, a header it does not know, a signature that does
//! not come out, a condition that fails, a block that is elsewhere) goes the long way, which judges it as if there were no
//! other. What is answered here is what the long way would have answered, header for header: a test holds the two together.

mod describe;
mod signature;

use std::sync::Arc;

use blockgate_auth::{AccessKeys, Permission};
use blockgate_block::BlockKey;
use blockgate_store::{Body as StoreBody, RangeSpec, ReadRequest, Store};
use blockgate_upstream::Conditions;
use http::header::{HOST, IF_MATCH, RANGE};
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use s3s::Body;

use crate::guard::unescape_path;
use crate::host::Hosts;
use signature::Verifier;

/// Headers that a plain read may have. Of every other one the long way knows what it means.
const PLAIN: [&str; 14] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "authorization",
    "connection",
    "host",
    "if-match",
    "range",
    "user-agent",
    "x-amz-checksum-mode",
    "x-amz-content-sha256",
    "x-amz-date",
];

/// Answers plain reads.
pub(crate) struct Quick {
    store: Arc<Store>,
    keys: Arc<AccessKeys>,
    verifier: Verifier,
}

impl Quick {
    /// `region` is the one that requests must be signed for; any when `None`.
    pub(crate) fn new(store: Arc<Store>, keys: Arc<AccessKeys>, region: Option<String>) -> Self {
        Self { store, verifier: Verifier::new(Arc::clone(&keys), region), keys }
    }

    /// The operation's name and the answer; none where the request must go the long way. The guard has admitted it.
    pub(crate) fn answer(&self, parts: &Parts, hosts: &Hosts) -> Option<(&'static str, Response<Body>)> {
        let is_head = parts.method == Method::HEAD;
        if !(is_head || parts.method == Method::GET) || parts.uri.query().is_some() {
            return None;
        }
        let headers = &parts.headers;
        if !headers.keys().all(|name| PLAIN.contains(&name.as_str())) {
            return None;
        }
        let host = headers.get(HOST)?.to_str().ok()?;
        let path = unescape_path(parts.uri.path())?;
        let access_key = self.verifier.verified(&parts.method, &path, headers)?;
        let name = path.strip_prefix('/')?;
        let virtual_bucket = hosts.bucket_of(host);
        let (bucket, key) = match &virtual_bucket {
            Some(bucket) => (bucket.as_str(), name),
            None => name.split_once('/')?,
        };
        if !self.keys.allows(access_key, bucket, Permission::Read) {
            return None;
        }
        let key = BlockKey::new(bucket, key).ok()?;
        let read = read_request(headers)?;
        if is_head {
            return self.head(&key, &read).map(|response| ("HeadObject", response));
        }
        let served = self.store.get_held(&key, &read)?;
        let StoreBody::Bytes(bytes) = served.body else { return None };
        let range = read.range.map(|_| &served.range);
        let headers = describe::headers(&served.info, served.tier, range)?;
        Some(("GetObject", describe::response(headers, range.is_some(), Body::from(bytes))))
    }

    fn head(&self, key: &BlockKey, read: &ReadRequest) -> Option<Response<Body>> {
        // What part a range is of is the long way's to say.
        if read.range.is_some() {
            return None;
        }
        let found = self.store.head_held(key, read)?;
        let headers = describe::headers(&found.info, found.tier, None)?;
        Some(describe::response(headers, false, Body::empty()))
    }
}

/// Range and condition, where they are of the plainest form.
fn read_request(headers: &HeaderMap) -> Option<ReadRequest> {
    let range = match headers.get(RANGE) {
        Some(value) => Some(plain_range(value.to_str().ok()?)?),
        None => None,
    };
    let if_match = match headers.get(IF_MATCH) {
        Some(value) => Some(plain_etag(value.to_str().ok()?)?.to_owned()),
        None => None,
    };
    Some(ReadRequest { range, conditions: Conditions { if_match, ..Conditions::default() }, ..ReadRequest::default() })
}

/// `bytes=first-last`.
fn plain_range(text: &str) -> Option<RangeSpec> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { digits.parse::<u64>().ok() } else { None }
    };
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(RangeSpec::From { first, last: Some(last) })
}

/// One ETag in quotes.
fn plain_etag(text: &str) -> Option<&str> {
    let etag = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_plain = !etag.is_empty() && etag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain.then_some(etag)
}

#[cfg(test)]
mod doubts;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plainest_ranges() {
        assert_eq!(plain_range("bytes=0-8388607"), Some(RangeSpec::From { first: 0, last: Some(8_388_607) }));
        for other in ["bytes=5-", "bytes=-5", "bytes=2-1", "bytes=0-1,3-4", "bytes= 0-1", "bytes=+0-1", "items=0-1", ""]
        {
            assert_eq!(plain_range(other), None, "{other}");
        }
    }

    #[test]
    fn only_one_strong_etag() {
        assert_eq!(plain_etag("\"ab12-1\""), Some("ab12-1"));
        for other in ["*", "ab", "W/\"ab\"", "\"a\", \"b\"", "\"\"", "\""] {
            assert_eq!(plain_etag(other), None, "{other}");
        }
    }
}
