//! The store on an upstream that does as it is told.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod chains;
mod copies;
mod double;
mod fills;
mod groups;
mod host;
mod kept;
mod model;
mod multipart;
mod pending;
mod pressure;
mod races;
mod reads;
mod real;
mod staged;
mod stalls;
mod support;
mod sweeps;
mod taken;
mod touches;
mod whole;
mod writeback;
mod writes;
