//! The request against the operation that s3s routes it to. Asked once that is known and the request is authenticated,
//! before the first byte of the body is read.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Uri};
use s3s::{S3Result, s3_error};

use super::credentials::is_signed;
use super::query::Query;
use crate::digest;

/// What an operation's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// There is none.
    None,
    /// XML or JSON, read whole before the operation begins.
    Document,
    /// An object's bytes.
    Object,
    /// A form that holds an object's bytes.
    Form,
    /// JSON of the mount, read whole before the operation begins.
    Json,
    /// What the mount reads as it arrives.
    Stream,
}

impl BodyKind {
    /// The kind of body that the operation of this name has.
    pub(crate) fn of(operation: &str) -> Self {
        match operation {
            "PutObject" | "UploadPart" | "PutObjectAnnotation" | "WriteGetObjectResponse" => Self::Object,
            "PostObject" => Self::Form,
            name if DOCUMENTS.contains(&name) || LOOSE_DOCUMENTS.contains(&name) => Self::Document,
            _ => Self::None,
        }
    }
}

/// Operations without a document that the gateway answers itself, the frequent ones first.
const NAMES: [&str; 28] = [
    "GetObject",
    "HeadObject",
    "PutObject",
    "UploadPart",
    "DeleteObject",
    "ListObjectsV2",
    "CreateMultipartUpload",
    "AbortMultipartUpload",
    "CopyObject",
    "UploadPartCopy",
    "PostObject",
    "HeadBucket",
    "ListBuckets",
    "ListObjects",
    "ListObjectVersions",
    "ListParts",
    "ListMultipartUploads",
    "DeleteBucket",
    "GetBucketLocation",
    "GetBucketVersioning",
    "GetObjectAttributes",
    "GetObjectTagging",
    "DeleteObjectTagging",
    "GetBucketAcl",
    "GetObjectAcl",
    "GetBucketPolicy",
    "GetBucketLifecycleConfiguration",
    "GetBucketTagging",
];

/// The operation's name as a metric label: what the gateway does not know is `other`.
pub(crate) fn label(name: &str) -> &'static str {
    let known = NAMES.iter().chain(&LOOSE_DOCUMENTS).chain(&DOCUMENTS);
    known.copied().find(|known| *known == name).unwrap_or("other")
}

/// Operations whose document must be bound to the signature.
const DOCUMENTS: [&str; 32] = [
    "CreateBucketMetadataConfiguration",
    "CreateBucketMetadataTableConfiguration",
    "DeleteObjects",
    "PutBucketAbac",
    "PutBucketAccelerateConfiguration",
    "PutBucketAcl",
    "PutBucketAnalyticsConfiguration",
    "PutBucketCors",
    "PutBucketEncryption",
    "PutBucketIntelligentTieringConfiguration",
    "PutBucketInventoryConfiguration",
    "PutBucketLifecycleConfiguration",
    "PutBucketLogging",
    "PutBucketMetricsConfiguration",
    "PutBucketNotificationConfiguration",
    "PutBucketOwnershipControls",
    "PutBucketPolicy",
    "PutBucketReplication",
    "PutBucketRequestPayment",
    "PutBucketTagging",
    "PutBucketVersioning",
    "PutBucketWebsite",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectLockConfiguration",
    "PutObjectRetention",
    "PutObjectTagging",
    "PutPublicAccessBlock",
    "UpdateBucketMetadataAnnotationTableConfiguration",
    "UpdateBucketMetadataInventoryTableConfiguration",
    "UpdateBucketMetadataJournalTableConfiguration",
    "UpdateObjectEncryption",
];

/// Operations whose document may come with an unsigned payload, as on AWS.
const LOOSE_DOCUMENTS: [&str; 4] = ["CompleteMultipartUpload", "CreateBucket", "RestoreObject", "SelectObjectContent"];

