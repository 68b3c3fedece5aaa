//! Checksums in answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blockgate_block::Crc64;
use http::HeaderMap;
use s3s::TrailingHeaders;

use crate::digest::checksum_header;

/// A block checksum as S3 writes it.
pub(crate) fn base64(crc64: Crc64) -> String {
    STANDARD.encode(crc64.to_be_bytes())
}

/// The checksums that came with a body, in headers or trailers: all of them were verified before it was stored.
pub(crate) fn sent(headers: &HeaderMap, trailing: Option<&TrailingHeaders>) -> HeaderMap {
    let mut found = HeaderMap::new();
    let mut take = |from: &HeaderMap| {
        for (name, value) in from.iter().filter(|(name, _)| checksum_header(name.as_str()).is_some()) {
            found.insert(name, value.clone());
        }
    };
    take(headers);
    if let Some(trailing) = trailing {
        trailing.read(take);
    }
    found
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn crc64nvme_is_eight_bytes_most_significant_first() {
        assert_eq!(base64(Crc64::of(b"123456789")), "rosUhgp5mIg=");
    }

    #[test]
    fn only_checksums_are_given_back() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA=="));
        headers.insert("x-amz-meta-a", HeaderValue::from_static("b"));
        let found = sent(&headers, None);
        assert_eq!((found.len(), found["x-amz-checksum-crc32"].to_str().unwrap()), (1, "AAAAAA=="));
    }
}
