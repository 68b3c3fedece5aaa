//! A memory far smaller than what passes through it.

use std::time::Duration;

use blockgate_block::MissReason;
use blockgate_upstream::BodyError;

use crate::double::Trick;
use crate::support::*;

fn tiny(arena_bytes: u64) -> Rig {
    rig_with(limits(), arena_bytes, Duration::ZERO)
}

#[tokio::test]
async fn everything_is_right_though_little_fits() {
    let rig = tiny(256 << 10);
    let blocks: Vec<_> = (0..40u64).map(|n| pattern(5000 + 3000 * usize::try_from(n).unwrap(), n)).collect();
    for (n, bytes) in blocks.iter().enumerate() {
        rig.put(&format!("k{n}"), bytes).await;
    }
    for _ in 0..3 {
        for (n, bytes) in blocks.iter().enumerate() {
            same(rig.bytes(&format!("k{n}")).await, bytes);
            assert_eq!(rig.head(&format!("k{n}")).await.unwrap().info.etag, etag_of(bytes));
        }
    }
    let stats = rig.store.memory_stats();
    assert!(stats.evictions > 0);
    assert!(stats.arena.used_bytes <= stats.arena.capacity_bytes);
}

#[tokio::test]
async fn slots_come_back_when_replies_are_dropped() {
    let rig = tiny(256 << 10);
    let bytes = pattern(200_000, 1);
    rig.put("a", &bytes).await;
    rig.put("b", &bytes).await;
    let held = rig.get("a").await.unwrap();
    // One reply holds the arena: others go past it.
    same(rig.bytes("b").await, &bytes);
    same(read(held).await.unwrap(), &bytes);
    for key in ["a", "b", "a"] {
        same(rig.bytes(key).await, &bytes);
    }
}

#[tokio::test]
async fn a_corrupt_block_is_found_on_the_way_past_memory() {
    let bytes = pattern(100_000, 2);
    for request in [Default::default(), range(10, 20), range(99_000, 99_999)] {
        let rig = tiny(4096);
        rig.put("k", &bytes).await;
        let served = rig.store.get(&named("k"), request.clone()).await.unwrap();
        let expected = usize::try_from(served.range.start).unwrap()..usize::try_from(served.range.end).unwrap();
        same(read(served).await.unwrap(), &bytes[expected]);
        assert_eq!(rig.double.count("get"), 1, "what is known to find no room is asked for once");
        rig.double.trick(Trick::Flip(50_000));
        let served = rig.store.get(&named("k"), request.clone()).await.unwrap();
        assert!(matches!(read(served).await, Err(BodyError::Corrupt)), "{request:?}");
        assert_eq!(rig.metric("blockgate_corrupt_blocks_total{tier=\"upstream\"}"), 1);
        rig.double.steal("k");
        assert_eq!(missed(rig.get("k").await), MissReason::Absent);
    }
}