/// Query parameters that choose an operation.
const SUBRESOURCES: [&str; 44] = [
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "events",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
    "append",
    "compose",
];

/// Operations that s3s falls back to when no query parameter chooses one. `DELETE /bucket?versioning` is none of them.
const FALLBACKS: [&str; 8] = [
    "CreateBucket",
    "DeleteBucket",
    "DeleteObject",
    "GetObject",
    "HeadBucket",
    "HeadObject",
    "ListObjects",
    "PutObject",
];

/// Refuses what does not fit the operation.
pub(crate) fn check(operation: &str, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    if let Some(query) = uri.query() {
        check_subresources(operation, &Query::parse(Some(query))?)?;
    }
    check_body(operation, uri, headers)
}

/// Refuses the body of a mounted operation that can't be what it must be.
pub(crate) fn check_mounted(bound: bool, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let hash = headers.get("x-amz-content-sha256").map_or(&b""[..], |value| value.as_bytes());
    if hash.starts_with(b"STREAMING-") {
        return Err(s3_error!(NotImplemented, "Chunked payloads are for objects and parts."));
    }
    if bound && !is_bound(uri, headers, hash) {
        return Err(s3_error!(
            InvalidRequest,
            "The signature must cover the body: send its SHA-256 as x-amz-content-sha256, or sign Content-MD5 or \
             x-amz-checksum-*."
        ));
    }
    Ok(())
}

fn check_subresources(operation: &str, query: &Query<'_>) -> S3Result<()> {
    let chosen = query.names().filter(|name| SUBRESOURCES.contains(name)).count();
    // UploadPart without an upload would be PutObject.
    let half_a_part = operation == "PutObject" && query.get("partNumber").is_some();
    if half_a_part || (chosen > 0 && FALLBACKS.contains(&operation)) {
        return Err(s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource."));
    }
    if chosen > 1 {
        return Err(s3_error!(InvalidArgument, "Conflicting query string parameters."));
    }
    Ok(())
}

fn check_body(operation: &str, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let length = headers.get(CONTENT_LENGTH);
    let empty = length.map_or(!headers.contains_key(TRANSFER_ENCODING), |length| length == "0");
    let hash = headers.get("x-amz-content-sha256").map_or(&b""[..], |value| value.as_bytes());
    let chunked = hash.starts_with(b"STREAMING-");
    match BodyKind::of(operation) {
        BodyKind::Object if length.is_none() && !chunked => {
            Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))
        }
        BodyKind::None if !empty => Err(s3_error!(InvalidRequest, "{operation} has no request body.")),
        BodyKind::None | BodyKind::Document if chunked => {
            Err(s3_error!(InvalidRequest, "Chunked payloads are for objects and parts."))
        }
        BodyKind::Document if !empty && DOCUMENTS.contains(&operation) && !is_bound(uri, headers, hash) => {
            let message = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*";
            Err(s3_error!(InvalidRequest, "{message}"))
        }
        _ => Ok(()),
    }
}

