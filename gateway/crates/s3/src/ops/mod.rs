//! The S3 operations.

use std::sync::Arc;

use blockgate_auth::AccessKeys;
use blockgate_store::Store;

/// Answers the operations that s3s has parsed.
#[derive(Clone)]
#[allow(dead_code)]
pub(crate) struct Ops {
    store: Arc<Store>,
    keys: Arc<AccessKeys>,
    passthrough: Option<aws_sdk_s3::Client>,
}

impl Ops {
    pub(crate) fn new(store: Arc<Store>, keys: Arc<AccessKeys>, passthrough: Option<aws_sdk_s3::Client>) -> Self {
        Self { store, keys, passthrough }
    }
}

impl s3s::S3 for Ops {}
