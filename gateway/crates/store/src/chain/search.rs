//! Where a chain ends: one pass over the index, then as few questions to the upstream as can be.
//!
//! A block that is there implies that those before it are: each commits to them, and engines store a chain from its head.
//! So what is unknown before a known block is supposed to be there (a GET that finds it missing corrects the index), and
//! what is unknown after the last known block is searched: each round asks about blocks spread over the gap, all at once.

use std::ops::{ControlFlow, Range};

use blockgate_block::{MissReason, Tier};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::view::{Failure, Sight, View};
use crate::Result;
use crate::deadline::Deadline;

/// Questions of one round. Both ends of a gap and fifteen places between leave a sixteenth of it: 4,096 unknown keys take
/// at most three rounds, 65,536 four, and a chain that is all there, or not at all, one.
pub(super) const PROBES_TOGETHER: usize = 17;

/// Most rounds of one lookup. More than a gap needs; blocks that must be asked about one by one may need more, and the
/// chain ends before the first that was not.
const ROUNDS_MAX: u32 = 8;

/// A chain, as far as it may reach.
pub(super) struct Search<'a> {
    view: &'a View<'a>,
    /// The blocks before the first that is known to be missing. When the search has ended, all are there or supposed to be.
    pub(super) seen: Vec<Sight>,
    /// Why it ends there; none where it is whole.
    pub(super) end: Option<MissReason>,
    /// How many rounds of questions there were.
    pub(super) rounds: u32,
}

/// How a round ended.
enum Round {
    Answered,
    OutOfTime,
    Failed(Failure),
}

impl<'a> Search<'a> {
    /// What is known at a glance.
    pub(super) fn begin(view: &'a View<'a>) -> Self {
        let mut search = Self { view, seen: Vec::with_capacity(view.keys.len()), end: None, rounds: 0 };
        view.glance(|sight| match sight {
            Sight::Bad(reason) => {
                search.end = Some(reason);
                ControlFlow::Break(())
            }
            sight => {
                search.seen.push(sight);
                ControlFlow::Continue(())
            }
        });
        search
    }

    /// The blocks up to the last known one, unless one of them is in doubt: those supposed to be there included.
    pub(super) fn known(&mut self) -> &[Sight] {
        let last = self.gap().start;
        suppose(&mut self.seen[..last]);
        let doubtful = self.seen[..last].iter().position(|sight| sight.is_doubtful());
        &self.seen[..doubtful.unwrap_or(last)]
    }

    /// Finds the end, or what can be said of it by the deadline.
    pub(super) async fn resolve(&mut self, deadline: Deadline) -> Result<()> {
        self.look_on();
        while self.rounds < ROUNDS_MAX {
            let probes = self.probes();
            if probes.is_empty() {
                return Ok(());
            }
            self.rounds += 1;
            match self.round(probes, deadline).await {
                Round::Answered => {}
                Round::OutOfTime => {
                    self.end_before_doubt(MissReason::Deadline);
                    return Ok(());
                }
                Round::Failed(Failure::Unavailable) => {
                    self.end_before_doubt(MissReason::UpstreamUnavailable);
                    return Ok(());
                }
                Round::Failed(Failure::Error(error)) => return Err(error),
            }
        }
        self.end_before_doubt(MissReason::Absent);
        Ok(())
    }

    /// Goes on from the last known block with what this gateway knows beyond the index.
    fn look_on(&mut self) {
        for at in self.gap() {
            match self.view.look(&self.view.keys.get(at)) {
                Some(sight) => self.learn(at, sight),
                None => return,
            }
        }
    }

    /// Asks, all at once. Does not wait for answers that no longer matter.
    async fn round(&mut self, mut waiting: Vec<usize>, deadline: Deadline) -> Round {
        let view = self.view;
        let mut asking: FuturesUnordered<_> =
            waiting.iter().map(|&at| async move { (at, view.ask(at).await) }).collect();
        let mut failed = Vec::new();
        while waiting.iter().any(|&at| at < self.seen.len()) {
            let Some(answer) = deadline.bound(asking.next()).await else { return Round::OutOfTime };
            let Some((at, answer)) = answer else { break };
            waiting.retain(|&waiting| waiting != at);
            match answer {
                Ok(sight) => self.learn(at, sight),
                Err(failure) => failed.push((at, failure)),
            }
        }
        let matters =
            |at: usize| self.gap().contains(&at) || self.seen.get(at).is_some_and(|sight| sight.is_doubtful());
        match failed.into_iter().find(|(at, _)| matters(*at)) {
            Some((_, failure)) => Round::Failed(failure),
            None => Round::Answered,
        }
    }

