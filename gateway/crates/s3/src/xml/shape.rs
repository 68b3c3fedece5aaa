//! The shapes of the documents of S3.

use std::ops::RangeInclusive;

/// An element by its name, how often it may stand in its parent, and what is in it.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: &'static str,
    pub(super) times: RangeInclusive<u32>,
    pub(super) content: Content,
}

/// What is in an element.
#[derive(Debug)]
pub(super) enum Content {
    /// Characters only.
    Text(Text),
    /// Elements only, in any order.
    Elements(&'static [Element]),
    /// Whatever: the upstream judges it.
    Any,
}

/// What the characters of an element mean.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    String,
    /// 1 to 1,024 bytes.
    Key,
    /// `true` or `false`.
    Bool,
    /// Decimal digits.
    Number,
    /// 1 to 10,000.
    PartNumber,
}

const fn element(name: &'static str, times: RangeInclusive<u32>, content: Content) -> Element {
    Element { name, times, content }
}

const fn optional(name: &'static str) -> Element {
    element(name, 0..=1, Content::Text(Text::String))
}

const fn any(name: &'static str) -> Element {
    element(name, 0..=1, Content::Any)
}

static DELETE: Element = element(
    "Delete",
    1..=1,
    Content::Elements(&[
        element(
            "Object",
            1..=1_000,
            Content::Elements(&[
                element("Key", 1..=1, Content::Text(Text::Key)),
                optional("VersionId"),
                optional("ETag"),
                optional("LastModifiedTime"),
                element("Size", 0..=1, Content::Text(Text::Number)),
            ]),
        ),
        element("Quiet", 0..=1, Content::Text(Text::Bool)),
    ]),
);

static COMPLETE: Element = element(
    "CompleteMultipartUpload",
    1..=1,
    Content::Elements(&[element(
        "Part",
        1..=10_000,
        Content::Elements(&[
            element("PartNumber", 1..=1, Content::Text(Text::PartNumber)),
            element("ETag", 1..=1, Content::Text(Text::String)),
            optional("ChecksumCRC32"),
            optional("ChecksumCRC32C"),
            optional("ChecksumCRC64NVME"),
            optional("ChecksumMD5"),
            optional("ChecksumSHA1"),
            optional("ChecksumSHA256"),
            optional("ChecksumSHA512"),
            optional("ChecksumXXHASH3"),
            optional("ChecksumXXHASH64"),
            optional("ChecksumXXHASH128"),
        ]),
    )]),
);

static TAGGING: Element = element(
    "Tagging",
    1..=1,
    Content::Elements(&[element(
        "TagSet",
        1..=1,
        Content::Elements(&[element(
            "Tag",
            // 10 on an object, 50 on a bucket: the operation counts them.
            0..=50,
            Content::Elements(&[
                element("Key", 1..=1, Content::Text(Text::String)),
                element("Value", 1..=1, Content::Text(Text::String)),
            ]),
        )]),
    )]),
);

static CREATE_BUCKET: Element = element(
    "CreateBucketConfiguration",
    1..=1,
    Content::Elements(&[optional("LocationConstraint"), any("Location"), any("Bucket"), any("Tags")]),
);

static VERSIONING: Element =
    element("VersioningConfiguration", 1..=1, Content::Elements(&[optional("Status"), optional("MfaDelete")]));

/// Documents that only the upstream understands: their root is what counts here.
static ROOTS: [(&str, Element); 19] = [
    ("PutBucketAbac", any("AbacStatus")),
    ("PutBucketAccelerateConfiguration", any("AccelerateConfiguration")),
    ("PutBucketAcl", any("AccessControlPolicy")),
    ("PutBucketAnalyticsConfiguration", any("AnalyticsConfiguration")),
    ("PutBucketCors", any("CORSConfiguration")),
    ("PutBucketEncryption", any("ServerSideEncryptionConfiguration")),
    ("PutBucketIntelligentTieringConfiguration", any("IntelligentTieringConfiguration")),
    ("PutBucketInventoryConfiguration", any("InventoryConfiguration")),
    ("PutBucketLifecycleConfiguration", any("LifecycleConfiguration")),
    ("PutBucketLogging", any("BucketLoggingStatus")),
    ("PutBucketMetricsConfiguration", any("MetricsConfiguration")),
    ("PutBucketNotificationConfiguration", any("NotificationConfiguration")),
    ("PutBucketOwnershipControls", any("OwnershipControls")),
    ("PutBucketReplication", any("ReplicationConfiguration")),
    ("PutBucketRequestPayment", any("RequestPaymentConfiguration")),
    ("PutBucketWebsite", any("WebsiteConfiguration")),
    ("PutObjectAcl", any("AccessControlPolicy")),
    ("PutPublicAccessBlock", any("PublicAccessBlockConfiguration")),
    ("RestoreObject", any("RestoreRequest")),
];

/// The root that the document of `operation` has; `None` where any will do.
pub(super) fn root_of(operation: &str) -> Option<&'static Element> {
    match operation {
        "DeleteObjects" => Some(&DELETE),
        "CompleteMultipartUpload" => Some(&COMPLETE),
        "PutObjectTagging" | "PutBucketTagging" => Some(&TAGGING),
        "CreateBucket" => Some(&CREATE_BUCKET),
        "PutBucketVersioning" => Some(&VERSIONING),
        other => ROOTS.iter().find(|(name, _)| *name == other).map(|(_, root)| root),
    }
}