/// Whether the signature covers the body, directly or by a signed digest of it: else whoever has seen one signed request
/// could send it again with another body.
fn is_bound(uri: &Uri, headers: &HeaderMap, hash: &[u8]) -> bool {
    let hashed = hash.len() == 64;
    let in_header = headers.contains_key(http::header::AUTHORIZATION);
    let signed = |name: &str| headers.contains_key(name) && is_signed(headers, uri.query(), name);
    (hashed && (in_header || signed("x-amz-content-sha256")))
        || signed("content-md5")
        || headers.keys().any(|name| digest::checksum_header(name.as_str()).is_some())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn verdict(operation: &str, query: &str, pairs: &[(&str, &str)]) -> String {
        let headers = pairs
            .iter()
            .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap()))
            .collect();
        let uri: Uri = format!("/b/k?{query}").parse().unwrap();
        check(operation, &uri, &headers).map_or_else(|e| e.code().as_str().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn labels_are_the_names_of_operations() {
        for name in ["GetObject", "DeleteObjects", "CompleteMultipartUpload"] {
            assert_eq!(label(name), name);
        }
        assert_eq!(label("GetBucketMetricsConfiguration"), "other");
    }

    #[test]
    fn a_fallback_is_not_taken_for_what_it_is_not() {
        for (operation, query, expected) in [
            ("DeleteBucket", "versioning", "MethodNotAllowed"),
            ("DeleteObject", "uploads", "MethodNotAllowed"),
            ("CreateBucket", "versions", "MethodNotAllowed"),
            ("GetObject", "torrent", "MethodNotAllowed"),
            ("GetObject", "partNumber=1&response-content-type=a&x-id=GetObject", "ok"),
            ("DeleteObject", "versionId=null", "ok"),
            ("ListObjectsV2", "list-type=2&prefix=a", "ok"),
            ("ListObjects", "prefix=acl", "ok"),
            ("GetObjectAcl", "acl&tagging", "InvalidArgument"),
            ("ListParts", "uploadId=x", "ok"),
        ] {
            assert_eq!(verdict(operation, query, &[]), expected, "{operation} {query}");
        }
        let length = ("content-length", "5");
        assert_eq!(verdict("PutObject", "uploadId=x", &[length]), "MethodNotAllowed");
        assert_eq!(verdict("PutObject", "partNumber=1", &[length]), "MethodNotAllowed");
        assert_eq!(verdict("UploadPart", "partNumber=1&uploadId=x", &[length]), "ok");
    }

    #[test]
    fn objects_have_a_length_and_other_requests_no_body() {
        let chunked = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        let unsigned = ("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        let te = ("transfer-encoding", "chunked");
        assert_eq!(verdict("PutObject", "", &[unsigned]), "MissingContentLength");
        assert_eq!(verdict("PutObject", "", &[unsigned, te]), "MissingContentLength");
        assert_eq!(verdict("PutObject", "", &[chunked, te]), "ok");
        assert_eq!(verdict("PutObject", "", &[("content-length", "0")]), "ok");
        assert_eq!(verdict("CopyObject", "", &[("content-length", "1")]), "InvalidRequest");
        assert_eq!(verdict("CopyObject", "", &[("content-length", "0")]), "ok");
        assert_eq!(verdict("CreateMultipartUpload", "uploads", &[te]), "InvalidRequest");
        assert_eq!(verdict("PutObjectTagging", "tagging", &[chunked, te]), "InvalidRequest");
    }

    #[test]
    fn documents_that_destroy_are_bound_to_the_signature() {
        let length = ("content-length", "99");
        let unsigned = ("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        let hash = "0".repeat(64);
        let md5 = ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==");
        let auth = |list: &str| format!("AWS4-HMAC-SHA256 Credential=x, SignedHeaders={list}, Signature=00");
        let (with, without) = (auth("content-md5;host"), auth("host"));
        let (with, without) = (("authorization", &*with), ("authorization", &*without));
        assert_eq!(verdict("DeleteObjects", "delete", &[length, unsigned, without]), "InvalidRequest");
        assert_eq!(verdict("DeleteObjects", "delete", &[length, unsigned, without, md5]), "InvalidRequest");
        assert_eq!(verdict("DeleteObjects", "delete", &[length, unsigned, with, md5]), "ok");
        assert_eq!(verdict("DeleteObjects", "delete", &[length, without, ("x-amz-content-sha256", &hash)]), "ok");
        assert_eq!(verdict("DeleteObjects", "delete", &[length, ("x-amz-content-sha256", &hash)]), "InvalidRequest");
        let crc = ("x-amz-checksum-crc32", "AAAAAA==");
        assert_eq!(verdict("DeleteObjects", "delete", &[length, unsigned, crc]), "ok");
        assert_eq!(verdict("CompleteMultipartUpload", "uploadId=x", &[length, unsigned]), "ok");
    }
}
