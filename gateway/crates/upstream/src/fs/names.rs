//! Where a key is kept: file names that nothing can take for a path, and back.
//!
//! An ordinary key reads as itself: `meta-llama/Llama-3@1@0@9f3c@bf16` is the file `Llama-3@1@0@9f3c@bf16` in the
//! directory `meta-llama.d`. The rule, in full:
//!
//! * A key is cut at each `/`. What stands before a `/` names a directory and ends in `.d`; what stands after the last
//!   one names the file. So the object `a` (file `a`) and objects under `a/` (in directory `a.d`) never meet.
//! * An empty segment is `%`: `a/` is `a.d/%`, `//b` is `%.d/%.d/b`.
//! * Control characters, DEL, `%`, `\`, everything beyond ASCII, and a `.` that begins a name are written `%XX`, one per
//!   byte of UTF-8: no name is `.`, `..` or hidden, and no file system can fold two Unicode spellings into one.
//! * The dot of an object's name that ends in `.d` or `.long` is written `%2E`.
//! * A segment is cut after the first character with which its written form reaches 232 bytes; the part before
//!   the cut is a directory that ends in `.long`, what follows (maybe nothing: `%`) goes on inside it.
//! * Below 32 `.d` directories the rest of the key is one segment, and `/` is written `%2F`.
//!
//! A name that this rule does not produce stands for no key and is left alone. Every name is at most 248 bytes. Of the keys of one
//! directory, those in a `.d` directory all begin with its segment and `/`, those in a `.long` directory with its text, and no
//! other key does: sorting a directory's entries by those prefixes sorts the keys.

use blockgate_block::RESERVED_PREFIX;

/// Written length at which a segment is cut.
const CUT_BYTES: usize = 232;

/// `.d` directories on one path.
const LEVELS_MAX: usize = 32;

/// Directories on one path: more than any key needs, so that what others put there can't lead on for ever.
pub(super) const DIRS_MAX: usize = 64;

const FOLDER: &str = ".d";
const LONG: &str = ".long";
const EMPTY: &str = "%";

/// The path of a key below its bucket's directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPath {
    /// Directories, outermost first.
    pub(super) dirs: Vec<String>,
    /// The file in the last of them.
    pub(super) file: String,
}

/// Whether a key, or all keys that begin with `name`, are left out of a listing of `prefix`.
pub(super) fn is_hidden(name: &str, prefix: &str) -> bool {
    name.starts_with(RESERVED_PREFIX) && !prefix.starts_with(RESERVED_PREFIX)
}

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object: its key ends with the text.
    Object,
    /// A directory: its keys go on with the text, which ends in `/`.
    Folder,
    /// A directory: its keys go on with the text.
    Long,
}

/// How far below its bucket's directory a directory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    /// `.d` directories above its entries.
    levels: usize,
    /// All directories above its entries, the bucket's apart.
    dirs: usize,
}

impl Depth {
    /// Whether this is the bucket's own directory.
    pub(super) fn is_bucket(self) -> bool {
        self.dirs == 0
    }

    /// The depth of an entry's entries; `None` where it has none.
    pub(super) fn below(self, kind: Kind) -> Option<Self> {
        let levels = self.levels + usize::from(kind == Kind::Folder);
        (kind != Kind::Object && self.dirs < DIRS_MAX).then_some(Self { levels, dirs: self.dirs + 1 })
    }
}

impl KeyPath {
    /// The path of `key`.
    pub(super) fn of(key: &str) -> Self {
        let mut dirs = Vec::new();
        let mut rest = key;
        for _ in 0..LEVELS_MAX {
            let Some((segment, tail)) = rest.split_once('/') else { break };
            let end = push_long(&mut dirs, segment);
            dirs.push(folder(end));
            rest = tail;
        }
        let end = push_long(&mut dirs, rest);
        Self { dirs, file: object(end) }
    }
}

/// Reads a name: its kind, and the text that it adds to the keys. `None` where no key leads to the name.
pub(super) fn decode(name: &str, depth: Depth) -> Option<(Kind, String)> {
    let (kind, written) = match (name.strip_suffix(FOLDER), name.strip_suffix(LONG)) {
        (Some(written), _) => (Kind::Folder, written),
        (_, Some(written)) => (Kind::Long, written),
        _ => (Kind::Object, name),
    };
    let mut text = if written == EMPTY { String::new() } else { unescape(written)? };
    let flat = depth.levels >= LEVELS_MAX;
    let (again, whole) = match kind {
        Kind::Object => (object(&text), cut(&text).is_none()),
        Kind::Folder => (folder(&text), cut(&text).is_none() && !flat),
        Kind::Long => (long(&text), cut(&text) == Some(text.len())),
    };
    let ours = again == name && whole && (flat || !text.contains('/')) && !text.contains('\0');
    if kind == Kind::Folder {
        text.push('/');
    }
    ours.then_some((kind, text))
}

