//! Headers that ask for what blockgate does not do: refused with a clear message, never ignored.
//!
//! | header | accepted |
//! | --- | --- |
//! | `x-amz-acl` | `private`, `bucket-owner-full-control`, `bucket-owner-read`: what every object is anyway |
//! | `x-amz-storage-class` | `STANDARD` |
//! | `x-amz-bucket-object-lock-enabled`, `x-amz-server-side-encryption-bucket-key-enabled` | `false` |
//! | `x-amz-expected-bucket-owner`, `x-amz-source-expected-bucket-owner` | the owner that ACLs show |
//! | `x-amz-grant-*`, any other encryption, object lock, website redirect, append, MFA | nothing |

use http::HeaderMap;
use s3s::{S3Result, s3_error};

use super::owner::OWNER_ID;

/// What [`check`] decides about one header.
enum Verdict {
    Fine,
    NotImplemented(&'static str),
    OtherOwner,
}

/// Refuses a request that asks, in a header, for what blockgate does not do.
pub(crate) fn check(headers: &HeaderMap) -> S3Result<()> {
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix("x-amz-") else { continue };
        match judge(name, value.as_bytes()) {
            Verdict::Fine => {}
            Verdict::NotImplemented(message) => return Err(s3_error!(NotImplemented, "{message}")),
            Verdict::OtherOwner => return Err(s3_error!(AccessDenied, "The bucket has another owner.")),
        }
    }
    Ok(())
}

/// The same for a field of a POST form; `name` is in lower case.
pub(crate) fn check_field(name: &str, value: Option<&str>) -> S3Result<()> {
    match value.map(|value| judge(name, value.as_bytes())) {
        Some(Verdict::NotImplemented(message)) => Err(s3_error!(NotImplemented, "{message}")),
        _ => Ok(()),
    }
}

fn judge(name: &str, value: &[u8]) -> Verdict {
    let unless = |fine: bool, message| if fine { Verdict::Fine } else { Verdict::NotImplemented(message) };
    match name {
        "acl" => unless(
            matches!(value, b"private" | b"bucket-owner-full-control" | b"bucket-owner-read"),
            "ACLs are not supported: access is granted by access keys and their buckets.",
        ),
        "storage-class" => unless(value == b"STANDARD", "The only storage class is STANDARD."),
        "bucket-object-lock-enabled" => unless(value.eq_ignore_ascii_case(b"false"), OBJECT_LOCK),
        "server-side-encryption-bucket-key-enabled" => unless(value.eq_ignore_ascii_case(b"false"), ENCRYPTION),
        "expected-bucket-owner" | "source-expected-bucket-owner" if value == OWNER_ID.as_bytes() => Verdict::Fine,
        "expected-bucket-owner" | "source-expected-bucket-owner" => Verdict::OtherOwner,
        "website-redirect-location" => Verdict::NotImplemented("Website redirects are not supported."),
        "write-offset-bytes" => Verdict::NotImplemented("Appending to objects is not supported."),
        "mfa" => Verdict::NotImplemented("MFA delete is not supported."),
        _ if name.starts_with("grant-") => {
            Verdict::NotImplemented("ACLs are not supported: access is granted by access keys and their buckets.")
        }
        _ if name.starts_with("object-lock-") => Verdict::NotImplemented(OBJECT_LOCK),
        _ if name.starts_with("server-side-encryption") || name.starts_with("copy-source-server-side-encryption") => {
            Verdict::NotImplemented(ENCRYPTION)
        }
        _ => Verdict::Fine,
    }
}

const OBJECT_LOCK: &str = "Object lock is not supported.";
const ENCRYPTION: &str = "Encryption is set up at the upstream store, not by request.";

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn code(name: &'static str, value: &'static str) -> Option<String> {
        let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
        check(&headers).err().map(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn what_every_object_is_anyway_may_be_asked_for() {
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-acl", "bucket-owner-full-control"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-bucket-object-lock-enabled", "false"),
            ("x-amz-expected-bucket-owner", OWNER_ID),
            ("x-amz-date", "20260101T000000Z"),
            ("x-amz-checksum-mode", "ENABLED"),
            ("x-amz-request-payer", "requester"),
        ] {
            assert_eq!(code(name, value), None, "{name}: {value}");
        }
    }

    #[test]
    fn nothing_is_silently_ignored() {
        for (name, value) in [
            ("x-amz-acl", "public-read"),
            ("x-amz-grant-read", "id=x"),
            ("x-amz-storage-class", "GLACIER"),
            ("x-amz-bucket-object-lock-enabled", "true"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-legal-hold", "ON"),
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-server-side-encryption", "aws:kms"),
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-copy-source-server-side-encryption-customer-key", "x"),
            ("x-amz-website-redirect-location", "/"),
            ("x-amz-write-offset-bytes", "1"),
        ] {
            assert_eq!(code(name, value).as_deref(), Some("NotImplemented"), "{name}: {value}");
        }
        assert_eq!(code("x-amz-expected-bucket-owner", "123456789012").as_deref(), Some("AccessDenied"));
        assert!(check_field("acl", Some("public-read")).is_err());
        assert!(check_field("acl", None).is_ok());
    }
}
