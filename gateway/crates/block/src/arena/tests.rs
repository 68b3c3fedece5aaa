use bytes::Bytes;

use super::*;

const MIB: u64 = 1 << 20;

fn arena(granules: u64) -> Arena {
    Arena::new(granules * GRANULE_BYTES).expect("the test machine has a few pages")
}

fn block(arena: &Arena, bytes: &[u8]) -> BlockBuf {
    let mut writer = arena.allocate(bytes.len() as u64).expect("room");
    writer.append(bytes).expect("it fits");
    writer.finish().expect("it is whole")
}

#[test]
fn a_block_is_what_was_appended() {
    let arena = arena(4);
    let mut writer = arena.allocate(10).expect("room");
    assert_eq!((writer.capacity(), writer.len(), writer.is_empty()), (10, 0, true));
    writer.append(b"01234").expect("it fits");
    let mut writer = writer.finish().expect_err("five bytes are missing");
    assert_eq!(writer.append(b"567890"), Err(SlotFull));
    assert_eq!(writer.len(), 5, "a refused append writes nothing");
    writer.append(b"").expect("nothing fits");
    writer.append(b"56789").expect("it fits");
    assert_eq!(writer.append(b"0"), Err(SlotFull));
    let block = writer.finish().expect("it is whole");
    assert_eq!((block.len(), block.as_slice()), (10, &b"0123456789"[..]));
    assert_eq!(block.to_bytes(), &b"0123456789"[..]);
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "such ranges are what is being refused")]
fn slices_are_views_and_stay_within_the_block() {
    let arena = arena(4);
    let block = block(&arena, b"0123456789");
    let slice = |range: Range<u64>| block.slice(range).map(|bytes| bytes.to_vec());
    assert_eq!(slice(2..5), Some(b"234".to_vec()));
    assert_eq!(slice(10..10), Some(vec![]));
    for refused in [0..11, 11..11, 5..2, 0..u64::MAX, u64::MAX..u64::MAX] {
        assert_eq!(slice(refused.clone()), None, "{refused:?}");
    }
    let view = block.slice(2..5).expect("within");
    assert_eq!(view.as_ptr(), block.as_slice()[2..].as_ptr(), "no copy");
}

#[test]
fn readers_see_the_published_prefix_only() {
    let arena = arena(1);
    let mut writer = arena.allocate(6).expect("room");
    let reader = writer.reader();
    assert_eq!((reader.published_bytes(), reader.slice(0..0), reader.slice(0..1)), (0, Some(Bytes::new()), None));
    writer.append(b"abc").expect("it fits");
    let early = reader.slice(1..3).expect("published");
    assert_eq!((reader.published_bytes(), reader.slice(1..4)), (3, None));
    writer.append(b"def").expect("it fits");
    assert_eq!(reader.slice(1..6).as_deref(), Some(&b"bcdef"[..]));
    assert_eq!(early, &b"bc"[..]);
    drop(writer);
    assert_eq!(reader.slice(0..6).as_deref(), Some(&b"abcdef"[..]), "what has arrived outlives the writer");
}

#[test]
fn a_slot_is_free_again_when_the_last_handle_goes() {
    let arena = arena(1);
    let used = || arena.stats().used_bytes;
    let block = block(&arena, b"0123456789");
    let (copy, bytes) = (block.clone(), block.slice(3..4).expect("within"));
    assert!(block.is_shared());
    drop(block);
    drop(copy);
    assert_eq!((used(), arena.allocate(1).is_none()), (GRANULE_BYTES, true), "the bytes hold it");
    let piece = bytes.slice(0..1);
    drop(bytes);
    assert_eq!((used(), piece.as_ref()), (GRANULE_BYTES, &b"3"[..]));
    drop(piece);
    assert_eq!(used(), 0);

    let writer = arena.allocate(1).expect("room");
    let reader = writer.reader();
    drop(writer);
    assert_eq!(used(), GRANULE_BYTES, "the reader holds it");
    drop(reader);
    assert_eq!(used(), 0);
}

