//! Reads through a gateway, held against the reference.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use blockgate_block::{MissReason, ObjectInfo};
use blockgate_store::{ChainRequest, ReadRequest, Result, Served, StoreError};
use blockgate_upstream::{BodyError, UpstreamError};
use bytes::Bytes;

use super::ops::GetHow;
use super::reference::{Answer, Version};
use super::world::{Checked, World, expect};
use crate::double::Trick;
use crate::support::*;

impl World {
    pub(super) async fn get(
        &mut self,
        gateway: usize,
        key: usize,
        asked: Option<&'static str>,
        how: GetHow,
    ) -> Checked {
        let (store, name) = (self.store(gateway), self.key(key));
        let got = match (how, &self.double) {
            (GetHow::Held, _) => {
                let Some(served) = store.get_held(&name, &reading(asked)) else { return Ok(()) };
                whole(Ok(served)).await
            }
            (GetHow::Whole, _) => {
                store.get_whole(&name, reading(asked)).await.map(|whole| (whole.info, Some(whole.bytes)))
            }
            (GetHow::Flipped, Some(double)) => {
                double.trick(Trick::Flip(11));
                let got = whole(store.get(&name, reading(asked)).await).await;
                settle().await;
                double.forget_tricks();
                got
            }
            (GetHow::Outage, Some(double)) => {
                double.outage.store(true, Ordering::SeqCst);
                let got = whole(store.get(&name, reading(asked)).await).await;
                double.outage.store(false, Ordering::SeqCst);
                // An answer, so that the breaker stays closed.
                store.upstream().ping().await.unwrap();
                got
            }
            _ => whole(store.get(&name, reading(asked)).await).await,
        };
        if got.is_err() {
            // A read that is refused leaves a fill behind, and until that is over the gateway believes what it believed.
            settle().await;
        }
        let now = self.now();
        match (how, &got) {
            // It forgets a corrupt block that was on its way to memory, and learns nothing of one too large for that.
            (GetHow::Flipped, Err(StoreError::Miss(MissReason::Corrupt))) => {
                self.reference.may_know(gateway, key, now);
                return Ok(());
            }
            // An outage says nothing of the block: what was known of it is known.
            (GetHow::Outage, Err(StoreError::Miss(MissReason::UpstreamUnavailable))) => return Ok(()),
            _ => {}
        }
        let checked = self.reference.observe(gateway, key, asked, now, |answer| match (answer, &got) {
            (Answer::Hit(version), Ok((info, Some(bytes)))) => version.bytes == bytes && is_described(version, info),
            (Answer::Miss(reason), Err(StoreError::Miss(got))) => reason == got,
            _ => false,
        });
        checked.map_err(|text| format!("get {how:?} gave {}: {text}", shown(&got)))
    }

    /// Holds a description against the reference.
    pub(super) fn described(
        &mut self,
        gateway: usize,
        key: usize,
        asked: Option<&str>,
        got: Result<Arc<ObjectInfo>>,
    ) -> Checked {
        let now = self.now();
        let checked = self.reference.observe(gateway, key, asked, now, |answer| match (answer, &got) {
            (Answer::Hit(version), Ok(info)) => is_described(version, info),
            (Answer::Miss(reason), Err(StoreError::Miss(got))) => reason == got,
            _ => false,
        });
        checked.map_err(|text| format!("head gave {got:?}: {text}"))
    }

    pub(super) async fn lookup(
        &mut self,
        gateway: usize,
        keys: &[usize],
        asked: Option<&str>,
        prefetch: bool,
    ) -> Checked {
        let request = ChainRequest { fingerprint: asked.map(str::to_owned), prefetch, ..ChainRequest::default() };
        let found = self.store(gateway).lookup(&self.key_list(keys), request).await.unwrap();
        let now = self.now();
        if !self.reference.may_claim(gateway, &keys[..found.matched], asked, now) {
            let answers = keys.iter().map(|&key| self.reference.answers(gateway, key, asked, now));
            return Err(format!("lookup claims {} of {:#?}", found.matched, answers.collect::<Vec<_>>()));
        }
        if let Some((at, missed)) = found.miss {
            let is_it = |answer: &Answer| *answer == Answer::Miss(missed);
            let checked = self.reference.observe(gateway, keys[at], asked, now, is_it);
            checked.map_err(|text| format!("lookup misses {at} of {keys:?} as {missed}: {text}"))?;
        }
        // It may ask about others, and what it brings to memory is the truth.
        keys.iter().for_each(|&key| self.reference.may_know(gateway, key, now));
        if prefetch {
            settle().await;
        }
        expect("looked at", found.miss.map_or(keys.len(), |(at, _)| at) as u64, found.matched as u64)
    }
}

pub(super) fn reading(fingerprint: Option<&str>) -> ReadRequest {
    ReadRequest { fingerprint: fingerprint.map(str::to_owned), ..ReadRequest::default() }
}

/// A block as it was served, with its bytes.
type Got = Result<(Arc<ObjectInfo>, Option<Bytes>)>;

async fn whole(served: Result<Served>) -> Got {
    let served = served?;
    let info = Arc::clone(&served.info);
    match read(served).await {
        Ok(bytes) => Ok((info, Some(bytes))),
        Err(BodyError::Corrupt) => Err(StoreError::Miss(MissReason::Corrupt)),
        Err(error) => Err(StoreError::Upstream(UpstreamError::Unavailable(error.to_string()))),
    }
}

fn shown(got: &Got) -> String {
    match got {
        Ok((info, bytes)) => format!("{info:?}, {:02x?}", bytes.as_ref().map(|bytes| &bytes[..4])),
        Err(error) => error.to_string(),
    }
}

fn is_described(version: &Version, info: &ObjectInfo) -> bool {
    info.size_bytes == version.bytes.len() as u64
        && info.etag == etag_of(&version.bytes)
        && info.fingerprint() == version.fingerprint
        && info.expires_at() == version.expires_at
}
