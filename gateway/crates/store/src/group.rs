//! Groups of blocks that become visible together: `docs/adr/0004-groups.md`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use blockgate_api::limits::GROUP_BLOCKS_MAX;
use blockgate_block::{BlockKey, BlockRecord, GroupId, ObjectInfo};
use blockgate_upstream::{Payload, UpstreamError};
use tokio::time::sleep;

use crate::body::TakenIn;
use crate::core::{Core, each, to_the_end};
use crate::grouped::Lying;
use crate::limits::CALLS_AT_ONCE_MAX;
use crate::ttl::record_of;
use crate::write::{check_length, check_write, written};
use crate::{Result, Store, StoreError, WriteRequest, Written};

/// A group is committed at most so long after it was begun, or not at all: whoever tidies up may take older blocks
/// without a commit for abandoned.
const OPEN_MAX: Duration = Duration::from_secs(60 * 60);

impl Store {
    /// Stores blocks of one bucket so that all of them become visible together, through every gateway, or none of them
    /// does. Their conditions are judged while they are stored: one that fails fails all.
    ///
    /// # Errors
    /// As [`Store::put`], and [`StoreError::InvalidArgument`] for a key that comes twice, for blocks of several buckets, for
    /// too many, and in a passthrough bucket. Then none is visible, and what was at the keys before may be gone. Where the
    /// upstream did not answer to the last step, all may be visible all the same.
    pub async fn put_group(&self, blocks: Vec<(BlockKey, WriteRequest, TakenIn)>) -> Result<Vec<Written>> {
        let members = self.core.check_group(blocks)?;
        let core = Arc::clone(&self.core);
        to_the_end(async move { core.put_group(members).await }).await
    }
}

/// A block of a group to be.
struct Member {
    key: BlockKey,
    request: WriteRequest,
    body: TakenIn,
    ttl: Option<Duration>,
}

impl Core {
    fn check_group(&self, blocks: Vec<(BlockKey, WriteRequest, TakenIn)>) -> Result<Vec<Member>> {
        let refused = |text| Err(StoreError::InvalidArgument(text));
        if blocks.len() > GROUP_BLOCKS_MAX {
            return refused(format!("a group has at most {GROUP_BLOCKS_MAX} blocks, not {}", blocks.len()));
        }
        let mut keys = HashSet::with_capacity(blocks.len());
        let mut members = Vec::with_capacity(blocks.len());
        for (key, request, body) in blocks {
            let policy = self.policy(key.bucket());
            if !policy.is_kv() {
                return Err(StoreError::Upstream(UpstreamError::NotSupported("groups in a passthrough bucket")));
            }
            if members.first().is_some_and(|first: &Member| first.key.bucket() != key.bucket()) {
                return refused("the blocks of a group are of one bucket".into());
            }
            if !keys.insert(key.clone()) {
                return refused(format!("the key {:?} comes twice in one group", key.key()));
            }
            check_length(body.len_bytes(), policy)?;
            let ttl = check_write(&request, policy)?.or(policy.ttl);
            members.push(Member { key, request, body, ttl });
        }
        Ok(members)
    }

    async fn put_group(self: &Arc<Self>, members: Vec<Member>) -> Result<Vec<Written>> {
        let Some(first) = members.first() else { return Ok(Vec::new()) };
        let bucket = first.key.bucket().to_owned();
        let group = random_id()?;
        let keys: Vec<BlockKey> = members.iter().map(|member| member.key.clone()).collect();
        let writes = self.keys.write_all(&keys).await;
        self.settle_all(&keys).await?;
        // Nothing waits any more that could go up meanwhile.
        let _staged = self.unstage_all(&keys).await?;
        // Until the commit, what is there is for the upstream alone to say: so the commit is one step for readers here, too.
        keys.iter().for_each(|key| self.tiers().forget(key));
        let begun_at = self.upstream.now();
        let infos = match self.put_members(group, &members).await {
            Ok(infos) => infos,
            Err(error) => {
                self.take_back(group, &keys).await;
                return Err(error);
            }
        };
        self.commit(&bucket, group, &keys, begun_at).await?;
        let mut writes: HashMap<BlockKey, _> = writes.into_iter().map(|write| (write.key().clone(), write)).collect();
        for (member, info) in members.iter().zip(&infos) {
            if let Some(write) = writes.remove(&member.key) {
                write.stored(info, member.body.block());
            }
            self.metrics.stored(&bucket, info.size_bytes);
        }
        Ok(infos.iter().map(|info| written(info)).collect())
    }

