//! Writers of one key in every order of their steps that takes few switches: whatever they are told and whatever is left must
//! be as if they had come one after the other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::super::bucket;
use super::super::names::KeyPath;
use super::super::root::Root;
use super::registers::{Act, BUCKET, Outcome, State};
use super::{Step, hooked, temp_dir};

/// What a writer tells the schedule.
#[derive(Debug)]
enum Event {
    At(Step),
    Ended(Outcome),
}

/// A writer, stopped before its next step.
struct Writer {
    go: Sender<()>,
    events: Receiver<Event>,
    waits: bool,
    ended: Option<Outcome>,
}

impl Writer {
    fn start(root: Arc<Root>, key: String, act: Act) -> Self {
        let (go, gone) = channel::<()>();
        let (tell, events) = channel();
        std::thread::spawn(move || {
            let told = tell.clone();
            let hook = move |step| {
                told.send(Event::At(step)).unwrap();
                gone.recv().map_err(std::io::Error::other)
            };
            let outcome = hooked(Box::new(hook), || act.run(&root, &key));
            tell.send(Event::Ended(outcome)).unwrap();
        });
        let mut writer = Self { go, events, waits: false, ended: None };
        writer.listen();
        writer
    }

    /// Takes one step.
    fn go(&mut self) {
        self.go.send(()).unwrap();
        self.listen();
    }

    fn listen(&mut self) {
        match self.events.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::At(step) => self.waits = step == Step::Wait,
            Event::Ended(outcome) => self.ended = Some(outcome),
        }
    }
}

/// Runs the writers, at each step the one that `path` chooses (the first, where it is at its end). Returns how many there were to
/// choose from at each step, and how all ended.
fn run(root: &Arc<Root>, key: &str, acts: &[Act], path: &[usize], switches_max: usize) -> (Vec<usize>, Vec<Outcome>) {
    let mut writers: Vec<Writer> = acts.iter().map(|act| Writer::start(root.clone(), key.to_owned(), *act)).collect();
    let (mut choices, mut current, mut switches) = (Vec::new(), 0, 0);
    loop {
        let goes_on = writers[current].ended.is_none() && !writers[current].waits;
        let mut options: Vec<usize> = (0..writers.len()).filter(|at| writers[*at].ended.is_none()).collect();
        if options.is_empty() {
            return (choices, writers.into_iter().map(|writer| writer.ended.unwrap()).collect());
        }
        if goes_on {
            options.retain(|at| *at == current || switches < switches_max);
            options.sort_by_key(|at| *at != current);
        } else if writers[current].waits {
            // Each in turn, or those who wait would wait for each other.
            options.sort_by_key(|at| *at <= current);
            options.truncate(1);
        }
        let next = options[path.get(choices.len()).copied().unwrap_or(0)];
        choices.push(options.len());
        switches += usize::from(goes_on && next != current);
        current = next;
        writers[current].go();
        assert!(choices.len() < 1000, "{acts:?} never end");
    }
}

/// Whether acts that ended so could have come one after the other.
fn is_explained(start: State, left: &[(Act, Outcome)], end: State) -> bool {
    if left.is_empty() {
        return start == end;
    }
    (0..left.len()).any(|at| {
        let mut state = start;
        let mut others = left.to_vec();
        let (act, outcome) = others.remove(at);
        act.model(&mut state) == outcome && is_explained(state, &others, end)
    })
}

/// Tries every schedule with at most `switches_max` switches that nothing forced.
fn explore(cases: &[(State, Vec<Act>)], switches_max: usize) {
    let dir = temp_dir();
    let root = Arc::new(Root::open(dir.path(), Duration::from_secs(3600)).unwrap());
    bucket::create(&root, BUCKET).unwrap();
    let mut schedules = 0;
    for (case, (start, acts)) in cases.iter().enumerate() {
        let mut path: Vec<usize> = Vec::new();
        loop {
            // A key in a directory of its own, which deletions remove.
            let key = format!("{case}-{schedules}/key");
            if let Some((value, _)) = start {
                assert_eq!(Act::Put(*value).run(&root, &key), Outcome::Done);
            }
            let (choices, outcomes) = run(&root, &key, acts, &path, switches_max);
            let Outcome::Read(end) = Act::Read.run(&root, &key) else { panic!("unreadable") };
            let ended: Vec<(Act, Outcome)> = acts.iter().copied().zip(outcomes).collect();
            assert!(is_explained(*start, &ended, end), "{start:?} {ended:?} {end:?} by {path:?}");
            Act::Delete.run(&root, &key);
            schedules += 1;
            path.resize(choices.len(), 0);
            while path.last().is_some_and(|last| last + 1 == choices[path.len() - 1]) {
                path.pop();
            }
            match path.last_mut() {
                Some(last) => *last += 1,
                None => break,
            }
        }
    }
    assert!(root.claims.names().unwrap().is_empty(), "claims are left");
    assert!(root.temp.names().unwrap().is_empty(), "files are left");
    let bucket = root.bucket(BUCKET).unwrap();
    assert!(KeyPath::of("x/key").dirs.iter().all(|dir| bucket.open(dir).is_err()));
    eprintln!("{schedules} schedules");
}

#[test]
fn any_two_writers() {
    use Act::{Create, Delete, Put, Read, Replace, Tag, Touch};
    let acts = [Put(1), Put(2), Create(3), Replace(0, 4), Replace(0, 5), Replace(1, 6), Tag(7), Touch(8), Delete, Read];
    let pairs = (0..acts.len()).flat_map(|one| (one..acts.len()).map(move |other| vec![acts[one], acts[other]]));
    let cases: Vec<_> = pairs.flat_map(|acts| [(None, acts.clone()), (Some((0, 0)), acts)]).collect();
    explore(&cases, 2);
}

#[test]
fn three_writers() {
    use Act::{Create, Delete, Put, Read, Replace, Tag};
    let some = Some((0, 0));
    let cases = [
        (some, vec![Replace(0, 1), Put(2), Delete]),
        (some, vec![Replace(0, 1), Delete, Delete]),
        (some, vec![Replace(0, 1), Replace(0, 2), Create(3)]),
        (some, vec![Replace(0, 1), Replace(1, 2), Read]),
        (some, vec![Delete, Create(1), Replace(0, 2)]),
        (some, vec![Tag(1), Put(2), Replace(2, 3)]),
        (None, vec![Create(1), Create(2), Delete]),
        (None, vec![Put(1), Delete, Create(2)]),
    ];
    explore(&cases, 2);
}
