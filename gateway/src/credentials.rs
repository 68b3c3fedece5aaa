//! Credentials that are created once, where none are configured.
//!
//! They lie beside the data in a file that only its owner may read, in the form of an AWS shared credentials file: every
//! AWS tool takes it by `AWS_SHARED_CREDENTIALS_FILE`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use blockgate_auth::{AccessKey, AccessKeys, Permission, Secret};
use thiserror::Error;

/// Credentials read from, or just written to, a file.
#[derive(Debug)]
pub(crate) struct Generated {
    /// The one access key; it may do everything.
    pub(crate) key: AccessKey,
    /// Where it is kept.
    pub(crate) path: PathBuf,
    /// Whether it was created just now.
    pub(crate) created: bool,
}

/// Why there are no credentials.
#[derive(Debug, Error)]
pub(crate) enum CredentialsError {
    /// The file can't be read or written.
    #[error("credentials file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The file holds no credentials.
    #[error(
        "credentials file {path}: no aws_access_key_id and aws_secret_access_key; remove it to have new ones created"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the file.
    #[error("credentials file {path}: others may read it (mode {mode:04o}); accepted: 0600")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// The credentials in `directory`, created if there are none. When several gateways start at once on one directory, all
/// end up with the same.
///
/// # Errors
/// See [`CredentialsError`].
pub(crate) fn load_or_create(directory: &Path) -> Result<Generated, CredentialsError> {
    let path = path_in(directory);
    let io = |source| CredentialsError::Io { path: path.clone(), source };
    let created = if path.exists() { false } else { create(directory, &path).map_err(io)? };
    read(path, created)
}

/// The credentials in `directory`, if there are any.
///
/// # Errors
/// See [`CredentialsError`].
pub(crate) fn load(directory: &Path) -> Result<Option<Generated>, CredentialsError> {
    let path = path_in(directory);
    if path.exists() { read(path, false).map(Some) } else { Ok(None) }
}

fn path_in(directory: &Path) -> PathBuf {
    let path = directory.join("credentials");
    // What is shown is pasted in other directories.
    std::path::absolute(&path).unwrap_or(path)
}

fn read(path: PathBuf, created: bool) -> Result<Generated, CredentialsError> {
    let io = |source| CredentialsError::Io { path: path.clone(), source };
    let mode = fs::metadata(&path).map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CredentialsError::Exposed { path, mode });
    }
    let text = fs::read_to_string(&path).map_err(io)?;
    match parse(&text) {
        Some(key) => Ok(Generated { key, path, created }),
        None => Err(CredentialsError::Malformed { path }),
    }
}

/// Writes new credentials; false when another gateway was faster.
fn create(directory: &Path, path: &Path) -> io::Result<bool> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let key = AccessKeys::generate();
    let whole = directory.join(format!("credentials.{}.tmp", key.access_key));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&whole)?;
    let (id, secret) = (&key.access_key, key.secret_key.expose());
    write!(file, "[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n")?;
    file.sync_all()?;
    // A link, unlike a rename, never replaces what is there.
    let linked = fs::hard_link(&whole, path);
    fs::remove_file(&whole)?;
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Option<AccessKey> {
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.split_once('=')).filter(|(left, _)| left.trim() == name);
        values.next().map(|(_, right)| right.trim().to_owned()).filter(|value| !value.is_empty())
    };
    Some(AccessKey {
        access_key: value("aws_access_key_id")?,
        secret_key: Secret::new(value("aws_secret_access_key")?),
        tenant: None,
        buckets: Vec::new(),
        permissions: vec![Permission::Read, Permission::Write],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_once_for_the_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("private");
        let first = load_or_create(&inner).unwrap();
        assert!(first.created);
        assert_eq!(fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "nothing else is left");
        let second = load_or_create(&inner).unwrap();
        assert!(!second.created);
        assert_eq!(second.key.access_key, first.key.access_key);
        assert_eq!(second.key.secret_key.expose(), first.key.secret_key.expose());
    }

    #[test]
    fn no_two_directories_share_credentials() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (load_or_create(a.path()).unwrap().key, load_or_create(b.path()).unwrap().key);
        assert_ne!(a.access_key, b.access_key);
        assert_ne!(a.secret_key.expose(), b.secret_key.expose());
    }

    #[test]
    fn the_slower_of_two_gateways_takes_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        assert!(create(directory.path(), &path).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert!(!create(directory.path(), &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = load_or_create(directory.path()).unwrap().path;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load_or_create(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("others may read it (mode 0640); accepted: 0600"), "{error}");
    }

    #[test]
    fn a_file_without_credentials_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = load_or_create(directory.path()).unwrap().path;
        fs::write(&path, "[default]\naws_access_key_id = x\n").unwrap();
        assert!(matches!(load_or_create(directory.path()), Err(CredentialsError::Malformed { .. })));
    }
}
