//! HTTP to one gateway: pooled connections, signed requests, refusals read.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use blockgate_api::{ErrorBody, ErrorCode};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::time::{Instant, timeout_at};

use crate::Error;
use crate::body::Parts;
use crate::endpoint::Endpoint;
use crate::error::chain;
use crate::sign::{BodyHash, Signer};

/// How long a connection that is not in use is kept.
const IDLE_FOR: Duration = Duration::from_secs(60);
/// Largest refusal that is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// A gateway from which nothing came for so long, when the deadline passed, is held for stuck rather than merely late.
const STUCK_AFTER: Duration = Duration::from_millis(50);

/// A request of the extension, to be sent to whichever gateway.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Not encoded: consists of characters that need no encoding.
    pub(crate) path: String,
    pub(crate) query: Option<(&'static str, &'static str)>,
    pub(crate) media_type: Option<&'static str>,
    pub(crate) hash: BodyHash,
    pub(crate) body: Vec<Bytes>,
}

/// An attempt that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether it speaks against the gateway, rather than against the request or its deadline.
    pub(crate) is_gateways: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_gateways = match &error {
            Error::Unreachable { .. } | Error::Lost { .. } | Error::Protocol { .. } => true,
            // Not that its shared store is gone: what is in its memory is served all the same.
            Error::Refused { code, .. } => matches!(code, ErrorCode::SlowDown | ErrorCode::InternalError),
            _ => false,
        };
        Self { error, is_gateways }
    }
}

/// Waits no longer than until the deadline.
pub(crate) async fn by<T>(deadline: Instant, work: impl Future<Output = T>) -> Result<T, Failure> {
    let began = Instant::now();
    timeout_at(deadline, work)
        .await
        .map_err(|_| Failure { error: Error::Timeout, is_gateways: began.elapsed() >= STUCK_AFTER })
}

/// What a client's connections are made with.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    http: Client<HttpsConnector<HttpConnector>, Parts>,
    signer: Arc<Signer>,
}

impl Transport {
    pub(crate) fn new(signer: Signer, tls: ClientConfig, connect_timeout: Duration, connections: usize) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(connections)
            .build(connector.wrap_connector(tcp));
        Self { http, signer: Arc::new(signer) }
    }

    /// Sends and waits for the head of the answer; one that is no success is read and becomes the error.
    pub(crate) async fn send(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        deadline: Instant,
    ) -> Result<http::Response<Incoming>, Failure> {
        let signed = self.signed(endpoint, request, SystemTime::now())?;
        let answer = by(deadline, self.http.request(signed)).await?.map_err(|error| {
            let reason = chain(&error);
            if error.is_connect() { Error::Unreachable { reason } } else { Error::Lost { reason } }
        })?;
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let status = answer.status();
        let body = by(deadline, whole(answer.into_body(), REFUSAL_BYTES_MAX)).await?.unwrap_or_default();
        Err(refusal(status, &body).into())
    }

    fn signed(&self, endpoint: &Endpoint, request: &Request, now: SystemTime) -> Result<http::Request<Parts>, Error> {
        let Request { method, path, query, .. } = request;
        let target = query.map_or_else(|| path.clone(), |(name, value)| format!("{path}?{name}={value}"));
        let body = Parts::from(request.body.clone());
        let (mut head, body) = http::Request::new(body).into_parts();
        (head.method, head.uri) = (method.clone(), endpoint.uri(&target)?);
        self.signer.sign(&mut head, endpoint.host(), path, query.as_slice(), &request.hash, now)?;
        debug_assert!(head.headers.contains_key(HOST));
        if let Some(media_type) = request.media_type {
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        Ok(http::Request::from_parts(head, body))
    }
}

/// A body in one buffer.
pub(crate) async fn whole(mut body: Incoming, bytes_max: usize) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Lost { reason: chain(&error) })?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(Error::protocol(format!("more than {bytes_max} bytes")));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// What an answer that is no success says; where it is not the contract's, what its status says.
fn refusal(status: StatusCode, body: &[u8]) -> Error {
    if let Ok(ErrorBody { error }) = serde_json::from_slice(body) {
        let message = format!("{} (request {})", error.message, error.request_id);
        return Error::Refused { code: error.code, message };
    }
    let code = match status {
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => ErrorCode::AccessDenied,
        StatusCode::NOT_FOUND => ErrorCode::NotFound,
        StatusCode::NOT_IMPLEMENTED => ErrorCode::NotImplemented,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => ErrorCode::SlowDown,
        StatusCode::INSUFFICIENT_STORAGE => ErrorCode::InsufficientStorage,
        status if status.is_client_error() => ErrorCode::InvalidRequest,
        status if status.is_server_error() => ErrorCode::InternalError,
        status => return Error::protocol(format!("the status {status}")),
    };
    Error::Refused { code, message: format!("status {status}") }
}

/// Trusts the certificates of a PEM file, or those that the host trusts.
pub(crate) fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let wrong = |reason: String| Error::Configuration { setting: "ca_file", reason };
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca_file {
        let at = |reason: String| wrong(format!("{}: {reason}", file.display()));
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| at(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| at(error.to_string()))?;
            roots.add(certificate).map_err(|error| at(error.to_string()))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(wrong("no certificate of an authority was found".to_owned()));
    }
    configured(roots)
}

/// For clients all of whose gateways are spoken to without TLS.
pub(crate) fn no_tls() -> Result<ClientConfig, Error> {
    configured(RootCertStore::empty())
}

fn configured(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Configuration { setting: "endpoint", reason: error.to_string() })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_by_code_else_by_status() {
        let body = br#"{"error":{"code":"NoSuchBucket","message":"no bucket b","request_id":"r1"}}"#;
        let Error::Refused { code, message } = refusal(StatusCode::NOT_FOUND, body) else { panic!() };
        assert_eq!((code, message.as_str()), (ErrorCode::NoSuchBucket, "no bucket b (request r1)"));
        for (status, expected) in
            [(403, ErrorCode::AccessDenied), (503, ErrorCode::SlowDown), (599, ErrorCode::InternalError)]
        {
            let refused = refusal(StatusCode::from_u16(status).unwrap(), b"<Error/>");
            assert!(matches!(refused, Error::Refused { code, .. } if code == expected), "{refused}");
        }
        assert!(matches!(refusal(StatusCode::FOUND, b""), Error::Protocol { .. }));
    }

    #[test]
    fn authorities_must_be_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(tls(Some(file.path())), Err(Error::Configuration { setting: "ca_file", .. })));
        assert!(matches!(tls(Some(Path::new("/no/such.pem"))), Err(Error::Configuration { setting: "ca_file", .. })));
    }
}
