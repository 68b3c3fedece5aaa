//! Where the gateways' own objects are, within each bucket.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::RESERVED_PREFIX;

use crate::GatewayId;

/// Prefix of the change log.
pub const CHANGES: &str = ".blockgate/changes/";
/// Prefix of heartbeats.
pub const GATEWAYS: &str = ".blockgate/gateways/";
/// Prefix of the ledger.
pub const LEDGER: &str = ".blockgate/ledger/";
/// Prefix of commits of groups.
pub const GROUPS: &str = ".blockgate/groups/";
/// The baseline of the usage.
pub const USAGE: &str = ".blockgate/usage";
/// How far the reconcile is.
pub const RECONCILE: &str = ".blockgate/reconcile";

const _: () = assert!(RESERVED_PREFIX.len() == ".blockgate/".len());

/// A batch of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangesName {
    /// When it was written, by its writer's knowledge of the upstream's clock.
    pub at_ms: u64,
    /// Who wrote it.
    pub gateway: GatewayId,
    /// Its number among those of its writer.
    pub number: u32,
}

impl ChangesName {
    /// The object's key.
    #[must_use]
    pub fn key(self) -> String {
        format!("{CHANGES}{:013}-{}-{:08x}", self.at_ms, self.gateway, self.number)
    }

    /// Reads a key back; none for one that no gateway wrote.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let mut parts = key.strip_prefix(CHANGES)?.split('-');
        let (at_ms, gateway, number) = (parts.next()?, parts.next()?, parts.next()?);
        let name = Self {
            at_ms: at_ms.parse().ok()?,
            gateway: gateway.parse().ok()?,
            number: u32::from_str_radix(number, 16).ok()?,
        };
        (parts.next().is_none() && name.key() == key).then_some(name)
    }

    /// What sorts before every batch written at `at` or later.
    #[must_use]
    pub fn before(at: SystemTime) -> String {
        format!("{CHANGES}{:013}", milliseconds(at))
    }
}

/// A gateway's heartbeat.
#[must_use]
pub fn heartbeat(gateway: GatewayId) -> String {
    format!("{GATEWAYS}{gateway}")
}

/// The period of the ledger that an instant is in, by its end in seconds since 1970: the first multiple of `period` that is
/// not before it.
#[must_use]
pub fn period_end_s(at: SystemTime, period: Duration) -> u64 {
    let period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1_000) / 1_000 * 1_000;
    milliseconds(at).div_ceil(period_ms).saturating_mul(period_ms) / 1_000
}

/// Prefix of the batches of one period.
#[must_use]
pub fn period(end_s: u64) -> String {
    format!("{LEDGER}{end_s:010}/")
}

/// Reads [`period`] back; none for what no gateway wrote.
#[must_use]
pub fn period_of(prefix: &str) -> Option<u64> {
    let end_s = prefix.strip_prefix(LEDGER)?.strip_suffix('/')?.parse().ok()?;
    (period(end_s) == prefix).then_some(end_s)
}

/// A batch of ledger lines. Its name tells its sums, so that a listing is enough to know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerName {
    /// End of the period, in seconds since 1970.
    pub end_s: u64,
    /// Who wrote it.
    pub gateway: GatewayId,
    /// Its number among those of its writer.
    pub number: u32,
    /// Lines in it.
    pub blocks: u64,
    /// Bytes of the blocks that they name.
    pub bytes: u64,
}

impl LedgerName {
    /// The object's key.
    #[must_use]
    pub fn key(self) -> String {
        let Self { end_s, gateway, number, blocks, bytes } = self;
        format!("{}{gateway}-{number:08x}-{blocks}-{bytes}", period(end_s))
    }

    /// Reads a key back; none for one that no gateway wrote.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let at = key.rfind('/')?;
        let (prefix, name) = key.split_at_checked(at + 1)?;
        let mut parts = name.split('-');
        let name = Self {
            end_s: period_of(prefix)?,
            gateway: parts.next()?.parse().ok()?,
            number: u32::from_str_radix(parts.next()?, 16).ok()?,
            blocks: parts.next()?.parse().ok()?,
            bytes: parts.next()?.parse().ok()?,
        };
        (parts.next().is_none() && name.key() == key).then_some(name)
    }
}

/// Milliseconds since 1970.
#[must_use]
pub fn milliseconds(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The instant so many milliseconds after 1970; one that can't be represented is the last that can.
#[must_use]
pub fn instant(ms: u64) -> SystemTime {
    const LATEST: Duration = Duration::from_secs(1 << 40);
    UNIX_EPOCH + Duration::from_millis(ms).min(LATEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_read_back(at_ms in 0..10_u64.pow(13), gateway: u64, number: u32, end_s in 0..10_u64.pow(10), blocks: u64, bytes: u64) {
            let name = ChangesName { at_ms, gateway: GatewayId(gateway), number };
            prop_assert_eq!(ChangesName::parse(&name.key()), Some(name));
            prop_assert!(ChangesName::before(instant(at_ms)) < name.key());
            prop_assert!(name.key() < ChangesName::before(instant(at_ms + 1)));
            let name = LedgerName { end_s, gateway: GatewayId(gateway), number, blocks, bytes };
            prop_assert_eq!(LedgerName::parse(&name.key()), Some(name));
        }

        #[test]
        fn a_period_ends_at_or_after_what_is_in_it(ms in 0..10_u64.pow(13), period_s in 1..100_000_u64) {
            let end_ms = period_end_s(instant(ms), Duration::from_secs(period_s)) * 1_000;
            prop_assert!(end_ms >= ms && end_ms < ms + period_s * 1_000);
        }

        #[test]
        fn what_is_no_name_is_none(text in "\\PC{0,60}") {
            prop_assert_eq!(ChangesName::parse(&format!("{CHANGES}{text}")), None);
            prop_assert_eq!(LedgerName::parse(&format!("{LEDGER}{text}")), None);
        }
    }
}
