use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use blockgate_block::{BlockKey, Crc64};
use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(1);

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

fn digest(number: u64) -> Digest {
    BlockKey::new("bucket", &number.to_string()).expect("a legal key").digest()
}

fn record(len_bytes: u64) -> Record {
    Record {
        len_bytes,
        crc64: Crc64::from_u64(len_bytes ^ 0xffff),
        expires_at_ms: 0,
        fingerprint: 7,
        in_memory: false,
        in_staging: false,
        in_upstream: true,
    }
}

#[test]
fn an_expired_record_is_still_shown() {
    let index = Index::new(10, TTL);
    let record = Record { expires_at_ms: 5, ..record(1) };
    index.insert(digest(0), record);
    assert_eq!(index.get(digest(0), at(10_000)), Presence::Present(record));
}

#[test]
fn absence_is_believed_for_the_negative_ttl() {
    let index = Index::new(10, TTL);
    index.mark_absent(digest(0), at(5_000));
    for (now, presence) in [
        (5_000, Presence::Absent),
        (5_999, Presence::Absent),
        (6_000, Presence::WasAbsent),
        // The clock was set back: the absence is not believed for longer than its time to live.
        (4_999, Presence::WasAbsent),
    ] {
        assert_eq!(index.get(digest(0), at(now)), presence, "{now}");
    }
    index.insert(digest(0), record(3));
    assert_eq!(index.get(digest(0), at(5_000)), Presence::Present(record(3)));
    index.mark_absent(digest(0), at(5_000));
    assert_eq!(index.get(digest(0), at(5_000)), Presence::Absent);
}