#[test]
fn blocks_outlive_the_arena_handle() {
    let arena = arena(1);
    let bytes = block(&arena, b"still here").to_bytes();
    drop(arena);
    assert_eq!(bytes, &b"still here"[..]);
}

#[test]
fn slots_are_rounded_up_to_granules() {
    for (len, slot) in [
        (0, 4096),
        (1, 4096),
        (1024, 4096),
        (4096, 4096),
        (4097, 8192),
        (64 << 10, 64 << 10),
        (2 * MIB, 2 * MIB),
        (28 * MIB, 28 * MIB),
        (32 * MIB, 32 * MIB),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(Arena::slot_bytes(len), slot, "{len}");
    }
}

#[test]
fn the_arena_is_used_to_its_last_granule() {
    let arena = Arena::new(4 * GRANULE_BYTES + 17).expect("the test machine has a few pages");
    assert!(arena.allocate(4 * GRANULE_BYTES + 1).is_none());
    assert!(arena.allocate(u64::MAX).is_none());
    let whole = arena.allocate(4 * GRANULE_BYTES).expect("room");
    let full = ArenaStats { prefaulted_bytes: 0, ..arena.stats() };
    let capacity_bytes = 4 * GRANULE_BYTES;
    let expected = ArenaStats { capacity_bytes, used_bytes: capacity_bytes, ..ArenaStats::default() };
    assert_eq!(full, expected);
    drop(whole);
    let blocks: Vec<_> = (0..4u8).map(|i| block(&arena, &[i; 4096])).collect();
    assert!(arena.allocate(0).is_none());
    for (i, block) in (0..4u8).zip(&blocks) {
        assert!(block.as_slice().iter().all(|&byte| byte == i));
        assert_eq!(block.offset_bytes() % GRANULE_BYTES, 0);
    }
}

#[test]
fn impossible_arenas_are_errors() {
    for bytes in [0, GRANULE_BYTES - 1, u64::MAX] {
        assert!(Arena::new(bytes).is_err(), "{bytes}");
    }
}

#[test]
fn readers_on_other_threads_see_whole_bytes() {
    const LEN: u64 = 512;
    let arena = arena(2);
    let mut writer = arena.allocate(LEN).expect("room");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = writer.reader();
            scope.spawn(move || {
                let mut seen = 0;
                while seen < LEN {
                    let published = reader.published_bytes();
                    let bytes = reader.slice(seen..published).expect("published");
                    for (at, &byte) in (seen..).zip(bytes.as_ref()) {
                        assert_eq!(byte, (at % 251) as u8);
                    }
                    seen = published;
                    std::thread::yield_now();
                }
            });
        }
        for start in (0..LEN).step_by(16) {
            let piece: Vec<u8> = (start..start + 16).map(|at| (at % 251) as u8).collect();
            writer.append(&piece).expect("it fits");
            std::thread::yield_now();
        }
    });
    assert!(writer.finish().is_ok());
}

#[test]
fn slots_reused_across_threads_never_mix() {
    let arena = arena(3);
    let rounds = if cfg!(miri) { 8 } else { 2000 };
    std::thread::scope(|scope| {
        for id in 1..=4u8 {
            let arena = &arena;
            scope.spawn(move || {
                for round in 0..rounds {
                    let Some(mut writer) = arena.allocate(64) else { continue };
                    let byte = id.wrapping_mul(round as u8 | 1);
                    writer.append(&[byte; 64]).expect("it fits");
                    let bytes = writer.finish().expect("it is whole").to_bytes();
                    let (head, tail) = (bytes.slice(..32), bytes.slice(32..));
                    drop(bytes);
                    let other = scope.spawn(move || head.iter().all(|&b| b == byte));
                    assert!(tail.iter().all(|&b| b == byte));
                    drop(tail);
                    assert!(other.join().expect("it does not panic"));
                }
            });
        }
    });
    assert_eq!(arena.stats().used_bytes, 0);
}

