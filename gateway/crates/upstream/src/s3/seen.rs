//! Which buckets were there a moment ago.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// A HEAD answered by 404 does not say whether the key or the bucket is missing. Asking again would double the price of every
/// miss, so a bucket that answered lately is believed to be there still.
#[derive(Debug, Default)]
pub(super) struct BucketsSeen(Mutex<HashMap<String, SystemTime>>);

/// For how long a bucket is believed to be there.
const TRUST: Duration = Duration::from_secs(10);
/// Most buckets remembered; beyond that all are forgotten.
const BUCKETS_MAX: usize = 4096;

impl BucketsSeen {
    pub(super) fn saw(&self, bucket: &str, now: SystemTime) {
        let mut seen = self.0.lock();
        if let Some(at) = seen.get_mut(bucket) {
            *at = now;
            return;
        }
        if seen.len() >= BUCKETS_MAX {
            seen.clear();
        }
        seen.insert(bucket.to_owned(), now);
    }

    pub(super) fn lately(&self, bucket: &str, now: SystemTime) -> bool {
        let at = self.0.lock().get(bucket).copied();
        at.is_some_and(|at| now.duration_since(at).is_ok_and(|age| age < TRUST))
    }

    pub(super) fn forget(&self, bucket: &str) {
        self.0.lock().remove(bucket);
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn trust_ends() {
        let seen = BucketsSeen::default();
        assert!(!seen.lately("b", UNIX_EPOCH));
        seen.saw("b", UNIX_EPOCH);
        assert!(seen.lately("b", UNIX_EPOCH + TRUST / 2));
        assert!(!seen.lately("b", UNIX_EPOCH + TRUST));
        seen.saw("b", UNIX_EPOCH + TRUST);
        assert!(seen.lately("b", UNIX_EPOCH + TRUST));
        seen.forget("b");
        assert!(!seen.lately("b", UNIX_EPOCH + TRUST));
    }

    #[test]
    fn it_stays_small() {
        let seen = BucketsSeen::default();
        for n in 0..=BUCKETS_MAX {
            seen.saw(&n.to_string(), UNIX_EPOCH);
        }
        assert_eq!(seen.0.lock().len(), 1);
    }
}
