//! Bodies as a right gateway or client writes them, a frame at a time.

use blockgate_api::frame::{self, FrameHeader};
use blockgate_api::types::{ByteRange, GetMode, GetOrder, GetRequest, PutHeader, StreamEnd};
use blockgate_api::{Crc64, MissReason};
use proptest::prelude::*;

/// A request and what the gateway has.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    pub(crate) request: GetRequest,
    /// None is a miss; the number is the part at which it is found.
    pub(crate) blocks: Vec<Result<Vec<u8>, u32>>,
    /// In which order a pass has its frames, where any may be.
    ready: Vec<usize>,
}

pub(crate) type Frames = Vec<Vec<u8>>;

fn data(index: usize, stripe: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader::data(index as u32, stripe, payload.len() as u64, Crc64::of(payload));
    [&header.encode(), payload].concat()
}

impl Get {
    pub(crate) fn parts(&self) -> u32 {
        self.request.ranges.as_ref().map_or(self.request.stripes, |ranges| ranges.len() as u32)
    }

    /// A part of a block.
    pub(crate) fn part<'a>(&self, block: &'a [u8], part: u32) -> &'a [u8] {
        let part = part as usize;
        if let Some(ranges) = &self.request.ranges {
            let ByteRange { offset, length } = ranges[part];
            return &block[offset as usize..(offset + length) as usize];
        }
        let stripes = self.request.stripes as usize;
        let stripe = block.len() / stripes;
        let end = if part + 1 == stripes { block.len() } else { (part + 1) * stripe };
        &block[part * stripe..end]
    }

    /// The response.
    pub(crate) fn frames(&self) -> Frames {
        let (mut frames, mut end) = (Frames::new(), StreamEnd::default());
        let prefix = self.request.mode == GetMode::Prefix;
        let mut limit = self.blocks.len();
        for part in 0..self.parts() {
            let found = |index: usize| matches!(self.blocks[index], Err(at) if at == part);
            let first_miss = (0..limit).find(|index| found(*index)).filter(|_| prefix);
            for index in self.pass(limit) {
                match &self.blocks[index] {
                    Ok(_) if first_miss.is_some_and(|miss| index > miss) && self.request.order == GetOrder::Request => {
                    }
                    Ok(block) => {
                        frames.push(data(index, part, self.part(block, part)));
                        end.bytes += self.part(block, part).len() as u64;
                        end.blocks += u64::from(part + 1 == self.parts());
                    }
                    Err(at) if *at > part => {
                        // There so far, of a length that all its parts have.
                        frames.push(data(index, part, self.part(&[7; 40], part)));
                        end.bytes += self.part(&[7; 40], part).len() as u64;
                    }
                    Err(at) if *at == part && !prefix => {
                        frames.push(frame::miss(index as u32, MissReason::Absent).into());
                    }
                    Err(_) => {}
                }
            }
            if let Some(miss) = first_miss {
                frames.push(frame::miss(miss as u32, MissReason::Absent).into());
                limit = miss;
            }
        }
        frames.push(frame::end(end).into());
        frames
    }

    /// The blocks of a pass, in its order.
    fn pass(&self, limit: usize) -> Vec<usize> {
        let all: Vec<usize> = match self.request.order {
            GetOrder::Request => (0..self.blocks.len()).collect(),
            GetOrder::Ready => self.ready.clone(),
        };
        all.into_iter().filter(|index| *index < limit).collect()
    }

    /// What the client may have in the end.
    pub(crate) fn expected(&self) -> Vec<Option<Vec<u8>>> {
        let prefix = self.request.mode == GetMode::Prefix;
        let missed = self.blocks.iter().position(Result::is_err).filter(|_| prefix).unwrap_or(self.blocks.len());
        let joined = |block: &Vec<u8>| (0..self.parts()).flat_map(|part| self.part(block, part).to_vec()).collect();
        self.blocks
            .iter()
            .enumerate()
            .map(|(index, block)| block.as_ref().ok().filter(|_| index < missed).map(joined))
            .collect()
    }
}

fn cut() -> impl Strategy<Value = (u32, Option<Vec<ByteRange>>)> {
    let range = (0u64..20, 0u64..20).prop_map(|(offset, length)| ByteRange { offset, length });
    prop_oneof![
        (1u32..4).prop_map(|stripes| (stripes, None)),
        proptest::collection::vec(range, 1..4).prop_map(|ranges| (1, Some(ranges))),
    ]
}

/// Any request for few small blocks, and any state of them.
pub(crate) fn gets() -> impl Strategy<Value = Get> {
    let block = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 40..60).prop_map(Ok),
        1 => (0u32..3).prop_map(Err),
    ];
    let mode = prop_oneof![Just(GetMode::Prefix), Just(GetMode::All)];
    let order = prop_oneof![Just(GetOrder::Request), Just(GetOrder::Ready)];
    (proptest::collection::vec(block, 0..6), mode, order, cut())
        .prop_flat_map(|(blocks, mode, order, (stripes, ranges))| {
            let keys = (0..blocks.len()).map(|index| format!("k{index}")).collect();
            let request = GetRequest { keys, mode, order, stripes, ranges, ..GetRequest::default() };
            let ready: Vec<usize> = (0..blocks.len()).collect();
            (Just((request, blocks)), Just(ready).prop_shuffle())
        })
        .prop_map(|((request, mut blocks), ready)| {
            let parts = request.ranges.as_ref().map_or(request.stripes, |ranges| ranges.len() as u32);
            for missed in blocks.iter_mut().filter_map(|block| block.as_mut().err()) {
                *missed %= parts;
            }
            // A prefix ends once: the blocks after are of no interest.
            if request.mode == GetMode::Prefix
                && let Some(miss) = blocks.iter().position(Result::is_err)
            {
                let at = blocks[miss].clone();
                blocks[miss + 1..].iter_mut().filter(|block| block.is_err()).for_each(|block| *block = at.clone());
            }
            Get { request, blocks, ready }
        })
}

/// The body of any `put` of few small blocks.
pub(crate) fn puts() -> impl Strategy<Value = (Vec<Vec<u8>>, Frames)> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..5).prop_map(|blocks| {
        let mut frames = Frames::new();
        for (index, block) in blocks.iter().enumerate() {
            let header = PutHeader { key: format!("k{index}"), ttl_s: Some(60), fingerprint: None };
            frames.push(frame::put_header(index as u32, &header).into());
            frames.push(data(index, 0, block));
        }
        let bytes = blocks.iter().map(|block| block.len() as u64).sum();
        frames.push(frame::end(StreamEnd { blocks: blocks.len() as u64, bytes }).into());
        (blocks, frames)
    })
}
