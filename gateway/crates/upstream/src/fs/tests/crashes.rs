//! Gateways that die before any of their steps: what they began is done or not, and others go on.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::super::bucket;
use super::super::root::Root;
use super::registers::{Act, BUCKET, Outcome, State};
use super::{hooked, temp_dir};

const LEASE: Duration = Duration::from_secs(3600);

/// Runs an act on a gateway that dies before its `nth` step. Whether it died.
fn run_and_die(root: &Arc<Root>, key: &str, act: Act, nth: usize) -> bool {
    let mut step = 0;
    let hook = move |_| {
        step += 1;
        if step > nth { Err(io::Error::other("dead")) } else { Ok(()) }
    };
    match hooked(Box::new(hook), || act.run(root, key)) {
        Outcome::Failed(error) if error.contains("dead") => true,
        Outcome::Failed(error) => panic!("{act:?}: {error}"),
        _ => false,
    }
}

/// States in which an act that may not have been done can leave an object.
fn after(act: Act, before: State) -> [State; 2] {
    let mut done = before;
    act.model(&mut done);
    [before, done]
}

/// Makes every claim as old as its lease.
fn end_leases(root: &Path) {
    for claim in std::fs::read_dir(root.join(".blockgate/claims")).unwrap() {
        let claim = std::fs::File::options().write(true).open(claim.unwrap().path()).unwrap();
        claim.set_modified(SystemTime::now() - LEASE).unwrap();
    }
}

#[test]
fn others_go_on_where_a_gateway_dies() {
    use Act::{Create, Delete, Put, Replace, Tag};
    let dir = temp_dir();
    let dying = Arc::new(Root::open(dir.path(), LEASE).unwrap());
    bucket::create(&dying, BUCKET).unwrap();
    let other = Arc::new(Root::open(dir.path(), LEASE).unwrap());
    let (mut runs, mut deaths) = (0, 0);
    for before in [None, Some((0, 0))] {
        for act in [Put(1), Create(1), Replace(0, 1), Tag(1), Delete] {
            for next in [Put(2), Create(2), Replace(0, 2), Replace(1, 2), Tag(2), Delete] {
                for nth in 0.. {
                    runs += 1;
                    let key = format!("{runs}/key");
                    if let Some((value, _)) = before {
                        assert_eq!(Put(value).run(&dying, &key), Outcome::Done);
                    }
                    if !run_and_die(&dying, &key, act, nth) {
                        break;
                    }
                    deaths += 1;
                    end_leases(dir.path());
                    let context = format!("{act:?} on {before:?} dies at step {nth}, then {next:?}");
                    let Outcome::Read(seen) = Act::Read.run(&other, &key) else { panic!("{context}: unreadable") };
                    assert!(after(act, before).contains(&seen), "{context}: {seen:?}");
                    // What is done next may find the act undone, done, or do it itself.
                    let ended = next.run(&other, &key);
                    let Outcome::Read(end) = Act::Read.run(&other, &key) else { panic!("{context}: unreadable") };
                    let explained = after(act, before).into_iter().any(|mut state| {
                        (seen == before || state == seen) && next.model(&mut state) == ended && state == end
                    });
                    assert!(explained, "{context}: {seen:?}, {ended:?}, {end:?}");
                    // And nothing is in the way afterwards.
                    for act in [Put(5), Replace(5, 6), Delete] {
                        assert_eq!(act.run(&other, &key), Outcome::Done, "{context}");
                    }
                    assert_eq!(Act::Read.run(&other, &key), Outcome::Read(None), "{context}");
                }
            }
        }
    }
    assert!(deaths > 200, "{deaths}");
    // A day later nothing of it is left.
    let much_later = Arc::new(Root::open(dir.path(), LEASE).unwrap());
    let now = SystemTime::now();
    much_later.clock.learn(now + Duration::from_secs(25 * 3600), now, now);
    much_later.clean().unwrap();
    assert_eq!(much_later.temp.names().unwrap(), Vec::<String>::new());
    assert_eq!(much_later.claims.names().unwrap(), Vec::<String>::new());
}

/// A deletion that was begun is left to its gateway for a while.
#[test]
fn a_young_deletion_is_waited_for() {
    let dir = temp_dir();
    let root = Arc::new(Root::open(dir.path(), LEASE).unwrap());
    bucket::create(&root, BUCKET).unwrap();
    assert_eq!(Act::Put(0).run(&root, "key"), Outcome::Done);
    let id = root.current(BUCKET, "key").unwrap().unwrap().id().to_owned();
    root.claims.create_file(&id).unwrap();
    let (other, path) = (root.clone(), dir.path().join(BUCKET).join("key"));
    let mut waits = 0;
    let hook = move |step| {
        waits += usize::from(step == super::Step::Wait);
        if waits == 3 && step == super::Step::Wait {
            // Its gateway goes on.
            std::fs::remove_file(&path).ok();
        }
        Ok(())
    };
    assert_eq!(hooked(Box::new(hook), || Act::Put(1).run(&other, "key")), Outcome::Done);
    assert_eq!(Act::Read.run(&root, "key"), Outcome::Read(Some((1, 0))));
}
