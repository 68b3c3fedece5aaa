//! The S3 face: strict HTTP in front, s3s in the middle, the store behind.
#![allow(missing_docs, clippy::todo, unused)]

use std::sync::Arc;

use blockgate_auth::AccessKeys;
use blockgate_store::Store;
use blockgate_telemetry::Metrics;

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
    pub body_stall: std::time::Duration,
}

/// The S3 face of one listener. Cheap to clone.
#[derive(Clone)]
pub struct Face;

/// Body of every response.
pub type ResponseBody = s3s::Body;

impl Face {
    /// `passthrough` is the SDK client of an `s3` upstream: operations that the store does not know go there.
    pub fn new(
        store: Arc<Store>,
        keys: Arc<AccessKeys>,
        settings: FaceSettings,
        metrics: Metrics,
        passthrough: Option<aws_sdk_s3::Client>,
    ) -> Self {
        todo!()
    }

    /// Answers one request; never fails: what goes wrong is an S3 error response.
    pub async fn call(&self, request: http::Request<hyper::body::Incoming>) -> http::Response<ResponseBody> {
        todo!()
    }
}
