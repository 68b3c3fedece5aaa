//! Instruments bound to their label values once, so that counting is one look-up and allocates nothing.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::RwLock;

/// Instruments of the same kind, one for each combination of label values seen.
#[derive(Debug)]
pub(crate) struct Family<K, I> {
    bound: RwLock<HashMap<K, Arc<I>>>,
    combinations_max: usize,
}

impl<K: Hash + Eq, I> Family<K, I> {
    /// Holds `combinations_max`, and one more that all others share.
    pub(crate) fn new(combinations_max: usize) -> Self {
        Self { bound: RwLock::default(), combinations_max }
    }

    /// What `bind` makes of `labels`, made when they are first seen; of `other` once too many have been.
    pub(crate) fn get<Q>(&self, labels: &Q, other: &Q, bind: impl FnOnce(&Q) -> I) -> Arc<I>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(instrument) = self.bound.read().get(labels) {
            return Arc::clone(instrument);
        }
        let mut bound = self.bound.write();
        let full = bound.len() >= self.combinations_max && !bound.contains_key(labels);
        let labels = if full { other } else { labels };
        Arc::clone(bound.entry(labels.to_owned()).or_insert_with(|| Arc::new(bind(labels))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_combinations_share_one() {
        let family: Family<String, String> = Family::new(2);
        let get = |labels: &str| family.get(labels, "other", str::to_owned).to_string();
        assert_eq!([get("a"), get("b"), get("c"), get("d")], ["a", "b", "other", "other"]);
        assert_eq!([get("a"), get("b")], ["a", "b"], "those seen early stay themselves");
        assert_eq!(family.bound.read().len(), 3);
    }
}
