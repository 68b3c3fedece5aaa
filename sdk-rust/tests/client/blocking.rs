//! The client for threads.

use blockgate_sdk::blocking::Client;
use blockgate_sdk::{Error, GetMode, GetOptions, LoadOptions, LookupOptions, MissReason, Piece, PutOptions};
use tokio::runtime::Runtime;

use crate::double::{Double, builder};

/// A double on a runtime of its own.
fn double() -> (Runtime, Double) {
    let runtime = Runtime::new().unwrap();
    let double = runtime.block_on(Double::start(&[10, 10]));
    (runtime, double)
}

#[test]
fn from_many_threads() {
    let (_runtime, double) = double();
    let client = Client::new(builder(&[&double])).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert_eq!(client.lookup(&["k0", "k1"], &LookupOptions::default()).matched, 2);
                let mut buffers = [[9; 10]; 2];
                assert!(client.get_into(&["k0", "k1"], &mut buffers, &LoadOptions::default()).is_complete());
                assert_eq!(buffers, [[0; 10], [1; 10]]);
                assert_eq!(client.get(&["k0", "k1"], &GetOptions::default()).count(), 2);
            });
        }
    });
    assert_eq!(client.stats_local().blocks_loaded, 8 * 4);
}

#[test]
fn async_code_is_refused_and_nothing_panics() {
    let (runtime, double) = double();
    let client = Client::new(builder(&[&double])).unwrap();
    runtime.block_on(async move {
        let inside = MissReason::InsideRuntime;
        assert_eq!(client.lookup(&["k0"], &LookupOptions::default()).miss.unwrap().reason, inside);
        assert_eq!(client.exists(&["k0"], None).failure, Some(inside));
        let all = LoadOptions { mode: GetMode::All, ..LoadOptions::default() };
        let outcome = client.get_into(&["k0", "k1"], &mut [[0; 10]; 2], &all);
        assert_eq!((outcome.loaded, outcome.misses.len()), (0, 2));
        let pieces: Vec<Piece> = client.get(&["k0"], &GetOptions::default()).collect();
        assert!(matches!(pieces[..], [Piece::Miss(miss)] if miss.reason == inside));
        assert_eq!(client.put("k0", vec![0], &PutOptions::default()), Err(Error::InsideRuntime));
        assert_eq!(client.inner().lookup(&["k0"], &LookupOptions::default()).await.matched, 1);
        drop(client);
    });
    assert_eq!(double.requests(), 1);
}
