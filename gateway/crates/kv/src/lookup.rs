//! `lookup` and `exists`: what is there.

use std::time::Duration;

use axum::response::Response;
use blockgate_api::limits::LEASE_MS_MAX;
use blockgate_api::types::{ExistsRequest, ExistsResponse, LookupRequest, LookupResponse, Miss};
use blockgate_store::{ChainMatch, ChainRequest};
use tokio::time::Instant;

use crate::gate::{Asked, Gate};
use crate::refusal::Refusal;
use crate::{fields, json};

impl Gate {
    pub(crate) async fn lookup(&self, asked: Asked) -> Result<Response, Refusal> {
        let started = Instant::now();
        let request: LookupRequest = json::read(&asked.headers, asked.body).await?;
        fields::fingerprint(request.fingerprint.as_deref())?;
        let deadline = fields::deadline(request.deadline_ms, started)?;
        let lease = match request.lease_ms {
            0 => None,
            ms => Some(Duration::from_millis(fields::between("lease_ms", ms, LEASE_MS_MAX)?)),
        };
        let keys = fields::keys(&asked.bucket, &request.key_prefix, &request.key_suffix, request.keys)?;
        let chain = ChainRequest {
            fingerprint: request.fingerprint,
            deadline: fields::left(deadline),
            lease,
            prefetch: request.prefetch,
        };
        let found = self.store.lookup(&keys, chain).await?;
        Ok(json::response(&written(&found)))
    }

    pub(crate) async fn exists(&self, asked: Asked) -> Result<Response, Refusal> {
        let started = Instant::now();
        let request: ExistsRequest = json::read(&asked.headers, asked.body).await?;
        let fingerprint = request.fingerprint.as_deref();
        fields::fingerprint(fingerprint)?;
        let deadline = fields::deadline(request.deadline_ms, started)?;
        let keys = fields::keys(&asked.bucket, &request.key_prefix, &request.key_suffix, request.keys)?;
        let present = self.store.exists(&keys, fingerprint, fields::left(deadline)).await?;
        Ok(json::response(&ExistsResponse { present: present.into_iter().collect() }))
    }
}

fn written(found: &ChainMatch) -> LookupResponse {
    LookupResponse {
        matched: found.matched as u64,
        bytes: found.bytes,
        tiers: found.tiers,
        miss: found.miss.map(|(index, reason)| Miss { index: index as u64, reason }),
        estimate_ms: found.estimate.as_secs_f64() * 1e3,
        lease_expires_at: found.lease_expires_at.map(fields::milliseconds),
    }
}
