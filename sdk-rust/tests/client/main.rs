//! The client against gateways that fail in every way, and against the real one.
mod blocking;
mod double;
mod failover;
mod failures;
mod gateway;
mod process;
mod reads;
