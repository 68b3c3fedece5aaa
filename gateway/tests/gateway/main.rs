//! Drives the real binary: its life, its configuration, its limits, its TLS.

mod configuration;
mod http;
mod life;
mod limits;
mod process;
mod tls;
