//! Which groups of blocks were committed: asked of the upstream once, and remembered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use blockgate_block::{GroupId, RESERVED_PREFIX};
use blockgate_upstream::{Conditions, Payload, PutRequest, Result, Upstream, UpstreamError};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use moka::ops::compute::Op;
use moka::sync::Cache;
use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::Instrument;

use crate::read::no_answer;

/// Groups whose fate is remembered.
const GROUPS_KNOWN_MAX: u64 = 65_536;

/// A group, and the bucket that it is in.
type GroupName = (String, GroupId);
type Answer = Shared<BoxFuture<'static, Result<bool>>>;

/// Which groups were committed.
pub(crate) struct Commits {
    upstream: Arc<dyn Upstream>,
    known: Cache<GroupName, Fate>,
    /// Questions on their way.
    asking: Mutex<HashMap<GroupName, Answer>>,
    negative_ttl: Duration,
    answer_max: Duration,
}

#[derive(Clone, Copy)]
enum Fate {
    /// For ever.
    Committed,
    /// When it was asked about.
    NotYet(SystemTime),
}

/// The object that commits a group.
fn commit_key(group: GroupId) -> String {
    format!("{RESERVED_PREFIX}groups/{group}")
}

impl Commits {
    /// Absences of commits are believed for `negative_ttl`; the upstream has `answer_max` to say whether there is one.
    pub(crate) fn new(upstream: Arc<dyn Upstream>, negative_ttl: Duration, answer_max: Duration) -> Arc<Self> {
        let known = Cache::new(GROUPS_KNOWN_MAX);
        Arc::new(Self { upstream, known, asking: Mutex::default(), negative_ttl, answer_max })
    }

    /// Commits a group whose blocks are all at the upstream. `note` is for whoever tidies up.
    pub(crate) async fn commit(&self, bucket: &str, group: GroupId, note: Payload) -> Result<()> {
        self.upstream.put(bucket, &commit_key(group), PutRequest::default(), note).await?;
        self.known.insert((bucket.to_owned(), group), Fate::Committed);
        Ok(())
    }

    /// Whether a group was committed, as far as is remembered, or else asked together with all who ask at the same time.
    pub(crate) async fn is_committed(self: &Arc<Self>, bucket: &str, group: GroupId) -> Result<bool> {
        let name = (bucket.to_owned(), group);
        match self.known.get(&name) {
            Some(Fate::Committed) => return Ok(true),
            Some(Fate::NotYet(asked_at)) if self.is_believed(asked_at) => return Ok(false),
            _ => {}
        }
        let answer = self.asking.lock().entry(name.clone()).or_insert_with(|| self.begin(name)).clone();
        answer.await
    }

    /// One from a time to come is of a clock that was set back since.
    fn is_believed(&self, asked_at: SystemTime) -> bool {
        self.upstream.now().duration_since(asked_at).is_ok_and(|age| age < self.negative_ttl)
    }

    fn begin(self: &Arc<Self>, name: GroupName) -> Answer {
        let commits = Arc::clone(self);
        let task = async move {
            let answer = commits.ask(&name.0, name.1).await;
            commits.asking.lock().remove(&name);
            answer
        };
        let task = tokio::spawn(task.in_current_span());
        async move { task.await.unwrap_or_else(|_| Err(no_answer())) }.boxed().shared()
    }

    /// Whether a group is committed now, as the upstream says.
    pub(crate) async fn ask(&self, bucket: &str, group: GroupId) -> Result<bool> {
        let (asked_at, key, any) = (self.upstream.now(), commit_key(group), Conditions::default());
        let head = self.upstream.head(bucket, &key, &any);
        let fate = match timeout(self.answer_max, head).await.unwrap_or_else(|_| Err(no_answer())) {
            Ok(_) => Fate::Committed,
            Err(UpstreamError::NoSuchKey) => Fate::NotYet(asked_at),
            Err(error) => return Err(error),
        };
        // What was committed stays so, however late another answer comes.
        self.known.entry((bucket.to_owned(), group)).and_compute_with(|known| {
            match known.map(|known| *known.value()) {
                Some(Fate::Committed) => Op::Nop,
                _ => Op::Put(fate),
            }
        });
        Ok(matches!(fate, Fate::Committed))
    }
}
