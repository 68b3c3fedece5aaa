//! Every metric that is counted as things happen: its name, its labels, its help text.
//!
//! Names are as Prometheus shows them, less the `_total` that the exporter adds to counters. Values that are read whenever
//! metrics are shown (memory in use, entries of the index …) are registered by those who know them, by
//! [`Metrics::observe`](crate::Metrics::observe).

use opentelemetry::metrics::{Counter, Histogram, Meter};

/// Upper bounds of the duration buckets, in seconds: from a memory hit to a client's patience.
const DURATION_BOUNDS: [f64; 17] =
    [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Upper bounds of the rounds that a lookup takes.
const LOOKUP_ROUND_BOUNDS: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 8.0];

/// The instruments.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// `bucket`, `tier`
    pub(crate) reads: Counter<u64>,
    /// `bucket`, `tier`
    pub(crate) read_bytes: Counter<u64>,
    /// `bucket`, `reason`
    pub(crate) misses: Counter<u64>,
    /// `bucket`
    pub(crate) writes: Counter<u64>,
    /// `bucket`
    pub(crate) write_bytes: Counter<u64>,
    /// `tier`
    pub(crate) corrupt: Counter<u64>,
    /// `operation`, `status`
    pub(crate) requests: Counter<u64>,
    /// `operation`
    pub(crate) request_duration: Histogram<f64>,
    /// `operation`, `outcome`
    pub(crate) upstream_requests: Counter<u64>,
    /// `operation`
    pub(crate) upstream_duration: Histogram<f64>,
    /// none
    pub(crate) lookup_duration: Histogram<f64>,
    /// none
    pub(crate) lookup_rounds: Histogram<u64>,
    /// `bucket`
    pub(crate) lookup_keys: Counter<u64>,
    /// `bucket`
    pub(crate) lookup_matched: Counter<u64>,
    /// none
    pub(crate) single_flight_shared: Counter<u64>,
    /// `direction`
    pub(crate) kv_frames: Counter<u64>,
    /// `direction`
    pub(crate) kv_frame_bytes: Counter<u64>,
    /// `limit`
    pub(crate) limits_hit: Counter<u64>,
}

impl Catalogue {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, help: &'static str| meter.u64_counter(name).with_description(help).build();
        let duration = |name: &'static str, help: &'static str| {
            meter.f64_histogram(name).with_description(help).with_boundaries(DURATION_BOUNDS.to_vec()).build()
        };
        Self {
            reads: counter("blockgate_reads", "Objects served, by the tier that they came from."),
            read_bytes: counter("blockgate_read_bytes", "Bytes served, by the tier that they came from."),
            misses: counter("blockgate_misses", "Reads that were answered with a miss, by reason."),
            writes: counter("blockgate_writes", "Objects stored."),
            write_bytes: counter("blockgate_write_bytes", "Bytes of objects stored."),
            corrupt: counter("blockgate_corrupt_blocks", "Blocks found corrupt and removed from a tier."),
            requests: counter("blockgate_requests", "HTTP requests answered, by S3 operation and status."),
            request_duration: duration(
                "blockgate_request_duration_seconds",
                "Time from a request's head to the end of its response, by S3 operation.",
            ),
            upstream_requests: counter("blockgate_upstream_requests", "Calls to the upstream, by outcome."),
            upstream_duration: duration(
                "blockgate_upstream_duration_seconds",
                "Time that a call to the upstream took, by operation.",
            ),
            lookup_duration: duration(
                "blockgate_lookup_seconds",
                "Time from a lookup's keys to its answer, without the request's body and the response.",
            ),
            lookup_rounds: meter
                .u64_histogram("blockgate_lookup_upstream_rounds")
                .with_description("Rounds of questions to the upstream, one after the other, that a lookup took.")
                .with_boundaries(LOOKUP_ROUND_BOUNDS.to_vec())
                .build(),
            lookup_keys: counter("blockgate_lookup_keys", "Blocks that lookups asked about."),
            lookup_matched: counter("blockgate_lookup_matched_blocks", "Blocks that lookups found reusable."),
            single_flight_shared: counter(
                "blockgate_single_flight_shared",
                "Reads that joined an upstream read already under way.",
            ),
            kv_frames: counter("blockgate_kv_frames", "Frames of block bytes of the KV extension, by direction."),
            kv_frame_bytes: counter("blockgate_kv_frame_bytes", "Their payload bytes, by direction."),
            limits_hit: counter("blockgate_limits_hit", "How often a limit was hit, by its name in the configuration."),
        }
    }
}
