//! Where in a JSON text something is: for messages about text that was refused.

/// An object or an array that is open.
enum Level {
    Object { name: String, expects_name: bool },
    Array(usize),
}

/// A place in a JSON text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The field, as in `ranges[1].offset`; empty at the top.
    pub(crate) field: String,
    /// How many objects and arrays are open.
    pub(crate) depth: usize,
}

/// The place at a byte of `text`; what is no JSON gives some place.
pub(crate) fn place_at(text: &[u8], offset: usize) -> Place {
    let mut levels: Vec<Level> = Vec::new();
    let (mut text_start, mut escaped) = (None, false);
    for (at, &byte) in text.iter().enumerate().take(offset) {
        match (byte, text_start) {
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (b'"', Some(start)) => {
                text_start = None;
                if let Some(Level::Object { name, expects_name: true }) = levels.last_mut() {
                    *name = String::from_utf8_lossy(&text[start..at]).into_owned();
                }
            }
            (b'"', None) => text_start = Some(at + 1),
            (_, Some(_)) => {}
            (b'{', None) => levels.push(Level::Object { name: String::new(), expects_name: true }),
            (b'[', None) => levels.push(Level::Array(0)),
            (b'}' | b']', None) => drop(levels.pop()),
            (b':' | b',', None) => step(levels.last_mut(), byte),
            _ => {}
        }
    }
    let mut field = String::new();
    for level in &levels {
        match level {
            Level::Object { name, .. } if name.is_empty() => {}
            Level::Object { name, .. } if field.is_empty() => field.push_str(name),
            Level::Object { name, .. } => field.extend([".", name]),
            Level::Array(index) => field.push_str(&format!("[{index}]")),
        }
    }
    Place { field, depth: levels.len() }
}

fn step(level: Option<&mut Level>, byte: u8) {
    match level {
        Some(Level::Object { expects_name, .. }) => *expects_name = byte == b',',
        Some(Level::Array(index)) if byte == b',' => *index += 1,
        _ => {}
    }
}

/// The byte that serde counts as `line` and `column`, both from 1.
pub(crate) fn offset_of(text: &[u8], line: usize, column: usize) -> usize {
    let mut start = 0;
    for _ in 1..line {
        let rest = text.get(start..).unwrap_or_default();
        start += rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
    }
    (start + column).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(before: &str) -> (String, usize) {
        let Place { field, depth } = place_at(before.as_bytes(), before.len());
        (field, depth)
    }

    #[test]
    fn places() {
        for (before, field, depth) in [
            ("", "", 0),
            (r#"{"keys":["a","b]\"",5"#, "keys[2]", 2),
            (r#"{"a":1,"ranges":[{"offset":0,"length":1},{"offset":"x""#, "ranges[1].offset", 3),
            (r#"{"keys":[],"deadline_ms":"soon""#, "deadline_ms", 1),
            ("]]}}", "", 0),
        ] {
            assert_eq!(place(before), (field.to_owned(), depth), "{before}");
        }
    }

    #[test]
    fn lines_and_columns() {
        let text = b"{\n \"a\": 1\n}";
        assert_eq!(offset_of(text, 1, 1), 1);
        assert_eq!(offset_of(text, 2, 3), 5);
        assert_eq!(offset_of(text, 9, 9), text.len());
    }
}
