//! Documents that requests carry, read strictly before s3s reads them kindly.
//!
//! s3s skips what it does not know, ignores CDATA, DTDs and processing instructions, and takes `1x` for a number. What
//! passes here is XML 1.0 of UTF-8 characters without any of these, and has the shape that its operation has on S3.

mod reader;
mod shape;

use crate::refusal::Refused;

/// Deepest nesting of a JSON document.
const JSON_DEPTH_MAX: usize = 32;

fn malformed(what: &'static str) -> Refused {
    Refused::new("MalformedXML", what)
}

/// Refuses a document that is not what `operation` (the name s3s gives it) reads. An empty one is left to s3s, which
/// knows whether it may be empty.
pub(crate) fn check(operation: &str, document: &[u8]) -> Result<(), Refused> {
    if document.is_empty() {
        return Ok(());
    }
    if operation == "PutBucketPolicy" {
        return check_json(document);
    }
    reader::check(document, shape::root_of(operation))
}

fn check_json(document: &[u8]) -> Result<(), Refused> {
    let malformed = || Refused::new("MalformedPolicy", "The policy is not valid JSON, or nested too deeply.");
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for &byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth = depth.checked_sub(1).ok_or_else(malformed)?,
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return Err(malformed());
        }
    }
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(document).map_err(|_| malformed())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_json_objects_of_bounded_depth() {
        let policy = |text: &str| check("PutBucketPolicy", text.as_bytes()).map_err(|refused| refused.code);
        assert_eq!(policy(r#"{"Version":"2012-10-17","Statement":[{"a":"]]]{\"{"}]}"#), Ok(()));
        assert_eq!(policy(&format!("{{\"a\":{}1{}}}", "[".repeat(31), "]".repeat(31))), Ok(()));
        assert_eq!(policy(&format!("{{\"a\":{}1{}}}", "[".repeat(32), "]".repeat(32))), Err("MalformedPolicy"));
        for text in ["[]", "{", "}{", "null", "{\"a\":1}}", "<x/>", &"[".repeat(100_000)] {
            assert_eq!(policy(text), Err("MalformedPolicy"));
        }
    }
}
