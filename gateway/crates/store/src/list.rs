//! Listings: as the upstream gives them, with the ETags of blocks where this gateway knows them.

use blockgate_block::BlockKey;
use blockgate_upstream::{ListEntry, ListPage, ListRequest};

use crate::Result;
use crate::core::Core;

impl Core {
    pub(crate) async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        let mut page = self.upstream.list(bucket, request).await?;
        if self.policy(bucket).is_kv() {
            for entry in &mut page.entries {
                self.show_block_etag(bucket, entry);
            }
        }
        Ok(page)
    }

    /// Only if what is known is this very version of the object.
    fn show_block_etag(&self, bucket: &str, entry: &mut ListEntry) {
        let ListEntry::Object { key, size_bytes, etag, .. } = entry else { return };
        let Ok(key) = BlockKey::new(bucket, key) else { return };
        if let Some(known) = self.tiers().info(&key)
            && known.info.upstream_etag == *etag
            && known.info.size_bytes == *size_bytes
        {
            etag.clone_from(&known.info.etag);
        }
    }
}
