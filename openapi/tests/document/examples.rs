//! Requests and responses as they travel.

use blockgate_api::types::*;
use blockgate_api::{ErrorBody, ErrorCode, ErrorDetail, MissReason};

use crate::node::Node;

const PREFIX: &str = "llama-3.1-8b@0@";
const SUFFIX: &str = "@bf16";
const FINGERPRINT: &str = "llama-3.1-8b/bf16/tp1";

fn keys() -> Vec<String> {
    vec!["9e85762a".to_owned(), "5d203f5d".to_owned(), "1e97891d".to_owned()]
}

pub(crate) fn lookup() -> (LookupRequest, LookupResponse) {
    let request = LookupRequest {
        keys: keys(),
        key_prefix: PREFIX.into(),
        key_suffix: SUFFIX.into(),
        fingerprint: Some(FINGERPRINT.into()),
        lease_ms: 5_000,
        prefetch: true,
        deadline_ms: Some(50),
    };
    let response = LookupResponse {
        matched: 2,
        bytes: 524_288,
        tiers: TierCounts { memory: 1, staging: 0, upstream: 1 },
        miss: Some(Miss { index: 2, reason: MissReason::Absent }),
        estimate_ms: 8.5,
        lease_expires_at: Some(1_767_225_600_000),
    };
    (request, response)
}

pub(crate) fn exists() -> (ExistsRequest, ExistsResponse) {
    let request = ExistsRequest {
        keys: keys(),
        key_prefix: PREFIX.into(),
        key_suffix: SUFFIX.into(),
        fingerprint: Some(FINGERPRINT.into()),
        deadline_ms: Some(50),
    };
    (request, ExistsResponse { present: [true, true, false].into_iter().collect() })
}

pub(crate) fn get() -> GetRequest {
    GetRequest {
        keys: keys(),
        key_prefix: PREFIX.into(),
        key_suffix: SUFFIX.into(),
        mode: GetMode::Prefix,
        order: GetOrder::Request,
        stripes: 32,
        ranges: None,
        deadline_ms: Some(200),
        fingerprint: Some(FINGERPRINT.into()),
    }
}

/// The same for a part of each block.
pub(crate) fn get_ranges() -> GetRequest {
    let ranges = vec![ByteRange { offset: 0, length: 4096 }, ByteRange { offset: 131_072, length: 4096 }];
    GetRequest { mode: GetMode::All, order: GetOrder::Ready, stripes: 1, ranges: Some(ranges), ..get() }
}

pub(crate) fn put() -> PutResponse {
    let stored =
        PutResult { status: 200, etag: Some("00d4c2b4a1f0e3aa0000000000040000-1".into()), code: None, message: None };
    let refused = PutResult {
        status: ErrorCode::BadDigest.status().as_u16(),
        etag: None,
        code: Some(ErrorCode::BadDigest),
        message: Some("the payload of frame 1 does not have its checksum".into()),
    };
    PutResponse { results: vec![stored, refused] }
}

pub(crate) fn delete() -> ([DeleteRequest; 3], DeleteResponse) {
    let by_keys = DeleteRequest {
        keys: Some(keys()),
        key_prefix: PREFIX.into(),
        key_suffix: SUFFIX.into(),
        ..DeleteRequest::default()
    };
    let by_prefix = DeleteRequest { prefix: Some(PREFIX.into()), ..DeleteRequest::default() };
    let by_fingerprint = DeleteRequest { fingerprint: Some(FINGERPRINT.into()), ..DeleteRequest::default() };
    ([by_keys, by_prefix, by_fingerprint], DeleteResponse { deleted: 3, effective_at: 1_767_225_602_000 })
}

pub(crate) fn touch() -> (TouchRequest, TouchResponse) {
    let request = TouchRequest { keys: keys(), key_prefix: PREFIX.into(), key_suffix: SUFFIX.into(), ttl_s: 86_400 };
    (request, TouchResponse { touched: 2 })
}

