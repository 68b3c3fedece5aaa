//! The behaviour that every upstream and every decorator must show.
//!
//! [`run`] does all [`checks`] against one store; what fails is named. A store that can't do something says so by its
//! [`Capabilities`](crate::Capabilities), and is then held to refuse it: ignoring a condition is a failure. What a
//! real server does differently and can't be helped is left out by name and with a reason, which is printed.
//!
//! Checks panic, as tests do.

#![allow(clippy::unwrap_used, reason = "checks fail by panicking")]

mod bodies;
mod buckets;
mod conditions;
mod copying;
mod keys;
mod listing;
mod multipart;
mod objects;
mod tags;
mod tools;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{BucketInfo, ListRequest, UploadListRequest, Upstream, UpstreamError};

pub use keys::confusable_keys;

/// One check.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    run: fn(Bench) -> BoxFuture<'static, ()>,
}

macro_rules! checks {
    ($($module:ident :: { $($check:ident),* $(,)? })*) => {
        vec![$($(Check { name: stringify!($check), run: |bench| $module::$check(bench).boxed() }),*),*]
    };
}

/// Every check.
#[must_use]
pub fn checks() -> Vec<Check> {
    checks! {
        buckets::{ buckets_come_and_go, buckets_with_objects_stay, bucket_names_are_checked, everything_needs_its_bucket, concurrent_creations_make_one_bucket }
        objects::{ objects_of_every_size, attributes_are_kept, records_are_kept, overwriting_replaces_all, ranges, absent_objects, deletion, deletion_of_many, the_clock_runs, answers_to_ping }
        bodies::{ failed_bodies_store_nothing, wrong_lengths_store_nothing, dropped_writes_store_nothing, reads_outlive_replacement, concurrent_writes_never_mix }
        conditions::{ conditions_on_reads, create_only, create_only_races, replace_only, replace_only_races, conditions_against_deletion }
        copying::{ copies, copies_onto_themselves, conditions_on_copies }
        tags::{ tags_are_kept, tags_of_writes }
        listing::{ listings_match_the_model, reserved_keys_are_hidden, listings_describe_objects, listing_nothing }
        keys::{ keys_that_stores_confuse }
        multipart::{ parts_become_one_object, parts_become_one_block, parts_are_listed_and_replaced, some_parts_are_enough, uploads_are_listed, aborted_uploads_are_gone, wrong_completions, parts_of_copies, failed_parts_store_nothing, conditional_completion, completing_twice }
    }
}

/// Does every check that is not left out, in buckets whose names begin with `bucket_prefix`.
///
/// `left_out` names checks that this store can't pass, each with the reason.
///
/// # Panics
/// When a check failed, with the names of all that did; and when `left_out` names one that there is not.
pub async fn run(upstream: Arc<dyn Upstream>, bucket_prefix: &str, left_out: &[(&str, &str)]) {
    let checks = checks();
    for (name, reason) in left_out {
        assert!(checks.iter().any(|check| check.name == *name), "there is no check {name}");
        eprintln!("{}: LEFT OUT {name}: {reason}", upstream.name());
    }
    let shared = format!("{bucket_prefix}-all");
    remove_bucket(&*upstream, &shared).await;
    upstream.create_bucket(&shared).await.unwrap();
    let mut failed = Vec::new();
    for check in checks {
        if left_out.iter().any(|(name, _)| *name == check.name) {
            continue;
        }
        let own = format!("{bucket_prefix}-{}", check.name.replace('_', "-"));
        let own: String = own.chars().take(60).collect::<String>().trim_end_matches('-').to_owned();
        let bench = Bench { upstream: upstream.clone(), bucket: shared.clone(), own_bucket: own.clone(), check };
        if let Err(panic) = AssertUnwindSafe((check.run)(bench)).catch_unwind().await {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
            eprintln!("{}: FAILED {}: {text}", upstream.name(), check.name);
            failed.push(check.name);
        }
        remove_bucket(&*upstream, &own).await;
    }
    remove_bucket(&*upstream, &shared).await;
    assert!(failed.is_empty(), "{} fails {failed:?}", upstream.name());
}

/// What a check works with.
pub struct Bench {
    upstream: Arc<dyn Upstream>,
    /// A bucket for all checks.
    bucket: String,
    /// The name of a bucket for this check alone, not there at first.
    own_bucket: String,
    check: Check,
}

impl Bench {
    /// A key in the bucket for all that is this check's own.
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.check.name)
    }

    /// Creates the bucket for this check alone.
    async fn create_own_bucket(&self) -> &str {
        self.upstream.create_bucket(&self.own_bucket).await.unwrap();
        &self.own_bucket
    }
}

/// Removes a bucket with all that is in it, if it is there.
async fn remove_bucket(upstream: &dyn Upstream, bucket: &str) {
    match upstream.head_bucket(bucket).await {
        Ok(BucketInfo { .. }) => {}
        Err(UpstreamError::NoSuchBucket) => return,
        Err(error) => panic!("cannot look at {bucket}: {error}"),
    }
    loop {
        let request = ListRequest { limit: 1000, ..ListRequest::default() };
        let page = upstream.list(bucket, &request).await.unwrap();
        let keys: Vec<String> = page.entries.iter().map(|entry| entry.name().to_owned()).collect();
        if keys.is_empty() {
            break;
        }
        for (key, outcome) in keys.iter().zip(upstream.delete_many(bucket, &keys).await.unwrap()) {
            assert!(outcome.is_ok(), "cannot delete {key:?}: {outcome:?}");
        }
    }
    let request = UploadListRequest { limit: 1000, ..UploadListRequest::default() };
    for upload in upstream.list_uploads(bucket, &request).await.unwrap().uploads {
        upstream.abort_multipart(bucket, &upload.key, &upload.upload_id).await.unwrap();
    }
    upstream.delete_bucket(bucket).await.unwrap();
}