/// Pushes the `.long` directories of a segment; returns what remains of it.
fn push_long<'a>(dirs: &mut Vec<String>, mut segment: &'a str) -> &'a str {
    while let Some(at) = cut(segment) {
        let (head, tail) = segment.split_at(at);
        dirs.push(long(head));
        segment = tail;
    }
    segment
}

/// Where a segment is cut: after the character that makes its written form [`CUT_BYTES`] long. Depends on what stands
/// before the cut alone, so that all segments which begin alike are cut alike.
fn cut(segment: &str) -> Option<usize> {
    let mut written = 0;
    segment.char_indices().find_map(|(at, c)| {
        written += if is_escaped(at, c) { 3 * c.len_utf8() } else { 1 };
        (written >= CUT_BYTES).then_some(at + c.len_utf8())
    })
}

fn object(text: &str) -> String {
    let written = escape(text);
    for suffix in [FOLDER, LONG] {
        if let Some(head) = written.strip_suffix(suffix) {
            return format!("{head}%2E{}", &suffix[1..]);
        }
    }
    written
}

fn folder(text: &str) -> String {
    escape(text) + FOLDER
}

fn long(text: &str) -> String {
    escape(text) + LONG
}

fn is_escaped(at: usize, c: char) -> bool {
    matches!(c, '%' | '\\' | '/') || c.is_ascii_control() || !c.is_ascii() || (c == '.' && at == 0)
}

fn escape(text: &str) -> String {
    if text.is_empty() {
        return EMPTY.to_owned();
    }
    let mut written = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        if is_escaped(at, c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                written.push('%');
                written.push(hex_digit(byte >> 4));
                written.push(hex_digit(byte & 15));
            }
        } else {
            written.push(c);
        }
    }
    written
}

fn hex_digit(nibble: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(nibble & 15)])
}

