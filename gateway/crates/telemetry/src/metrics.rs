//! Counting what happens, and showing it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

use crate::catalogue::Catalogue;
use crate::labels::Family;

/// Most buckets that are told apart; the rest are counted as [`OTHER`] together. Bucket names come from clients.
const BUCKETS_MAX: usize = 200;

/// Most combinations of the other labels. Their values are the gateway's own, so that this is never reached.
const COMBINATIONS_MAX: usize = 1000;

/// The label value of what is no longer told apart.
const OTHER: &str = "other";

/// Every metric of the gateway; cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    /// Shuts the instruments down when dropped.
    _provider: SdkMeterProvider,
    meter: Meter,
    catalogue: Catalogue,
    buckets: Family<String, BucketCounters>,
    requests: Family<(&'static str, u16), Timed>,
    upstream: Family<(&'static str, &'static str), Timed>,
    limits: Family<&'static str, BoundCounter<u64>>,
    single_flight_shared: BoundCounter<u64>,
    lookup_duration: BoundHistogram<f64>,
    lookup_rounds: BoundHistogram<u64>,
    frames_in: Frames,
    frames_out: Frames,
}

/// Frames of one direction, and their bytes.
struct Frames {
    count: BoundCounter<u64>,
    bytes: BoundCounter<u64>,
}

impl Frames {
    fn new(catalogue: &Catalogue, direction: &'static str) -> Self {
        let labels = [KeyValue::new("direction", direction)];
        Self { count: catalogue.kv_frames.bind(&labels), bytes: catalogue.kv_frame_bytes.bind(&labels) }
    }

    fn add(&self, bytes: u64) {
        self.count.add(1);
        self.bytes.add(bytes);
    }
}

/// Counts by all labels, times by the first.
struct Timed {
    count: BoundCounter<u64>,
    duration: BoundHistogram<f64>,
}

impl Timed {
    fn new(counter: &Counter<u64>, histogram: &Histogram<f64>, operation: &'static str, other: KeyValue) -> Self {
        let operation = KeyValue::new("operation", operation);
        Self { count: counter.bind(&[operation.clone(), other]), duration: histogram.bind(&[operation]) }
    }

    fn record(&self, elapsed: Duration) {
        self.count.add(1);
        self.duration.record(elapsed.as_secs_f64());
    }
}

