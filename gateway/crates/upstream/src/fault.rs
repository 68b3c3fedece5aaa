//! An upstream that misbehaves on purpose, as told: for tests of whatever stands on one.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use crate::{
    BodyError, ByteStream, Conditions, Decorator, GetReply, Op, Payload, PutRequest, Result, Stored, Upstream,
    UpstreamError,
};

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The call fails and does nothing.
    Fail(UpstreamError),
    /// The call does its work, and then fails: the answer is lost.
    LoseAnswer(UpstreamError),
    /// The call begins later.
    Delay(Duration),
    /// The call never answers.
    Hang,
    /// The body that is read or written breaks off after so many bytes.
    CutBody(u64),
    /// The body that is read or written stops after so many bytes, for ever.
    StallBody(u64),
    /// One bit of the body that is read or written is another, counted from its first byte's lowest.
    FlipBit(u64),
}

/// When a fault strikes.
enum Rule {
    /// At one call, by number.
    Once { call: u64, fault: Fault },
    /// At every call from one on.
    From { call: u64, fault: Fault },
    /// At so many calls in a thousand, by a seeded generator.
    Often { per_mille: u64, state: u64, fault: Fault },
}

impl Rule {
    fn strikes(&mut self, number: u64) -> Option<Fault> {
        match self {
            Self::Once { call, fault } if *call == number => Some(fault.clone()),
            Self::From { call, fault } if *call <= number => Some(fault.clone()),
            Self::Often { per_mille, state, fault } => {
                // xorshift64*
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let drawn = (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % 1000;
                (drawn < *per_mille).then(|| fault.clone())
            }
            _ => None,
        }
    }
}

#[derive(Default)]
struct Script {
    calls: u64,
    rules: Vec<Rule>,
}

/// A decorator that fails, delays and damages calls as it is told, and counts them. Without instructions it is
/// transparent.
pub struct FaultUpstream {
    inner: Arc<dyn Upstream>,
    scripts: Mutex<HashMap<Op, Script>>,
}

impl FaultUpstream {
    /// Decorates an upstream.
    #[must_use]
    pub fn new(inner: Arc<dyn Upstream>) -> Self {
        Self { inner, scripts: Mutex::default() }
    }

    /// `fault` strikes at the `nth` call from now, 1 being the next.
    pub fn at(&self, op: Op, nth: u64, fault: Fault) {
        self.rule(op, |calls| Rule::Once { call: calls + nth, fault });
    }

    /// `fault` strikes at every call from now on.
    pub fn always(&self, op: Op, fault: Fault) {
        self.rule(op, |calls| Rule::From { call: calls + 1, fault });
    }

    /// `fault` strikes at `per_mille` of the calls from now on; which ones depends on `seed` alone.
    pub fn often(&self, op: Op, per_mille: u64, seed: u64, fault: Fault) {
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self.rule(op, |_| Rule::Often { per_mille, state, fault });
    }

    /// Forgets all faults; goes on counting.
    pub fn heal(&self) {
        self.scripts.lock().values_mut().for_each(|script| script.rules.clear());
    }

    /// How often `op` was called so far.
    #[must_use]
    pub fn calls(&self, op: Op) -> u64 {
        self.scripts.lock().get(&op).map_or(0, |script| script.calls)
    }

    fn rule(&self, op: Op, rule: impl FnOnce(u64) -> Rule) {
        let mut scripts = self.scripts.lock();
        let script = scripts.entry(op).or_default();
        script.rules.push(rule(script.calls));
    }

    async fn struck<T>(&self, op: Op, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let struck = self.enter(op).await?;
        struck.leave(call.await)
    }

    /// Counts a call and brings about what comes before it.
    async fn enter(&self, op: Op) -> Result<Struck> {
        let faults: Vec<Fault> = {
            let mut scripts = self.scripts.lock();
            let script = scripts.entry(op).or_default();
            script.calls += 1;
            let number = script.calls;
            script.rules.iter_mut().filter_map(|rule| rule.strikes(number)).collect()
        };
        let mut struck = Struck::default();
        for fault in faults {
            match fault {
                Fault::Fail(error) => return Err(error),
                Fault::LoseAnswer(error) => struck.lost = Some(error),
                Fault::Delay(delay) => tokio::time::sleep(delay).await,
                Fault::Hang => std::future::pending().await,
                body => struck.body.push(body),
            }
        }
        Ok(struck)
    }
}

/// What is still to strike after a call has begun.
#[derive(Default)]
struct Struck {
    lost: Option<UpstreamError>,
    body: Vec<Fault>,
}

impl Struck {
    fn leave<T>(self, result: Result<T>) -> Result<T> {
        match self.lost {
            Some(error) => Err(error),
            None => result,
        }
    }

    fn payload(&self, payload: Payload) -> Payload {
        if self.body.is_empty() {
            return payload;
        }
        Payload::Stream { len_bytes: payload.len_bytes(), stream: self.stream(payload.into_stream()) }
    }

    fn stream(&self, stream: ByteStream) -> ByteStream {
        self.body.iter().fold(stream, |stream, fault| match *fault {
            Fault::FlipBit(bit) => flip(stream, bit),
            Fault::CutBody(after) => {
                let cut = stream::iter([Err(BodyError::Cut("cut on purpose".to_owned()))]);
                Box::pin(take(stream, after).chain(cut))
            }
            Fault::StallBody(after) => Box::pin(take(stream, after).chain(stream::pending())),
            _ => stream,
        })
    }
}

/// The first bytes of a stream.
fn take(stream: ByteStream, len_bytes: u64) -> ByteStream {
    Box::pin(stream::unfold((stream, len_bytes), |(mut stream, left)| async move {
        if left == 0 {
            return None;
        }
        Some(match stream.next().await? {
            Ok(mut chunk) => {
                chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - chunk.len() as u64;
                (Ok(chunk), (stream, left))
            }
            Err(error) => (Err(error), (stream, 0)),
        })
    }))
}

fn flip(stream: ByteStream, bit: u64) -> ByteStream {
    let mut at = 0;
    Box::pin(stream.map(move |chunk| {
        let chunk = chunk?;
        let begin = at;
        at += chunk.len() as u64;
        if !(begin..at).contains(&(bit / 8)) {
            return Ok(chunk);
        }
        let mut bytes = chunk.to_vec();
        // Within the chunk, so it fits.
        bytes[(bit / 8 - begin) as usize] ^= 1 << (bit % 8);
        Ok(Bytes::from(bytes))
    }))
}

#[async_trait]
impl Decorator for FaultUpstream {
    fn inner(&self) -> &dyn Upstream {
        self.inner.as_ref()
    }

    fn around<T: Send>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        self.struck(op, call)
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        conditions: &Conditions,
    ) -> Result<GetReply> {
        let struck = self.enter(Op::Get).await?;
        let mut reply = self.inner.get(bucket, key, range, conditions).await;
        if let Ok(reply) = &mut reply {
            let body = std::mem::replace(&mut reply.body, Box::pin(stream::empty()));
            reply.body = struck.stream(body);
        }
        struck.leave(reply)
    }

    async fn put(&self, bucket: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        let struck = self.enter(Op::Put).await?;
        let payload = struck.payload(payload);
        struck.leave(self.inner.put(bucket, key, request, payload).await)
    }

    async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        payload: Payload,
    ) -> Result<String> {
        let struck = self.enter(Op::UploadPart).await?;
        let payload = struck.payload(payload);
        struck.leave(self.inner.upload_part(bucket, key, upload_id, number, payload).await)
    }
}
