//! Each way in which a gateway or the way to it can fail is a miss that says so.

use std::time::Duration;

use blockgate_sdk::{
    Block, Error, ErrorCode, GetMode, GetOptions, GetOrder, LoadOptions, LookupOptions, Miss, MissReason, Piece,
    PutOptions,
};
use futures::{FutureExt as _, StreamExt as _};

use crate::double::{Double, Fault, builder};

const KEYS: [&str; 3] = ["k0", "k1", "k2"];
const LEN: usize = 5000;
/// Bytes of a frame.
const FRAME: usize = 32 + LEN;
/// Where what fails here fails, within the second block.
const WITHIN: usize = FRAME + 100;

/// What a fault makes of block 0, 1 and 2, asked for together.
struct Case {
    fault: Fault,
    reasons: [Option<MissReason>; 3],
}

fn cases() -> Vec<Case> {
    let all = |reason| [Some(reason); 3];
    let first_stays = |reason| [None, Some(reason), Some(reason)];
    let refused = |code| all(MissReason::Refused(code));
    let case = |fault, reasons| Case { fault, reasons };
    vec![
        case(Fault::None, [None; 3]),
        case(Fault::Refuse(ErrorCode::AccessDenied), refused(ErrorCode::AccessDenied)),
        case(Fault::Refuse(ErrorCode::SlowDown), refused(ErrorCode::SlowDown)),
        case(Fault::Status(500), refused(ErrorCode::InternalError)),
        case(Fault::Status(301), all(MissReason::Protocol)),
        case(Fault::Stall, all(MissReason::Timeout)),
        case(Fault::StallAfter(WITHIN), first_stays(MissReason::Timeout)),
        case(Fault::Garbage, all(MissReason::Protocol)),
        case(Fault::Boast, all(MissReason::Protocol)),
    ]
}

/// A deadline that is reached only where a gateway stalls.
fn deadline(fault: Fault) -> Option<Duration> {
    matches!(fault, Fault::Stall | Fault::StallAfter(_)).then_some(Duration::from_millis(500))
}

#[tokio::test]
async fn every_fault_is_a_miss_with_its_reason() {
    for Case { fault, reasons } in cases() {
        let double = Double::start(&[LEN; 3]).await;
        let client = builder(&[&double]).build().unwrap();
        double.fails(fault);
        let mut buffers = [[9; LEN]; 3];
        let options = LoadOptions { deadline: deadline(fault), mode: GetMode::All, ..LoadOptions::default() };
        let outcome = client.get_into(&KEYS, &mut buffers, &options).await;
        let missed = reasons.iter().enumerate().filter_map(|(index, reason)| Some(Miss { index, reason: (*reason)? }));
        assert_eq!(outcome.misses, missed.collect::<Vec<_>>(), "{fault:?}");
        assert_eq!(outcome.loaded, reasons.iter().filter(|reason| reason.is_none()).count(), "{fault:?}");
        assert!(reasons[0].is_some() || buffers[0] == [0; LEN]);

        let options = GetOptions { deadline: deadline(fault), mode: GetMode::All, ..GetOptions::default() };
        let mut blocks = client.get(&KEYS, &options).await;
        let mut streamed = [None; 3];
        while let Some(piece) = blocks.next().await {
            if let Piece::Miss(miss) = piece {
                streamed[miss.index] = Some(miss.reason);
            }
        }
        assert_eq!(streamed, reasons, "{fault:?}");
    }
}

#[tokio::test]
async fn what_was_loaded_before_a_cut_stays_and_the_rest_is_asked_again() {
    let double = Double::start(&[LEN; 3]).await;
    let client = builder(&[&double]).build().unwrap();
    double.fails(Fault::CutAfter(WITHIN));
    let mut buffers = [[9; LEN]; 3];
    let outcome = client.get_into(&KEYS, &mut buffers, &LoadOptions::default()).await;
    // The second request was cut within its second block, which is the third.
    assert_eq!((outcome.loaded, outcome.misses), (2, vec![Miss { index: 2, reason: MissReason::Unreachable }]));
    assert_eq!((buffers[0], buffers[1]), ([0; LEN], [1; LEN]));
    assert_eq!((double.requests(), double.last_get().keys), (2, vec!["k1".to_owned(), "k2".to_owned()]));
    assert_eq!(client.stats_local().failovers, 1);
}

