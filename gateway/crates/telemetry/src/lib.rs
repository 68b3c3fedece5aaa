//! What operators see: metrics and logs.
//!
//! * [`Metrics`]: counters, histograms and gauges by the OpenTelemetry SDK, shown as Prometheus text
//! * [`init_logs`]: structured logs on standard error, without secrets at any level
#![forbid(unsafe_code)]

mod catalogue;
mod labels;
mod logs;
mod metrics;

pub use logs::{LogFormat, LogsError, init_logs};
pub use metrics::Metrics;
