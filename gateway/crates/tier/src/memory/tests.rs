use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::SystemTime;

use blockgate_block::{Attributes, BlockWriter};

use super::*;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

pub(super) fn tier(arena_bytes: u64) -> MemoryTier {
    MemoryTier::new(Arena::new(arena_bytes).expect("the test machine has the memory"), |_, _| {})
}

pub(super) fn key(name: impl fmt::Display) -> BlockKey {
    BlockKey::new("bucket", &format!("key{name}")).expect("a legal key")
}

pub(super) fn filled(mut writer: BlockWriter, byte: u8) -> MemoryBlock {
    writer.append(&vec![byte; writer.capacity() as usize]).expect("it fits");
    let bytes = writer.finish().expect("it is whole");
    let info = ObjectInfo::from_upstream(bytes.len(), "etag".into(), SystemTime::UNIX_EPOCH, Attributes::default());
    MemoryBlock { info: Arc::new(info), bytes }
}

/// Puts a block as a gateway does. Its handles are gone when this returns.
pub(super) fn put(tier: &MemoryTier, name: impl fmt::Display, len_bytes: u64, byte: u8) {
    let writer = tier.allocate(len_bytes).expect("room");
    tier.insert(key(name), filled(writer, byte));
}

pub(super) fn is(block: &MemoryBlock, byte: u8) -> bool {
    block.bytes.as_slice().iter().all(|&b| b == byte)
}

#[test]
fn large_blocks_find_room_among_small_ones() {
    let tier = tier(64 * MIB);
    for i in 0..1024 {
        put(&tier, i, 64 * KIB, i as u8);
    }
    for i in 0..8 {
        put(&tier, format_args!("large{i}"), 32 * MIB, i);
        assert!(is(&tier.get(&key(format_args!("large{i}"))).expect("just put"), i));
    }
    let stats = tier.stats();
    assert!(stats.evictions >= 512 + 6, "{stats:?}");
    assert!(stats.block_bytes <= 56 * MIB, "{stats:?}");
    assert!(stats.arena.used_bytes == stats.block_bytes, "nothing leaks: {stats:?}");
}

/// A shuffled count to `len`, the same every time.
fn shuffled(len: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..len).collect();
    order.sort_by_key(|i| {
        i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(0xd6e8_feb8_6659_fd93)
    });
    order
}

#[test]
fn room_in_pieces_is_joined_without_emptying_the_tier() {
    // 3584 small blocks are the tier's capacity. Their order of use has nothing to do with where they lie.
    let tier = tier(32 * MIB);
    for i in 0..3584 {
        put(&tier, i, 8 * KIB, i as u8);
    }
    for &i in &shuffled(3584) {
        assert!(tier.get(&key(i)).is_some());
        tier.cache.run_pending_tasks();
    }
    let spare = tier.arena.allocate(4 * MIB).expect("the spare eighth, for blocks on their way in");
    for i in 0..4 {
        let before = tier.stats().evictions;
        put(&tier, format_args!("large{i}"), 4 * MIB, i);
        let evicted = tier.stats().evictions - before;
        // Its own size in the least recently used, and the rest of the run that it lies in.
        assert!(evicted <= 2 * 512, "{evicted} small blocks for a large one");
    }
    for i in 0..4 {
        assert!(is(&tier.get(&key(format_args!("large{i}"))).expect("just put"), i));
    }
    drop(spare);
    let stats = tier.stats();
    assert_eq!(stats.arena.used_bytes, stats.block_bytes, "nothing leaks");
}

