use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use blockgate_block::{Attributes, BlockRecord, Crc64, ObjectInfo};

use super::tests::{KIB, MIB, filled, is, key, put, tier};
use super::*;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

/// A block that expires.
fn expiring(tier: &MemoryTier, name: u32, expires_at: SystemTime) {
    let MemoryBlock { bytes, .. } = filled(tier.allocate(4 * KIB).expect("room"), 7);
    let record = BlockRecord {
        crc64: Crc64::of(bytes.as_slice()),
        len_bytes: bytes.len(),
        stored_at: at(0),
        expires_at: Some(expires_at),
        group: None,
        tenant: None,
    };
    let mut info = ObjectInfo::from_upstream(bytes.len(), "etag".into(), at(0), Attributes::default());
    info.record = Some(record);
    tier.insert(key(name), MemoryBlock { info: Arc::new(info), bytes });
}

fn present(tier: &MemoryTier, name: u32) -> bool {
    tier.cache.run_pending_tasks();
    assert_eq!(tier.contains(&key(name)), tier.get(&key(name)).is_some());
    tier.contains(&key(name))
}

#[test]
fn leased_blocks_outlast_any_pressure_and_go_when_it_ends() {
    let tier = tier(MIB);
    for i in 0..14 {
        put(&tier, i, 64 * KIB, i);
    }
    tier.cache.run_pending_tasks();
    // The least recently used, which would be the first to go.
    for i in 0..4 {
        assert_eq!(tier.lease(&key(i), at(10), at(0)), Leased::Until(at(10)));
    }
    for i in 14..100 {
        put(&tier, i, 64 * KIB, i);
    }
    for i in 0..4 {
        assert!(is(&tier.get(&key(i)).expect("leased"), i));
    }
    let stats = tier.stats();
    assert_eq!((stats.leases, stats.leased_bytes), (4, 256 * KIB));
    assert_eq!(stats.arena.used_bytes, stats.block_bytes, "nothing leaks: {stats:?}");
    tier.end_leases(at(9));
    assert_eq!(tier.stats().leases, 4);
    tier.end_leases(at(10));
    assert_eq!((tier.stats().leases, tier.stats().leased_bytes), (0, 0));
    assert!((0..4).all(|i| present(&tier, i)), "as just used");
    for i in 100..120 {
        put(&tier, i, 64 * KIB, i);
    }
    assert!((0..4).all(|i| !present(&tier, i)));
    let stats = tier.stats();
    assert_eq!(stats.arena.used_bytes, stats.block_bytes, "nothing leaks: {stats:?}");
}

#[test]
fn room_is_found_though_as_much_as_may_be_is_leased() {
    let tier = tier(16 * MIB);
    for i in 0..224u64 {
        put(&tier, i, 64 * KIB, i as u8);
    }
    // Every third lies between others, so that free room is in pieces.
    let leased: Vec<u64> =
        (0..224).step_by(3).filter(|&i| tier.lease(&key(i), at(60), at(0)) == Leased::Until(at(60))).collect();
    assert_eq!(leased.len(), 64, "a quarter of the arena");
    for i in 0..50u64 {
        put(&tier, format_args!("more{i}"), 128 * KIB, i as u8);
    }
    for &i in &leased {
        assert!(is(&tier.get(&key(i)).expect("leased"), i as u8));
    }
    assert!(tier.allocate(13 * MIB).is_none());
    let before = tier.stats().blocks;
    assert!(tier.allocate(14 * MIB).is_none(), "more than is not leased");
    assert_eq!(tier.stats().blocks, before, "nothing was evicted for the impossible");
}

#[test]
fn no_more_than_a_quarter_is_leased() {
    let tier = tier(MIB);
    for i in 0..10 {
        put(&tier, i, 64 * KIB, i);
    }
    let leased: Vec<_> = (0..10).map(|i| tier.lease(&key(i), at(10), at(0))).collect();
    assert_eq!(leased[..4], [Leased::Until(at(10)); 4]);
    assert_eq!(leased[4..], [Leased::NoRoom; 6]);
    assert_eq!(tier.lease(&key(77), at(10), at(0)), Leased::NotHere);
    assert_eq!(tier.lease(&key(0), at(5), at(1)), Leased::Until(at(10)), "a lease is not cut short");
    assert_eq!(tier.lease(&key(0), at(20), at(1)), Leased::Until(at(20)));
    tier.end_leases(at(15));
    assert_eq!(tier.stats().leases, 1);
    assert_eq!(tier.lease(&key(5), at(30), at(15)), Leased::Until(at(30)), "there is room again");
    tier.remove(&key(0));
    assert_eq!(tier.lease(&key(6), at(30), at(15)), Leased::Until(at(30)));
}