#[tokio::test]
async fn a_cut_stream_says_what_did_not_come() {
    for (fault, reason) in [(Fault::CutAfter(WITHIN), MissReason::Unreachable), (Fault::NoEnd, MissReason::Protocol)] {
        let double = Double::start(&[LEN; 3]).await;
        let client = builder(&[&double]).build().unwrap();
        double.fails(fault);
        let mut blocks = client.get(&KEYS, &GetOptions::default()).await;
        let mut pieces = Vec::new();
        while let Some(piece) = blocks.next().await {
            pieces.push(piece);
        }
        let miss = pieces.iter().find_map(|piece| if let Piece::Miss(miss) = piece { Some(*miss) } else { None });
        match fault {
            Fault::NoEnd => assert_eq!((pieces.len(), miss), (3, None), "all blocks had come"),
            _ => assert_eq!((pieces.len(), miss), (2, Some(Miss { index: 1, reason }))),
        }
        assert_eq!(client.stats_local().gateways[0].failures, 1);
    }
}

#[tokio::test]
async fn a_wrong_checksum_is_a_miss_of_its_block_alone() {
    let double = Double::start(&[LEN; 3]).await;
    let client = builder(&[&double]).build().unwrap();
    double.fails(Fault::WrongCrc(0));
    let mut buffers = [[9; LEN]; 3];
    let options = LoadOptions { mode: GetMode::All, ..LoadOptions::default() };
    let outcome = client.get_into(&KEYS[..1], &mut buffers[..1], &options).await;
    assert_eq!(outcome.misses, [Miss { index: 0, reason: MissReason::Checksum }]);
    double.fails(Fault::WrongCrc(1));
    let outcome = client.get_into(&KEYS, &mut buffers, &options).await;
    assert_eq!((outcome.loaded, outcome.misses), (2, vec![Miss { index: 1, reason: MissReason::Checksum }]));
    assert_eq!((buffers[0], buffers[2]), ([0; LEN], [2; LEN]));
    let mut blocks = client.get(&KEYS, &GetOptions::default()).await;
    assert!(matches!(blocks.next().await, Some(Piece::Bytes { index: 0, .. })));
    assert_eq!(blocks.next().await, Some(Piece::Miss(Miss { index: 1, reason: MissReason::Checksum })));
    assert_eq!(blocks.next().await, None);
}

#[tokio::test]
async fn no_block_is_taken_for_another() {
    let double = Double::start(&[LEN; 3]).await;
    let client = builder(&[&double]).build().unwrap();
    double.fails(Fault::WrongIndex(1));
    let mut buffers = [[9; LEN]; 3];
    let options = LoadOptions { mode: GetMode::All, ..LoadOptions::default() };
    let outcome = client.get_into(&KEYS, &mut buffers, &options).await;
    let indices: Vec<_> = outcome.misses.iter().map(|miss| (miss.index, miss.reason)).collect();
    assert_eq!(indices, [(2, MissReason::Protocol)], "block 1 came with the second request, as its first frame");
    assert_eq!((buffers[0], buffers[1]), ([0; LEN], [1; LEN]));
}

