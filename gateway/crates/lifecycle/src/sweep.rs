//! Deletes what has expired, and what a reconcile finds.
