//! The signature of a plain read, checked with signing keys that are derived once a day.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use blockgate_auth::AccessKeys;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use parking_lot::RwLock;
use s3s_sigv4::{
    AmzDate, AuthorizationV4, Payload, calculate_signature_with_key, create_canonical_request, create_string_to_sign,
    derive_signing_key,
};
use subtle::ConstantTimeEq;

use crate::CLOCK_SKEW_MAX;

const SERVICE: &str = "s3";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// SHA-256 of nothing.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Checks signatures in headers.
pub(super) struct Verifier {
    keys: Arc<AccessKeys>,
    region: Option<String>,
    /// The last one that verified a request, by access key.
    signing_keys: RwLock<HashMap<String, SigningKey>>,
}

/// What a secret becomes for one day and region.
#[derive(Clone)]
struct SigningKey {
    date: String,
    region: String,
    key: [u8; 32],
}

impl Verifier {
    pub(super) fn new(keys: Arc<AccessKeys>, region: Option<String>) -> Self {
        Self { keys, region, signing_keys: RwLock::default() }
    }

    /// The access key that signed the request, if that is beyond doubt. `path` is decoded; there is no query.
    pub(super) fn verified<'h>(&self, method: &Method, path: &str, headers: &'h HeaderMap) -> Option<&'h str> {
        let authorization = AuthorizationV4::parse(text(headers, AUTHORIZATION.as_str())?).ok()?;
        let credential = &authorization.credential;
        let region_fits = self.region.as_deref().is_none_or(|region| region == credential.aws_region);
        if authorization.algorithm != "AWS4-HMAC-SHA256" || credential.aws_service != SERVICE || !region_fits {
            return None;
        }
        let date = AmzDate::parse(text(headers, "x-amz-date")?).ok()?;
        if credential.date != date.fmt_date().as_str() || !is_of_now(&date) {
            return None;
        }
        let payload = match text(headers, "x-amz-content-sha256")? {
            UNSIGNED => Payload::Unsigned,
            EMPTY_SHA256 => Payload::SingleChunk(EMPTY_SHA256),
            _ => return None,
        };
        let signed = signed_headers(headers, &authorization.signed_headers)?;
        let canonical = create_canonical_request(method.as_str(), path, NO_QUERY, &signed, payload);
        let to_sign = create_string_to_sign(&canonical, &date, credential.aws_region, SERVICE);
        let signing_key = self.signing_key(credential.access_key_id, credential.aws_region, &date)?;
        let mut claimed = [0; 32];
        hex::decode_to_slice(authorization.signature, &mut claimed).ok()?;
        if !bool::from(calculate_signature_with_key(&to_sign, &signing_key.key).ct_eq(&claimed)) {
            return None;
        }
        self.keep(credential.access_key_id, signing_key);
        Some(credential.access_key_id)
    }

    fn signing_key(&self, access_key: &str, region: &str, date: &AmzDate) -> Option<SigningKey> {
        let day = date.fmt_date();
        if let Some(known) = self.signing_keys.read().get(access_key)
            && known.date == day.as_str()
            && known.region == region
        {
            return Some(known.clone());
        }
        let secret = self.keys.find(access_key)?.secret_key.expose();
        let key = derive_signing_key(secret, date, region, SERVICE);
        Some(SigningKey { date: day.as_str().to_owned(), region: region.to_owned(), key })
    }

    /// Only what has verified a request is kept, one for each access key: nobody can fill the table.
    fn keep(&self, access_key: &str, signing_key: SigningKey) {
        let is_kept = self.signing_keys.read().get(access_key).is_some_and(|known| known.key == signing_key.key);
        if !is_kept {
            self.signing_keys.write().insert(access_key.to_owned(), signing_key);
        }
    }
}

const NO_QUERY: &[(&str, &str)] = &[];

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn is_of_now(date: &AmzDate) -> bool {
    let Some(then_s) = date.to_time().and_then(|time| u64::try_from(time.as_second()).ok()) else { return false };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    now_s.abs_diff(then_s) < CLOCK_SKEW_MAX.as_secs()
}

/// The signed headers with their values, all of them there, `host` and every `x-amz-*` of the request among them.
fn signed_headers<'h>(headers: &'h HeaderMap, names: &[&'h str]) -> Option<Vec<(&'h str, &'h str)>> {
    let is_signed = |name: &str| names.contains(&name);
    let all_are = headers.keys().map(http::HeaderName::as_str).filter(|name| name.starts_with("x-amz-")).all(is_signed);
    if !is_signed("host") || !all_are {
        return None;
    }
    names.iter().map(|name| text(headers, name).map(|value| (*name, value))).collect()
}
