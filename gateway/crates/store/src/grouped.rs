//! An upstream on which a block of a group is there only once its group was committed.
//!
//! Each block of a group carries the group's id in its record. The group is committed by one object of its own, written
//! after all of them: until that is there, none of them is. Every path by which a gateway learns what an object is leads
//! through here, so that none can forget to ask.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use blockgate_block::{BlockKey, GroupId, ObjectInfo};
use blockgate_upstream::{Conditions, Decorator, GetReply, Result, Upstream, UpstreamError};

use crate::commits::Commits;

/// An upstream that shows no block of a group that was not committed.
pub(crate) struct Grouped {
    inner: Arc<dyn Upstream>,
    commits: Arc<Commits>,
}

/// What lies at a key.
pub(crate) enum Lying {
    /// Nothing.
    Nothing,
    /// A block of a group that was not committed: nothing, to clients.
    Uncommitted(ObjectInfo),
    /// An object.
    Object(ObjectInfo),
}

impl Grouped {
    pub(crate) fn new(inner: Arc<dyn Upstream>, commits: Arc<Commits>) -> Self {
        Self { inner, commits }
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// What lies at a key now, by no memory of what is not there.
    pub(crate) async fn lies_at(&self, key: &BlockKey) -> Result<Lying> {
        let info = match self.inner.head(key.bucket(), key.key(), &Conditions::default()).await {
            Err(UpstreamError::NoSuchKey) => return Ok(Lying::Nothing),
            info => info?,
        };
        let is_there = match group_of(&info) {
            Some(group) => self.commits.ask(key.bucket(), group).await?,
            None => true,
        };
        Ok(if is_there { Lying::Object(info) } else { Lying::Uncommitted(info) })
    }

    /// [`UpstreamError::NoSuchKey`] for an object that is not there to clients.
    async fn judged(&self, bucket: &str, info: ObjectInfo) -> Result<ObjectInfo> {
        match group_of(&info) {
            Some(group) if !self.commits.is_committed(bucket, group).await? => Err(UpstreamError::NoSuchKey),
            _ => Ok(info),
        }
    }
}

fn group_of(info: &ObjectInfo) -> Option<GroupId> {
    info.record.and_then(|record| record.group)
}

#[async_trait]
impl Decorator for Grouped {
    fn inner(&self) -> &dyn Upstream {
        self.inner.as_ref()
    }

    async fn head(&self, bucket: &str, key: &str, conditions: &Conditions) -> Result<ObjectInfo> {
        let info = self.inner.head(bucket, key, conditions).await?;
        self.judged(bucket, info).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        let reply = self.inner.get(bucket, key, range, conditions).await?;
        let info = self.judged(bucket, reply.info).await?;
        Ok(GetReply { info, ..reply })
    }
}
