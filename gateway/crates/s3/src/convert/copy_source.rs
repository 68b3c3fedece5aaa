//! The source of a copy.

use blockgate_block::BlockKey;
use s3s::dto::CopySource;
use s3s::{S3Result, s3_error};

use super::version;
use crate::error;

/// The object that `x-amz-copy-source` names.
///
/// s3s has taken off a leading slash and decoded percent signs by now.
pub(crate) fn key(source: &CopySource) -> S3Result<BlockKey> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            version::only_null(version_id.as_deref())?;
            BlockKey::new(bucket, key).map_err(error::of_key)
        }
        CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => {
            Err(s3_error!(NotImplemented, "Copies from access points are not supported."))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::convert::text::url_encode;

    fn of(header: &str) -> S3Result<BlockKey> {
        key(&CopySource::parse(header).map_err(|error| s3_error!(InvalidArgument, "{error}"))?)
    }

    fn code(header: &str) -> String {
        of(header).unwrap_err().code().as_str().to_owned()
    }

    #[test]
    fn forms() {
        for (header, expected) in [
            ("bucket/a", "a"),
            ("/bucket/a", "a"),
            ("bucket//a", "/a"),
            ("/bucket///a//b", "//a//b"),
            ("bucket%2Fa%2Fb", "a/b"),
            ("bucket/a%20b%2Bc+d", "a b+c+d"),
            ("bucket/..%2F%2e%2e", "../.."),
            ("bucket/a?versionId=null", "a"),
            ("bucket/a%3FversionId=x", "a?versionId=x"),
        ] {
            let key = of(header).unwrap();
            assert_eq!((key.bucket(), key.key()), ("bucket", expected), "{header}");
        }
    }

    #[test]
    fn refusals() {
        assert_eq!(code("bucket"), "InvalidArgument");
        assert_eq!(code("bucket/"), "InvalidArgument");
        assert_eq!(code("UPPER/a"), "InvalidArgument");
        assert_eq!(code("bucket/%FF"), "InvalidArgument");
        assert_eq!(code("bucket/a%00"), "InvalidURI");
        assert_eq!(code("bucket/.blockgate/x"), "AccessDenied");
        assert_eq!(code("bucket/a?versionId=x"), "NoSuchVersion");
        assert_eq!(code(&format!("bucket/{}", "k".repeat(1025))), "InvalidArgument");
        assert_eq!(code("arn:aws:s3:eu-west-1:123456789012:accesspoint/point/object/a"), "NotImplemented");
    }

    proptest! {
        #[test]
        fn any_key_can_be_named(text in "\\PC{1,80}") {
            prop_assume!(!text.starts_with(".blockgate/"));
            let named = of(&format!("bucket/{}", url_encode(&text))).unwrap();
            prop_assert_eq!(named.key(), text.as_str());
        }

        #[test]
        fn hostile_sources_do_not_panic(text in any::<String>()) {
            let _ = of(&text);
        }
    }
}