#[test]
fn what_is_replaced_or_removed_is_leased_no_longer() {
    let tier = tier(MIB);
    put(&tier, 0, 64 * KIB, 1);
    put(&tier, 1, 64 * KIB, 1);
    tier.lease(&key(0), at(10), at(0));
    tier.lease(&key(1), at(10), at(0));
    put(&tier, 0, 64 * KIB, 2);
    tier.remove(&key(1));
    assert_eq!(tier.stats().leases, 0);
    assert!(is(&tier.get(&key(0)).expect("just put"), 2));
    assert!(!present(&tier, 1));
    tier.end_leases(at(10));
    assert!(is(&tier.get(&key(0)).expect("still there"), 2));
    assert!(!present(&tier, 1));
    assert_eq!(tier.stats().arena.used_bytes, 64 * KIB);
}

#[test]
fn another_description_of_the_same_bytes_keeps_the_lease() {
    let tier = tier(MIB);
    expiring(&tier, 0, at(5));
    assert_eq!(tier.lease(&key(0), at(10), at(0)), Leased::Until(at(5)), "not beyond the block's own time");
    let MemoryBlock { info, bytes } = tier.get(&key(0)).expect("leased");
    let mut renewed = ObjectInfo::clone(&info);
    renewed.record = info.record.map(|record| BlockRecord { expires_at: Some(at(30)), ..record });
    tier.insert(key(0), MemoryBlock { info: Arc::new(renewed), bytes });
    tier.end_leases(at(6));
    assert_eq!(tier.stats().leases, 1);
    assert_eq!(tier.get(&key(0)).expect("leased").info.expires_at(), Some(at(30)));
    tier.end_leases(at(10));
    assert_eq!(tier.stats().leases, 0);
    assert!(present(&tier, 0));
}

#[test]
fn a_block_that_expires_is_dropped_with_its_lease() {
    let tier = tier(MIB);
    expiring(&tier, 0, at(5));
    tier.lease(&key(0), at(10), at(0));
    tier.end_leases(at(5));
    assert!(!present(&tier, 0));
    assert_eq!(tier.stats().arena.used_bytes, 0);
    expiring(&tier, 1, at(5));
    assert_eq!(tier.lease(&key(1), at(10), at(5)), Leased::NotHere);
}

#[test]
fn a_clock_that_is_set_back_does_not_prolong_leases() {
    let tier = tier(MIB);
    put(&tier, 0, 4 * KIB, 1);
    assert_eq!(tier.lease(&key(0), at(100_000), at(9_000)), Leased::Until(at(9_600)), "ten minutes at most");
    tier.end_leases(at(0));
    assert_eq!(tier.stats().leases, 0);
    assert!(present(&tier, 0));
}

#[test]
fn no_lease_brings_back_what_was_replaced() {
    const KEYS: u64 = 4;
    const ROUNDS: u64 = 20_000;
    let told: Arc<Mutex<BTreeMap<String, bool>>> = Arc::default();
    let table = Arc::clone(&told);
    // Three would fit, so that moka evicts all the time; blocks come and go between it and the leases as fast as can be.
    let tier = MemoryTier::new(Arena::new(16 * KIB).expect("memory"), move |key, present| {
        table.lock().insert(key.key().to_owned(), present);
    });
    // Of each key, the version that was put last, and whether it is removed.
    let newest: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let clock = AtomicU64::new(0);
    let now = || at(clock.load(Ordering::SeqCst));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (tier, newest) = (&tier, &newest);
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let name = (round * 7 + writer) % (KEYS / 2) * 2 + writer;
                    let version = (round % 250 + 1) as u8;
                    if round % 5 == 0 {
                        tier.remove(&key(name));
                        newest[name as usize].store(0, Ordering::SeqCst);
                    } else if let Some(slot) = tier.allocate(4 * KIB) {
                        tier.insert(key(name), filled(slot, version));
                        newest[name as usize].store(version.into(), Ordering::SeqCst);
                    }
                    // Only this thread writes this key: it must see its own writes, or nothing.
                    let expected = newest[name as usize].load(Ordering::SeqCst);
                    if let Some(block) = tier.get(&key(name)) {
                        assert!(is(&block, expected as u8), "key {name}, round {round}: a version that was replaced");
                    }
                }
            });
        }
        for leaser in 0..2 {
            let (tier, clock) = (&tier, &clock);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let second = clock.fetch_add(1, Ordering::SeqCst);
                    tier.lease(&key((round * 5 + leaser) % KEYS), at(second + 1 + round % 3), at(second));
                }
            });
        }
    });
    tier.end_leases(now() + Duration::from_secs(1000));
    tier.cache.run_pending_tasks();
    assert_eq!(tier.stats().leases, 0);
    assert!(!tier.leases.any());
    for (name, newest) in newest.iter().enumerate() {
        if let Some(block) = tier.get(&key(name)) {
            assert!(is(&block, newest.load(Ordering::SeqCst) as u8), "key {name} at rest");
        }
        let told = told.lock().get(key(name).key()).copied().unwrap_or(false);
        assert_eq!(tier.contains(&key(name)), told, "key {name}: what was told last is the truth");
    }
    let stats = tier.stats();
    assert_eq!(stats.arena.used_bytes, stats.block_bytes, "nothing leaks: {stats:?}");
}
