//! The rule by which keys become names that every store keeps apart. Written down for others in `docs/adr/0002-key-mapping.md`.

use std::borrow::Cow;

use blockgate_block::RESERVED_PREFIX;
use sha2::{Digest as _, Sha256};

use super::order64::{chars_of, decode, encode, whole_chars_of};

/// Names of odd keys.
pub(super) const SHORT: &str = ".blockgate/k/";
/// Names of odd keys too long for that.
pub(super) const LONG: &str = ".blockgate/l/";
/// Longest key that gets a name under [`SHORT`]: that name has 1,021 bytes.
pub(super) const SHORT_KEY_BYTES_MAX: usize = 750;
/// Bytes of a long key that its name shows; they become one segment.
pub(super) const HEAD_BYTES: usize = 150;

/// Longest file name of all file systems, and so longest segment on stores that keep objects in files.
const SEGMENT_BYTES_MAX: usize = 255;
/// Characters of a key under [`SHORT`] in one segment.
const SEGMENT_CHARS: usize = 200;
/// Ends a segment that is not the last, so that no name is another's directory.
const GOES_ON: char = '~';

/// Whether every store keeps this key as it is, apart from all others.
pub(super) fn is_ordinary(key: &str) -> bool {
    // `.blockgate` as an object would stand in the way of the directory. The SDK takes blanks for no key.
    key != ".blockgate" && !key.trim().is_empty() && characters_are_kept(key) && key.split('/').all(segment_is_kept)
}

/// Whether ordinary keys may begin so.
pub(super) fn may_begin_ordinary(prefix: &str) -> bool {
    let (whole, last) = prefix.rsplit_once('/').map_or((None, prefix), |(whole, last)| (Some(whole), last));
    characters_are_kept(prefix)
        && whole.is_none_or(|whole| whole.split('/').all(segment_is_kept))
        && last.len() <= SEGMENT_BYTES_MAX
}

/// Where to begin to list the ordinary keys after `after`: most of those before are left out, too.
///
/// Some stores rewrite a start that no key of theirs can have, and so might begin too late.
pub(super) fn ordinary_start(after: &str) -> String {
    let is_dots = |text: &str| matches!(text.rsplit('/').next(), Some("." | ".."));
    if may_begin_ordinary(after) && !is_dots(after) {
        return after.to_owned();
    }
    // The longest beginning that ordinary keys may have, and what comes instead of what they may go on with.
    let ends: Vec<usize> = after.char_indices().map(|(at, _)| at).collect();
    let longest = ends.partition_point(|end| may_begin_ordinary(&after[..*end]));
    let begin = &after[..longest.checked_sub(1).map_or(0, |last| ends[last])];
    let next = after[begin.len()..].chars().next().unwrap_or(FIRST_KEPT);
    let last_before = (FIRST_KEPT..next).rev().take(128).map(|c| format!("{begin}{c}{LAST}"));
    let start = last_before.into_iter().find(|start| may_begin_ordinary(start));
    start.unwrap_or_else(|| if is_dots(begin) { ordinary_start(begin) } else { begin.to_owned() })
}

/// The first character that ordinary keys may hold, and the last.
const FIRST_KEPT: char = ' ';
const LAST: char = '\u{10ffff}';

fn characters_are_kept(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || matches!(c, '\\' | '\u{fffe}' | '\u{ffff}'))
}

fn segment_is_kept(segment: &str) -> bool {
    // Files of their own: SeaweedFS, versitygw, MinIO.
    let of_a_store = segment.ends_with(".versions") || matches!(segment, ".uploads" | ".sgwtmp" | ".minio.sys");
    // SeaweedFS keeps listing directories that end so after their last object is gone; others strip the ending.
    let is_stripped = segment.ends_with(['.', ' ']);
    !segment.is_empty() && !is_stripped && segment.len() <= SEGMENT_BYTES_MAX && !of_a_store
}

/// A key's name at the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// The key itself.
    Same(&'a str),
    /// The key, encoded.
    Short(String),
    /// Too long for that: the object must say what its key is.
    Long(String),
}

impl Name<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Same(name) => name,
            Self::Short(name) | Self::Long(name) => name,
        }
    }
}

/// The name of a key. Keys of blockgate's own are their own names.
pub(super) fn name_of(key: &str) -> Name<'_> {
    if is_ordinary(key) || key.starts_with(RESERVED_PREFIX) {
        Name::Same(key)
    } else if key.len() <= SHORT_KEY_BYTES_MAX {
        Name::Short(short_name(key.as_bytes()))
    } else {
        Name::Long(format!("{}{}", long_group(key.as_bytes()), digest(key)))
    }
}

/// The key of a name under [`SHORT`]; `None` if it is none.
pub(super) fn short_key(name: &str) -> Option<String> {
    let encoded = name.strip_prefix(SHORT)?;
    let plain: Cow<'_, str> = encoded.replace("~/", "").into();
    let key = String::from_utf8(decode(&plain)?).ok()?;
    (!key.is_empty() && !is_ordinary(&key) && short_name(key.as_bytes()) == name).then_some(key)
}

