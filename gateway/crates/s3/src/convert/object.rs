//! An object's description as GET and HEAD answer it.

use std::time::SystemTime;

use blockgate_block::{ObjectInfo, Tier};
use http::{HeaderMap, HeaderValue};
use s3s::dto::Metadata;

use super::{kv, time};

/// What an object without a `Content-Type` is said to be, as by AWS.
pub(crate) const DEFAULT_CONTENT_TYPE: &str = "binary/octet-stream";
/// The lifecycle rule that `x-amz-expiration` names.
const EXPIRATION_RULE: &str = "kv-ttl";

/// Describes an object to a client, in the type of its operation: GET and HEAD share their fields.
///
/// `range` is the part that is answered, where it is not the whole: checksums are of whole objects only.
macro_rules! describe {
    ($Output:ident, $info:expr, $range:expr) => {{
        let info: &blockgate_block::ObjectInfo = $info;
        let range: Option<&std::ops::Range<u64>> = $range;
        let crc64 = info.crc64().filter(|_| range.is_none());
        let length = range.map_or(info.size_bytes, |range| range.end - range.start);
        $Output {
            cache_control: info.attributes.cache_control.clone(),
            checksum_crc64nvme: crc64.map($crate::convert::checksum::base64),
            checksum_type: crc64.map(|_| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            content_disposition: info.attributes.content_disposition.clone(),
            content_encoding: info.attributes.content_encoding.clone(),
            content_language: info.attributes.content_language.clone(),
            content_length: i64::try_from(length).ok(),
            content_range: range.map(|range| $crate::convert::range::content_range(range, info.size_bytes)),
            content_type: info.attributes.content_type.clone(),
            e_tag: Some($crate::convert::condition::etag(&info.etag)),
            expiration: info.expires_at().map($crate::convert::object::expiration),
            expires: info.attributes.expires.clone(),
            last_modified: Some($crate::convert::time::timestamp(info.last_modified)),
            metadata: $crate::convert::object::metadata(info),
            tag_count: i32::try_from(info.tag_count).ok().filter(|count| *count > 0),
            ..$Output::default()
        }
    }};
}
pub(crate) use describe;

/// `x-amz-expiration`.
pub(crate) fn expiration(at: SystemTime) -> String {
    format!("expiry-date=\"{}\", rule-id=\"{EXPIRATION_RULE}\"", time::http_date(at))
}

/// User metadata, where there is any.
pub(crate) fn metadata(info: &ObjectInfo) -> Option<Metadata> {
    let user = &info.attributes.user;
    (!user.is_empty()).then(|| user.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The headers of every hit that need no allocation.
pub(crate) fn hit_headers(info: &ObjectInfo, tier: Tier) -> HeaderMap {
    let mut headers = tier_header(tier);
    headers.insert(http::header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if info.attributes.content_type.is_none() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(DEFAULT_CONTENT_TYPE));
    }
    headers
}

/// The tier that served a hit.
pub(crate) fn tier_header(tier: Tier) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(kv::TIER, HeaderValue::from_static(tier.as_str()));
    headers
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use blockgate_block::{Attributes, BlockRecord, Crc64, RECORD_META};
    use s3s::dto::{ChecksumType, HeadObjectOutput};

    use super::*;

    fn info(expires_at: Option<SystemTime>) -> ObjectInfo {
        let stored_at = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let record = BlockRecord {
            crc64: Crc64::of(b"123456789"),
            len_bytes: 9,
            stored_at,
            expires_at,
            group: None,
            tenant: None,
        };
        let user = [(RECORD_META.to_owned(), record.to_string()), ("a".to_owned(), "b".to_owned())].into();
        ObjectInfo::from_upstream(9, "up".into(), UNIX_EPOCH, Attributes { user, ..Attributes::default() })
    }

    #[test]
    fn a_whole_block() {
        let info = info(Some(UNIX_EPOCH + Duration::from_secs(1_000_000_060)));
        let output = describe!(HeadObjectOutput, &info, None);
        assert_eq!(output.content_length, Some(9));
        assert_eq!(output.checksum_crc64nvme.as_deref(), Some("rosUhgp5mIg="));
        assert_eq!(output.checksum_type.unwrap().as_str(), "FULL_OBJECT");
        assert_eq!(output.e_tag.unwrap().value(), "ae8b14860a7998880000000000000009-1");
        assert_eq!(
            output.expiration.as_deref(),
            Some("expiry-date=\"Sun, 09 Sep 2001 01:47:40 GMT\", rule-id=\"kv-ttl\"")
        );
        assert_eq!(output.metadata.unwrap(), Metadata::from([("a".to_owned(), "b".to_owned())]));
        assert_eq!((output.content_range, output.tag_count), (None, None));
    }

    #[test]
    fn a_part_of_a_block_has_no_checksum() {
        let output = describe!(HeadObjectOutput, &info(None), Some(&(2..5)));
        assert_eq!(output.content_length, Some(3));
        assert_eq!(output.content_range.as_deref(), Some("bytes 2-4/9"));
        assert!(output.checksum_crc64nvme.is_none() && output.checksum_type.is_none() && output.expiration.is_none());
    }
}
