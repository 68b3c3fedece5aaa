//! Builds the SDK's client from settings.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    StalledStreamProtectionConfig,
};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use tokio::sync::Semaphore;

use super::clock::StoreClock;
use super::seen::BucketsSeen;
use super::{Inner, S3Settings, S3Upstream};
use crate::{Result, UpstreamError};

impl S3Upstream {
    /// Prepares to talk to a store. Nothing is sent yet, so this works while the store is down; what the store can do is
    /// found out when the first bucket is used.
    ///
    /// # Errors
    /// [`UpstreamError::InvalidRequest`] when the endpoint is no URL or the certificates can't be read.
    pub fn connect(settings: S3Settings) -> Result<Self> {
        let clock = StoreClock::new(SharedTimeSource::default());
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&settings.endpoint)
            .region(Region::new(settings.region.clone()))
            .force_path_style(settings.path_style)
            .credentials_provider(Credentials::new(&settings.access_key, &settings.secret_key, None, None, "blockgate"))
            .http_client(http_client(&settings)?)
            .sleep_impl(TokioSleep::new())
            .timeout_config(timeouts(&settings, settings.attempt_timeout, settings.operation_timeout))
            .retry_config(
                RetryConfig::standard()
                    .with_max_attempts(settings.attempts_max)
                    .with_initial_backoff(Duration::from_millis(100))
                    .with_max_backoff(Duration::from_secs(2)),
            )
            .retry_partition(
                RetryPartition::custom("blockgate").token_bucket(TokenBucket::new(settings.retry_budget)).build(),
            )
            .stalled_stream_protection(
                StalledStreamProtectionConfig::enabled().grace_period(settings.stall_timeout).build(),
            )
            // Old stores know no trailing checksums.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .interceptor(clock.clone())
            .build();
        let client = aws_sdk_s3::Client::from_conf(config);
        let permits = Arc::new(Semaphore::new(settings.requests_max));
        let capabilities = tokio::sync::OnceCell::new();
        let inner = Inner { client, settings, clock, permits, capabilities, seen: BucketsSeen::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Other patience for one request.
    pub(super) fn patience(&self, attempt: Duration, operation: Duration) -> Builder {
        aws_sdk_s3::Config::builder().timeout_config(timeouts(&self.inner.settings, attempt, operation))
    }

    /// Patience with a request that lets the store work. It is not repeated: the first try may have succeeded unheard.
    pub(super) fn slow_once(&self) -> Builder {
        let timeout = self.inner.settings.slow_operation_timeout;
        self.patience(timeout, timeout).retry_config(RetryConfig::disabled())
    }

    /// Patience with an upload of so many bytes.
    pub(super) fn upload_patience(&self, len_bytes: u64) -> (Duration, Duration) {
        let settings = &self.inner.settings;
        let extra = Duration::from_secs(len_bytes / settings.upload_floor_bytes_per_s.max(1));
        (settings.attempt_timeout + extra, settings.operation_timeout + extra * settings.attempts_max)
    }

    pub(super) fn local_now(&self) -> SystemTime {
        self.inner.clock.local_now()
    }
}

/// Connections are pooled by connect and read timeout, so those are the same for every request.
fn timeouts(settings: &S3Settings, attempt: Duration, operation: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(settings.connect_timeout)
        .operation_attempt_timeout(attempt)
        .operation_timeout(operation)
        .build()
}

fn http_client(settings: &S3Settings) -> Result<SharedHttpClient> {
    let invalid = |what: &str| UpstreamError::InvalidRequest(format!("{what}: {:?}", settings.endpoint));
    let uri: http::Uri = settings.endpoint.parse().map_err(|_| invalid("the endpoint is no URL"))?;
    let builder = aws_smithy_http_client::Builder::new()
        .pool_idle_timeout(settings.idle_timeout)
        .pool_max_idle_per_host(settings.idle_connections_max);
    match uri.scheme_str() {
        Some("http") => Ok(builder.build_http()),
        Some("https") => {
            let mut trust = TrustStore::default();
            if let Some(pem) = &settings.ca_pem {
                trust = TrustStore::empty().with_pem_certificate(pem.clone());
            }
            let context = TlsContext::builder().with_trust_store(trust).build();
            let context = context.map_err(|_| invalid("the certificates can't be read"))?;
            Ok(builder.tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(context).build_https())
        }
        _ => Err(invalid("the endpoint is neither http:// nor https://")),
    }
}
