//! The store on an upstream that does as it is told.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod copies;
mod double;
mod fills;
mod groups;
mod multipart;
mod pending;
mod pressure;
mod races;
mod reads;
mod real;
mod support;
mod sweeps;
mod taken;
mod touches;
mod writes;
