//! Between the types of S3 (s3s) and those of the store.

pub(crate) mod attributes;
pub(crate) mod checksum;
pub(crate) mod condition;
pub(crate) mod copy_source;
pub(crate) mod kv;
pub(crate) mod object;
pub(crate) mod owner;
pub(crate) mod page;
pub(crate) mod range;
pub(crate) mod refused;
pub(crate) mod tags;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod token;
pub(crate) mod version;
