//! What the store at hand really does, tried out.
//!
//! Stores answer 200 to conditions and checksums that they have never heard of. Believing one that ignores a condition would
//! break its promise, so everything that blockgate builds on is tried once, on an object under `.blockgate/probe/`.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream as SdkStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, MetadataDirective};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blockgate_block::{Crc64, RESERVED_PREFIX};

use super::copy::source;
use super::error::{Subject, mapped};
use super::{S3Upstream, UpstreamError};
use crate::{Capabilities, Conditions, Result};

/// What a store was seen to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub(super) struct Abilities {
    pub(super) put_if_none_match: bool,
    pub(super) put_if_match: bool,
    pub(super) conditional_complete: bool,
    pub(super) crc64nvme: bool,
    pub(super) tagging: bool,
    pub(super) copy_if_match: bool,
    /// A copy has the source's tags.
    pub(super) copy_tags: bool,
    /// A finished upload has the tags that it was begun with.
    pub(super) upload_tags: bool,
    /// Common prefixes are listed that no key has any more.
    pub(super) empty_prefixes: bool,
}

impl From<Abilities> for Capabilities {
    fn from(abilities: Abilities) -> Self {
        Self {
            put_if_none_match: abilities.put_if_none_match,
            put_if_match: abilities.put_if_match,
            conditional_complete: abilities.conditional_complete,
            crc64nvme: abilities.crc64nvme,
            tagging: abilities.tagging,
            copy_if_match: abilities.copy_if_match,
        }
    }
}

const BODY: &[u8] = b"blockgate";
const OTHER_ETAG: &str = "\"00000000000000000000000000000000\"";
const TAG: &str = "probe=1";

impl S3Upstream {
    /// What the store can do, tried out in `bucket` unless it is known already.
    ///
    /// # Errors
    /// When the store does not answer, or blockgate may not write to the bucket. It is tried again with the next call.
    pub async fn probe(&self, bucket: &str) -> Result<Capabilities> {
        self.abilities(bucket).await.map(Into::into)
    }

    pub(super) async fn abilities(&self, bucket: &str) -> Result<Abilities> {
        let found = self.inner.capabilities.get_or_try_init(|| async {
            let (this, bucket) = (self.clone(), bucket.to_owned());
            // On its own, so that it cleans up although who asked went away.
            let probe = tokio::spawn(async move { this.try_out_and_clean_up(&bucket).await });
            probe.await.map_err(|error| UpstreamError::Unavailable(format!("the probe failed: {error}")))?
        });
        found.await.copied()
    }

