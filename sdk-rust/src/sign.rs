//! AWS Signature Version 4 of requests.

use std::fmt;
use std::time::SystemTime;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use s3s_sigv4::{AmzDate, Payload, calculate_signature_with_key, create_canonical_request, create_string_to_sign};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::Error;

const SERVICE: &str = "s3";

/// What of a body is signed.
#[derive(Clone, Debug)]
pub(crate) enum BodyHash {
    /// SHA-256, in hex.
    Sha256(String),
    /// Nothing: frames carry checksums of their own.
    Unsigned,
}

impl BodyHash {
    pub(crate) fn of(body: &[u8]) -> Self {
        Self::Sha256(hex::encode(Sha256::digest(body)))
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Sha256(hash) => hash,
            Self::Unsigned => "UNSIGNED-PAYLOAD",
        }
    }
}

/// Signs with one access key. The derived key is kept for as long as it is of use: a day.
pub(crate) struct Signer {
    access_key: String,
    secret_key: String,
    region: String,
    derived: Mutex<Option<(String, [u8; 32])>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access_key, region, .. } = self;
        f.debug_struct("Signer").field("access_key", access_key).field("region", region).finish_non_exhaustive()
    }
}

impl Signer {
    pub(crate) fn new(access_key: String, secret_key: String, region: String) -> Self {
        Self { access_key, secret_key, region, derived: Mutex::new(None) }
    }

    /// Adds what authenticates a request: `host` is its authority, `path` is not encoded and has no query.
    pub(crate) fn sign(
        &self,
        request: &mut http::request::Parts,
        host: &str,
        path: &str,
        query: &[(&str, &str)],
        hash: &BodyHash,
        now: SystemTime,
    ) -> Result<(), Error> {
        let date = amz_date(now)?;
        let (stamp, day) = (date.fmt_iso8601(), date.fmt_date());
        // In order of their names, as what is signed must be.
        let headers = [("host", host), ("x-amz-content-sha256", hash.as_str()), ("x-amz-date", stamp.as_str())];
        let payload = match hash {
            BodyHash::Sha256(hash) => Payload::SingleChunk(hash),
            BodyHash::Unsigned => Payload::Unsigned,
        };
        let canonical = create_canonical_request(request.method.as_str(), path, query, headers, payload);
        let to_sign = create_string_to_sign(&canonical, &date, &self.region, SERVICE);
        let signature = hex::encode(calculate_signature_with_key(&to_sign, &self.key(&date)));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{day}/{}/{SERVICE}/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}",
            self.access_key, self.region
        );
        for (name, value) in headers {
            request.headers.insert(name, header(value)?);
        }
        request.headers.insert(AUTHORIZATION, header(&authorization)?);
        Ok(())
    }

    fn key(&self, date: &AmzDate) -> [u8; 32] {
        let day = date.fmt_date();
        let mut derived = self.derived.lock();
        if let Some((_, key)) = derived.as_ref().filter(|(of, _)| *of == *day) {
            return *key;
        }
        let key = s3s_sigv4::derive_signing_key(&self.secret_key, date, &self.region, SERVICE);
        *derived = Some((day.to_string(), key));
        key
    }
}

fn header(value: &str) -> Result<HeaderValue, Error> {
    let reason = || "holds characters that no header may hold".to_owned();
    HeaderValue::from_str(value).map_err(|_| Error::Configuration { setting: "access_key", reason: reason() })
}

fn amz_date(now: SystemTime) -> Result<AmzDate, Error> {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let text = OffsetDateTime::from(now).format(&format).unwrap_or_default();
    AmzDate::parse(&text).map_err(|_| Error::Configuration {
        setting: "clock",
        reason: "this host's year has not four digits".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn signer() -> Signer {
        Signer::new("AKIDEXAMPLE".into(), "top-secret".into(), "us-east-1".into())
    }

    fn authorization(signer: &Signer, hash: &BodyHash, at_s: u64) -> String {
        let mut parts = http::Request::post("http://host/").body(()).unwrap().into_parts().0;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s);
        signer.sign(&mut parts, "host:1", "/_kv/v1/b/put", &[("group", "true")], hash, now).unwrap();
        parts.headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn the_derived_key_follows_the_day() {
        let (reused, hash) = (signer(), BodyHash::of(b"{}"));
        for at_s in [0, 10, 86_400, 86_410, 0] {
            assert_eq!(authorization(&reused, &hash, at_s), authorization(&signer(), &hash, at_s));
        }
        assert!(
            authorization(&reused, &hash, 86_400).contains("Credential=AKIDEXAMPLE/19700102/us-east-1/s3/aws4_request")
        );
    }

    #[test]
    fn every_part_is_signed() {
        let one = authorization(&signer(), &BodyHash::of(b"{}"), 0);
        assert_ne!(one, authorization(&signer(), &BodyHash::of(b"[]"), 0));
        assert_ne!(one, authorization(&signer(), &BodyHash::Unsigned, 0));
        assert_ne!(one, authorization(&signer(), &BodyHash::of(b"{}"), 1));
    }

    #[test]
    fn secrets_do_not_show() {
        assert!(!format!("{:?}", signer()).contains("top-secret"));
    }
}