#[tokio::test]
async fn lookups_and_existence_fail_softly() {
    for Case { fault, reasons } in cases() {
        let Some(reason) = reasons[0] else { continue };
        let double = Double::start(&[LEN; 3]).await;
        let client = builder(&[&double]).build().unwrap();
        double.fails(fault);
        let options = LookupOptions { deadline: deadline(fault), ..LookupOptions::default() };
        let found = client.lookup(&KEYS, &options).await;
        assert_eq!((found.matched, found.miss), (0, Some(Miss { index: 0, reason })), "{fault:?}");
        if fault != Fault::Boast {
            let exists = client.exists(&KEYS, deadline(fault)).await;
            assert_eq!((exists.count(), exists.present.len(), exists.failure), (0, 3, Some(reason)), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn nobody_listens() {
    let address = Double::start(&[]).await.die().await;
    let builder = blockgate_sdk::Client::builder().endpoint(format!("http://{address}"));
    let client = builder.access_key("AK").secret_key("secret").bucket("kv").build().unwrap();
    let outcome = client.get_into(&KEYS, &mut [[0; LEN]; 3], &LoadOptions::default()).await;
    assert_eq!(outcome.misses, [Miss { index: 0, reason: MissReason::Unreachable }]);
    assert_eq!(client.stats_local().misses["unreachable"], 1);
    let put = client.put("k0", vec![0; 10], &PutOptions::default()).await;
    assert!(matches!(put, Err(Error::Unreachable { .. })), "{put:?}");
}

#[tokio::test]
async fn writes_fail_with_what_was_said() {
    let double = Double::start(&[]).await;
    let client = builder(&[&double]).build().unwrap();
    let blocks = [Block::new("k0", vec![0; 10]), Block::new("k1", vec![1; 10])];
    let results = client.put_many(&blocks, &PutOptions::default()).await.unwrap();
    assert_eq!(results[0].as_ref().unwrap().etag, "e");
    assert!(matches!(results[1], Err(Error::Refused { code: ErrorCode::InsufficientStorage, .. })));
    let stats = client.stats_local();
    assert_eq!((stats.blocks_stored, stats.bytes_stored), (1, 10));
    let group = client.put_group(&blocks, &PutOptions::default()).await;
    assert!(matches!(group, Err(Error::Refused { code: ErrorCode::InsufficientStorage, .. })));
    let put = client.put("k0", vec![0; 10], &PutOptions::default()).await;
    assert!(matches!(put, Err(Error::Protocol { .. })), "two results for one block");
    let many = vec![Block::new("k", vec![]); 4097];
    let group = client.put_group(&many, &PutOptions::default()).await;
    assert!(matches!(group, Err(Error::Limit { value: 4097, max: 4096, .. })));

    double.fails(Fault::Refuse(ErrorCode::AccessDenied));
    let Err(Error::Refused { code, message }) = client.delete(&["k0"], None).await else { panic!() };
    assert_eq!((code, message.as_str()), (ErrorCode::AccessDenied, "as told (request r1)"));
    double.fails(Fault::Stall);
    let touched = client.touch(&["k0"], Duration::from_secs(60), deadline(Fault::Stall)).await;
    assert_eq!(touched, Err(Error::Timeout));
}

/// Whether blocks stood in the right places is known at the end.
#[tokio::test]
async fn without_an_end_blocks_that_came_as_ready_are_missed() {
    let double = Double::start(&[LEN; 3]).await;
    let client = builder(&[&double]).build().unwrap();
    double.fails(Fault::NoEnd);
    for (mode, expected) in [(GetMode::Prefix, 1), (GetMode::All, 3)] {
        let options = GetOptions { mode, order: GetOrder::Ready, ..GetOptions::default() };
        let pieces: Vec<Piece> = client.get(&KEYS, &options).await.into_stream().collect().await;
        let misses =
            pieces.iter().filter(|piece| matches!(piece, Piece::Miss(miss) if miss.reason == MissReason::Protocol));
        assert_eq!((pieces.len(), misses.count()), (3 + expected, expected), "{mode:?}");
    }
}

/// Not even a runtime is taken for granted.
#[test]
fn without_a_runtime_reads_miss() {
    let builder = blockgate_sdk::Client::builder().endpoint("http://127.0.0.1:1");
    let client = builder.access_key("AK").secret_key("secret").bucket("kv").build().unwrap();
    let found = client.lookup(&["k0"], &LookupOptions::default()).now_or_never().unwrap();
    assert_eq!(found.miss, Some(Miss { index: 0, reason: MissReason::Unreachable }));
}
