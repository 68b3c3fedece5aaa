//! What is known of an object: the client's attributes, and blockgate's own record.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use crate::{BlockEtag, Crc64};

/// User metadata by which a client names a block's fingerprint (`x-amz-meta-kv-fingerprint`).
pub const FINGERPRINT_META: &str = "kv-fingerprint";
/// User metadata by which a client gives a time to live in seconds (`x-amz-meta-kv-ttl`).
pub const TTL_META: &str = "kv-ttl";
/// Object tag by which a client gives a time to live in seconds.
pub const TTL_TAG: &str = "kv-ttl";
/// User metadata that holds the [`BlockRecord`] at the upstream. Clients neither set nor see it.
pub const RECORD_META: &str = "blockgate";

/// What a client attached to an object and gets back unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`, without `aws-chunked`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Expires`, as it was sent.
    pub expires: Option<String>,
    /// `x-amz-meta-*`, names in lower case without the prefix.
    pub user: BTreeMap<String, String>,
}

/// Names a group of blocks that become visible together, at random; 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u128);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for GroupId {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let is_canonical = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_canonical);
        number.map(Self).ok_or_else(|| RecordError(text.chars().take(128).collect()))
    }
}

/// Who stored a block, as records and ledgers keep it: a hash of the tenant's name; 16 hexadecimal digits where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(pub u64);

impl TenantId {
    /// The same in every process.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(xxh3_64(name.as_bytes()))
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TenantId {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let is_canonical = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_canonical);
        number.map(Self).ok_or_else(|| RecordError(text.chars().take(128).collect()))
    }
}

/// What blockgate records with every block that it stores, in one metadata entry ([`RECORD_META`]).
///
/// Instants are by the upstream's clock, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Checksum of the whole block.
    pub crc64: Crc64,
    /// Length of the whole block.
    pub len_bytes: u64,
    /// When it was stored.
    pub stored_at: SystemTime,
    /// When it must no longer be served.
    pub expires_at: Option<SystemTime>,
    /// The group that it was stored in: it is there only if the group was committed.
    pub group: Option<GroupId>,
    /// Who stored it, where that is known.
    pub tenant: Option<TenantId>,
}

/// Why a record can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a block record: {0:?}")]
pub struct RecordError(pub String);

impl BlockRecord {
    /// The ETag of the block.
    #[must_use]
    pub const fn etag(&self) -> BlockEtag {
        BlockEtag { crc64: self.crc64, len_bytes: self.len_bytes }
    }

    /// Reads what [`fmt::Display`] wrote.
    ///
    /// # Errors
    /// When a field is missing, unknown, doubled or no number.
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        let error = || RecordError(text.chars().take(128).collect());
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        for field in text.split(';') {
            let (name, value) = field.split_once('=').ok_or_else(error)?;
            if fields.insert(name, value).is_some() {
                return Err(error());
            }
        }
        let mut take = |name: &str| fields.remove(name);
        if take("v") != Some("1") {
            return Err(error());
        }
        let crc64 = take("crc64nvme").and_then(|v| v.parse().ok()).ok_or_else(error)?;
        let len_bytes = take("len").and_then(|v| v.parse().ok()).ok_or_else(error)?;
        let stored_at = take("stored").and_then(from_ms).ok_or_else(error)?;
        let expires_at = take("expires").map(|v| from_ms(v).ok_or_else(error)).transpose()?;
        let group = take("group").map(str::parse).transpose()?;
        let tenant = take("tenant").map(str::parse).transpose()?;
        let record = Self { crc64, len_bytes, stored_at, expires_at, group, tenant };
        if fields.is_empty() { Ok(record) } else { Err(error()) }
    }
}

impl fmt::Display for BlockRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v=1;crc64nvme={};len={};stored={}", self.crc64, self.len_bytes, to_ms(self.stored_at))?;
        if let Some(at) = self.expires_at {
            write!(f, ";expires={}", to_ms(at))?;
        }
        if let Some(group) = self.group {
            write!(f, ";group={group}")?;
        }
        match self.tenant {
            Some(tenant) => write!(f, ";tenant={tenant}"),
            None => Ok(()),
        }
    }
}

fn to_ms(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

fn from_ms(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(text.parse().ok()?))
}

/// An object as the upstream describes it.
///
/// For a block (an object with a [`BlockRecord`]) `etag` and `last_modified` are those of the record, so that they are
/// the same from every tier; `upstream_etag` is what conditions towards the upstream must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Length in bytes.
    pub size_bytes: u64,
    /// ETag without quotes.
    pub etag: String,
    /// The upstream's own ETag without quotes.
    pub upstream_etag: String,
    /// When the object was stored.
    pub last_modified: SystemTime,
    /// The client's attributes, [`RECORD_META`] taken out.
    pub attributes: Attributes,
    /// blockgate's record, where the object carries a sound one.
    pub record: Option<BlockRecord>,
    /// Number of object tags, where the upstream says.
    pub tag_count: u32,
    /// Number of parts, where the upstream keeps them apart.
    pub parts_count: Option<u32>,
}

