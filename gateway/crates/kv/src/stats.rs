//! `stats` and `fleet`: what operators look at.

use axum::response::Response;
use blockgate_api::types::{
    FleetResponse, GatewayInfo, LeaseStats, MemoryStats, StagingStats, StatsResponse, TierSpeed, TierStats,
    UpstreamInfo, UpstreamState,
};
use blockgate_store::StoreError;
use blockgate_upstream::UpstreamError;
use tokio::time::timeout;

use crate::gate::{Asked, Gate};
use crate::limits::UPSTREAM_PATIENCE;
use crate::refusal::{Refusal, no_such_bucket};
use crate::{fields, json};

impl Gate {
    pub(crate) async fn stats(&self, asked: Asked) -> Result<Response, Refusal> {
        // What the gateway knows is shown also while the upstream is out.
        if let Ok(Err(StoreError::Upstream(UpstreamError::NoSuchBucket | UpstreamError::InvalidBucketName(_)))) =
            timeout(UPSTREAM_PATIENCE, self.store.head_bucket(&asked.bucket)).await
        {
            return Err(no_such_bucket());
        }
        let chains = self.store.chain_stats();
        let speed = |speed: blockgate_store::TierSpeed| TierSpeed {
            latency_ms: speed.latency.as_secs_f64() * 1e3,
            bytes_per_second: speed.bytes_per_second,
        };
        Ok(json::response(&StatsResponse {
            bucket: asked.bucket,
            leases: LeaseStats { blocks: chains.leases, bytes: chains.lease_bytes },
            tiers: TierStats {
                memory: speed(chains.memory),
                staging: chains.staging.map(speed),
                upstream: speed(chains.upstream),
            },
            memory: self.memory(),
            staging: self.staging(),
            index_entries: self.store.index_len(),
            pending_upload_bytes: self.store.pending_bytes(),
        }))
    }

    pub(crate) async fn fleet(&self) -> Result<Response, Refusal> {
        let upstream = self.store.upstream();
        let state = match timeout(UPSTREAM_PATIENCE, upstream.ping()).await {
            Ok(Ok(())) => UpstreamState::Up,
            Ok(Err(_)) | Err(_) => UpstreamState::Down,
        };
        let identity = self.identity.clone();
        let gateway = GatewayInfo {
            id: identity.gateway_id,
            version: identity.version,
            started_at: fields::milliseconds(identity.started_at),
            memory: self.memory(),
            staging: self.staging(),
            upstream: UpstreamInfo { kind: upstream.name().to_owned(), state },
        };
        Ok(json::response(&FleetResponse { gateways: vec![gateway] }))
    }

    fn memory(&self) -> MemoryStats {
        let stats = self.store.memory_stats();
        MemoryStats {
            capacity_bytes: stats.arena.capacity_bytes,
            used_bytes: stats.arena.used_bytes,
            blocks: stats.blocks,
            evictions: stats.evictions,
        }
    }

    fn staging(&self) -> Option<StagingStats> {
        let stats = self.store.staging_stats()?;
        Some(StagingStats {
            is_on: stats.is_on,
            capacity_bytes: stats.capacity_bytes,
            used_bytes: stats.used_bytes,
            blocks: stats.blocks,
            pending_blocks: stats.pending_blocks,
            pending_bytes: stats.pending_bytes,
        })
    }
}
