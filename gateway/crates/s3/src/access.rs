//! Who a request is from, and whether they may.

use std::sync::Arc;

use async_trait::async_trait;
use blockgate_auth::{AccessKeys, Permission};
use http::HeaderMap;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::CopySource;
use s3s::{S3Result, s3_error};

use crate::context::{Document, RequestContext};
use crate::digest::Digests;
use crate::guard::operation::{self, BodyKind};

/// Longest key in bytes.
const KEY_BYTES_MAX: usize = 1024;

/// The secrets, for s3s to verify signatures with.
pub(crate) struct Secrets(pub(crate) Arc<AccessKeys>);

#[async_trait]
impl S3Auth for Secrets {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let key = self.0.find(access_key).ok_or_else(|| s3_error!(InvalidAccessKeyId))?;
        Ok(SecretKey::from(key.secret_key.expose()))
    }
}

/// The one policy, asked before each operation.
pub(crate) struct Access {
    pub(crate) keys: Arc<AccessKeys>,
    pub(crate) anonymous_read: bool,
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let label = operation::label(cx.s3_op().name());
        let kind = BodyKind::of(cx.s3_op().name());
        if let Some(context) = cx.extensions_mut().get::<RequestContext>() {
            context.set_operation(label, kind);
        }
        self.check_policy(cx)?;
        operation::check(cx.s3_op().name(), cx.uri(), cx.headers())?;
        if kind == BodyKind::Document {
            let digests = promises_of(label, cx.headers())?;
            if let Some(context) = cx.extensions_mut().get::<RequestContext>() {
                context.expect_document(Document { operation: label, digests });
            }
        }
        Ok(())
    }
}

/// What the headers promise of a document.
fn promises_of(operation: &str, headers: &HeaderMap) -> S3Result<Digests> {
    let mut digests = match operation {
        // Its `x-amz-checksum-*` are those of the object that it completes.
        "CompleteMultipartUpload" => Digests::of_content_md5(headers)?,
        _ => Digests::of_headers(headers)?,
    };
    let hash = headers.get("x-amz-content-sha256").and_then(|value| value.to_str().ok());
    if let Some(hash) = hash.filter(|hash| hash.len() == 64) {
        digests.promise_signed_sha256(hash);
    }
    Ok(digests)
}

impl Access {
    fn check_policy(&self, cx: &S3AccessContext<'_>) -> S3Result<()> {
        let permission = permission_of(cx.s3_op().name());
        // ListBuckets has no bucket; it shows each key its own.
        if let Some(bucket) = cx.s3_path().get_bucket_name() {
            self.check_bucket(cx, bucket, permission)?;
        } else if cx.credentials().is_none() {
            return Err(s3_error!(AccessDenied));
        }
        if matches!(cx.s3_op().name(), "CopyObject" | "UploadPartCopy") {
            self.check_copy_source(cx)?;
        }
        Ok(())
    }

    fn check_bucket(&self, cx: &S3AccessContext<'_>, bucket: &str, permission: Permission) -> S3Result<()> {
        let allowed = match cx.credentials() {
            Some(credentials) => self.keys.allows(&credentials.access_key, bucket, permission),
            None => self.anonymous_read && permission == Permission::Read,
        };
        if allowed { Ok(()) } else { Err(s3_error!(AccessDenied)) }
    }

    /// Who copies must be allowed to read what is copied.
    fn check_copy_source(&self, cx: &S3AccessContext<'_>) -> S3Result<()> {
        let invalid = || s3_error!(InvalidArgument, "x-amz-copy-source must be a bucket and a key, URL-encoded.");
        let source = cx.headers().get("x-amz-copy-source").and_then(|value| value.to_str().ok()).ok_or_else(invalid)?;
        let Ok(CopySource::Bucket { bucket, key, .. }) = CopySource::parse(source) else { return Err(invalid()) };
        if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
            return Err(invalid());
        }
        self.check_bucket(cx, &bucket, Permission::Read)
    }
}

/// What an operation does to its bucket. What is unknown writes.
fn permission_of(operation: &str) -> Permission {
    let reads = ["Get", "Head", "List"].iter().any(|verb| operation.starts_with(verb));
    if reads || operation == "SelectObjectContent" { Permission::Read } else { Permission::Write }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_read_writes() {
        for name in ["GetObject", "HeadObject", "HeadBucket", "ListObjectsV2", "ListParts", "GetBucketPolicy"] {
            assert_eq!(permission_of(name), Permission::Read, "{name}");
        }
        for name in [
            "PutObject",
            "PostObject",
            "CopyObject",
            "DeleteObjects",
            "CreateBucket",
            "PutBucketPolicy",
            "AbortMultipartUpload",
            "CompleteMultipartUpload",
            "RestoreObject",
            "SomethingNew",
        ] {
            assert_eq!(permission_of(name), Permission::Write, "{name}");
        }
    }
}
