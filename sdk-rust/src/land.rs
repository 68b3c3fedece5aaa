//! Where the bytes of blocks end up: in the caller's buffers, copied once and summed while they are copied.

use std::ops::Range;

use blockgate_api::types::GetMode;
use blockgate_api::{Crc64, Crc64Hasher};

use crate::MissReason;
use crate::outcome::{GetOutcome, Miss};

/// Bytes that are summed and then copied at a time: few enough to be in the first-level cache for both.
const STEP_BYTES: usize = 16 << 10;

/// The buffers of a call, and what became of each.
#[derive(Debug)]
pub(crate) struct Landing<'a, B> {
    buffers: &'a mut [B],
    states: Vec<State>,
    mode: GetMode,
    /// Blocks before this one are loaded.
    prefix: usize,
    current: Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Loaded,
    Missed(MissReason),
}

/// The block that is arriving.
#[derive(Debug, Default)]
struct Current {
    index: usize,
    len_bytes: u64,
    hasher: Crc64Hasher,
}

impl<'a, B: AsMut<[u8]>> Landing<'a, B> {
    /// One buffer for each of `keys`; where one is lacking there is no room for the block.
    pub(crate) fn new(buffers: &'a mut [B], keys: usize, mode: GetMode) -> Self {
        let mut states = vec![State::Pending; keys];
        states.iter_mut().skip(buffers.len()).for_each(|state| *state = State::Missed(MissReason::BufferLength));
        Self { buffers, states, mode, prefix: 0, current: Current::default() }
    }

    /// Which of these are still wanted.
    pub(crate) fn wanted(&mut self, batch: Range<usize>) -> Vec<usize> {
        if self.is_over() {
            return Vec::new();
        }
        batch.filter(|index| self.states[*index] == State::Pending).collect()
    }

