//! The store's clock, learned from the `Date` of its answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::date_time::Format;
use parking_lot::Mutex;

/// The local clock corrected by what the store's answers say.
///
/// A `Date` names a whole second, and the answer was written between the request's departure and its own arrival. Both
/// together bound the distance between the clocks; the estimate is moved only as far as a bound demands, so that it settles.
#[derive(Clone, Debug)]
pub(super) struct StoreClock {
    local: SharedTimeSource,
    ahead_ms: Arc<Mutex<i64>>,
}

impl StoreClock {
    pub(super) fn new(local: SharedTimeSource) -> Self {
        Self { local, ahead_ms: Arc::default() }
    }

    pub(super) fn now(&self) -> SystemTime {
        shift(self.local.now(), *self.ahead_ms.lock())
    }

    /// The local clock, for what has nothing to do with the store.
    pub(super) fn local_now(&self) -> SystemTime {
        self.local.now()
    }

    fn learn(&self, sent: SystemTime, received: SystemTime, date: SystemTime) {
        let least = distance_ms(received, date);
        let most = distance_ms(sent, date + Duration::from_secs(1));
        if least <= most {
            let mut ahead = self.ahead_ms.lock();
            *ahead = (*ahead).clamp(least, most);
        }
    }
}

fn shift(at: SystemTime, ms: i64) -> SystemTime {
    let by = Duration::from_millis(ms.unsigned_abs());
    if ms < 0 { at.checked_sub(by) } else { at.checked_add(by) }.unwrap_or(at)
}

/// Milliseconds from `from` to `to`.
fn distance_ms(from: SystemTime, to: SystemTime) -> i64 {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match to.duration_since(from) {
        Ok(later) => ms(later),
        Err(earlier) => -ms(earlier.duration()),
    }
}

#[derive(Debug)]
struct SentAt(SystemTime);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

impl Intercept for StoreClock {
    fn name(&self) -> &'static str {
        "StoreClock"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config.interceptor_state().store_put(SentAt(self.local.now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|text| DateTime::from_str(text, Format::HttpDate).ok());
        if let (Some(date), Some(SentAt(sent))) =
            (date.and_then(|at| SystemTime::try_from(at).ok()), config.load::<SentAt>())
        {
            self.learn(*sent, self.local.now(), date);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use aws_smithy_async::time::StaticTimeSource;

    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn clock(now_ms: u64) -> StoreClock {
        StoreClock::new(SharedTimeSource::new(StaticTimeSource::new(at(now_ms))))
    }

    #[test]
    fn a_clock_that_agrees_is_left_alone() {
        let clock = clock(100_500);
        clock.learn(at(100_400), at(100_500), at(100_000));
        assert_eq!(clock.now(), at(100_500));
    }

    #[test]
    fn the_estimate_settles_between_the_bounds() {
        // The store is 5.3 s ahead: at local 100.0 it is 105.3 there.
        let clock = clock(100_000);
        clock.learn(at(100_000), at(100_020), at(105_000));
        clock.learn(at(100_300), at(100_320), at(105_000));
        clock.learn(at(100_690), at(100_710), at(106_000));
        let ahead = *clock.ahead_ms.lock();
        assert!((5_290..=5_310).contains(&ahead), "{ahead}");
        assert_eq!(clock.now(), at(100_000 + ahead.unsigned_abs()));
    }

    #[test]
    fn a_store_behind_is_believed_too() {
        let clock = clock(100_000);
        clock.learn(at(100_000), at(100_010), at(10_000));
        assert!(clock.now() <= at(11_000) && clock.now() >= at(9_990));
    }

    #[test]
    fn nonsense_teaches_nothing() {
        let clock = clock(100_000);
        // Sent after it was received: the local clock was set back in between.
        clock.learn(at(100_000), at(50_000), at(100_000));
        assert_eq!(clock.now(), at(100_000));
    }
}
