//! Continuation tokens: where a listing goes on, for any gateway to read and for no client to make up.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use blockgate_block::{Crc64, KEY_BYTES_MAX};
use s3s::{S3Result, s3_error};

/// Marks what follows as a token of ours, and its layout: `1 | checksum (8 bytes) | name`.
const LAYOUT: u8 = 1;
const HEADER_BYTES: usize = 9;

/// The token that goes on after `name`, in a listing of what `scope` (bucket or other context) holds.
pub(crate) fn encode(scope: &str, name: &str) -> String {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + name.len());
    bytes.push(LAYOUT);
    bytes.extend_from_slice(&checksum(scope, name).to_be_bytes());
    bytes.extend_from_slice(name.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The name that a token goes on after.
///
/// # Errors
/// When the token was not made by [`encode`] for the same scope.
pub(crate) fn decode(scope: &str, token: &str) -> S3Result<String> {
    let name = || {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (header, name) = bytes.split_at_checked(HEADER_BYTES)?;
        let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= KEY_BYTES_MAX)?;
        let (layout, sum) = header.split_first()?;
        (*layout == LAYOUT && sum == checksum(scope, name).to_be_bytes()).then(|| name.to_owned())
    };
    name().ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

fn checksum(scope: &str, name: &str) -> Crc64 {
    let scope = Crc64::of(scope.as_bytes());
    scope.followed_by(Crc64::of(name.as_bytes()), name.len() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_leads_back_to_its_name(bucket in "[a-z]{3,8}", name in any::<String>()) {
            let token = encode(&bucket, &name);
            prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            prop_assert_eq!(decode(&bucket, &token).unwrap(), name);
        }

        #[test]
        fn what_is_no_token_is_refused(text in any::<String>()) {
            prop_assert!(decode("bucket", &text).is_err());
        }

        #[test]
        fn a_changed_token_is_refused(name in "[a-z/]{0,20}", at in 0usize..12, to in "[A-Za-z0-9_-]") {
            let token = encode("bucket", &name);
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to);
            prop_assume!(changed != token);
            // The last character may hold bits that the decoder ignores or refuses; both must not lead elsewhere.
            prop_assert!(decode("bucket", &changed).is_err() || decode("bucket", &changed).unwrap() == name);
        }
    }

    #[test]
    fn a_token_holds_for_its_bucket_only() {
        assert!(decode("other", &encode("bucket", "k")).is_err());
        assert!(decode("bucket", "").is_err());
    }
}
