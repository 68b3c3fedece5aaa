//! The request path: any UTF-8, nothing else.

use s3s::{S3Result, s3_error};

use super::escape::{EscapeError, unescape};

/// Refuses a path that is not an absolute one, that has broken escapes, invalid UTF-8 or a NUL. (The key's length is
/// s3s' check.)
pub(crate) fn check(path: &str) -> S3Result<()> {
    if !path.starts_with('/') {
        return Err(s3_error!(InvalidURI, "The request target must be a path that begins with a slash."));
    }
    match unescape(path, false) {
        Ok(_) => Ok(()),
        Err(EscapeError::Escape) => Err(s3_error!(InvalidURI, "The path has a '%' without two hex digits.")),
        Err(EscapeError::Utf8) => Err(s3_error!(InvalidURI, "The path is not valid UTF-8.")),
        Err(EscapeError::Nul) => Err(s3_error!(InvalidURI, "A key can't hold a NUL.")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn paths() {
        for good in ["/", "/b/k", "/b//k", "/b/%2e%2e/x", "/b/../../x", "/b/%5C%25%07", "/b/%F0%9F%98%80"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "*", "b/k", "/b/%", "/b/%4", "/b/%gg", "/b/%00", "/b/%FF", "/b/%C0%AF", "/b/%ED%A0%80"] {
            assert_eq!(check(bad).unwrap_err().code().as_str(), "InvalidURI", "{bad}");
        }
    }
}
