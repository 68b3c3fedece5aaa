//! Bytes that may be held, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bytes and no more.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: u64,
    used_bytes: AtomicU64,
}

/// A part of one or two budgets; given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: u64,
    budgets: [Arc<Budget>; 2],
}

impl Budget {
    pub(crate) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self { max_bytes, used_bytes: AtomicU64::new(0) })
    }

    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max_bytes);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

impl Room {
    /// Room in both budgets; none where one has none.
    pub(crate) fn within(budgets: [&Arc<Budget>; 2], bytes: u64) -> Option<Self> {
        let [one, other] = budgets;
        if !one.take(bytes) {
            return None;
        }
        if !other.take(bytes) {
            one.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(Self { bytes, budgets: budgets.map(Arc::clone) })
    }

    /// Room, whether there is some or not.
    pub(crate) fn beyond(budgets: [&Arc<Budget>; 2], bytes: u64) -> Self {
        let mut room = Self { bytes: 0, budgets: budgets.map(Arc::clone) };
        room.resize(bytes);
        room
    }

    /// Makes the room as large as what came, whether there is room for it or not.
    pub(crate) fn resize(&mut self, bytes: u64) {
        for budget in &self.budgets {
            budget.used_bytes.fetch_add(bytes, Ordering::Relaxed);
            budget.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back() {
        let (own, shared) = (Budget::new(10), Budget::new(15));
        let first = Room::within([&own, &shared], 10).unwrap();
        assert!(Room::within([&own, &shared], 1).is_none());
        let other = Budget::new(10);
        assert!(Room::within([&other, &shared], 6).is_none());
        assert_eq!(other.used_bytes(), 0);
        let mut second = Room::beyond([&other, &shared], 6);
        second.resize(3);
        assert_eq!((other.used_bytes(), shared.used_bytes()), (3, 13));
        drop((first, second));
        assert_eq!((own.used_bytes(), other.used_bytes(), shared.used_bytes()), (0, 0, 0));
    }
}
