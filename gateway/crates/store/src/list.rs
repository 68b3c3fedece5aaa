//! Listings: as the upstream gives them, with the ETags of blocks where this gateway knows them, and with staged blocks that
//! are not there yet.

use blockgate_block::BlockKey;
use blockgate_upstream::{ListEntry, ListPage, ListRequest};

use crate::Result;
use crate::core::Core;
use crate::writeback::lay_over;

impl Core {
    pub(crate) async fn list(&self, bucket: &str, request: &ListRequest) -> Result<ListPage> {
        if !self.policy(bucket).is_kv() {
            return Ok(self.upstream.list(bucket, request).await?);
        }
        // First: what goes up meanwhile is listed by the upstream, or here, or by both.
        let waiting = self.writeback.page(bucket, request);
        let mut page = self.upstream.list(bucket, request).await?;
        for entry in &mut page.entries {
            self.show_block_etag(bucket, entry);
        }
        Ok(lay_over(page, waiting, request.limit))
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
