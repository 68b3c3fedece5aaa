//! Which bytes of each block a `get` delivers, and in how many passes.

use std::ops::Range;

use blockgate_api::types::ByteRange;

/// How blocks are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// So many stripes; one is the whole block.
    Stripes(u32),
    /// These ranges, each within every block.
    Ranges(Vec<ByteRange>),
}

impl Cut {
    /// How many parts each block has.
    pub(crate) fn parts(&self) -> u32 {
        match self {
            Self::Stripes(count) => *count,
            Self::Ranges(ranges) => u32::try_from(ranges.len()).unwrap_or(u32::MAX),
        }
    }

    /// Where a part lies in a block of `len_bytes`; none where it does not lie within it.
    pub(crate) fn part(&self, part: u32, len_bytes: u64) -> Option<Range<u64>> {
        match self {
            Self::Stripes(count) => {
                let stripe_bytes = len_bytes / u64::from(*count);
                let start = stripe_bytes * u64::from(part);
                let end = if part + 1 == *count { len_bytes } else { start + stripe_bytes };
                (part < *count).then_some(start..end)
            }
            Self::Ranges(ranges) => {
                let range = ranges.get(usize::try_from(part).ok()?)?;
                let end = range.offset.checked_add(range.length)?;
                (end <= len_bytes).then_some(range.offset..end)
            }
        }
    }

    /// Payload bytes of `blocks` blocks that have `block_bytes` together.
    pub(crate) fn bytes_of(&self, blocks: u64, block_bytes: u64) -> u64 {
        match self {
            Self::Stripes(_) => block_bytes,
            Self::Ranges(ranges) => {
                ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.length)).saturating_mul(blocks)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn stripes_are_the_block_cut(count in 1u32..40, len_bytes in 0u64..1000) {
            let cut = Cut::Stripes(count);
            let mut at = 0;
            for part in 0..cut.parts() {
                let range = cut.part(part, len_bytes).unwrap();
                prop_assert_eq!(range.start, at);
                prop_assert!(part + 1 == count || range.end - range.start == len_bytes / u64::from(count));
                at = range.end;
            }
            prop_assert_eq!(at, len_bytes);
            prop_assert_eq!(cut.part(count, len_bytes), None);
        }
    }

    #[test]
    fn ranges_lie_within_the_block() {
        let cut = Cut::Ranges(vec![ByteRange { offset: 2, length: 3 }, ByteRange { offset: u64::MAX, length: 2 }]);
        assert_eq!((cut.parts(), cut.bytes_of(4, 100)), (2, 20));
        assert_eq!(cut.part(0, 5), Some(2..5));
        assert_eq!(cut.part(0, 4), None);
        assert_eq!(cut.part(1, 5), None);
    }
}