#[test]
fn a_run_is_cleared_around_what_is_being_read() {
    let tier = tier(16 * MIB);
    let small = |i: u64| i * 64 * KIB;
    for i in 0..224 {
        put(&tier, i, 64 * KIB, i as u8);
    }
    // One block in every MiB is being read, so that no run of 2 MiB can be had, one of 15 pieces can.
    let held: Vec<_> = (0..224).step_by(16).map(|i| tier.get(&key(i)).expect("in memory").bytes).collect();
    let spare = tier.arena.allocate(2 * MIB).expect("the spare eighth");
    assert!(tier.residents.cheapest_run(&tier.arena, 2 * MIB).is_none());
    let run = tier.residents.cheapest_run(&tier.arena, small(15)).expect("between two that are held");
    assert_eq!(run.len(), 15);
    assert!(tier.allocate(2 * MIB).is_none());
    assert!(tier.allocate(small(15)).is_some());
    assert!(tier.allocate(small(15) + 1).is_none());
    for (i, bytes) in (0..224u64).step_by(16).zip(&held) {
        assert!(bytes.as_slice().iter().all(|&byte| byte == i as u8));
    }
    drop((spare, held));
    assert!(tier.allocate(2 * MIB).is_some());
}

#[test]
fn held_blocks_keep_their_bytes_and_their_room() {
    let tier = tier(4 * MIB);
    for i in 0..32 {
        put(&tier, i, 128 * KIB, i);
    }
    let held: Vec<_> = (0..32).filter_map(|i| Some((i, tier.get(&key(i))?.bytes.to_bytes()))).collect();
    assert!(held.len() >= 28);
    assert!(tier.allocate(MIB).is_none(), "the room is being read");
    for (byte, bytes) in &held {
        assert!(bytes.iter().all(|b| b == byte), "evicted, and still whole");
    }
    drop(held);
    assert!(tier.allocate(MIB).is_some());
}

#[test]
fn blocks_larger_than_the_tier_have_no_room() {
    let tier = tier(MIB);
    put(&tier, 0, 64 * KIB, 0);
    assert!(tier.allocate(MIB - MIB / 8 + 1).is_none());
    assert!(tier.allocate(u64::MAX).is_none());
    assert!(tier.contains(&key(0)), "nothing was evicted for the impossible");
    assert!(tier.allocate(MIB - MIB / 8).is_some());
}