    fn learn(&mut self, at: usize, sight: Sight) {
        match sight {
            Sight::Bad(reason) => self.end_at(at, reason),
            sight => {
                if let Some(seen) = self.seen.get_mut(at) {
                    *seen = sight;
                }
            }
        }
    }

    fn end_at(&mut self, at: usize, reason: MissReason) {
        if at < self.seen.len() {
            self.seen.truncate(at);
            self.end = Some(reason);
        }
    }

    /// Ends the chain before the first block of which nothing is known for sure. `Absent` stands for what was believed of it.
    fn end_before_doubt(&mut self, reason: MissReason) {
        let doubtful = self.seen.iter().enumerate().find_map(|(at, sight)| match sight {
            Sight::Doubtful(believed) => Some((at, *believed)),
            _ => None,
        });
        if let Some((at, believed)) = doubtful {
            self.end_at(at, if reason == MissReason::Absent { believed } else { reason });
        }
        self.end_at(self.gap().start, reason);
    }

    /// What is unknown after the last known block.
    fn gap(&self) -> Range<usize> {
        let last = self.seen.iter().rposition(|sight| matches!(sight, Sight::Good { .. }));
        last.map_or(0, |last| last + 1)..self.seen.len()
    }

    /// What to ask next: about blocks whose time may be over, first ones first, and about the gap.
    fn probes(&self) -> Vec<usize> {
        let gap = self.gap();
        let doubtful_max = if gap.is_empty() { PROBES_TOGETHER } else { PROBES_TOGETHER / 2 };
        let doubtful = self.seen.iter().enumerate().filter(|(_, sight)| sight.is_doubtful());
        let mut probes: Vec<usize> = doubtful.map(|(at, _)| at).take(doubtful_max).collect();
        let spread = spread(gap, PROBES_TOGETHER - probes.len());
        probes.extend(spread);
        probes.sort_unstable();
        probes.dedup();
        probes
    }
}

/// Places in a gap, both ends among them; all of them, where it has no more than `places`.
fn spread(gap: Range<usize>, places: usize) -> impl Iterator<Item = usize> {
    let places = places.min(gap.len());
    (0..places).map(move |place| match places {
        1 => gap.start,
        _ => gap.start + place * (gap.len() - 1) / (places - 1),
    })
}

/// Gives every block that is supposed to be there the length of the nearest known one. Those in doubt stay so.
pub(super) fn suppose(seen: &mut [Sight]) {
    let mut begin = 0;
    let mut before = None;
    for at in 0..seen.len() {
        let Sight::Good { len_bytes, .. } = seen[at] else { continue };
        let (first, second) = (before.unwrap_or(len_bytes), len_bytes);
        let middle = if before.is_some() { begin + (at - begin).div_ceil(2) } else { begin };
        for (place, len_bytes) in
            (begin..middle).map(|place| (place, first)).chain((middle..at).map(|place| (place, second)))
        {
            if seen[place] == Sight::Unknown {
                seen[place] = Sight::Good { len_bytes, tier: Tier::Upstream };
            }
        }
        begin = at + 1;
        before = Some(len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds that it takes to find where a gap of `len` ends, at worst.
    fn rounds(len: usize) -> u32 {
        if len == 0 {
            return 0;
        }
        let asked: Vec<usize> = spread(0..len, PROBES_TOGETHER).collect();
        let ends = asked.iter().copied().chain([len]).zip([usize::MAX].into_iter().chain(asked.iter().copied()));
        let widest = ends.map(|(end, before)| end.wrapping_sub(before).wrapping_sub(1)).max().unwrap_or(0);
        1 + rounds(widest)
    }

    #[test]
    fn gaps_close_in_few_rounds() {
        assert_eq!([1, 2, 17, 18, 272, 4096].map(rounds), [1, 1, 1, 2, 2, 3]);
        assert_eq!(rounds(65_536), 4);
        for len in 1..400 {
            let asked: Vec<usize> = spread(5..5 + len, PROBES_TOGETHER).collect();
            assert_eq!((asked.first(), asked.last()), (Some(&5), Some(&(4 + len))));
            assert!(asked.is_sorted() && asked.len() == len.min(PROBES_TOGETHER));
        }
    }

    #[test]
    fn supposed_blocks_are_as_long_as_their_nearest_neighbour() {
        let good = |len_bytes| Sight::Good { len_bytes, tier: Tier::Memory };
        let mut seen = [Sight::Unknown, good(5), Sight::Unknown, Sight::Unknown, Sight::Unknown, good(9)];
        suppose(&mut seen);
        let lengths = seen.map(|sight| match sight {
            Sight::Good { len_bytes, tier } => (len_bytes, tier == Tier::Memory),
            _ => (0, false),
        });
        assert_eq!(lengths, [(5, false), (5, true), (5, false), (5, false), (9, false), (9, true)]);
    }
}
