//! ETags of parts in kv buckets.
//!
//! Complete must know the checksum and the length of every part to make one block of them, and any gateway may be asked to
//! complete. So the part's ETag carries both, before the upstream's own: `<crc64><length>-p<upstream's>`, the first two
//! as 16 hexadecimal digits each. The dash keeps clients from taking it for an MD5. An ETag of another form (from a
//! listing at the upstream, or of a copied range) is taken as the upstream's own, its checksum unknown.

use blockgate_block::Crc64;

/// The ETag of a part.
pub(crate) fn part_etag(crc64: Crc64, len_bytes: u64, upstream_etag: &str) -> String {
    format!("{crc64}{len_bytes:016x}-p{upstream_etag}")
}

/// What the ETag of a part says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartTag<'a> {
    /// Checksum and length, where known.
    pub(crate) known: Option<(Crc64, u64)>,
    pub(crate) upstream_etag: &'a str,
}

impl<'a> PartTag<'a> {
    pub(crate) fn parse(etag: &'a str) -> Self {
        Self::parse_known(etag).unwrap_or(Self { known: None, upstream_etag: etag })
    }

    fn parse_known(etag: &'a str) -> Option<Self> {
        let (numbers, upstream_etag) = etag.split_once("-p")?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if numbers.len() != 32 || !numbers.bytes().all(is_hex) || upstream_etag.is_empty() {
            return None;
        }
        let (crc64, len_bytes) = numbers.split_at(16);
        Some(Self { known: Some((crc64.parse().ok()?, u64::from_str_radix(len_bytes, 16).ok()?)), upstream_etag })
    }
}

/// Checksum and length of the parts joined; `None` if one is unknown, or there is none.
pub(crate) fn joined(parts: &[PartTag<'_>]) -> Option<(Crc64, u64)> {
    let mut joined: Option<(Crc64, u64)> = None;
    for part in parts {
        let (crc64, len_bytes) = part.known?;
        joined = Some(match joined {
            None => (crc64, len_bytes),
            Some((before, len_before)) => (before.followed_by(crc64, len_bytes), len_before.checked_add(len_bytes)?),
        });
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn etags_are_read_back(crc in any::<u64>(), len in any::<u64>(), upstream in "[0-9a-f-]{1,40}") {
            let etag = part_etag(Crc64::from_u64(crc), len, &upstream);
            let tag = PartTag { known: Some((Crc64::from_u64(crc), len)), upstream_etag: upstream.as_str() };
            prop_assert_eq!(PartTag::parse(&etag), tag);
        }

        #[test]
        fn other_etags_are_the_upstreams(etag in "[0-9a-f]{32}|[0-9a-f]{32}-[0-9]{1,4}|[ -~]{0,60}") {
            prop_assume!(!etag.contains("-p"));
            prop_assert_eq!(PartTag::parse(&etag), PartTag { known: None, upstream_etag: etag.as_str() });
        }

        #[test]
        fn joined_parts_have_the_checksum_of_the_whole(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..6)) {
            let tags: Vec<String> = parts.iter().map(|part| part_etag(Crc64::of(part), part.len() as u64, "e")).collect();
            let tags: Vec<PartTag<'_>> = tags.iter().map(|tag| PartTag::parse(tag)).collect();
            let whole = parts.concat();
            prop_assert_eq!(joined(&tags), Some((Crc64::of(&whole), whole.len() as u64)));
        }
    }

    #[test]
    fn one_unknown_part_makes_the_whole_unknown() {
        let known = part_etag(Crc64::of(b"a"), 1, "e");
        assert_eq!(joined(&[PartTag::parse(&known), PartTag::parse("plain")]), None);
        assert_eq!(joined(&[]), None);
        let endless = part_etag(Crc64::of(b"a"), u64::MAX, "e");
        assert_eq!(joined(&[PartTag::parse(&endless), PartTag::parse(&endless)]), None);
    }
}
