//! Buckets.

use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};
use blockgate_block::RESERVED_PREFIX;

use super::S3Upstream;
use super::error::Subject;
use super::object::time;
use crate::{BucketInfo, ListRequest, Result, UpstreamError};

impl S3Upstream {
    pub(super) async fn ping_store(&self) -> Result<()> {
        match self.all_buckets().await {
            Ok(buckets) => {
                if let Some(bucket) = buckets.first().filter(|_| !self.inner.capabilities.initialized()) {
                    // The store answers, whatever comes of this.
                    let _ = self.abilities(&bucket.name).await;
                }
                Ok(())
            }
            // These credentials are good, but not for this.
            Err(UpstreamError::AccessDenied(words)) if words.starts_with("AccessDenied") => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn all_buckets(&self) -> Result<Vec<BucketInfo>> {
        let mut buckets = Vec::new();
        let mut token = None;
        loop {
            let list = self.sdk().list_buckets().set_continuation_token(token);
            let output = self.call(Subject::Bucket, list.send()).await?;
            buckets.extend(output.buckets().iter().map(|bucket| BucketInfo {
                name: bucket.name().unwrap_or_default().to_owned(),
                created_at: bucket.creation_date().map(|at| time(Some(at))),
            }));
            token = output.continuation_token.filter(|token| !token.is_empty());
            if token.is_none() {
                buckets.sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(buckets);
            }
        }
    }

    pub(super) async fn make_bucket(&self, bucket: &str) -> Result<()> {
        if !name_is_valid(bucket) {
            return Err(UpstreamError::InvalidBucketName(bucket.to_owned()));
        }
        // Asked first, since radosgw and AWS in us-east-1 answer 200 when the bucket is there.
        match self.describe_bucket(bucket).await {
            Ok(_) => return Err(UpstreamError::BucketExists),
            Err(UpstreamError::NoSuchBucket) => {}
            Err(UpstreamError::AccessDenied(_)) => return Err(UpstreamError::BucketExists),
            Err(error @ (UpstreamError::Unavailable(_) | UpstreamError::SlowDown)) => return Err(error),
            // Whatever is wrong with the name, the answer to the real request will say so.
            Err(_) => {}
        }
        let settings = &self.inner.settings;
        // Only AWS demands that the region be said again; others may not know it.
        let constrained = settings.endpoint.contains(".amazonaws.com") && settings.region != "us-east-1";
        let region = BucketLocationConstraint::from(settings.region.as_str());
        let constraint = CreateBucketConfiguration::builder().location_constraint(region).build();
        let create = self.sdk().create_bucket().bucket(bucket);
        let create = create.set_create_bucket_configuration(constrained.then_some(constraint));
        self.call(Subject::Bucket, create.send()).await?;
        self.saw(bucket);
        Ok(())
    }

    /// Removes what is under `.blockgate/`, then the bucket; nothing if there is anything else.
    pub(super) async fn remove_bucket(&self, bucket: &str) -> Result<()> {
        let any = ListRequest { limit: 1, ..ListRequest::default() };
        if !self.list_objects(bucket, &any).await?.entries.is_empty() {
            return Err(UpstreamError::BucketNotEmpty);
        }
        let own = ListRequest { prefix: RESERVED_PREFIX.to_owned(), limit: 1000, ..ListRequest::default() };
        loop {
            let page = self.list_objects(bucket, &own).await?;
            let keys: Vec<_> = page.entries.iter().map(|entry| entry.name().to_owned()).collect();
            for outcome in self.delete_objects(bucket, &keys).await? {
                outcome?;
            }
            if !page.truncated {
                break;
            }
        }
        self.call(Subject::Bucket, self.sdk().delete_bucket().bucket(bucket).send()).await?;
        self.inner.seen.forget(bucket);
        Ok(())
    }

    pub(super) async fn describe_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.call(Subject::Bucket, self.sdk().head_bucket().bucket(bucket).send()).await?;
        self.saw(bucket);
        Ok(BucketInfo { name: bucket.to_owned(), created_at: None })
    }
}

/// S3's own rule: some stores are laxer, and what one of them takes another can't hold.
fn name_is_valid(bucket: &str) -> bool {
    let labels_are_valid = bucket.split('.').all(|label| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(plain)
    });
    (3..=63).contains(&bucket.len()) && labels_are_valid && bucket.parse::<std::net::Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names() {
        for good in ["abc", "a.b-c", "1a2", &"x".repeat(63)] {
            assert!(name_is_valid(good), "{good}");
        }
        for bad in [
            "",
            "ab",
            "..",
            "a..b",
            "ab_c",
            "-abc",
            "abc-",
            "a.-b",
            "Abc",
            "a/b",
            "10.1.2.3",
            "ab\u{e9}c",
            &"x".repeat(64),
        ] {
            assert!(!name_is_valid(bad), "{bad}");
        }
    }
}
