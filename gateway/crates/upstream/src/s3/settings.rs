//! What an S3 upstream needs to know.

use std::fmt;
use std::time::Duration;

/// How an S3 store is reached, and how much patience it is given.
#[derive(Clone)]
pub struct S3Settings {
    /// `http://` or `https://` URL of the store.
    pub endpoint: String,
    /// Region that requests are signed for.
    pub region: String,
    /// Bucket in the path, instead of in the host name.
    pub path_style: bool,
    /// Access key of blockgate itself.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// Certificates (PEM) that the store's certificate may be signed by, instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait for the answer to one try of a small request.
    pub attempt_timeout: Duration,
    /// Longest wait for the answer to a request, retries included.
    pub operation_timeout: Duration,
    /// The same for requests that let the store work: Complete and copies.
    pub slow_operation_timeout: Duration,
    /// Longest time that a body may stand still.
    pub stall_timeout: Duration,
    /// An upload gets one second more than `attempt_timeout` for each so many bytes.
    pub upload_floor_bytes_per_s: u64,
    /// Most tries of one request.
    pub attempts_max: u32,
    /// Retries that all requests together may have in hand: failing ones use it up, succeeding ones fill it again.
    pub retry_budget: usize,
    /// Most requests at one time; more wait, at most `operation_timeout`.
    pub requests_max: usize,
    /// Most idle connections kept.
    pub idle_connections_max: usize,
    /// How long an idle connection is kept. Less than the store keeps it.
    pub idle_timeout: Duration,
}

impl S3Settings {
    /// Settings with defaults for all but the address and the credentials.
    #[must_use]
    pub fn new(endpoint: &str, region: &str, access_key: &str, secret_key: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            region: region.to_owned(),
            path_style: true,
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            ca_pem: None,
            connect_timeout: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(25),
            slow_operation_timeout: Duration::from_secs(120),
            stall_timeout: Duration::from_secs(15),
            upload_floor_bytes_per_s: 1 << 20,
            attempts_max: 3,
            retry_budget: 100,
            requests_max: 256,
            idle_connections_max: 256,
            idle_timeout: Duration::from_secs(20),
        }
    }
}

impl fmt::Debug for S3Settings {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("path_style", &self.path_style)
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}