pub(crate) fn stats() -> StatsResponse {
    StatsResponse {
        bucket: "kvcache".into(),
        leases: LeaseStats { blocks: 2, bytes: 524_288 },
        tiers: TierStats {
            memory: TierSpeed { latency_ms: 0.05, bytes_per_second: 3_221_225_472 },
            staging: Some(TierSpeed { latency_ms: 0.4, bytes_per_second: 1_610_612_736 }),
            upstream: TierSpeed { latency_ms: 4.5, bytes_per_second: 268_435_456 },
        },
        memory: memory(),
        staging: Some(staging()),
        index_entries: 40_960,
        pending_upload_bytes: 4_194_304,
    }
}

fn memory() -> MemoryStats {
    MemoryStats { capacity_bytes: 8_589_934_592, used_bytes: 4_294_967_296, blocks: 4_096, evictions: 12 }
}

fn staging() -> StagingStats {
    StagingStats {
        is_on: true,
        capacity_bytes: 2_199_023_255_552,
        used_bytes: 1_099_511_627_776,
        blocks: 1_048_576,
        pending_blocks: 16,
        pending_bytes: 4_194_304,
    }
}

pub(crate) fn fleet() -> FleetResponse {
    let gateway = GatewayInfo {
        id: "5f0c9d3e".into(),
        version: "0.1.0".into(),
        started_at: 1_767_139_200_000,
        memory: memory(),
        staging: Some(staging()),
        upstream: UpstreamInfo { kind: "s3".into(), state: UpstreamState::Up },
    };
    FleetResponse { gateways: vec![gateway] }
}

pub(crate) fn error(code: ErrorCode) -> ErrorBody {
    ErrorBody { error: ErrorDetail { code, message: code.meaning().into(), request_id: "7d0c2f51a9e84b36".into() } }
}

/// An instance of each schema that has fields, all of them set.
pub(crate) fn full() -> Vec<(&'static str, Node)> {
    let ([mut delete_request, ..], delete_response) = delete();
    (delete_request.prefix, delete_request.fingerprint) = (Some("p".into()), Some("f".into()));
    let mut result = put().results.swap_remove(0);
    (result.code, result.message) = (Some(ErrorCode::BadDigest), Some("m".into()));
    vec![
        ("LookupRequest", Node::of(&lookup().0)),
        ("LookupResponse", Node::of(&lookup().1)),
        ("TierCounts", Node::of(&lookup().1.tiers)),
        ("Miss", Node::of(&lookup().1.miss)),
        ("ExistsRequest", Node::of(&exists().0)),
        ("ExistsResponse", Node::of(&exists().1)),
        ("GetRequest", Node::of(&get())),
        ("ByteRange", Node::of(&ByteRange { offset: 0, length: 1 })),
        ("PutHeader", Node::of(&PutHeader::default())),
        ("PutResponse", Node::of(&put())),
        ("PutResult", Node::of(&result)),
        ("StreamEnd", Node::of(&StreamEnd::default())),
        ("MissBody", Node::of(&MissBody { reason: MissReason::Absent })),
        ("DeleteRequest", Node::of(&delete_request)),
        ("DeleteResponse", Node::of(&delete_response)),
        ("TouchRequest", Node::of(&touch().0)),
        ("TouchResponse", Node::of(&touch().1)),
        ("StatsResponse", Node::of(&stats())),
        ("MemoryStats", Node::of(&memory())),
        ("StagingStats", Node::of(&staging())),
        ("UpstreamInfo", Node::of(&fleet().gateways[0].upstream)),
        ("LeaseStats", Node::of(&stats().leases)),
        ("TierStats", Node::of(&stats().tiers)),
        ("TierSpeed", Node::of(&stats().tiers.memory)),
        ("FleetResponse", Node::of(&fleet())),
        ("GatewayInfo", Node::of(&fleet().gateways[0])),
        ("ErrorBody", Node::of(&error(ErrorCode::SlowDown))),
    ]
}