impl ObjectInfo {
    /// Describes an object from what an upstream returned: finds the record among the user metadata, takes it out, and
    /// lets it decide ETag and time. A record whose length is not the object's is not this object's record.
    #[must_use]
    pub fn from_upstream(size_bytes: u64, etag: String, last_modified: SystemTime, mut attributes: Attributes) -> Self {
        let record = attributes
            .user
            .remove(RECORD_META)
            .and_then(|text| BlockRecord::parse(&text).ok())
            .filter(|record| record.len_bytes == size_bytes);
        Self {
            size_bytes,
            etag: record.map_or_else(|| etag.clone(), |record| record.etag().to_string()),
            upstream_etag: etag,
            last_modified: record.map_or(last_modified, |record| record.stored_at),
            attributes,
            record,
            tag_count: 0,
            parts_count: None,
        }
    }

    /// The fingerprint that the block was stored for.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.attributes.user.get(FINGERPRINT_META).map(String::as_str)
    }

    /// When it must no longer be served.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.record.and_then(|record| record.expires_at)
    }

    /// The checksum that the bytes must have, where known.
    #[must_use]
    pub fn crc64(&self) -> Option<Crc64> {
        self.record.map(|record| record.crc64)
    }
}

/// A fingerprint as tables and the staging log keep it; 0 is none. The same in every process.
#[must_use]
pub fn fingerprint_hash(fingerprint: Option<&str>) -> u64 {
    fingerprint.map_or(0, |text| xxh3_64(text.as_bytes()).max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn record_roundtrip(crc in any::<u64>(), len in any::<u64>(), stored in 0u64..1 << 45, expires in proptest::option::of(0u64..1 << 45), group in proptest::option::of(any::<u128>()), tenant in proptest::option::of(any::<u64>())) {
            let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
            let record = BlockRecord {
                crc64: Crc64::from_u64(crc),
                len_bytes: len,
                stored_at: at(stored),
                expires_at: expires.map(at),
                group: group.map(GroupId),
                tenant: tenant.map(TenantId),
            };
            prop_assert_eq!(BlockRecord::parse(&record.to_string()), Ok(record));
        }

        #[test]
        fn hostile_records_are_refused(text in "[ -~]{0,80}") {
            prop_assume!(!text.starts_with("v=1;crc64nvme="));
            prop_assert!(BlockRecord::parse(&text).is_err());
        }
    }

    #[test]
    fn a_fingerprint_has_one_hash_in_every_process() {
        assert_eq!(fingerprint_hash(None), 0);
        // As the reference implementation of XXH3 says: logs on disk hold these.
        assert_eq!(fingerprint_hash(Some("")), 0x2d06_8005_38d3_94c2);
        assert_ne!(fingerprint_hash(Some("a")), fingerprint_hash(Some("b")));
    }

    #[test]
    fn a_group_is_written_in_one_way() {
        let parse =
            |group: &str| BlockRecord::parse(&format!("v=1;crc64nvme=00000000000000ff;len=4;stored=1000{group}"));
        assert_eq!(parse("").unwrap().group, None);
        assert_eq!(parse(&format!(";group={:032x}", 10)).unwrap().group, Some(GroupId(10)));
        let digits = |digit: &str, count| format!(";group={}", digit.repeat(count));
        for group in [
            ";group".into(),
            digits("0", 0),
            digits("0", 31),
            digits("0", 33),
            digits("A", 32),
            digits("g", 32),
            digits("+1", 16),
            format!("{0}{0}", digits("1", 32)),
        ] {
            assert!(parse(&group).is_err(), "{group}");
        }
    }

    #[test]
    fn a_record_of_another_length_is_not_believed() {
        let record = "v=1;crc64nvme=00000000000000ff;len=4;stored=1000";
        let attributes =
            Attributes { user: [(RECORD_META.to_owned(), record.to_owned())].into(), ..Attributes::default() };
        let info = |size| ObjectInfo::from_upstream(size, "up".into(), UNIX_EPOCH, attributes.clone());
        assert_eq!(info(4).etag, "00000000000000ff0000000000000004-1");
        assert_eq!(info(4).attributes.user.len(), 0);
        assert_eq!((info(5).etag.as_str(), info(5).record), ("up", None));
        assert_eq!(info(5).attributes.user.len(), 0);
    }
}
