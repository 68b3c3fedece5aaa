//! The face in process, over a store on a directory.

mod gets;
mod puts;
mod requests;
mod support;
mod windows;
