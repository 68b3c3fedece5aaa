//! Several gateways stand in for each other, and a dead one costs nothing.

use std::time::Duration;

use blockgate_sdk::{BreakerState, Client, ErrorCode, LoadOptions, LookupOptions, MissReason};

use crate::double::{Double, Fault, ManualClock, builder};

const LEN: usize = 5000;

async fn is_loaded(client: &Client, key: &str) -> bool {
    let mut buffer = [[9; LEN]];
    let outcome = client.get_into(&[key], &mut buffer, &LoadOptions::default()).await;
    assert!(!outcome.is_complete() || buffer == [[0; LEN]], "other bytes");
    outcome.is_complete()
}

/// Both, that which is asked first for `k0` first.
async fn pair() -> (Double, Double) {
    let (one, other) = (Double::start(&[LEN; 3]).await, Double::start(&[LEN; 3]).await);
    let client = builder(&[&one, &other]).build().unwrap();
    assert!(is_loaded(&client, "k0").await);
    if one.requests() == 1 { (one, other) } else { (other, one) }
}

#[tokio::test]
async fn a_chain_stays_with_its_gateway() {
    let (one, other) = pair().await;
    let client = builder(&[&other, &one]).build().unwrap();
    let before = (one.requests(), other.requests());
    for _ in 0..4 {
        assert!(is_loaded(&client, "k0").await);
        client.lookup(&["k0", "k1"], &LookupOptions::default()).await;
        client.lookup(&["k1"], &LookupOptions { chain: Some("k0".into()), ..LookupOptions::default() }).await;
    }
    assert_eq!((one.requests(), other.requests()), (before.0 + 12, before.1), "whatever the order of endpoints");
    let mut seen = 0;
    for chain in 0..64 {
        client.lookup(&[format!("chain {chain}")], &LookupOptions::default()).await;
        seen = other.requests();
    }
    assert!((10..54).contains(&seen), "{seen} of 64 chains went to one of two gateways");
}

#[tokio::test]
async fn the_next_gateway_stands_in_whatever_the_fault() {
    let faults = [
        Fault::Refuse(ErrorCode::SlowDown),
        Fault::Status(500),
        Fault::Status(502),
        Fault::Garbage,
        Fault::CutAfter(100),
        Fault::WrongIndex(0),
        Fault::Boast,
    ];
    for fault in faults {
        let (one, other) = pair().await;
        let client = builder(&[&one, &other]).build().unwrap();
        one.fails(fault);
        assert!(is_loaded(&client, "k0").await, "{fault:?}");
        assert_eq!((client.stats_local().failovers, client.stats_local().misses["protocol"]), (1, 0), "{fault:?}");
    }
}

#[tokio::test]
async fn what_another_would_answer_too_is_not_asked_of_it() {
    for code in [ErrorCode::AccessDenied, ErrorCode::UpstreamUnavailable, ErrorCode::NotImplemented] {
        let (one, other) = pair().await;
        let client = builder(&[&one, &other]).build().unwrap();
        one.fails(Fault::Refuse(code));
        let before = other.requests();
        for _ in 0..5 {
            let found = client.lookup(&["k0"], &LookupOptions::default()).await;
            assert_eq!(found.miss.unwrap().reason, MissReason::Refused(code));
        }
        assert_eq!(other.requests(), before);
        assert!(client.stats_local().gateways.iter().all(|gateway| gateway.breaker == BreakerState::Closed));
    }
}

#[tokio::test]
async fn half_a_load_is_taken_over_by_the_next() {
    let (one, other) = pair().await;
    let client = builder(&[&one, &other]).build().unwrap();
    one.fails(Fault::CutAfter(32 + LEN + 100));
    let mut buffers = [[9; LEN]; 3];
    let outcome = client.get_into(&["k0", "k1", "k2"], &mut buffers, &LoadOptions::default()).await;
    assert!(outcome.is_complete());
    assert_eq!(buffers, [[0; LEN], [1; LEN], [2; LEN]]);
    assert_eq!(other.last_get().keys, ["k1", "k2"]);
}

#[tokio::test]
async fn a_dead_gateway_is_left_alone_until_a_probe_finds_it_alive() {
    let (one, other) = pair().await;
    let clock = ManualClock::new();
    let client = builder(&[&one, &other]).clock(clock.source()).build().unwrap();
    let breaker = |client: &Client| client.stats_local().gateways[0].breaker;
    one.fails(Fault::Status(500));
    for _ in 0..3 {
        assert!(is_loaded(&client, "k0").await);
    }
    assert_eq!(breaker(&client), BreakerState::Open);
    let before = one.requests();
    for _ in 0..10 {
        assert!(is_loaded(&client, "k0").await);
    }
    assert_eq!(one.requests(), before, "no call went there");

    clock.advance(Duration::from_secs(1));
    assert!(is_loaded(&client, "k0").await);
    until(|| breaker(&client) == BreakerState::Open).await;
    assert_eq!(one.requests(), before, "a probe is no call");

    one.fails(Fault::None);
    clock.advance(Duration::from_secs(1));
    assert!(is_loaded(&client, "k0").await);
    until(|| breaker(&client) == BreakerState::Closed).await;
    assert!(is_loaded(&client, "k0").await);
    assert_eq!(one.requests(), before + 1);
}

#[tokio::test]
async fn where_all_are_dead_calls_miss_at_once() {
    let double = Double::start(&[LEN]).await;
    let clock = ManualClock::new();
    let client = builder(&[&double]).clock(clock.source()).build().unwrap();
    double.fails(Fault::Stall);
    let soon = LoadOptions { deadline: Some(Duration::from_millis(100)), ..LoadOptions::default() };
    for _ in 0..3 {
        let outcome = client.get_into(&["k0"], &mut [[0; LEN]], &soon).await;
        assert_eq!(outcome.misses[0].reason, MissReason::Timeout);
    }
    let before = double.requests();
    let outcome = client.get_into(&["k0"], &mut [[0; LEN]], &LoadOptions::default()).await;
    assert_eq!(outcome.misses[0].reason, MissReason::Unreachable);
    assert_eq!(double.requests(), before);
}

#[tokio::test]
async fn a_gateway_that_comes_back_is_used_again() {
    let (one, other) = pair().await;
    let clock = ManualClock::new();
    let client = builder(&[&one, &other]).clock(clock.source()).build().unwrap();
    assert!(is_loaded(&client, "k0").await);
    let address = one.die().await;
    for _ in 0..5 {
        assert!(is_loaded(&client, "k0").await, "a kept connection to the dead, then none");
    }
    assert_eq!(client.stats_local().gateways[0].breaker, BreakerState::Open);
    let again = Double::listen(address, &[LEN]).await;
    clock.advance(Duration::from_secs(1));
    assert!(is_loaded(&client, "k0").await);
    until(|| client.stats_local().gateways[0].breaker == BreakerState::Closed).await;
    assert!(is_loaded(&client, "k0").await);
    assert_eq!(again.requests(), 1);
}

/// Waits for what another task does.
async fn until(condition: impl Fn() -> bool) {
    let patience = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), patience).await.unwrap();
}
