//! Requests signed beforehand, so that signing costs the client nothing while it measures.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use s3s_sigv4::{AmzDate, Payload, calculate_signature, create_canonical_request, create_string_to_sign};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::Result;

/// Who signs, for where.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) region: String,
}

/// A secret, or a name that nobody else uses.
pub(crate) fn random_hex() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(hex::encode(bytes))
}

/// A request that can be sent any number of times (for a quarter of an hour).
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    path: Uri,
    headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Bytes that a sound answer has.
    pub(crate) answer_bytes: u64,
}

impl Prepared {
    /// A request without signature.
    pub(crate) fn plain(method: Method, path: &str, host: &str, body: Bytes, answer_bytes: u64) -> Result<Self> {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_str(host)?)]);
        Ok(Self { method, path: path.parse()?, headers, body, answer_bytes })
    }

    /// The same with a media type, which the signature does not cover.
    pub(crate) fn json(mut self) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    /// The request itself.
    pub(crate) fn request<B: From<Bytes>>(&self) -> Request<B> {
        let mut request = Request::new(B::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Signer {
    /// Signs a request in its headers; the payload is not signed.
    pub(crate) fn prepare(
        &self,
        method: Method,
        path: &str,
        host: &str,
        body: Bytes,
        answer_bytes: u64,
    ) -> Result<Prepared> {
        let mut prepared = Prepared::plain(method, path, host, body, answer_bytes)?;
        let format = format_description!("[year][month][day]T[hour][minute][second]Z");
        let date = OffsetDateTime::now_utc().format(format)?;
        let amz_date = AmzDate::parse(&date).map_err(|error| format!("{date}: {error:?}"))?;
        let signed = [("host", host), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-date", date.as_str())];
        let no_query: [(&str, &str); 0] = [];
        let canonical = create_canonical_request(prepared.method.as_str(), path, &no_query, signed, Payload::Unsigned);
        let to_sign = create_string_to_sign(&canonical, &amz_date, &self.region, "s3");
        let signature = calculate_signature(&to_sign, &self.secret_key, &amz_date, &self.region, "s3");
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}/{}/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}",
            self.access_key,
            amz_date.fmt_date(),
            self.region,
        );
        prepared.headers.insert(AUTHORIZATION, authorization.parse()?);
        for (name, value) in &signed[1..] {
            prepared.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        Ok(prepared)
    }
}
