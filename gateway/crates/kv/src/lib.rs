//! The KV face: lookup, exists, get, put, delete, touch, stats. The wire, and nothing else.
#![forbid(unsafe_code)]
