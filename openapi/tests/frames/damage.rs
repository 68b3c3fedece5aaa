//! Bodies that were changed on their way.

use blockgate_api::rules::GetRules;
use blockgate_api::types::GetOrder;
use proptest::prelude::*;

use crate::bodies::{Frames, gets, puts};
use crate::reader::{get, put, read_get};

/// All bodies with two frames exchanged, one left out, or one sent twice.
fn shuffled(frames: &Frames) -> Vec<Frames> {
    let mut all = Vec::new();
    for first in 0..frames.len() {
        let mut without = frames.clone();
        without.remove(first);
        all.push(without);
        for second in first..frames.len() {
            let mut twice = frames.clone();
            twice.insert(second, frames[first].clone());
            let mut swapped = frames.clone();
            swapped.swap(first, second);
            all.extend([twice, swapped]);
        }
    }
    all.retain(|changed| changed != frames);
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_get_that_was_not_changed(get_case in gets()) {
        let body = get_case.frames().concat();
        prop_assert_eq!(get(&get_case.request, &body), Ok(get_case.expected()), "{:?}", get_case);
    }

    #[test]
    fn any_flipped_bit_of_a_get_is_found_or_harms_nothing(get_case in gets()) {
        let body = get_case.frames().concat();
        let expected = get_case.expected();
        for bit in 0..body.len() * 8 {
            let mut damaged = body.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut rules = GetRules::new(&get_case.request);
            let mut blocks = vec![Vec::new(); expected.len()];
            let ended = read_get(&mut rules, &mut blocks, &damaged);
            // Beyond a prefix's miss nothing counts, and frames that came there before it may have been exchanged.
            let is_harmless = || {
                get_case.request.order == GetOrder::Ready && get(&get_case.request, &damaged) == Ok(get_case.expected())
            };
            prop_assert!(ended.is_err() || is_harmless(), "bit {} of {:?}", bit, get_case);
            // What had come whole before is right all the same.
            for (index, block) in blocks.iter().enumerate() {
                if rules.is_whole(index) && get_case.blocks[index].is_ok() {
                    let whole = get_case.blocks[index].as_ref().unwrap();
                    let right: Vec<u8> = (0..get_case.parts()).flat_map(|part| get_case.part(whole, part).to_vec()).collect();
                    prop_assert_eq!(block, &right, "bit {} of {:?}", bit, get_case);
                }
            }
        }
    }

    #[test]
    fn any_reorder_of_a_get_is_found_or_harms_nothing(get_case in gets()) {
        for changed in shuffled(&get_case.frames()) {
            let read = get(&get_case.request, &changed.concat());
            match get_case.request.order {
                GetOrder::Request => prop_assert!(read.is_err(), "{:?}", get_case),
                // The frames of a pass may come in any order.
                GetOrder::Ready => prop_assert!(read.is_err() || read == Ok(get_case.expected()), "{:?}", get_case),
            }
        }
    }

    #[test]
    fn any_cut_get_is_found(get_case in gets()) {
        let body = get_case.frames().concat();
        for end in 0..body.len() {
            prop_assert!(get(&get_case.request, &body[..end]).is_err());
        }
    }

    #[test]
    fn a_put_that_was_not_changed((blocks, frames) in puts()) {
        let (sound, end) = put(&frames.concat());
        prop_assert_eq!(end, Ok(()));
        let expected: Vec<_> = blocks.into_iter().enumerate().map(|(index, block)| (format!("k{index}"), block)).collect();
        prop_assert_eq!(sound, expected);
    }

    #[test]
    fn any_change_of_a_put_is_found_and_stores_nothing_wrong((blocks, frames) in puts()) {
        let body = frames.concat();
        let flipped = (0..body.len() * 8).map(|bit| {
            let mut damaged = body.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged
        });
        let cut = (0..body.len()).map(|end| body[..end].to_vec());
        let reordered = shuffled(&frames).into_iter().map(|frames| frames.concat());
        for changed in flipped.chain(cut).chain(reordered) {
            let (sound, end) = put(&changed);
            prop_assert!(end.is_err());
            for (key, block) in sound {
                let index: usize = key[1..].parse().unwrap();
                prop_assert_eq!(&block, &blocks[index]);
            }
        }
    }
}
