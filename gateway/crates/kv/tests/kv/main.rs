//! The face in process, over a store on a directory.

#![allow(clippy::unwrap_used)]

mod gets;
mod puts;
mod requests;
mod support;
mod windows;
