//! What is known of each block of a `get` between its parts.

use std::collections::HashMap;

use blockgate_store::Whole;

use crate::budget::Room;

/// The blocks of one request.
pub(super) struct Blocks {
    states: Vec<State>,
    /// Blocks that stay in memory for their further parts.
    held: HashMap<usize, (Whole, Room)>,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Unseen,
    /// Its first part came from a block of this length and checksum.
    Seen {
        len_bytes: u64,
        crc64: u64,
    },
    Missed,
}

impl Blocks {
    pub(super) fn new(count: usize) -> Self {
        Self { states: vec![State::default(); count], held: HashMap::new() }
    }

    pub(super) fn has_missed(&self, index: usize) -> bool {
        matches!(self.states.get(index), Some(State::Missed))
    }

    /// Takes a block out of what follows.
    pub(super) fn miss(&mut self, index: usize) {
        self.held.remove(&index);
        if let Some(state) = self.states.get_mut(index) {
            *state = State::Missed;
        }
    }

    /// Whether `whole` is the block that its earlier parts came from: it may have been overwritten in between.
    pub(super) fn is_same(&mut self, index: usize, whole: &Whole, crc64: u64) -> bool {
        let now = (whole.bytes.len() as u64, crc64);
        match self.states.get_mut(index) {
            Some(state @ State::Unseen) => {
                *state = State::Seen { len_bytes: now.0, crc64: now.1 };
                true
            }
            Some(State::Seen { len_bytes, crc64 }) => (*len_bytes, *crc64) == now,
            _ => false,
        }
    }

    pub(super) fn hold(&mut self, index: usize, whole: Whole, room: Room) {
        self.held.insert(index, (whole, room));
    }

    pub(super) fn held(&self, index: usize) -> Option<&Whole> {
        self.held.get(&index).map(|(whole, _)| whole)
    }

    /// Lets go of a block that has no further part.
    pub(super) fn release(&mut self, index: usize) {
        self.held.remove(&index);
    }
}