/// The counters of one bucket; all exist, at 0, once the bucket is seen.
struct BucketCounters {
    reads: Vec<(&'static str, BoundCounter<u64>, BoundCounter<u64>)>,
    misses: Vec<(&'static str, BoundCounter<u64>)>,
    writes: BoundCounter<u64>,
    write_bytes: BoundCounter<u64>,
    lookup_keys: BoundCounter<u64>,
    lookup_matched: BoundCounter<u64>,
}

impl BucketCounters {
    fn new(catalogue: &Catalogue, bucket: &str) -> Self {
        let bucket = KeyValue::new("bucket", bucket.to_owned());
        let read = |tier: Tier| {
            let labels = [bucket.clone(), KeyValue::new("tier", tier.as_str())];
            (tier.as_str(), catalogue.reads.bind(&labels), catalogue.read_bytes.bind(&labels))
        };
        let miss = |reason: MissReason| {
            let labels = [bucket.clone(), KeyValue::new("reason", reason.as_str())];
            (reason.as_str(), catalogue.misses.bind(&labels))
        };
        Self {
            reads: [Tier::Memory, Tier::Staging, Tier::Upstream].map(read).into(),
            misses: MissReason::ALL.map(miss).into(),
            writes: catalogue.writes.bind(std::slice::from_ref(&bucket)),
            write_bytes: catalogue.write_bytes.bind(std::slice::from_ref(&bucket)),
            lookup_keys: catalogue.lookup_keys.bind(std::slice::from_ref(&bucket)),
            lookup_matched: catalogue.lookup_matched.bind(&[bucket]),
        }
    }
}

impl Metrics {
    /// Metrics that begin at 0.
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        let resource = Resource::builder_empty().with_service_name("blockgate").build();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_units()
            .scope_info_enabled(false)
            .build()
            .expect("a registry that is still empty takes the exporter");
        let provider = SdkMeterProvider::builder().with_reader(exporter).with_resource(resource).build();
        let meter = provider.meter("blockgate");
        let catalogue = Catalogue::new(&meter);
        let single_flight_shared = catalogue.single_flight_shared.bind(&[]);
        // Without labels, it is shown only once it was counted.
        single_flight_shared.add(0);
        let (lookup_duration, lookup_rounds) = (catalogue.lookup_duration.bind(&[]), catalogue.lookup_rounds.bind(&[]));
        let (frames_in, frames_out) = (Frames::new(&catalogue, "in"), Frames::new(&catalogue, "out"));
        Self(Arc::new(Inner {
            registry,
            _provider: provider,
            meter,
            catalogue,
            buckets: Family::new(BUCKETS_MAX),
            requests: Family::new(COMBINATIONS_MAX),
            upstream: Family::new(COMBINATIONS_MAX),
            limits: Family::new(COMBINATIONS_MAX),
            single_flight_shared,
            lookup_duration,
            lookup_rounds,
            frames_in,
            frames_out,
        }))
    }

    /// All metrics in Prometheus' text format.
    #[must_use]
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.0.registry.gather()).unwrap_or_else(|error| {
            tracing::error!(%error, "metrics can't be shown");
            String::new()
        })
    }

    /// An object, or a part of one, was served from `tier`, a [`Tier`]'s name.
    pub fn hit(&self, bucket: &str, tier: &'static str, bytes: u64) {
        if let Some((_, reads, read_bytes)) = self.bucket(bucket).reads.iter().find(|(name, ..)| *name == tier) {
            reads.add(1);
            read_bytes.add(bytes);
        }
    }

    /// A read was answered with a miss. `reason` is a [`MissReason`]'s name.
    pub fn miss(&self, bucket: &str, reason: &'static str) {
        if let Some((_, misses)) = self.bucket(bucket).misses.iter().find(|(name, _)| *name == reason) {
            misses.add(1);
        }
    }

    /// An object was stored.
    pub fn stored(&self, bucket: &str, bytes: u64) {
        let bucket = self.bucket(bucket);
        bucket.writes.add(1);
        bucket.write_bytes.add(bytes);
    }

    /// A lookup of `keys` keys was answered: so many of them match, after so many rounds of questions to the upstream.
    pub fn lookup(&self, bucket: &str, keys: usize, matched: usize, rounds: u32, elapsed: Duration) {
        let bucket = self.bucket(bucket);
        bucket.lookup_keys.add(keys as u64);
        bucket.lookup_matched.add(matched as u64);
        self.0.lookup_rounds.record(u64::from(rounds));
        self.0.lookup_duration.record(elapsed.as_secs_f64());
    }

    /// A block in `tier` did not have the bytes that it was stored with.
    pub fn corrupt(&self, tier: &'static str) {
        self.0.catalogue.corrupt.add(1, &[KeyValue::new("tier", tier)]);
    }

    /// One HTTP request ended. `operation` is the S3 operation's name or `unknown`.
    pub fn request(&self, operation: &'static str, status: u16, elapsed: Duration) {
        let Catalogue { requests, request_duration, .. } = &self.0.catalogue;
        let bind = |&(operation, status): &(&'static str, u16)| {
            Timed::new(requests, request_duration, operation, KeyValue::new("status", i64::from(status)))
        };
        self.0.requests.get(&(operation, status), &(OTHER, 0), bind).record(elapsed);
    }

    /// A call to the upstream ended.
    pub fn upstream_call(&self, operation: &'static str, outcome: &'static str, elapsed: Duration) {
        let Catalogue { upstream_requests, upstream_duration, .. } = &self.0.catalogue;
        let bind = |&(operation, outcome): &(&'static str, &'static str)| {
            Timed::new(upstream_requests, upstream_duration, operation, KeyValue::new("outcome", outcome))
        };
        self.0.upstream.get(&(operation, outcome), &(OTHER, OTHER), bind).record(elapsed);
    }

    /// An upstream read was shared by one more reader.
    pub fn single_flight_shared(&self) {
        self.0.single_flight_shared.add(1);
    }

    /// A frame with bytes of a block came in by the KV extension, sound or not.
    pub fn frame_in(&self, bytes: u64) {
        self.0.frames_in.add(bytes);
    }

    /// A frame with bytes of a block went out by the KV extension.
    pub fn frame_out(&self, bytes: u64) {
        self.0.frames_out.add(bytes);
    }

    /// A limit was hit, named as in the configuration.
    pub fn limit_hit(&self, limit: &'static str) {
        let bind = |limit: &&'static str| self.0.catalogue.limits_hit.bind(&[KeyValue::new("limit", *limit)]);
        self.0.limits.get(&limit, &OTHER, bind).add(1);
    }

    /// A value read whenever metrics are shown: a counter where the name ends in `_total`, else a gauge.
    ///
    /// The reader must be quick and is kept for ever; each name may be given once.
    pub fn observe(&self, name: &'static str, help: &'static str, read: impl Fn() -> f64 + Send + Sync + 'static) {
        // The meter keeps the callback; the handle that it returns is of no use. It puts the suffix back when shown.
        if let Some(stem) = name.strip_suffix("_total") {
            let counter = self.0.meter.f64_observable_counter(stem).with_description(help);
            counter.with_callback(move |observer| observer.observe(read(), &[])).build();
        } else {
            let gauge = self.0.meter.f64_observable_gauge(name).with_description(help);
            gauge.with_callback(move |observer| observer.observe(read(), &[])).build();
        }
    }

    fn bucket(&self, name: &str) -> Arc<BucketCounters> {
        self.0.buckets.get(name, OTHER, |name| BucketCounters::new(&self.0.catalogue, name))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Whether the text has this line.
    #[track_caller]
    fn assert_shows(metrics: &Metrics, line: &str) {
        let text = metrics.render();
        assert!(text.lines().any(|shown| shown == line), "no {line:?} in\n{text}");
    }

    #[test]
    fn reads_and_writes_are_counted_by_bucket() {
        let metrics = Metrics::new();
        metrics.hit("kv", "memory", 100);
        metrics.hit("kv", "memory", 23);
        metrics.hit("kv", "upstream", 1);
        metrics.miss("kv", "absent");
        metrics.stored("other-kv", 7);
        for line in [
            r#"blockgate_reads_total{bucket="kv",tier="memory"} 2"#,
            r#"blockgate_read_bytes_total{bucket="kv",tier="memory"} 123"#,
            r#"blockgate_reads_total{bucket="kv",tier="upstream"} 1"#,
            r#"blockgate_misses_total{bucket="kv",reason="absent"} 1"#,
            r#"blockgate_writes_total{bucket="other-kv"} 1"#,
            r#"blockgate_write_bytes_total{bucket="other-kv"} 7"#,
            // Not seen yet, and there all the same: rates can be computed from the first one on.
            r#"blockgate_misses_total{bucket="kv",reason="corrupt"} 0"#,
            r#"blockgate_reads_total{bucket="other-kv",tier="staging"} 0"#,
        ] {
            assert_shows(&metrics, line);
        }
    }

    #[test]
    fn requests_are_timed_by_operation() {
        let metrics = Metrics::new();
        metrics.request("GetObject", 200, Duration::from_micros(80));
        metrics.request("GetObject", 404, Duration::from_millis(20));
        metrics.upstream_call("get", "ok", Duration::from_secs(20));
        for line in [
            r#"blockgate_requests_total{operation="GetObject",status="200"} 1"#,
            r#"blockgate_requests_total{operation="GetObject",status="404"} 1"#,
            r#"blockgate_request_duration_seconds_bucket{operation="GetObject",le="0.00005"} 0"#,
            r#"blockgate_request_duration_seconds_bucket{operation="GetObject",le="0.0001"} 1"#,
            r#"blockgate_request_duration_seconds_bucket{operation="GetObject",le="+Inf"} 2"#,
            r#"blockgate_request_duration_seconds_count{operation="GetObject"} 2"#,
            r#"blockgate_upstream_requests_total{operation="get",outcome="ok"} 1"#,
            r#"blockgate_upstream_duration_seconds_bucket{operation="get",le="10"} 0"#,
            r#"blockgate_upstream_duration_seconds_sum{operation="get"} 20"#,
        ] {
            assert_shows(&metrics, line);
        }
    }

    #[test]
    fn lookups_are_counted_by_bucket_and_timed() {
        let metrics = Metrics::new();
        metrics.lookup("kv", 4000, 17, 3, Duration::from_micros(300));
        metrics.lookup("kv", 10, 10, 0, Duration::from_micros(30));
        for line in [
            r#"blockgate_lookup_keys_total{bucket="kv"} 4010"#,
            r#"blockgate_lookup_matched_blocks_total{bucket="kv"} 27"#,
            r#"blockgate_lookup_upstream_rounds_bucket{le="0"} 1"#,
            r#"blockgate_lookup_upstream_rounds_bucket{le="3"} 2"#,
            r#"blockgate_lookup_seconds_bucket{le="0.00005"} 1"#,
            r#"blockgate_lookup_seconds_count 2"#,
        ] {
            assert_shows(&metrics, line);
        }
    }

    #[test]
    fn other_events_are_counted() {
        let metrics = Metrics::new();
        assert_shows(&metrics, "blockgate_single_flight_shared_total 0");
        metrics.single_flight_shared();
        metrics.limit_hit("server.connections_max");
        metrics.corrupt("memory");
        metrics.frame_in(3);
        metrics.frame_out(4);
        assert_shows(&metrics, r#"blockgate_kv_frames_total{direction="in"} 1"#);
        assert_shows(&metrics, r#"blockgate_kv_frame_bytes_total{direction="out"} 4"#);
        assert_shows(&metrics, "blockgate_single_flight_shared_total 1");
        assert_shows(&metrics, r#"blockgate_limits_hit_total{limit="server.connections_max"} 1"#);
        assert_shows(&metrics, r#"blockgate_corrupt_blocks_total{tier="memory"} 1"#);
    }

    #[test]
    fn observed_values_are_read_when_shown() {
        let metrics = Metrics::new();
        let value = Arc::new(AtomicU64::new(5));
        let read = |value: &Arc<AtomicU64>| {
            let value = Arc::clone(value);
            move || value.load(Ordering::Relaxed) as f64
        };
        metrics.observe("blockgate_memory_used_bytes", "Bytes used.", read(&value));
        metrics.observe("blockgate_memory_evictions_total", "Blocks evicted.", read(&value));
        assert_shows(&metrics, "blockgate_memory_used_bytes 5");
        value.store(6, Ordering::Relaxed);
        assert_shows(&metrics, "blockgate_memory_used_bytes 6");
        assert_shows(&metrics, "blockgate_memory_evictions_total 6");
        assert_shows(&metrics, "# TYPE blockgate_memory_used_bytes gauge");
        assert_shows(&metrics, "# TYPE blockgate_memory_evictions_total counter");
        assert_shows(&metrics, "# HELP blockgate_memory_evictions_total Blocks evicted.");
    }

    #[test]
    fn buckets_beyond_the_limit_are_counted_together() {
        let metrics = Metrics::new();
        for bucket in 0..BUCKETS_MAX + 50 {
            metrics.hit(&format!("b{bucket}"), "memory", 1);
        }
        metrics.hit("b0", "memory", 1);
        assert_shows(&metrics, r#"blockgate_reads_total{bucket="b0",tier="memory"} 2"#);
        assert_shows(&metrics, r#"blockgate_reads_total{bucket="other",tier="memory"} 50"#);
        let series = metrics.render().lines().filter(|line| line.starts_with("blockgate_reads_total{")).count();
        assert_eq!(series, (BUCKETS_MAX + 1) * 3);
    }
}
