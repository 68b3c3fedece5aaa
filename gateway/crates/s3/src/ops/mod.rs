//! The S3 operations: what s3s has parsed, asked of the store, and answered in S3's terms. No caching logic lives here.
//!
//! One file an operation group; [`table`] says which operation goes where.

mod acl;
mod attributes;
mod bucket;
mod copy;
mod delete;
mod list;
mod multipart;
mod read;
mod table;
mod tagging;
mod uploads;
mod write;

use std::sync::Arc;

use blockgate_auth::AccessKeys;
use blockgate_block::BlockKey;
use blockgate_store::Store;
use s3s::{S3Result, s3_error};

use crate::error;

/// The region of every bucket where none is configured.
const DEFAULT_REGION: &str = "us-east-1";

/// Answers S3 operations from a store.
pub(crate) struct Ops {
    store: Arc<Store>,
    keys: Arc<AccessKeys>,
    region: String,
    /// Answers the operations that the store doesn't know, where the upstream is S3 itself.
    upstream: Option<s3s_aws::Proxy>,
}

impl Ops {
    /// `region` is the one that buckets are said to be in; `passthrough` is the client of an `s3` upstream.
    pub(crate) fn new(
        store: Arc<Store>,
        keys: Arc<AccessKeys>,
        region: Option<String>,
        passthrough: Option<aws_sdk_s3::Client>,
    ) -> Self {
        let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let upstream = passthrough.map(|client| s3s_aws::Proxy::builder(client).build());
        Self { store, keys, region, upstream }
    }

    /// Makes sure that a bucket is there.
    async fn require_bucket(&self, bucket: &str) -> S3Result<()> {
        self.store.head_bucket(bucket).await.map(drop).map_err(error::of_store)
    }
}

/// The object that a request names.
fn key(bucket: &str, key: &str) -> S3Result<BlockKey> {
    BlockKey::new(bucket, key).map_err(error::of_key)
}

/// A part number in its range.
fn part_number(number: i32) -> S3Result<u32> {
    u32::try_from(number).ok().filter(|number| (1..=PART_NUMBER_MAX).contains(number)).ok_or_else(|| {
        s3_error!(InvalidArgument, "Part number must be an integer between 1 and {PART_NUMBER_MAX}, inclusive")
    })
}

/// The highest part number (S3's own limit).
const PART_NUMBER_MAX: u32 = 10_000;
