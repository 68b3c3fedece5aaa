//! Which of many keys are there, one by one.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use blockgate_block::KeyList;
use futures::{StreamExt, stream};

use super::view::{Failure, Sight, View};
use crate::Result;
use crate::core::Core;
use crate::deadline::Deadline;

/// Questions to the upstream that one request has under way.
const ASKED_TOGETHER: usize = 64;

impl Core {
    pub(crate) async fn exists(
        self: &Arc<Self>,
        keys: &Arc<KeyList>,
        fingerprint: Option<&str>,
        deadline: Option<Duration>,
    ) -> Result<Vec<bool>> {
        self.check_kv(keys)?;
        let deadline = Deadline::after(deadline.or(self.policy(keys.bucket()).deadline));
        let view = View::new(self, keys, fingerprint);
        let mut sights = Vec::with_capacity(keys.len());
        view.glance(|sight| {
            sights.push(sight);
            ControlFlow::Continue(())
        });
        let mut present: Vec<bool> = sights.iter().map(|sight| matches!(sight, Sight::Good { .. })).collect();
        let unsettled =
            sights.iter().enumerate().filter(|(_, sight)| matches!(sight, Sight::Unknown | Sight::Doubtful(_)));
        // Gathered first: closures over references that live across a wait keep a future from being proved `Send`.
        let unsettled: Vec<usize> = unsettled.map(|(at, _)| at).collect();
        let mut answers = stream::iter(unsettled)
            .map(|at| {
                let view = &view;
                async move { (at, view.ask(at).await) }
            })
            .buffer_unordered(ASKED_TOGETHER);
        while let Some(Some((at, answer))) = deadline.bound(answers.next()).await {
            match answer {
                Ok(sight) => present[at] = matches!(sight, Sight::Good { .. }),
                // The next one would wait as long, for the same.
                Err(Failure::Unavailable) => break,
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        drop(answers);
        Ok(present)
    }
}