/// Undoes [`escape`], loosely: [`decode`] writes the result again and compares.
fn unescape(written: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let byte = u8::from_str_radix(std::str::from_utf8(tail.get(..2)?).ok()?, 16).ok()?;
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const DEEPEST: Depth = Depth { levels: LEVELS_MAX, dirs: LEVELS_MAX };

    fn path(key: &str) -> String {
        let KeyPath { mut dirs, file } = KeyPath::of(key);
        dirs.push(file);
        dirs.join("/")
    }

    /// The key of a path, as a listing finds it.
    fn key(path: &KeyPath) -> Option<String> {
        let mut key = String::new();
        let mut depth = Depth::default();
        for dir in &path.dirs {
            let (kind, text) = decode(dir, depth)?;
            depth = depth.below(kind)?;
            key += &text;
        }
        let (kind, text) = decode(&path.file, depth)?;
        (kind == Kind::Object).then(|| key + &text)
    }

    #[test]
    fn ordinary_keys_read_as_themselves() {
        assert_eq!(path("meta-llama/Llama-3@1@0@-9f3c@bf16"), "meta-llama.d/Llama-3@1@0@-9f3c@bf16");
        assert_eq!(path("a b+c:d=1,(2)"), "a b+c:d=1,(2)");
    }

    #[test]
    fn extraordinary_keys() {
        for (key, expected) in [
            ("/a", "%.d/a"),
            ("//a", "%.d/%.d/a"),
            ("a/", "a.d/%"),
            ("a//b", "a.d/%.d/b"),
            (".", "%2E"),
            ("..", "%2E."),
            ("../../etc/passwd", "%2E..d/%2E..d/etc.d/passwd"),
            (".blockgate/x", "%2Eblockgate.d/x"),
            ("a\\b", "a%5Cb"),
            ("a%2Fb", "a%252Fb"),
            ("conf.d", "conf%2Ed"),
            ("conf.d/x", "conf.d.d/x"),
            ("a.long", "a%2Elong"),
            ("é", "%C3%A9"),
            ("e\u{301}", "e%CC%81"),
        ] {
            assert_eq!(path(key), expected, "{key:?}");
        }
    }

    #[test]
    fn long_segments_are_cut_alike_whatever_follows() {
        let head = "x".repeat(232);
        assert_eq!(path(&head[1..]), head[1..]);
        assert_eq!(path(&head), format!("{head}.long/%"));
        assert_eq!(path(&format!("{head}y/z")), format!("{head}.long/y.d/z"));
        assert_eq!(path(&format!("{head}/z")), format!("{head}.long/%.d/z"));
    }

    #[test]
    fn the_deepest_key_fits_a_path() {
        for key in ["/".repeat(1024), "./".repeat(512), "\u{1}/".repeat(512), "a/".repeat(512), "\u{1}".repeat(1024)] {
            let path = KeyPath::of(&key);
            assert!(path.dirs.len() <= LEVELS_MAX + 3 * 1024 / CUT_BYTES, "{}", path.dirs.len());
            assert!(self::path(&key).len() <= 3500);
            assert_eq!(self::key(&path), Some(key));
        }
    }

    #[test]
    fn names_of_others_are_no_keys() {
        for name in
            ["", ".d", ".hidden", ".blockgate", "a%", "%2e", "%41", "%2F", "%00", "%FF", "é", "a%zz", "%+1", "%.long"]
        {
            assert_eq!(decode(name, Depth::default()), None, "{name:?}");
        }
        assert_eq!(decode("%2F", DEEPEST), Some((Kind::Object, "/".to_owned())));
        assert_eq!(decode("a.d", DEEPEST), None);
    }

    /// Keys that crowd the rule's corners.
    fn keys() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("/".to_owned()),
            Just(".".to_owned()),
            Just("%".to_owned()),
            Just(".d".to_owned()),
            Just(".long".to_owned()),
            Just("\\".to_owned()),
            Just("%2F".to_owned()),
            Just("é".to_owned()),
            Just("\u{fffe}".to_owned()),
            Just("😀".to_owned()),
            Just("\u{7f}".to_owned()),
            Just("\u{1}".to_owned()),
            "[ -~]{1,3}",
            (60usize..260).prop_map(|n| "w".repeat(n)),
            (60usize..90).prop_map(|n| "é".repeat(n)),
            (20usize..40).prop_map(|n| "/".repeat(n)),
        ];
        proptest::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
    }

    /// What sorts entries in a listing.
    fn sort_path(path: &KeyPath) -> Vec<String> {
        let mut depth = Depth::default();
        path.dirs
            .iter()
            .chain([&path.file])
            .map(|name| {
                let (kind, text) = decode(name, depth).unwrap();
                depth = depth.below(kind).unwrap_or(depth);
                text
            })
            .collect()
    }

    proptest! {
        #[test]
        fn every_key_comes_back(key in keys()) {
            let path = KeyPath::of(&key);
            prop_assert_eq!(self::key(&path), Some(key));
            for name in path.dirs.iter().chain([&path.file]) {
                prop_assert!(!name.is_empty() && name.len() <= 255 && name.is_ascii());
                prop_assert!(!name.starts_with('.') && !name.contains(['/', '\0', '\\']));
            }
            prop_assert!(path.dirs.iter().all(|dir| dir.ends_with(".d") || dir.ends_with(".long")));
            prop_assert!(!path.file.ends_with(".d") && !path.file.ends_with(".long"));
        }

        #[test]
        fn any_name_is_one_key_or_none(name in "[ -~é]{1,12}", depth in prop_oneof![Just(Depth::default()), Just(DEEPEST)]) {
            if let Some((kind, text)) = decode(&name, depth) {
                let above = "/".repeat(depth.levels);
                let end = if kind == Kind::Long { "y" } else { "" };
                let path = KeyPath::of(&format!("{above}{text}{end}"));
                let found = if kind == Kind::Object { &path.file } else { &path.dirs[depth.levels] };
                prop_assert_eq!(found, &name);
            }
        }

        #[test]
        fn entries_sort_as_keys_do(keys in proptest::collection::btree_set(keys(), 2..8)) {
            let paths: BTreeSet<Vec<String>> = keys.iter().map(|key| sort_path(&KeyPath::of(key))).collect();
            let by_path: Vec<String> = paths.into_iter().map(|path| path.concat()).collect();
            prop_assert_eq!(by_path, keys.into_iter().collect::<Vec<_>>());
        }
    }
}
