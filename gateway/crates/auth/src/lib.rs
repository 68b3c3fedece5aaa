//! Who may do what: credentials, and the policy that both faces ask.
#![allow(missing_docs, clippy::todo, unused)]

/// A secret that no log line, debug output or error shows.
#[derive(Clone)]
pub struct Secret(String);
impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }
    pub fn expose(&self) -> &str {
        &self.0
    }
}
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What an access key may do with the buckets that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Read,
    Write,
}

/// One access key.
#[derive(Clone, Debug)]
pub struct AccessKey {
    pub access_key: String,
    pub secret_key: Secret,
    pub tenant: Option<String>,
    /// Bucket patterns; all buckets when empty.
    pub buckets: Vec<String>,
    pub permissions: Vec<Permission>,
}

/// All access keys.
#[derive(Clone, Debug)]
pub struct AccessKeys;
impl AccessKeys {
    /// Refuses doubled or malformed access keys.
    pub fn new(keys: Vec<AccessKey>) -> Result<Self, String> {
        todo!()
    }
    pub fn find(&self, access_key: &str) -> Option<&AccessKey> {
        todo!()
    }
    pub fn allows(&self, access_key: &str, bucket: &str, permission: Permission) -> bool {
        todo!()
    }
    /// A new random access key and secret.
    pub fn generate() -> AccessKey {
        todo!()
    }
}
