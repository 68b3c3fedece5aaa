//! The KV face behind the S3 face's guard and signatures: neither knows the other.

use async_trait::async_trait;
use blockgate_kv::{BodyKind, Caller, KvFace, Operation};
use blockgate_s3::{Mount, MountBody, MountOperation, MountRequest, ResponseBody};
use http::Response;

/// The KV face, mounted.
pub(crate) struct KvMount(pub(crate) KvFace);

#[async_trait]
impl Mount for KvMount {
    fn operation(&self, path: &str) -> Option<MountOperation> {
        let operation = Operation::at(path)?;
        let body = match operation.body() {
            BodyKind::None => MountBody::None,
            BodyKind::Json => MountBody::Document,
            BodyKind::Frames => MountBody::Stream,
        };
        let (label, allow, bound) = (operation.label(), operation.allow(), operation.destroys());
        Some(MountOperation { label, body, bound, allow })
    }

    async fn call(&self, request: MountRequest) -> Response<ResponseBody> {
        let MountRequest { request, access_key, request_id, is_promised } = request;
        let caller = Caller { access_key, request_id, is_promised };
        let response = self.0.call(request.map(axum::body::Body::new), caller).await;
        response.map(ResponseBody::http_body_unsync)
    }
}