    /// Whether nothing more is of use: the usable prefix has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        while self.states.get(self.prefix) == Some(&State::Loaded) {
            self.prefix += 1;
        }
        self.mode == GetMode::Prefix && matches!(self.states.get(self.prefix), Some(State::Missed(_)))
    }

    /// A block of the call begins to arrive.
    pub(crate) fn begin(&mut self, index: usize, len_bytes: u64) {
        self.current = Current { index, len_bytes, hasher: Crc64Hasher::default() };
        let room = self.buffers.get_mut(index).map(|buffer| buffer.as_mut().len() as u64);
        if room != Some(len_bytes) {
            self.missed(index, MissReason::BufferLength);
        }
    }

    /// Takes bytes of the block that is arriving.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let Current { index, hasher, .. } = &mut self.current;
        // What has no room is summed all the same, to know whether what follows can be trusted.
        let is_wanted = self.states[*index] == State::Pending;
        let buffer = self.buffers.get_mut(*index).filter(|_| is_wanted).map(AsMut::as_mut).unwrap_or_default();
        for from in bytes.chunks(STEP_BYTES) {
            // No more comes than was announced, which is the buffer's length; both are bounded by it.
            let start = hasher.len_bytes() as usize;
            hasher.update(from);
            if let Some(to) = buffer.get_mut(start..).and_then(|rest| rest.get_mut(..from.len())) {
                to.copy_from_slice(from);
            }
        }
    }

    /// The checksum of what came of the block that is arriving.
    pub(crate) fn crc64(&self) -> Crc64 {
        self.current.hasher.finish()
    }

    /// The block that was arriving came to its end, with the right checksum or not.
    pub(crate) fn finish(&mut self, is_sound: bool) {
        let Current { index, len_bytes, ref hasher } = self.current;
        if self.states[index] != State::Pending {
            return;
        }
        if is_sound && hasher.len_bytes() == len_bytes {
            self.states[index] = State::Loaded;
        } else {
            self.missed(index, MissReason::Checksum);
        }
    }

    pub(crate) fn missed(&mut self, index: usize, reason: MissReason) {
        self.states[index] = State::Missed(reason);
    }

    /// All of the call that is not settled yet is a miss.
    pub(crate) fn give_up(&mut self, reason: MissReason) {
        let pending = self.states.iter_mut().filter(|state| **state == State::Pending);
        pending.for_each(|state| *state = State::Missed(reason));
    }

    pub(crate) fn outcome(self) -> GetOutcome {
        let missed = |(index, state): (usize, &State)| match state {
            State::Loaded => None,
            State::Missed(reason) => Some(Miss { index, reason: *reason }),
            State::Pending => Some(Miss { index, reason: MissReason::Absent }),
        };
        let misses = self.states.iter().enumerate().filter_map(missed);
        let misses: Vec<Miss> = if self.mode == GetMode::Prefix { misses.take(1).collect() } else { misses.collect() };
        let usable = match (self.mode, misses.first()) {
            (GetMode::Prefix, Some(miss)) => miss.index,
            _ => self.states.len(),
        };
        let loaded: Vec<usize> = (0..usable).filter(|index| self.states[*index] == State::Loaded).collect();
        let bytes = loaded.iter().map(|index| self.buffers[*index].as_mut().len() as u64).sum();
        GetOutcome { loaded: loaded.len(), bytes, misses }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn misses_by_mode() {
        for (mode, loaded, misses) in [(GetMode::Prefix, 1, 1), (GetMode::All, 2, 2)] {
            let mut buffers = [[0], [0], [0]];
            let mut landing = Landing::new(&mut buffers, 4, mode);
            for index in [0, 2] {
                landing.begin(index, 1);
                landing.take(&[7]);
                landing.finish(true);
            }
            landing.give_up(MissReason::Timeout);
            let outcome = landing.outcome();
            assert_eq!(
                (outcome.loaded, outcome.bytes as usize, outcome.misses.len()),
                (loaded, loaded, misses),
                "{mode:?}"
            );
            assert_eq!(outcome.misses[0], Miss { index: 1, reason: MissReason::Timeout });
        }
    }

    #[test]
    fn a_key_without_buffer_is_a_miss() {
        let mut buffers = [[0u8; 1]; 0];
        let outcome = Landing::new(&mut buffers, 1, GetMode::All).outcome();
        assert_eq!(outcome.misses, [Miss { index: 0, reason: MissReason::BufferLength }]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the cuts, lengths and damages: a block is loaded only whole and sound, and no other buffer is touched.
        #[test]
        fn only_sound_blocks_land(
            payload in proptest::collection::vec(any::<u8>(), 0..STEP_BYTES * 3),
            cuts in proptest::collection::vec(1usize..STEP_BYTES * 2, 0..6),
            buffer_len in proptest::option::of(0usize..STEP_BYTES * 3),
            flip in proptest::option::of(any::<proptest::sample::Index>()),
        ) {
            let buffer_len = buffer_len.unwrap_or(payload.len());
            let mut buffers = [vec![0xaa; 8], vec![0xaa; buffer_len], vec![0xaa; 8]];
            let mut landing = Landing::new(&mut buffers, 3, GetMode::All);
            let mut wire = payload.clone();
            let flipped = flip.filter(|_| !wire.is_empty()).map(|at| at.index(wire.len()));
            flipped.into_iter().for_each(|at| wire[at] ^= 1);
            landing.begin(1, payload.len() as u64);
            let mut rest = wire.as_slice();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                landing.take(head);
                rest = tail;
            }
            landing.take(rest);
            landing.finish(landing.crc64() == Crc64::of(&payload));
            landing.give_up(MissReason::Absent);
            let outcome = landing.outcome();
            let is_sound = buffer_len == payload.len() && flipped.is_none();
            prop_assert_eq!(outcome.loaded == 1, is_sound);
            prop_assert!(!is_sound || buffers[1] == payload);
            prop_assert!(buffers[0] == [0xaa; 8] && buffers[2] == [0xaa; 8]);
        }

        /// More bytes than announced never leave the buffer.
        #[test]
        fn buffers_are_not_overrun(len in 0usize..100, more in 0usize..100) {
            let mut arena = vec![0xaau8; 300];
            let (head, tail) = arena.split_at_mut(100);
            let (own, after) = tail.split_at_mut(len);
            let mut buffers = [own];
            let mut landing = Landing::new(&mut buffers, 1, GetMode::All);
            landing.begin(0, len as u64);
            landing.take(&vec![0; len + more]);
            drop(landing);
            prop_assert!(head.iter().chain(&*after).all(|byte| *byte == 0xaa));
        }
    }
}
