//! An upstream that freezes in the middle of things: answers come by their deadlines, and all is well when it is back.

use std::sync::Arc;
use std::time::Duration;

use blockgate_block::{MissReason, Tier};
use blockgate_store::{ChainRequest, Limits, ReadRequest, Result, Whole};
use blockgate_telemetry::Metrics;
use blockgate_upstream::{Fault, FaultUpstream, Op};

use crate::chains::{chain, plant};
use crate::double::{Double, Handle};
use crate::support::*;

const DEADLINE: Duration = Duration::from_millis(50);
/// Far beyond any deadline here: who takes so long hangs.
const NEVER: Duration = Duration::from_secs(20);

fn frozen_rig() -> (Rig, Arc<FaultUpstream>) {
    let double = Double::new();
    let faults = Arc::new(FaultUpstream::new(Arc::new(Handle(Arc::clone(&double)))));
    let limits = Limits { first_byte: 20 * DEADLINE, between_chunks: 20 * DEADLINE, ..limits() };
    let metrics = Metrics::new();
    let upstream: Arc<dyn blockgate_upstream::Upstream> = faults.clone();
    let store = store_on(upstream, limits, 16 << 20, Duration::ZERO, metrics.clone());
    (Rig { double, store, metrics }, faults)
}

async fn lookup_by(rig: &Rig, len: usize, deadline: Duration) -> (usize, Option<MissReason>) {
    let request = ChainRequest { deadline: Some(deadline), ..ChainRequest::default() };
    let found = tokio::time::timeout(NEVER, rig.store.lookup(&chain(len), request)).await.expect("no hang").unwrap();
    (found.matched, found.miss.map(|(_, reason)| reason))
}

async fn get_by(rig: &Rig, n: usize, deadline: Duration) -> Result<Whole> {
    let request = ReadRequest { deadline: Some(deadline), ..ReadRequest::default() };
    let key = named(&format!("k{n}"));
    tokio::time::timeout(NEVER, rig.store.get_whole(&key, request)).await.expect("no hang")
}

#[tokio::test]
async fn a_frozen_upstream_costs_no_more_than_the_deadline() {
    let (rig, faults) = frozen_rig();
    (0..200).for_each(|n| plant(&rig, n, pattern(1000, n as u64), None, None));
    for n in 0..10 {
        get_by(&rig, n, NEVER).await.unwrap();
    }
    // Freezes in the middle of a search and of reads.
    (5..100).for_each(|nth| faults.at(Op::Head, nth, Fault::Hang));
    faults.always(Op::Get, Fault::StallBody(500));
    let (matched, reason) = lookup_by(&rig, 300, DEADLINE).await;
    assert!((10..200).contains(&matched) && reason == Some(MissReason::Deadline), "{matched} {reason:?}");
    assert_eq!(missed(get_by(&rig, 150, DEADLINE).await), MissReason::Deadline);
    faults.always(Op::Head, Fault::Hang);
    faults.always(Op::Get, Fault::Hang);

    let rig = Arc::new(rig);
    let many = (0..40).map(|n| {
        let rig = Arc::clone(&rig);
        tokio::spawn(async move {
            let in_time = |reason| matches!(reason, MissReason::Deadline | MissReason::UpstreamUnavailable);
            let (matched, reason) = lookup_by(&rig, 300 + n, DEADLINE).await;
            assert!((10..200).contains(&matched) && reason.is_some_and(in_time), "{matched} {reason:?}");
            assert!(in_time(missed(get_by(&rig, 100 + n, DEADLINE).await)));
            let hit = get_by(&rig, n % 10, DEADLINE).await.unwrap();
            assert_eq!(hit.tier, Tier::Memory);
            same(hit.bytes, pattern(1000, (n % 10) as u64));
        })
    });
    for one in many.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert_eq!(lookup_by(&rig, 10, DEADLINE).await, (10, None), "what is in memory is not affected");
    // Without a deadline, the limit on silence ends it.
    let found = tokio::time::timeout(NEVER, rig.store.lookup(&chain(300), ChainRequest::default())).await;
    assert_eq!(found.expect("no hang").unwrap().miss.map(|(_, reason)| reason), Some(MissReason::UpstreamUnavailable));
    let present = tokio::time::timeout(NEVER, rig.store.exists(&chain(5000), None, Some(DEADLINE))).await;
    assert!(present.expect("no hang").unwrap()[..10].iter().all(|present| *present));

    faults.heal();
    // The breaker asks again once a second.
    let back = async {
        while lookup_by(&rig, 300, NEVER).await != (200, Some(MissReason::Absent)) {
            tokio::time::sleep(DEADLINE).await;
        }
    };
    tokio::time::timeout(NEVER, back).await.expect("it recovers by itself");
    for n in 0..200 {
        same(get_by(&rig, n, NEVER).await.unwrap().bytes, pattern(1000, n as u64));
    }
}