/// The name under [`SHORT`] of these bytes. Keeps their order; they need not be a key.
pub(super) fn short_name(bytes: &[u8]) -> String {
    in_segments(&encode(bytes))
}

/// What all names under [`SHORT`] begin with whose keys begin so.
pub(super) fn short_prefix(prefix: &str) -> String {
    let known = &prefix.as_bytes()[..prefix.len().min(SHORT_KEY_BYTES_MAX)];
    in_segments(&encode(known)[..whole_chars_of(known.len())])
}

fn in_segments(encoded: &str) -> String {
    let mut name = String::with_capacity(SHORT.len() + encoded.len() + 2 * (encoded.len() / SEGMENT_CHARS));
    name.push_str(SHORT);
    for (at, c) in encoded.chars().enumerate() {
        if at > 0 && at % SEGMENT_CHARS == 0 {
            name.push(GOES_ON);
            name.push('/');
        }
        name.push(c);
    }
    name
}

/// What the names under [`LONG`] of all keys with this head begin with.
pub(super) fn long_group(key: &[u8]) -> String {
    format!("{LONG}{}{GOES_ON}/", encode(&key[..key.len().min(HEAD_BYTES)]))
}

/// What all groups begin with whose keys begin so.
pub(super) fn long_prefix(prefix: &str) -> String {
    let known = &prefix.as_bytes()[..prefix.len().min(HEAD_BYTES)];
    format!("{LONG}{}", &encode(known)[..whole_chars_of(known.len())])
}

/// Comes just before the group of the keys with this head, and after all groups before it.
pub(super) fn before_long_group(head: &[u8]) -> String {
    format!("{LONG}{}", encode(&head[..head.len().min(HEAD_BYTES)]))
}

/// The head of a group's name.
pub(super) fn long_head(group: &str) -> Option<Vec<u8>> {
    let encoded = group.strip_prefix(LONG)?.strip_suffix("~/")?;
    decode(encoded).filter(|head| head.len() == HEAD_BYTES)
}

