//! What goes wrong with PUTs, HEADs and copies, as a test wants it.

use std::sync::atomic::Ordering;

use blockgate_block::Attributes;
use bytes::Bytes;

use super::Double;

/// Which call something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After so many more calls went as usual.
    After(usize),
}

/// What happens to PUTs as they are about to commit.
#[derive(Default)]
pub(super) struct PutPlan {
    /// How many more go as usual before the plan begins.
    usual: usize,
    what: Option<PutFault>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PutFault {
    /// One waits until [`Double::release`].
    Hold,
    /// One fails.
    Fail,
    /// The gateway dies: this call and every other one fail.
    Die,
    /// This and all later ones are without an answer, though they may be carried out.
    Lose { is_stored: bool },
}

impl Double {
    /// One PUT waits before it commits.
    pub fn hold_put(&self, When::After(usual): When) {
        self.plan_puts(usual, PutFault::Hold);
    }

    /// One PUT fails, and does nothing.
    pub fn fail_put(&self, When::After(usual): When) {
        self.plan_puts(usual, PutFault::Fail);
    }

    /// After so many PUTs the gateway is dead: no call of its reaches the upstream, until [`Self::revive`].
    pub fn die_at_put(&self, usual: usize) {
        self.plan_puts(usual, PutFault::Die);
    }

    /// After so many PUTs, none is answered.
    pub fn lose_puts_from(&self, usual: usize, is_stored: bool) {
        self.plan_puts(usual, PutFault::Lose { is_stored });
    }

    fn plan_puts(&self, usual: usize, what: PutFault) {
        *self.plan.lock() = PutPlan { usual, what: Some(what) };
    }

    /// All is well again.
    pub fn revive(&self) {
        *self.plan.lock() = PutPlan::default();
        self.outage.store(false, Ordering::SeqCst);
    }

    pub fn fail_commit_heads(&self, fail: bool) {
        self.commit_heads_fail.store(fail, Ordering::SeqCst);
    }

    /// PUTs of this key are refused, for no fault of the upstream; the empty key is none.
    pub fn refuse_puts_of(&self, key: &str) {
        key.clone_into(&mut self.refused.lock());
    }

    /// HEADs of this key fail; the empty key is none.
    pub fn fail_heads_of(&self, key: &str) {
        key.clone_into(&mut self.heads_fail_of.lock());
    }

    /// Another gateway overwrites an object right before the next copy.
    pub fn overwrite_before_copy(&self, key: &str, bytes: impl Into<Bytes>, attributes: Attributes) {
        *self.overwrite.lock() = Some((key.to_owned(), bytes.into(), attributes));
    }

    /// What happens to this PUT.
    pub(super) fn planned(&self) -> Option<PutFault> {
        let mut plan = self.plan.lock();
        let what = plan.what?;
        if let Some(usual) = plan.usual.checked_sub(1) {
            plan.usual = usual;
            return None;
        }
        match what {
            PutFault::Hold | PutFault::Fail => plan.what = None,
            PutFault::Die => self.outage.store(true, Ordering::SeqCst),
            PutFault::Lose { .. } => {}
        }
        Some(what)
    }
}
