//! The S3 face: strict HTTP in front, s3s in the middle, the store behind.
#![forbid(unsafe_code)]

mod access;
#[cfg(test)]
mod attacks;
mod body;
mod context;
mod convert;
mod digest;
mod error;
mod guard;
mod host;
mod mount;
mod ops;
mod quick;
mod refusal;
mod respond;
mod unmount;
mod xml;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use blockgate_auth::AccessKeys;
use blockgate_store::Store;
use blockgate_telemetry::Metrics;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, Uri};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::region::Region;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3, S3Error, S3Result, s3_error};
use tokio::time::Instant;

use access::{Access, Secrets};
use context::RequestContext;
use guard::operation::BodyKind;
use guard::{Admission, Credentials, FormReader, WatchedBody};
use host::Hosts;
use mount::Route;
pub use mount::{MOUNT_PREFIX, Mount, MountBody, MountOperation, MountRequest};
use ops::Ops;
use quick::Quick;
use respond::Asked;

/// Largest XML or JSON document: 1,000 keys of 1,024 bytes, each escaped, fit.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// Largest signed chunk: s3s gathers one before it yields a byte of it.
const SIGNED_CHUNK_BYTES_MAX: usize = 16 << 20;
/// Largest fields of a form, all together.
const FORM_FIELDS_BYTES_MAX: usize = 128 << 10;
/// Most fields of a form.
const FORM_FIELDS_MAX: usize = 100;
/// How far a request's clock may be off.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);
/// How old a form may be whose policy has not expired.
const FORM_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Settings of the face.
#[derive(Clone, Debug)]
pub struct FaceSettings {
    /// Host names under which `bucket.<domain>` is a bucket; `localhost` by default.
    pub domains: Vec<String>,
    /// The bucket that every request on this listener is for.
    pub default_bucket: Option<String>,
    /// Region of credential scopes; `None` takes any.
    pub region: Option<String>,
    /// Whether unsigned requests may read.
    pub anonymous_read: bool,
    /// Longest silence while a request body arrives.
    pub body_stall: Duration,
}

/// The S3 face of one listener. Cheap to clone.
#[derive(Clone)]
pub struct Face(Arc<Inner>);

struct Inner {
    service: S3Service,
    /// The same for forms: s3s judges a form's age by the same setting as a request's clock.
    forms: S3Service,
    /// None where there is no store.
    quick: Option<Quick>,
    hosts: Hosts,
    settings: FaceSettings,
    metrics: Metrics,
    mount: Option<Arc<dyn Mount>>,
}

/// Body of every response.
pub type ResponseBody = Body;

impl Face {
    /// `passthrough` is the SDK client of an `s3` upstream: operations that the store does not know go there. `mount`
    /// answers what lies under [`MOUNT_PREFIX`].
    ///
    /// # Panics
    /// When `settings.region` is no region's name; the configuration is checked before.
    pub fn new(
        store: Arc<Store>,
        keys: Arc<AccessKeys>,
        settings: FaceSettings,
        metrics: Metrics,
        passthrough: Option<aws_sdk_s3::Client>,
        mount: Option<Arc<dyn Mount>>,
    ) -> Self {
        let (ops_keys, region) = (Arc::clone(&keys), settings.region.clone());
        let operations = || Ops::new(Arc::clone(&store), Arc::clone(&ops_keys), region.clone(), passthrough.clone());
        let quick = Quick::new(Arc::clone(&store), Arc::clone(&keys), settings.region.clone());
        Self::over(operations, Some(quick), keys, settings, metrics, mount)
    }

    /// The face over any operations.
    fn over<T: S3>(
        operations: impl Fn() -> T,
        quick: Option<Quick>,
        keys: Arc<AccessKeys>,
        settings: FaceSettings,
        metrics: Metrics,
        mount: Option<Arc<dyn Mount>>,
    ) -> Self {
        let hosts = Hosts::new(&settings.domains, settings.default_bucket.clone());
        let service = |skew: Duration| {
            let mut builder = S3ServiceBuilder::new(operations());
            builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config(&settings, skew)))));
            builder.set_host(hosts.clone());
            builder.set_auth(Secrets(Arc::clone(&keys)));
            builder.set_access(Access { keys: Arc::clone(&keys), anonymous_read: settings.anonymous_read });
            if let Some(mount) = &mount {
                builder.set_route(Route(Arc::clone(mount)));
            }
            builder.build()
        };
        let (service, forms) = (service(CLOCK_SKEW_MAX), service(FORM_AGE_MAX));
        Self(Arc::new(Inner { service, forms, quick, hosts, settings, metrics, mount }))
    }

    /// Whether a request is for the mount.
    #[must_use]
    pub fn is_mounted<B>(&self, request: &Request<B>) -> bool {
        self.0.is_mounted(request.uri(), request.headers())
    }

    /// Answers one request; never fails: what goes wrong is an S3 error response, or JSON where it is for the mount.
    pub async fn call<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let context = RequestContext::new(respond::next_request_id(), self.0.is_mounted(&parts.uri, &parts.headers));
        context.set_body_open(!body.is_end_stream());
        let mount = self.0.mount.as_ref().filter(|_| context.is_mounted());
        let allow = mount.and_then(|mount| mount.operation(parts.uri.path())).map(|operation| operation.allow);
        let (method, uri, version) = (parts.method.clone(), parts.uri.clone(), parts.version);
        let region = self.0.settings.region.clone();
        let asked = Asked { method, uri, version, context, region, allow };
        let answer = self.0.answer(parts, body, &asked.context).await;
        let response = respond::finish(&asked, answer);
        let operation = asked.context.operation().map_or("unknown", |(label, _)| label);
        self.0.metrics.request(operation, response.status().as_u16(), started.elapsed());
        response
    }
}