    async fn try_out_and_clean_up(&self, bucket: &str) -> Result<Abilities> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| UpstreamError::Unavailable(error.to_string()))?;
        let key = format!("{RESERVED_PREFIX}probe/{}", hex::encode(random));
        let found = self.try_out(bucket, &key).await;
        for key in [copy_of(&key), key] {
            // What is left after a failure goes with the bucket.
            let _ = self.delete_object(bucket, &key).await;
        }
        if let Ok(abilities) = &found {
            tracing::info!(endpoint = self.inner.settings.endpoint, ?abilities, "the store was tried out");
        }
        found
    }

    async fn try_out(&self, bucket: &str, key: &str) -> Result<Abilities> {
        let put = || self.sdk().put_object().bucket(bucket).key(key).body(SdkStream::from_static(BODY));
        let checksum = |bytes: &[u8]| BASE64.encode(Crc64::of(bytes).to_be_bytes());
        let all = put().tagging(TAG).checksum_crc64_nvme(checksum(BODY)).send().await;
        let takes_all = status(&all)? == 200;
        if !takes_all {
            self.call(Subject::Object, put().send()).await?;
        }
        let mut abilities = Abilities {
            crc64nvme: takes_all && status(&put().tagging(TAG).checksum_crc64_nvme(checksum(b"")).send().await)? == 400,
            tagging: self.has_tag(bucket, key).await?,
            put_if_none_match: status(&put().if_none_match("*").tagging(TAG).send().await)? == 412,
            ..Abilities::default()
        };
        if status(&put().if_match(OTHER_ETAG).tagging(TAG).send().await)? == 412 {
            // One that refuses every ETag has not understood: radosgw 16 compares it quotes and all.
            let etag = self.head_object(bucket, key, &Conditions::default()).await?.upstream_etag;
            let right = put().if_match(format!("\"{etag}\"")).tagging(TAG).send().await;
            abilities.put_if_match = status(&right)? == 200;
        }
        self.try_copies(bucket, key, &mut abilities).await?;
        self.try_upload(bucket, key, &mut abilities).await?;
        abilities.empty_prefixes = self.lists_empty_prefixes(bucket, key).await?;
        Ok(abilities)
    }

    async fn try_copies(&self, bucket: &str, key: &str, abilities: &mut Abilities) -> Result<()> {
        let copy = || {
            let copy = self.sdk().copy_object().copy_source(source(bucket, key)).bucket(bucket).key(copy_of(key));
            copy.metadata_directive(MetadataDirective::Replace)
        };
        abilities.copy_if_match = status(&copy().copy_source_if_match(OTHER_ETAG).send().await)? == 412;
        abilities.copy_tags = status(&copy().send().await)? == 200 && self.has_tag(bucket, &copy_of(key)).await?;
        Ok(())
    }

    async fn try_upload(&self, bucket: &str, key: &str, abilities: &mut Abilities) -> Result<()> {
        let create = self.sdk().create_multipart_upload().bucket(bucket).key(key).tagging(TAG).send().await;
        if status(&create)? != 200 {
            return Ok(());
        }
        let id = create.ok().and_then(|output| output.upload_id).unwrap_or_default();
        let part = self.sdk().upload_part().bucket(bucket).key(key).upload_id(&id).part_number(1);
        let part = self.call(Subject::Upload, part.body(SdkStream::from_static(BODY)).send()).await?;
        let parts = CompletedPart::builder().part_number(1).set_e_tag(part.e_tag).build();
        let complete = || {
            let parts = CompletedMultipartUpload::builder().parts(parts.clone()).build();
            self.sdk().complete_multipart_upload().bucket(bucket).key(key).upload_id(&id).multipart_upload(parts)
        };
        abilities.conditional_complete = status(&complete().if_none_match("*").send().await)? == 412;
        let completed = !abilities.conditional_complete || status(&complete().send().await)? == 200;
        if completed {
            abilities.upload_tags = self.has_tag(bucket, key).await?;
        } else {
            self.call(
                Subject::Upload,
                self.sdk().abort_multipart_upload().bucket(bucket).key(key).upload_id(&id).send(),
            )
            .await?;
        }
        Ok(())
    }

    /// Stores that keep objects in directories may go on showing those that have become empty.
    async fn lists_empty_prefixes(&self, bucket: &str, key: &str) -> Result<bool> {
        let within = format!("{key}-folder/");
        let put = self.sdk().put_object().bucket(bucket).key(format!("{within}x")).body(SdkStream::from_static(BODY));
        self.call(Subject::Object, put.send()).await?;
        self.delete_object(bucket, &format!("{within}x")).await?;
        let list = self.sdk().list_objects_v2().bucket(bucket).prefix(format!("{key}-folder")).delimiter("/");
        Ok(!self.call(Subject::Bucket, list.send()).await?.common_prefixes().is_empty())
    }

    async fn has_tag(&self, bucket: &str, key: &str) -> Result<bool> {
        let tags = self.object_tags(bucket, key).await;
        match tags {
            Ok(tags) => Ok(tags.iter().any(|(name, value)| format!("{name}={value}") == TAG)),
            Err(UpstreamError::NotSupported(_) | UpstreamError::InvalidRequest(_) | UpstreamError::NoSuchKey) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn copy_of(key: &str) -> String {
    format!("{key}-copy")
}

/// The status of the answer, if it says something of what the store can do.
fn status<T, E>(answer: &std::result::Result<T, SdkError<E, HttpResponse>>) -> Result<u16>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let Err(error) = answer else { return Ok(200) };
    match error.raw_response().map(|response| response.status().as_u16()) {
        Some(status @ (400 | 405 | 409 | 411..=417 | 501)) => Ok(status),
        _ => Err(mapped(error, Subject::Bucket)),
    }
}
