//! The S3 face: strict HTTP in front, s3s in the middle, the store behind.
#![forbid(unsafe_code)]

mod access;
mod body;
mod context;
mod convert;
mod digest;
mod error;
mod guard;
mod host;
mod ops;
mod refusal;
mod respond;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use blockgate_auth::AccessKeys;
use blockgate_store::Store;
use blockgate_telemetry::Metrics;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::region::Region;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Error, S3Result, s3_error};
use tokio::time::Instant;

use access::{Access, Secrets};
use context::RequestContext;
use host::Hosts;
use ops::Ops;
use respond::Asked;

/// Largest XML or JSON document: 1,000 keys of 1,024 bytes, each escaped, fit.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// Largest signed chunk: s3s gathers one before it yields a byte of it.
const SIGNED_CHUNK_BYTES_MAX: usize = 16 << 20;
/// Largest fields of a form, all together.
const FORM_FIELDS_BYTES_MAX: usize = 128 << 10;
/// Most fields of a form.
const FORM_FIELDS_MAX: usize = 100;

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
pub struct Face {
    service: S3Service,
    inner: Arc<Inner>,
}

struct Inner {
    hosts: Hosts,
    anonymous_read: bool,
    metrics: Metrics,
}

/// Body of every response.
pub type ResponseBody = Body;

impl Face {
    /// `passthrough` is the SDK client of an `s3` upstream: operations that the store does not know go there.
    ///
    /// # Panics
    /// When `settings.region` is no region's name; the configuration is checked before.
    pub fn new(
        store: Arc<Store>,
        keys: Arc<AccessKeys>,
        settings: FaceSettings,
        metrics: Metrics,
        passthrough: Option<aws_sdk_s3::Client>,
    ) -> Self {
        let hosts = Hosts::new(&settings.domains, settings.default_bucket.clone());
        let mut builder =
            S3ServiceBuilder::new(Ops::new(store, Arc::clone(&keys), settings.region.clone(), passthrough));
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config(&settings)))));
        builder.set_host(hosts.clone());
        builder.set_auth(Secrets(Arc::clone(&keys)));
        builder.set_access(Access { keys, anonymous_read: settings.anonymous_read });
        let inner = Inner { hosts, anonymous_read: settings.anonymous_read, metrics };
        Self { service: builder.build(), inner: Arc::new(inner) }
    }

    /// Answers one request; never fails: what goes wrong is an S3 error response.
    pub async fn call<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let context = RequestContext::default();
        let asked = Asked { method: parts.method.clone(), uri: parts.uri.clone(), context };
        let answer = self.answer(parts, body, &asked.context).await;
        let response = respond::finish(&asked, answer);
        let operation = asked.context.operation().map_or("unknown", |(label, _)| label);
        self.inner.metrics.request(operation, response.status().as_u16(), started.elapsed());
        response
    }

    async fn answer<B>(&self, mut parts: Parts, body: B, context: &RequestContext) -> S3Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let _admission = guard::check(&mut parts, body.is_end_stream(), self.inner.anonymous_read)?;
        self.inner.hosts.prepare(&mut parts.headers);
        parts.extensions.insert(context.clone());
        let body = Body::http_body(http_body_util::BodyExt::map_err(body, Into::into));
        let request = Request::from_parts(parts, body);
        // s3s fails only where it can't write an error as XML: the text of that error is what it couldn't write.
        Box::pin(self.service.call(request)).await.map_err(|_| unwritable())
    }
}

fn unwritable() -> S3Error {
    s3_error!(InvalidRequest, "The request holds characters that no answer can quote.")
}

fn config(settings: &FaceSettings) -> S3Config {
    let mut config = S3Config::default();
    config.xml_max_body_size = DOCUMENT_BYTES_MAX;
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