#[test]
fn the_least_recently_used_goes_first() {
    let tier = tier(MIB);
    // 14 blocks are the tier's capacity, 16 the arena's.
    for i in 0..14 {
        put(&tier, i, 64 * KIB, i);
    }
    tier.cache.run_pending_tasks();
    for used in [0, 3, 5] {
        assert!(tier.get(&key(used)).is_some());
    }
    tier.cache.run_pending_tasks();
    assert!(tier.contains(&key(1)), "asked about, which is no use");
    let present = |tier: &MemoryTier| {
        tier.cache.run_pending_tasks();
        (0..20).filter(|&i| tier.contains(&key(i))).collect::<Vec<_>>()
    };
    put(&tier, 14, 64 * KIB, 14);
    assert_eq!(present(&tier), [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    for i in 15..20 {
        put(&tier, i, 64 * KIB, i);
    }
    assert_eq!(present(&tier), [0, 3, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
}

#[test]
fn allocation_evicts_no_more_than_it_needs() {
    let tier = tier(MIB);
    for i in 0..14 {
        put(&tier, i, 64 * KIB, i);
    }
    // The tier is full, two slots of the arena are free; the third has to be made.
    let writers: Vec<_> = (0..3).map(|_| tier.allocate(64 * KIB).expect("room")).collect();
    assert_eq!(tier.stats().evictions, 1);
    assert!(!tier.contains(&key(0)));
    drop(writers);
    assert_eq!(tier.stats().blocks, 13);
}

#[test]
fn the_newest_block_of_a_key_is_the_one() {
    let tier = tier(MIB);
    put(&tier, 0, 64 * KIB, 1);
    let old = tier.get(&key(0)).expect("just put");
    put(&tier, 0, 4 * KIB, 2);
    let new = tier.get(&key(0)).expect("just put");
    assert!(is(&old, 1) && is(&new, 2));
    assert_eq!((tier.stats().blocks, tier.stats().evictions), (1, 0));
    drop(old);
    assert_eq!(tier.stats().arena.used_bytes, 4 * KIB, "a replaced block's slot is free at once");
    tier.remove(&key(0));
    assert!(tier.get(&key(0)).is_none());
    assert!(is(&new, 2));
    drop(new);
    assert_eq!(tier.stats().arena.used_bytes, 0);
    assert_eq!(tier.stats().evictions, 0);
}

#[test]
fn a_block_put_again_with_another_description_can_still_be_evicted() {
    let tier = tier(MIB);
    put(&tier, 0, 512 * KIB, 1);
    let block = tier.get(&key(0)).expect("just put");
    tier.insert(key(0), block.clone());
    drop(block);
    // Room enough, in two pieces.
    let last = tier.arena.allocate(256 * KIB).map(|_| tier.arena.allocate(128 * KIB)).expect("room");
    let middle = filled(tier.arena.allocate(128 * KIB).expect("room"), 2);
    tier.insert(key(1), middle);
    drop(last);
    assert!(tier.residents.cheapest_run(&tier.arena, 512 * KIB).is_some_and(|keys| keys.len() == 1));
    assert!(tier.allocate(768 * KIB).is_some());
}

#[test]
fn empty_blocks_weigh_something() {
    let tier = tier(32 * KIB);
    for i in 0..20 {
        put(&tier, i, 0, 0);
    }
    assert_eq!(tier.stats().blocks, 7);
}

/// A table that keeps what it is told, as the index does.
#[derive(Default)]
struct Told(Mutex<BTreeMap<String, bool>>);

#[test]
fn a_report_that_comes_late_is_corrected() {
    let told = Arc::new(Told::default());
    let tier: Arc<OnceLock<MemoryTier>> = Arc::default();
    let (table, late) = (Arc::clone(&told), Arc::clone(&tier));
    // While this is being reported, the opposite happens, and is reported in full.
    let interfere_with = Arc::new(Mutex::new(None));
    let interfering = Arc::clone(&interfere_with);
    let on_presence = move |key: &BlockKey, present| {
        let interferes = interfering.lock().take_if(|with| *with == present).is_some();
        let tier = late.get().expect("set below");
        match present {
            true if interferes => tier.remove(key),
            false if interferes => put(tier, 0, 1, 1),
            _ => {}
        }
        table.0.lock().insert(key.key().to_owned(), present);
    };
    let tier = tier.get_or_init(|| MemoryTier::new(Arena::new(64 * KIB).expect("memory"), on_presence));
    let told = || told.0.lock().get(key(0).key()).copied();
    *interfere_with.lock() = Some(true);
    put(tier, 0, 1, 1);
    assert_eq!((tier.contains(&key(0)), told()), (false, Some(false)));
    put(tier, 0, 1, 1);
    *interfere_with.lock() = Some(false);
    tier.remove(&key(0));
    assert_eq!((tier.contains(&key(0)), told()), (true, Some(true)));
}

#[test]
fn presence_told_last_is_the_truth_whoever_told_it() {
    const KEYS: usize = 24;
    let told = Arc::new(Told::default());
    let table = Arc::clone(&told);
    let tier = MemoryTier::new(Arena::new(64 * KIB).expect("memory"), move |key, present| {
        table.0.lock().insert(key.key().to_owned(), present);
    });
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let tier = &tier;
            scope.spawn(move || {
                for round in 0..3000usize {
                    let name = (round * (thread + 1) + thread) % KEYS;
                    match round % 7 {
                        0 => tier.remove(&key(name)),
                        1 => drop(tier.get(&key(name))),
                        _ => {
                            if let Some(writer) = tier.allocate(4 * KIB) {
                                tier.insert(key(name), filled(writer, thread as u8));
                            }
                        }
                    }
                }
            });
        }
    });
    tier.cache.run_pending_tasks();
    let told = told.0.lock();
    assert_eq!(told.len(), KEYS, "every key was put once");
    for (name, &present) in told.iter() {
        let key = BlockKey::new("bucket", name).expect("a legal key");
        assert_eq!(tier.contains(&key), present, "{name}");
    }
    assert!(told.values().any(|&present| present) && told.values().any(|&present| !present));
    let stats = tier.stats();
    assert_eq!(stats.arena.used_bytes, stats.block_bytes, "nothing leaks");
}
