//! An upstream whose every call is timed and counted, and that is left alone while it does not answer.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use blockgate_telemetry::Metrics;
use blockgate_upstream::{Breaker, BreakerLimits, Decorator, Op, Result, Upstream, UpstreamError};
use tokio::time::Instant;

pub(crate) struct Observed {
    inner: Arc<dyn Upstream>,
    breaker: Breaker,
    metrics: Metrics,
}

/// Calls that are answered soon whatever the objects' size: what is silent for long on them is out.
const BRIEF: [Op; 5] = [Op::Head, Op::Get, Op::HeadBucket, Op::Tags, Op::Delete];
/// Calls whose failure nobody else tells the operator of.
const WRITES: [Op; 6] = [Op::Put, Op::Delete, Op::DeleteMany, Op::Copy, Op::UploadPart, Op::CompleteMultipart];

impl Observed {
    pub(crate) fn new(inner: Arc<dyn Upstream>, metrics: Metrics) -> Self {
        let breaker = Breaker::new(Arc::clone(&inner), BreakerLimits::default());
        let shown = breaker.clone();
        metrics.observe("blockgate_upstream_breaker_open", "1 while calls to the upstream fail at once.", move || {
            f64::from(u8::from(shown.is_open()))
        });
        Self { inner, breaker, metrics }
    }

    /// The answer, unless the upstream turns out to be silent.
    async fn answer_or_silence<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        tokio::select! {
            biased;
            result = call => result,
            () = self.breaker.opened() => Err(UpstreamError::Unavailable("it does not answer".into())),
        }
    }

    /// The time of a read is that until its body begins.
    async fn timed<T>(&self, op: Op, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let begun = Instant::now();
        let is_brief = BRIEF.contains(&op);
        let result = match self.breaker.admit(is_brief) {
            Ok(admitted) => {
                let result = if is_brief { self.answer_or_silence(call).await } else { call.await };
                admitted.ended(result.as_ref().map(|_| ()));
                result
            }
            Err(error) => Err(error),
        };
        let operation = op.as_str();
        if let Err(error) = &result
            && error.is_outage()
            && WRITES.contains(&op)
        {
            tracing::warn!(operation, %error, "a write failed at the upstream");
        }
        let outcome = match &result {
            Ok(_) => "ok",
            Err(UpstreamError::NoSuchKey) => "absent",
            Err(error) if error.is_outage() => "outage",
            Err(_) => "refused",
        };
        self.metrics.upstream_call(operation, outcome, begun.elapsed());
        result
    }
}

#[async_trait]
impl Decorator for Observed {
    fn inner(&self) -> &dyn Upstream {
        self.inner.as_ref()
    }

    fn around<T: Send>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        self.timed(op, call)
    }
}
