//! What a file system's errors mean.

use std::io::{self, ErrorKind};

use crate::UpstreamError;

/// An error of the file system while doing `what`.
pub(super) fn io_failed(what: &str, error: &io::Error) -> UpstreamError {
    let text = format!("{what}: {error}");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => UpstreamError::Full,
        ErrorKind::FileTooLarge => UpstreamError::EntityTooLarge,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => UpstreamError::AccessDenied(text),
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => UpstreamError::InvalidRequest(text),
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => UpstreamError::Damaged(text),
        _ => UpstreamError::Unavailable(text),
    }
}

/// [`io_failed`] for `map_err`.
pub(super) fn failed(what: &'static str) -> impl Fn(io::Error) -> UpstreamError {
    move |error| io_failed(what, &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_an_outage() {
        let of = |errno: rustix::io::Errno| io_failed("x", &errno.into());
        assert!(matches!(of(rustix::io::Errno::NOSPC), UpstreamError::Full));
        assert!(matches!(of(rustix::io::Errno::DQUOT), UpstreamError::Full));
        assert!(matches!(of(rustix::io::Errno::IO), UpstreamError::Unavailable(_)));
        assert!(matches!(of(rustix::io::Errno::STALE), UpstreamError::Unavailable(_)));
        assert!(matches!(of(rustix::io::Errno::ROFS), UpstreamError::AccessDenied(_)));
    }
}