/// What a device does, and what it leaves behind the block.
#[expect(unsafe_code)]
fn fill(target: SlotTarget, bytes: &[u8]) -> BlockBuf {
    assert!(bytes.len() as u64 <= target.capacity());
    // SAFETY: within the capacity, and the target outlives the copy.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len()) };
    // SAFETY: written above, by this thread.
    unsafe { target.filled() }
}

#[test]
fn a_device_fills_a_slot_and_leaves_nothing_behind_the_block() {
    let arena = arena(3);
    let target = arena.allocate(4097).expect("room").into_target().expect("untouched");
    assert_eq!((target.len(), target.is_empty(), target.capacity()), (4097, false, 2 * GRANULE_BYTES));
    assert_eq!(target.as_ptr() as usize % 4096, 0);
    let block = fill(target, &[7; 8192]);
    assert_eq!((block.len(), block.as_slice()), (4097, &[7; 4097][..]));
    assert_eq!(block.to_bytes(), block.as_slice());
    assert_eq!(block.padded()[..4097], [7; 4097]);
    assert_eq!(block.padded()[4097..], [0; 4095], "others' bytes do not leave with it");
    assert_eq!(block.padded().as_ptr() as usize % 4096, 0);
    let empty = fill(arena.allocate(0).expect("room").into_target().expect("untouched"), b"x");
    assert_eq!((empty.as_slice(), empty.padded()), (&[][..], &[0; 4096][..]));
    drop((block, empty));
    assert_eq!(arena.stats().used_bytes, 0);
}

#[test]
fn what_was_in_a_slot_before_is_not_behind_the_next_block() {
    let arena = arena(1);
    drop(block(&arena, &[9; 4096]));
    assert_eq!(block(&arena, b"abc").padded(), [b"abc".as_slice(), &[0; 4093]].concat());
}

#[test]
fn only_a_slot_that_nobody_else_sees_is_given_to_a_device() {
    let arena = arena(1);
    let writer = arena.allocate(4).expect("room");
    let reader = writer.reader();
    let mut writer = writer.into_target().expect_err("a reader would see what was not checked");
    drop(reader);
    writer.append(b"a").expect("it fits");
    let writer = writer.into_target().expect_err("something was written");
    drop(writer);
    let target = arena.allocate(4).expect("room").into_target().expect("untouched");
    assert!(arena.allocate(4).is_none());
    drop(target);
    assert_eq!(arena.stats().used_bytes, 0);
}

#[cfg(not(miri))]
mod mapped {
    use rustix::fs::ftruncate;
    use rustix::io::{pread, pwrite};
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::*;

    #[test]
    fn pages_are_faulted_in_without_touching_bytes() {
        let arena = arena(64);
        let block = block(&arena, &[7; 4096]);
        // Whatever the background thread has done: again, over a slot in use.
        match arena.0.mapping.prefault(0, 64 * GRANULE_BYTES) {
            Ok(()) => {}
            // Linux before 5.14.
            Err(error) => assert_eq!(error.raw_os_error(), Some(22)),
        }
        assert!(block.as_slice().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn the_file_shows_blocks_at_their_offsets_and_is_sealed() {
        let arena = arena(4);
        let _first = block(&arena, b"first");
        let second = block(&arena, b"second");
        let memfd = arena.memfd().expect("mapped from a file");
        let mut read = [0; 6];
        assert_eq!(pread(memfd, &mut read, second.offset_bytes()), Ok(6));
        assert_eq!(&read, b"second");

        assert!(ftruncate(memfd, 0).is_err());
        assert!(ftruncate(memfd, 1 << 30).is_err());
        assert!(pwrite(memfd, b"x", second.offset_bytes()).is_err());
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without FIXED, no mapping of ours is touched; it is expected to fail.
        #[expect(unsafe_code)]
        let mapped = unsafe { mmap(std::ptr::null_mut(), 4096, flags, MapFlags::SHARED, memfd, 0) };
        assert!(mapped.is_err());
        assert_eq!(second.as_slice(), b"second");
    }
}
