//! Unfinished uploads, by their keys.
//!
//! Nothing can be asked of an unfinished upload, so that for a long key a note is left beside it, under `.blockgate/u/`, that
//! holds the key.

use bytes::Bytes;
use futures::StreamExt as _;

use super::Mapped;
use super::name::{Name, digest, is_ordinary, long_prefix, may_begin_ordinary, name_of, short_key, short_prefix};
use crate::{
    Conditions, Payload, PutRequest, Result, UploadInfo, UploadList, UploadListRequest, Upstream, UpstreamError,
};
use blockgate_block::RESERVED_PREFIX;

const NOTES: &str = ".blockgate/u/";
/// Uploads asked for at once.
const PAGE: u32 = 1000;

impl<U: Upstream> Mapped<U> {
    /// Leaves a note of a key that its name does not tell.
    pub(super) async fn note_upload(&self, bucket: &str, key: &str) -> Result<()> {
        if matches!(name_of(key), Name::Long(_)) {
            let payload = Payload::Bytes(Bytes::copy_from_slice(key.as_bytes()));
            self.inner.put(bucket, &note_of(&digest(key)), PutRequest::default(), payload).await?;
        }
        Ok(())
    }

    /// Removes the note when no upload of the key is left. A note too many does no harm.
    pub(super) async fn forget_upload(&self, bucket: &str, key: &str) {
        if let Name::Long(name) = name_of(key) {
            let same = UploadListRequest { prefix: name, after: None, limit: 1 };
            if self.inner.list_uploads(bucket, &same).await.is_ok_and(|list| list.uploads.is_empty()) {
                let _ = self.inner.delete(bucket, &note_of(&digest(key))).await;
            }
        }
    }

    pub(super) async fn merged_uploads(&self, bucket: &str, request: &UploadListRequest) -> Result<UploadList> {
        if request.prefix.starts_with(RESERVED_PREFIX) {
            return self.inner.list_uploads(bucket, request).await;
        }
        let mut uploads = Vec::new();
        if may_begin_ordinary(&request.prefix) {
            uploads = self.every_upload(bucket, request.prefix.clone()).await?;
            uploads.retain(|upload| is_ordinary(&upload.key));
        }
        for upload in self.every_upload(bucket, short_prefix(&request.prefix)).await? {
            uploads.extend(short_key(&upload.key).map(|key| UploadInfo { key, ..upload }));
        }
        for upload in self.every_upload(bucket, long_prefix(&request.prefix)).await? {
            let key = self.noted_key(bucket, &upload.key).await?;
            uploads.extend(key.map(|key| UploadInfo { key, ..upload }));
        }
        uploads.retain(|upload| {
            let seen = request.after.as_ref().is_some_and(|(key, id)| match id {
                Some(id) => (&upload.key, &upload.upload_id) <= (key, id),
                None => &upload.key <= key,
            });
            upload.key.starts_with(&request.prefix) && !seen
        });
        uploads.sort_by(|a, b| (&a.key, &a.upload_id).cmp(&(&b.key, &b.upload_id)));
        let limit = request.limit as usize;
        let truncated = uploads.len() > limit;
        uploads.truncate(limit);
        Ok(UploadList { uploads, truncated })
    }

    async fn every_upload(&self, bucket: &str, prefix: String) -> Result<Vec<UploadInfo>> {
        let mut uploads: Vec<UploadInfo> = Vec::new();
        loop {
            let after = uploads.last().map(|last| (last.key.clone(), Some(last.upload_id.clone())));
            let request = UploadListRequest { prefix: prefix.clone(), after, limit: PAGE };
            let page = self.inner.list_uploads(bucket, &request).await?;
            uploads.extend(page.uploads);
            if !page.truncated {
                return Ok(uploads);
            }
        }
    }

    async fn noted_key(&self, bucket: &str, name: &str) -> Result<Option<String>> {
        let Some((_, digest)) = name.rsplit_once('/') else { return Ok(None) };
        let mut note = match self.inner.get(bucket, &note_of(digest), None, &Conditions::default()).await {
            Err(UpstreamError::NoSuchKey) => return Ok(None),
            result => result?.body,
        };
        let mut key = Vec::new();
        while let Some(chunk) = note.next().await {
            key.extend(chunk.map_err(|error| UpstreamError::Unavailable(error.to_string()))?);
        }
        Ok(String::from_utf8(key).ok().filter(|key| name_of(key).as_str() == name))
    }
}

fn note_of(digest: &str) -> String {
    format!("{NOTES}{digest}")
}
