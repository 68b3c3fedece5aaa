//! stub
#![allow(missing_docs, clippy::todo, unused)]
use std::time::Duration;
/// Every metric of the gateway; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics;
impl Metrics {
    pub fn new() -> Self {
        todo!()
    }
    /// Prometheus text format.
    pub fn render(&self) -> String {
        todo!()
    }
    /// A block or object was served.
    pub fn hit(&self, bucket: &str, tier: &'static str, bytes: u64) {
        todo!()
    }
    pub fn miss(&self, bucket: &str, reason: &'static str) {
        todo!()
    }
    pub fn stored(&self, bucket: &str, bytes: u64) {
        todo!()
    }
    pub fn corrupt(&self, tier: &'static str) {
        todo!()
    }
    /// One HTTP request ended. `operation` is the S3 operation's name or `unknown`.
    pub fn request(&self, operation: &'static str, status: u16, elapsed: Duration) {
        todo!()
    }
    pub fn upstream_call(&self, operation: &'static str, outcome: &'static str, elapsed: Duration) {
        todo!()
    }
    /// A fill was shared by one more reader.
    pub fn single_flight_shared(&self) {
        todo!()
    }
    /// A limit was hit, named as in the configuration.
    pub fn limit_hit(&self, limit: &'static str) {
        todo!()
    }
    /// A value read whenever metrics are rendered.
    pub fn observe(&self, name: &'static str, help: &'static str, read: impl Fn() -> f64 + Send + Sync + 'static) {
        todo!()
    }
}