#[test]
fn many_are_told_as_one_by_one_in_order_and_no_further_than_asked() {
    for entries_max in [10, 20_000] {
        let index = Index::new(entries_max, TTL);
        for number in 0..5_000 {
            match number % 3 {
                0 => index.insert(digest(number), record(number)),
                1 => index.mark_absent(digest(number), at(number)),
                _ => {}
            }
        }
        let digests: Vec<Digest> = (0..5_000).chain([0, 0]).map(digest).collect();
        let one_by_one: Vec<Presence> = digests.iter().map(|&digest| index.get(digest, at(3_000))).collect();
        for enough in [1, 100, usize::MAX] {
            let mut told = Vec::new();
            let end = index.get_many(&digests, at(3_000), |presence| {
                told.push(presence);
                if told.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(end.is_break(), enough < digests.len());
            assert_eq!(told, one_by_one[..digests.len().min(enough)]);
        }
    }
}

#[test]
fn without_a_negative_ttl_absence_is_not_believed() {
    let index = Index::new(10, Duration::ZERO);
    index.insert(digest(0), record(3));
    index.mark_absent(digest(0), at(0));
    assert_eq!((index.get(digest(0), at(0)), index.len()), (Presence::WasAbsent, 1));
}

#[test]
fn only_the_memory_tier_says_that_a_block_left_memory() {
    let index = Index::new(10, TTL);
    let in_memory = || match index.get(digest(0), at(0)) {
        Presence::Present(record) => Some(record.in_memory),
        _ => None,
    };
    index.set_in_memory(digest(0), true);
    assert_eq!(in_memory(), None, "what is not known to be there is in no tier");
    index.insert(digest(0), record(1));
    assert_eq!(in_memory(), Some(false));
    index.set_in_memory(digest(0), true);
    index.insert(digest(0), record(2));
    assert_eq!(in_memory(), Some(true));
    index.set_in_memory(digest(0), false);
    assert_eq!(in_memory(), Some(false));
    index.set_in_memory(digest(0), true);
    index.mark_absent(digest(0), at(0));
    index.set_in_memory(digest(0), true);
    index.insert(digest(0), record(3));
    assert_eq!(in_memory(), Some(false));
}

#[test]
fn the_limit_holds_whatever_comes() {
    for entries_max in [0, 1, 2, 3, 1_000, 5_000] {
        let index = Index::new(entries_max, TTL);
        for number in 0..3 * entries_max.max(1) {
            index.insert(digest(number), record(number));
            assert!(index.len() <= entries_max.max(1));
            assert_eq!(index.get(digest(number), at(0)), Presence::Present(record(number)), "the newest stays");
        }
        assert!(index.len() * 100 >= entries_max * 95, "{} of {entries_max}", index.len());
    }
}

#[test]
fn absences_go_first_and_blocks_in_memory_last() {
    let index = Index::new(300, TTL);
    for number in 0..100 {
        index.mark_absent(digest(number), at(0));
        index.insert(digest(100 + number), record(number));
        index.insert(digest(200 + number), Record { in_memory: true, ..record(number) });
    }
    let count = |range: std::ops::Range<u64>| {
        range.filter(|&number| index.get(digest(number), at(0)) != Presence::Unknown).count()
    };
    let insert = |range: std::ops::Range<u64>| {
        range.for_each(|number| index.insert(digest(number), Record { in_memory: true, ..record(number) }));
    };
    insert(300..380);
    assert!(count(0..100) <= 35, "{} absences are left of 100", count(0..100));
    assert!(count(100..200) >= 85, "{} blocks elsewhere are left of 100", count(100..200));
    insert(380..450);
    assert!(count(200..450) >= 245, "{} blocks in memory are left of 250", count(200..450));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, Record),
    MarkAbsent(u64),
    Remove(u64),
    SetInMemory(u64, bool),
    SetInStaging(u64, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0u64..20;
    let record = (0u64..1 << 48, any::<u64>(), any::<u64>(), any::<u64>(), any::<[bool; 3]>()).prop_map(
        |(len_bytes, crc64, expires_at_ms, fingerprint, [in_memory, in_staging, in_upstream])| Record {
            len_bytes,
            crc64: Crc64::from_u64(crc64),
            expires_at_ms,
            fingerprint,
            in_memory,
            in_staging,
            in_upstream,
        },
    );
    prop_oneof![
        (number.clone(), record).prop_map(|(number, record)| Step::Insert(number, record)),
        number.clone().prop_map(Step::MarkAbsent),
        number.clone().prop_map(Step::Remove),
        (number.clone(), any::<bool>()).prop_map(|(number, is)| Step::SetInMemory(number, is)),
        (number, any::<bool>()).prop_map(|(number, is)| Step::SetInStaging(number, is)),
        (0u64..1500).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_map(steps in proptest::collection::vec(step(), 1..200), entries_max in 10_000u64..10_000_000) {
        enum Known { There(Record), AbsentUntil(u64) }
        let index = Index::new(entries_max, TTL);
        let mut model: HashMap<u64, Known> = HashMap::new();
        let mut now_ms = 1_000_000;
        for step in steps {
            match step {
                Step::Insert(number, mut record) => {
                    index.insert(digest(number), record);
                    if let Some(Known::There(old)) = model.get(&number) {
                        record.in_memory |= old.in_memory;
                        record.in_staging |= old.in_staging;
                    }
                    model.insert(number, Known::There(record));
                }
                Step::MarkAbsent(number) => {
                    index.mark_absent(digest(number), at(now_ms));
                    model.insert(number, Known::AbsentUntil(now_ms + 1000));
                }
                Step::Remove(number) => {
                    index.remove(digest(number));
                    model.remove(&number);
                }
                Step::SetInMemory(number, is) => {
                    index.set_in_memory(digest(number), is);
                    if let Some(Known::There(record)) = model.get_mut(&number) {
                        record.in_memory = is;
                    }
                }
                Step::SetInStaging(number, is) => {
                    index.set_in_staging(digest(number), is);
                    if let Some(Known::There(record)) = model.get_mut(&number) {
                        record.in_staging = is;
                    }
                }
                Step::Wait(ms) => now_ms += ms,
            }
            prop_assert_eq!(index.len(), model.len() as u64);
            for number in 0..20 {
                let expected = match model.get(&number) {
                    Some(Known::There(record)) => Presence::Present(*record),
                    Some(Known::AbsentUntil(until)) if now_ms < *until => Presence::Absent,
                    Some(Known::AbsentUntil(_)) => Presence::WasAbsent,
                    None => Presence::Unknown,
                };
                prop_assert_eq!(index.get(digest(number), at(now_ms)), expected);
            }
        }
    }
}

/// `cargo test --release -p blockgate-index -- --ignored --nocapture`
#[test]
#[ignore = "takes a gigabyte"]
fn ten_million_entries_take_at_most_128_bytes_each() {
    let index = Index::new(16_000_000, TTL);
    let mut checked = 0;
    for number in 0..10_000_000u64 {
        index.insert(digest(number), record(number));
        // Just after the tables have grown they are emptiest.
        if number >= 1_000_000 && number % 250_000 == 0 || number == 9_999_999 {
            let bytes_per_entry = index.table_bytes() as f64 / index.len() as f64;
            println!("{:>10} entries: {bytes_per_entry:.1} bytes each", index.len());
            assert!(bytes_per_entry <= 128.0);
            checked += 1;
        }
    }
    assert!(checked > 30);
    let asked: Vec<Digest> = (0..4_000).map(|i| digest(i * 2_503 % 10_000_000)).collect();
    let times: Vec<_> = (0..50)
        .map(|_| {
            let start = std::time::Instant::now();
            let present =
                asked.iter().filter(|&&digest| matches!(index.get(digest, at(0)), Presence::Present(_))).count();
            assert_eq!(present, asked.len());
            start.elapsed()
        })
        .collect();
    println!("4,000 keys of 10M: first {:?}, best {:?}", times[0], times.iter().min().expect("50"));
}
