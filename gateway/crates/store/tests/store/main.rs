//! The store on an upstream that does as it is told.
#![allow(missing_docs, unreachable_pub)]

mod copies;
mod double;
mod fills;
mod multipart;
mod pending;
mod pressure;
mod races;
mod reads;
mod support;
mod writes;
