//! An S3 store that is not ours.

use std::net::SocketAddr;

use crate::Result;
use crate::bench::Options;
use crate::sign::Signer;

/// The S3 store of the miss path.
pub(super) struct S3Store {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) signer: Signer,
}

impl S3Store {
    pub(super) fn of(options: &Options) -> Result<Option<Self>> {
        let Options { upstream_endpoint, upstream_access_key, upstream_secret_key, .. } = options;
        let (Some(endpoint), Some(access_key), Some(secret_key)) =
            (upstream_endpoint, upstream_access_key, upstream_secret_key)
        else {
            return Ok(None);
        };
        let authority = endpoint.strip_prefix("http://").ok_or("--upstream-endpoint: only http:// here")?;
        let address =
            authority.trim_end_matches('/').parse().map_err(|_| "--upstream-endpoint: http://address:port")?;
        let signer = Signer {
            access_key: access_key.clone(),
            secret_key: secret_key.clone(),
            region: options.upstream_region.clone(),
        };
        Ok(Some(Self { name: options.upstream_name.clone(), address, signer }))
    }
}
