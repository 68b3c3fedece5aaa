//! What the store will do; until then 501.

use std::time::Duration;

use blockgate_block::{BlockKey, KeyList};
use blockgate_store::{Result, Store, StoreError, TakenIn, WriteRequest, Written};
use blockgate_upstream::UpstreamError;

fn later<T>() -> Result<T> {
    Err(StoreError::Upstream(UpstreamError::NotSupported("this operation yet")))
}

#[allow(async_fn_in_trait, dead_code)]
pub(crate) trait Later {
    async fn put_group(&self, _: Vec<(BlockKey, WriteRequest, TakenIn)>) -> Result<Vec<Written>> {
        later()
    }
    async fn touch(&self, _: &KeyList, _: Duration) -> Result<u64> {
        later()
    }
    async fn delete_keys(&self, _: &KeyList) -> Result<u64> {
        later()
    }
    async fn delete_prefix(&self, _: &str, _: &str) -> Result<u64> {
        later()
    }
    async fn delete_fingerprint(&self, _: &str, _: &str) -> Result<u64> {
        later()
    }
}

impl Later for Store {}