impl Inner {
    async fn answer<B>(&self, mut parts: Parts, body: B, context: &RequestContext) -> S3Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    {
        let (admission, form) = match self.admit(&mut parts, body.is_end_stream(), context.is_mounted()) {
            Ok(admitted) => admitted,
            Err(error) => {
                if !guard::expects_continue(&parts.headers) {
                    guard::drain(body);
                }
                return Err(error);
            }
        };
        if admission.credentials == Credentials::Header
            && !context.is_mounted()
            && let Some((operation, response)) = self.quick.as_ref().and_then(|quick| quick.answer(&parts, &self.hosts))
        {
            context.set_operation(operation, BodyKind::None);
            return Ok(response);
        }
        let is_form = form.is_some();
        let bodyless = matches!(parts.method, Method::GET | Method::HEAD | Method::DELETE);
        let body = if bodyless {
            Body::empty()
        } else {
            let stall = self.settings.body_stall;
            Body::http_body(WatchedBody::new(body, context.clone(), stall, admission, form))
        };
        self.hosts.prepare(&mut parts.headers);
        parts.extensions.insert(context.clone());
        let service = if is_form { &self.forms } else { &self.service };
        // s3s fails only where it can't write an error as XML: the text of that error is what it couldn't write.
        Box::pin(service.call(Request::from_parts(parts, body))).await.map_err(|_| unwritable())
    }

    /// Whether a request is for the mount.
    fn is_mounted(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if self.mount.is_none() || !uri.path().starts_with(MOUNT_PREFIX) {
            return false;
        }
        let named = headers.get(HOST).and_then(|value| value.to_str().ok());
        let host = named.or_else(|| uri.authority().map(http::uri::Authority::as_str));
        self.hosts.bucket_of(host.unwrap_or_default()).is_none()
    }

    fn admit(
        &self,
        parts: &mut Parts,
        body_is_empty: bool,
        is_mounted: bool,
    ) -> S3Result<(Admission, Option<FormReader>)> {
        let admission = guard::check(parts, body_is_empty, self.settings.anonymous_read)?;
        let is_form = admission.credentials == Credentials::Form;
        if is_form && is_mounted {
            return Err(s3_error!(AccessDenied, "The request is not signed."));
        }
        let form = is_form.then(|| self.form_reader(parts)).transpose()?;
        Ok((admission, form))
    }

    fn form_reader(&self, parts: &Parts) -> S3Result<FormReader> {
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let host = parts.headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path = parts.uri.path();
        let bucket = self.hosts.bucket_of(host).unwrap_or_else(|| path.trim_matches('/').to_owned());
        FormReader::new(content_type, bucket, SystemTime::now()).map_err(S3Error::from)
    }
}

fn unwritable() -> S3Error {
    s3_error!(InvalidRequest, "The request holds characters that no answer can quote.")
}

fn config(settings: &FaceSettings, skew: Duration) -> S3Config {
    let mut config = S3Config::default();
    config.presigned_url_max_skew_time_secs = u32::try_from(skew.as_secs()).unwrap_or(u32::MAX);
    config.xml_max_body_size = DOCUMENT_BYTES_MAX;
    // The mount has limits of its own for each operation.
    config.custom_route_max_body_size = None;
    config.post_object_max_file_size = guard::OBJECT_BYTES_MAX;
    config.put_object_max_size = Some(guard::OBJECT_BYTES_MAX);
    config.aws_chunked_stream_max_chunk_size = SIGNED_CHUNK_BYTES_MAX;
    config.form_max_field_size = FORM_FIELDS_BYTES_MAX;
    config.form_max_fields_size = FORM_FIELDS_BYTES_MAX;
    config.form_max_parts = FORM_FIELDS_MAX;
    #[allow(clippy::expect_used)] // Stated in the documentation of `Face::new`.
    let region = settings.region.as_deref().map(|name| Region::new(name.into()).expect("a region's name"));
    config.expected_region = region;
    config.sig_v4_allowed_services = vec!["s3".to_owned()];
    config.enable_sig_v2 = false;
    // The path and the subresources alone decide what a request is.
    config.operation_id_routing = false;
    config
}
