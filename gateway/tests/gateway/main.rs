//! Drives the real binary: its life, its configuration, its limits, its TLS.

#![allow(clippy::unwrap_used)] // helpers of tests, outside of #[test] functions

mod configuration;
mod http;
mod kv;
mod life;
mod limits;
mod process;
mod staging;
mod tls;
