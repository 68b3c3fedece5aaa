//! The client against gateways that fail in every way, and against the real one.

#![allow(clippy::unwrap_used)]

mod blocking;
mod double;
mod failover;
mod failures;
mod gateway;
mod process;
mod reads;
