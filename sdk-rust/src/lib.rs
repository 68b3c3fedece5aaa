//! Client of blockgate: KV blocks stored, looked up and loaded.
#![forbid(unsafe_code)]
