//! Versions: every object has one, named `null`.

use s3s::{S3Result, s3_error};

/// The only version of every object.
pub(crate) const NULL: &str = "null";

/// Accepts no version and the `null` version.
pub(crate) fn only_null(version_id: Option<&str>) -> S3Result<()> {
    match version_id {
        None | Some(NULL) => Ok(()),
        Some("") => Err(s3_error!(InvalidArgument, "Version id cannot be the empty string.")),
        Some(_) => Err(s3_error!(NoSuchVersion)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_null_version_exists() {
        assert!(only_null(None).is_ok() && only_null(Some("null")).is_ok());
        assert_eq!(only_null(Some("")).unwrap_err().code().as_str(), "InvalidArgument");
        assert_eq!(only_null(Some("3/L4kqtJlcpXroDTDmJ")).unwrap_err().code().as_str(), "NoSuchVersion");
    }
}