/// SHA-256 of a key, in hexadecimal.
pub(super) fn digest(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

const _: () = {
    let chars = chars_of(SHORT_KEY_BYTES_MAX);
    assert!(SHORT.len() + chars + 2 * ((chars - 1) / SEGMENT_CHARS) <= 1024);
    assert!(
        HEAD_BYTES.is_multiple_of(3) && chars_of(HEAD_BYTES) < SEGMENT_BYTES_MAX && SEGMENT_CHARS < SEGMENT_BYTES_MAX
    );
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_keys_are_their_own_names() {
        for key in ["a", "a/b", "m@1@0@-7f@bf16", "a b/c%2F:+é日😀", "...a", ".a", "a.b", "~", "-", &"x".repeat(255)]
        {
            assert_eq!(name_of(key), Name::Same(key));
        }
    }

    #[test]
    fn odd_keys_are_not() {
        for key in [
            " ",
            "\u{2028}",
            "/",
            "/a",
            "a/",
            "a//b",
            "a/./b",
            "..",
            "...",
            "a.",
            "a /b",
            "a\\b",
            "a\u{1}",
            "a\u{7f}",
            "a\u{85}",
            "a\u{ffff}",
            ".blockgate",
            ".uploads/x",
            "a/.versions",
            "a.versions/b",
            &"x".repeat(256),
        ] {
            assert!(matches!(name_of(key), Name::Short(_)), "{key:?}");
        }
    }

    #[test]
    fn the_documented_examples() {
        assert_eq!(name_of("/models/llama@1").as_str(), ".blockgate/k/AqpjO5KgRmxgQ54hNJ-l");
        let long = format!("/{}", "k".repeat(1023));
        let name = name_of(&long);
        assert!(matches!(name, Name::Long(_)));
        assert_eq!(name.as_str().len(), LONG.len() + 200 + 2 + 64);
    }

    #[test]
    fn lengths_at_the_edges() {
        for len in [148, 149, 150, 151, 299, 300, 301, 449, 450, 451, 749, 750, 751, 1024] {
            let key = format!("/{}", "z".repeat(len - 1));
            let name = name_of(&key);
            assert!(name.as_str().len() <= 1024, "{len}");
            assert!(name.as_str().split('/').all(|segment| !segment.is_empty() && segment.len() <= SEGMENT_BYTES_MAX));
            match name {
                Name::Short(name) => assert_eq!(short_key(&name), Some(key)),
                other => assert!(len > SHORT_KEY_BYTES_MAX, "{other:?}"),
            }
        }
    }

    #[test]
    fn starts_that_stores_would_rewrite() {
        for (after, start) in [
            ("a/b", "a/b"),
            ("a/", "a/"),
            ("/models", ".\u{10ffff}"),
            ("a//b", "a/.\u{10ffff}"),
            ("a/..", "a/.-\u{10ffff}"),
            ("a/../b", "a/...\u{10ffff}"),
            ("a\\b", "a[\u{10ffff}"),
            ("a\u{1}", "a"),
            ("a/.\u{1}", "a/-\u{10ffff}"),
            ("\u{1}", ""),
        ] {
            assert_eq!(ordinary_start(after), start, "{after:?}");
        }
        let full = "w".repeat(255);
        assert_eq!(ordinary_start(&format!("{full}w")), format!("{full}/\u{10ffff}"));
    }

    #[test]
    fn names_that_the_rule_does_not_make_are_no_keys() {
        // An ordinary key, encoded; a cut that is not where it belongs; no UTF-8; another alphabet.
        let cut = format!("{SHORT}Aq3~/-");
        for name in [short_name(b"a"), cut, short_name(b"/\xff"), format!("{SHORT}+"), SHORT.to_string(), "a".into()] {
            assert_eq!(short_key(&name), None, "{name}");
        }
    }

    #[test]
    fn prefixes_that_no_ordinary_key_has() {
        for prefix in ["/", "a//", "a/../", "a\\", "a\u{1}", ".uploads/", &"x".repeat(256)] {
            assert!(!may_begin_ordinary(prefix), "{prefix:?}");
        }
        for prefix in ["", "a", "a/", "a/..", ".uploads", "a.versions", "m@", "a/b"] {
            assert!(may_begin_ordinary(prefix), "{prefix:?}");
        }
    }

    /// Keys of the kinds that are confused, some long.
    fn keys() -> impl Strategy<Value = String> {
        let pieces = prop_oneof!["[ab/.\\\\]{1,6}", "\\PC{1,5}", Just("/".to_owned()), "[a-c]{100,300}"];
        prop::collection::vec(pieces, 1..6)
            .prop_map(|pieces| pieces.concat())
            .prop_filter("a key", |key| key.len() <= 1024 && !key.starts_with(RESERVED_PREFIX))
    }

    proptest! {
        #[test]
        fn injective_in_order_and_within_limits(a in keys(), b in keys()) {
            let (name_a, name_b) = (name_of(&a), name_of(&b));
            prop_assert_eq!(name_a == name_b, a == b);
            for (key, name) in [(&a, &name_a), (&b, &name_b)] {
                prop_assert!(is_ordinary(name.as_str()) && name.as_str().len() <= 1024);
                if let Name::Short(name) = name {
                    prop_assert_eq!(short_key(name), Some(key.clone()));
                    prop_assert!(name.starts_with(&short_prefix(key)));
                }
            }
            match (&name_a, &name_b) {
                (Name::Short(x), Name::Short(y)) => prop_assert_eq!(x.cmp(y), a.cmp(&b)),
                (Name::Long(x), Name::Long(y)) if a.as_bytes()[..HEAD_BYTES] != b.as_bytes()[..HEAD_BYTES] => {
                    prop_assert_eq!(x.cmp(y), a.cmp(&b));
                }
                _ => {}
            }
            // No name is a directory of another.
            let below = format!("{}/", name_a.as_str());
            prop_assert!(!name_b.as_str().starts_with(&below) || matches!(name_b, Name::Same(_)));
        }

        #[test]
        fn ordinary_keys_have_ordinary_prefixes(key in keys(), cut in 0usize..40) {
            let cut = (0..=cut.min(key.len())).rev().find(|at| key.is_char_boundary(*at)).unwrap();
            prop_assert!(!is_ordinary(&key) || may_begin_ordinary(&key[..cut]));
        }

        #[test]
        fn no_ordinary_key_comes_before_the_start(after in keys(), near in "[-./0~ab\u{1}]{0,3}", cut in 0usize..9) {
            let start = ordinary_start(&after);
            prop_assert!(start <= after && may_begin_ordinary(&start), "{start:?}");
            prop_assert!(!matches!(start.rsplit('/').next(), Some("." | "..")), "{start:?}");
            let cut = (0..=cut.min(after.len())).rev().find(|at| after.is_char_boundary(after.len() - at)).unwrap();
            let key = format!("{}{near}", &after[..after.len() - cut]);
            prop_assert!(!is_ordinary(&key) || key <= after || key > start, "{key:?} {start:?}");
        }

        #[test]
        fn prefixes_of_names_follow_prefixes_of_keys(prefix in keys(), rest in keys()) {
            let key = format!("{prefix}{rest}");
            prop_assume!(key.len() <= 1024);
            match name_of(&key) {
                Name::Short(name) => prop_assert!(name.starts_with(&short_prefix(&prefix))),
                Name::Long(name) => {
                    prop_assert!(name.starts_with(&long_prefix(&prefix)));
                    prop_assert!(before_long_group(key.as_bytes()) < name);
                    prop_assert_eq!(long_head(&long_group(key.as_bytes())).unwrap(), &key.as_bytes()[..HEAD_BYTES]);
                }
                Name::Same(_) => {}
            }
        }
    }
}