    /// Writes all blocks to the upstream. After a failure no further ones are begun, and those under way are waited for:
    /// none may arrive when this is over.
    async fn put_members(&self, group: GroupId, members: &[Member]) -> Result<Vec<Arc<ObjectInfo>>> {
        let has_failed = AtomicBool::new(false);
        let outcomes = each(0..members.len(), CALLS_AT_ONCE_MAX, |index| {
            let (member, has_failed) = (&members[index], &has_failed);
            async move {
                if has_failed.load(Ordering::SeqCst) {
                    return None;
                }
                let outcome = self.put_member(group, member).await;
                has_failed.fetch_or(outcome.is_err(), Ordering::SeqCst);
                Some(outcome)
            }
        });
        // Where one was not begun there is an error, too.
        outcomes.await.into_iter().flatten().collect()
    }

    async fn put_member(&self, group: GroupId, member: &Member) -> Result<Arc<ObjectInfo>> {
        let Member { key, request, body, ttl } = member;
        let record = record_of(body.crc64(), body.len_bytes(), self.upstream.now(), *ttl);
        let record = BlockRecord { group: Some(group), ..record };
        self.put_record(key, request.clone(), body, record).await.map(Arc::new)
    }

    /// Commits a group, and tries again while the upstream is out: to commit twice is to commit.
    async fn commit(&self, bucket: &str, group: GroupId, keys: &[BlockKey], begun_at: SystemTime) -> Result<()> {
        let mut pause = self.limits.upload_pause;
        let mut attempt = 1;
        let mut may_be_committed = false;
        let error = loop {
            let is_open = self.upstream.now().duration_since(begun_at).is_ok_and(|open| open < OPEN_MAX);
            if !is_open {
                break UpstreamError::Unavailable("the group took too long to be stored".into());
            }
            match self.grouped.commits().commit(bucket, group, note_of(keys)).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    may_be_committed |= error.is_outage();
                    if !error.is_outage() || attempt == self.limits.commit_attempts {
                        break error;
                    }
                    tracing::warn!(bucket, %group, %error, attempt, "a group could not be committed; tried again");
                }
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2);
            attempt += 1;
        };
        // Of a group that may be there, nothing is taken back.
        if !may_be_committed {
            self.take_back(group, keys).await;
        }
        Err(error.into())
    }

    /// Removes, as far as possible, the blocks of a group that will not be committed.
    async fn take_back(&self, group: GroupId, keys: &[BlockKey]) {
        let outcomes = each(0..keys.len(), CALLS_AT_ONCE_MAX, |index| async move {
            let key = &keys[index];
            match self.grouped.lies_at(key).await? {
                Lying::Uncommitted(info) if info.record.is_some_and(|record| record.group == Some(group)) => {
                    self.upstream.delete(key.bucket(), key.key()).await
                }
                _ => Ok(()),
            }
        });
        if let Some(error) = outcomes.await.into_iter().find_map(std::result::Result::err) {
            tracing::warn!(%group, %error, "blocks of a group that failed remain at the upstream, unseen");
        }
    }
}

/// What a commit says: the keys of the group, each ended by a NUL, which no key holds.
fn note_of(keys: &[BlockKey]) -> Payload {
    let len = keys.iter().map(|key| key.key().len() + 1).sum();
    let mut note = Vec::with_capacity(len);
    for key in keys {
        note.extend_from_slice(key.key().as_bytes());
        note.push(0);
    }
    Payload::Bytes(note.into())
}

fn random_id() -> Result<GroupId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| UpstreamError::Unavailable(error.to_string()))?;
    Ok(GroupId(u128::from_ne_bytes(bytes)))
}
