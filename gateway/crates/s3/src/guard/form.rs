//! The fields of a form upload: each once, all covered by the signed policy, and the policy kept.
//!
//! s3s verifies the signature and the policy too, but takes the last of doubled fields, lets encryption fields and
//! `submit` go uncovered, asks for no condition on the bucket, and leaves the key's length to nobody.

use std::ops::Range;
use std::time::SystemTime;

use s3s::post_policy::{PostPolicy, PostPolicyCondition};

use super::credentials::check_scope;
use crate::FORM_FIELDS_BYTES_MAX;
use crate::FORM_FIELDS_MAX;
use crate::refusal::Refused;

/// Longest key in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// Longest delimiter, by RFC 2046.
const BOUNDARY_BYTES_MAX: usize = 70;
/// Bytes that must have come before the form is read again: a drip of bytes costs no more than a stream of them.
const READ_STEP_BYTES: usize = 1 << 10;
/// Fields that carry the signature itself.
const UNCOVERED: [&str; 2] = ["policy", "x-amz-signature"];

/// Reads the fields of one form while they arrive.
pub(crate) struct FormReader {
    /// `--` and the boundary.
    delimiter: Vec<u8>,
    bucket: String,
    now: SystemTime,
    fields: Vec<(String, String)>,
    /// Where the next part begins.
    next: usize,
    /// How much was there when it was last read.
    read_len: usize,
}

/// A part that is there in full, as far as it is looked at.
enum Part {
    Field { name: String, value: Range<usize>, end: usize },
    File { name: String },
}

fn malformed(what: &'static str) -> Refused {
    Refused::new("MalformedPOSTRequest", what)
}

fn denied(what: &'static str) -> Refused {
    Refused::new("AccessDenied", what)
}

fn invalid(what: &'static str) -> Refused {
    Refused::new("InvalidArgument", what)
}

impl FormReader {
    /// For a form to `bucket` at the instant `now`.
    pub(crate) fn new(content_type: &str, bucket: String, now: SystemTime) -> Result<Self, Refused> {
        let boundary = boundary_of(content_type).ok_or_else(|| malformed("The form has no boundary."))?;
        let delimiter = [b"--", boundary.as_bytes()].concat();
        Ok(Self { delimiter, bucket, now, fields: Vec::new(), next: 0, read_len: 0 })
    }

    /// Reads on in `form`, which is all that has arrived (or all there is, when `ended`). True when the fields are complete
    /// and right, and the file begins.
    pub(crate) fn read(&mut self, form: &[u8], ended: bool) -> Result<bool, Refused> {
        if !ended && form.len() < self.read_len + READ_STEP_BYTES {
            return Ok(false);
        }
        self.read_len = form.len();
        while let Some(part) = self.part(form)? {
            match part {
                Part::Field { name, value, end } => {
                    self.add(name, &form[value])?;
                    self.next = end;
                }
                Part::File { name } => {
                    check(&self.fields, &name, &self.bucket, self.now)?;
                    return Ok(true);
                }
            }
        }
        if form.len() > FORM_FIELDS_BYTES_MAX {
            return Err(malformed("The form's fields are too long."));
        }
        Ok(false)
    }

    fn add(&mut self, name: String, value: &[u8]) -> Result<(), Refused> {
        let value = std::str::from_utf8(value).map_err(|_| malformed("A field is not UTF-8."))?;
        if self.fields.len() == FORM_FIELDS_MAX {
            return Err(malformed("The form has too many fields."));
        }
        if self.fields.iter().any(|(earlier, _)| *earlier == name) {
            return Err(invalid("A field of the form is given twice."));
        }
        self.fields.push((name, value.to_owned()));
        Ok(())
    }

    /// The part at `self.next`, once enough of it is there.
    fn part(&self, form: &[u8]) -> Result<Option<Part>, Refused> {
        let rest = &form[self.next..];
        let opening = [&self.delimiter[..], b"\r\n"].concat();
        if rest.len() < opening.len() {
            return if opening.starts_with(rest) {
                Ok(None)
            } else {
                Err(malformed("The form does not begin with a part."))
            };
        }
        if !rest.starts_with(&opening) {
            return Err(malformed("A part of the form does not begin where the one before ends."));
        }
        let Some(headers_len) = find(&rest[opening.len()..], b"\r\n\r\n") else { return Ok(None) };
        let headers = &rest[opening.len()..opening.len() + headers_len];
        let (name, file_name) = disposition_of(headers)?;
        if name == "file" {
            return Ok(Some(Part::File { name: file_name.unwrap_or(name) }));
        }
        let value_at = opening.len() + headers_len + 4;
        let closing = [b"\r\n", &self.delimiter[..]].concat();
        let Some(value_len) = find(&rest[value_at..], &closing) else { return Ok(None) };
        let value = self.next + value_at..self.next + value_at + value_len;
        let end = value.end + 2;
        Ok(Some(Part::Field { name, value, end }))
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

fn boundary_of(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.trim().split_once('='));
    let (_, boundary) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.strip_prefix('"').map_or(Some(boundary), |quoted| quoted.strip_suffix('"'))?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&b);
    let fits = (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) && boundary.bytes().all(token);
    fits.then_some(boundary)
}

/// Name (in lower case) and file name of a part. Only the plainest way to write them is taken, which every reader reads
/// alike.
fn disposition_of(headers: &[u8]) -> Result<(String, Option<String>), Refused> {
    let headers = std::str::from_utf8(headers).map_err(|_| malformed("A part's headers are not UTF-8."))?;
    let mut found = None;
    for line in headers.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or_else(|| malformed("A part's header is malformed."))?;
        if name.eq_ignore_ascii_case("content-disposition") && found.replace(value.trim()).is_some() {
            return Err(malformed("A part has two dispositions."));
        }
    }
    let malformed = || malformed("A part's disposition must be: form-data; name=\"…\"[; filename=\"…\"]");
    let rest = found.and_then(|value| value.strip_prefix("form-data; name=\"")).ok_or_else(malformed)?;
    let (name, rest) = rest.split_once('"').ok_or_else(malformed)?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(malformed());
    }
    let file_name = match rest {
        "" => None,
        rest => {
            let quoted = rest.strip_prefix("; filename=\"").and_then(|rest| rest.strip_suffix('"'));
            let text = quoted.filter(|text| !text.contains(['"', '\\']) && !text.contains(char::is_control));
            Some(text.ok_or_else(malformed)?.to_owned())
        }
    };
    Ok((name.to_ascii_lowercase(), file_name))
}

/// Judges the fields by the policy among them.
fn check(fields: &[(String, String)], file_name: &str, bucket: &str, now: SystemTime) -> Result<(), Refused> {
    let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let (Some(policy), Some(_)) = (field("policy"), field("x-amz-signature")) else {
        return Err(denied("The form is not signed: it needs a policy and a signature."));
    };
    if field("x-amz-algorithm") != Some("AWS4-HMAC-SHA256") {
        return Err(invalid("The only x-amz-algorithm is AWS4-HMAC-SHA256."));
    }
    check_scope(field("x-amz-credential").unwrap_or_default()).map_err(invalid)?;
    check_date(field("x-amz-date").unwrap_or_default(), now)?;
    let key = field("key").ok_or_else(|| invalid("The form has no field named 'key'."))?;
    let key = key.replace("${filename}", file_name);
    if key.is_empty() || key.contains('\0') {
        return Err(invalid("The form's key is empty or holds a NUL."));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Refused::new("KeyTooLongError", "Your key is too long."));
    }
    let unfit = |(name, value): &(String, String)| name != "key" && value.contains(char::is_control);
    if fields.iter().any(unfit) || field("tagging").is_some() || field("x-amz-meta-").is_some() {
        return Err(invalid("A field of the form holds a value, or has a name, that it can't have."));
    }
    let policy = PostPolicy::from_base64(policy)
        .map_err(|_| Refused::new("InvalidPolicyDocument", "The form's policy is malformed."))?;
    let values = |name: &str| match name {
        "bucket" => Some(bucket),
        "key" => Some(key.as_str()),
        other => field(other),
    };
    check_policy(&policy, fields, values)
}

fn check_policy<'a>(
    policy: &PostPolicy,
    fields: &[(String, String)],
    value_of: impl Fn(&str) -> Option<&'a str>,
) -> Result<(), Refused> {
    let mut conditions = policy.conditions.iter();
    let kept = conditions.all(|condition| match condition {
        PostPolicyCondition::Eq { field, value } => value_of(field) == Some(value),
        PostPolicyCondition::StartsWith { field, prefix } => {
            value_of(field).is_some_and(|value| value.starts_with(prefix.as_str()))
        }
        // s3s knows the file's length.
        PostPolicyCondition::ContentLengthRange { .. } => true,
    });
    if !kept {
        return Err(denied("Invalid according to Policy: Policy Condition failed."));
    }
    let covered = |name: &str| {
        policy.conditions.iter().any(|condition| match condition {
            PostPolicyCondition::Eq { field, .. } | PostPolicyCondition::StartsWith { field, .. } => field == name,
            PostPolicyCondition::ContentLengthRange { .. } => false,
        })
    };
    let exempt = |name: &str| UNCOVERED.contains(&name) || name.starts_with("x-ignore-");
    let names = fields.iter().map(|(name, _)| name.as_str()).chain(["bucket"]);
    let mut names = names.filter(|name| !exempt(name));
    if names.any(|name| !covered(name)) {
        return Err(denied("Invalid according to Policy: Extra input fields."));
    }
    let form_bucket = fields.iter().find(|(name, _)| name == "bucket");
    if form_bucket.is_some_and(|(_, named)| value_of("bucket") != Some(named)) {
        return Err(denied("The form names another bucket than the one that it was sent to."));
    }
    Ok(())
}

/// A form may be old, its policy says for how long; it is not from the future.
fn check_date(date: &str, now: SystemTime) -> Result<(), Refused> {
    const FORMAT: &[time::format_description::FormatItem<'_>] =
        time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
    let date = time::PrimitiveDateTime::parse(date, FORMAT).map_err(|_| invalid("x-amz-date is malformed."))?;
    let ahead = SystemTime::from(date.assume_utc()).duration_since(now).unwrap_or_default();
    if ahead > crate::CLOCK_SKEW_MAX {
        return Err(Refused::new("RequestTimeTooSkewed", "The form is dated in the future."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    const CONDITIONS: &str = r#"{"bucket":"kv"},["starts-with","$key","up/"],{"x-amz-algorithm":"AWS4-HMAC-SHA256"},
        {"x-amz-credential":"AK/20260101/us-east-1/s3/aws4_request"},{"x-amz-date":"20260101T000000Z"},
        ["content-length-range",0,100]"#;

    fn now() -> SystemTime {
        SystemTime::from(time::macros::datetime!(2026-01-01 06:00 UTC))
    }

    fn policy(conditions: &str) -> String {
        BASE64_STANDARD.encode(format!(r#"{{"expiration":"2030-01-01T00:00:00Z","conditions":[{conditions}]}}"#))
    }

    fn fields(conditions: &str) -> Vec<(String, String)> {
        [
            ("key", "up/${filename}"),
            ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
            ("x-amz-credential", "AK/20260101/us-east-1/s3/aws4_request"),
            ("x-amz-date", "20260101T000000Z"),
            ("policy", &policy(conditions)),
            ("x-amz-signature", "00"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    fn form(fields: &[(String, String)], file: &str) -> String {
        let part = |(name, value): &(String, String)| {
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let fields: String = fields.iter().map(part).collect();
        format!(
            "{fields}--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file}\"\r\n\r\nbytes\r\n--B--\r\n"
        )
    }

    fn read(form: &str, step: usize) -> Result<bool, &'static str> {
        let mut reader = FormReader::new("multipart/form-data; boundary=B", "kv".to_owned(), now()).unwrap();
        for len in (0..form.len()).step_by(step) {
            if reader.read(&form.as_bytes()[..len], false).map_err(|refused| refused.code)? {
                return Ok(true);
            }
        }
        reader.read(form.as_bytes(), true).map_err(|refused| refused.code)
    }

    fn with(change: impl FnOnce(&mut Vec<(String, String)>)) -> Result<bool, &'static str> {
        let mut fields = fields(CONDITIONS);
        change(&mut fields);
        read(&form(&fields, "f"), 4096)
    }

    fn set(name: &str, value: &str) -> Result<bool, &'static str> {
        with(|fields| fields.iter_mut().find(|(n, _)| n == name).unwrap().1 = value.to_owned())
    }

    fn add(name: &str, value: &str) -> Result<bool, &'static str> {
        with(|fields| fields.insert(0, (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn a_sound_form_passes_however_it_arrives() {
        for step in [1, 7, 4096] {
            assert_eq!(read(&form(&fields(CONDITIONS), "f"), step), Ok(true));
        }
        assert_eq!(add("x-ignore-me", "1"), Ok(true));
        assert_eq!(add("bucket", "kv"), Ok(true));
    }

    #[test]
    fn fields_that_the_policy_does_not_cover_are_refused() {
        for name in ["acl", "x-amz-meta-a", "submit", "x-amz-server-side-encryption", "signature", "content-type"] {
            assert_eq!(add(name, "1"), Err("AccessDenied"), "{name}");
        }
        assert_eq!(read(&form(&fields(""), "f"), 4096), Err("AccessDenied"));
        let without_bucket = CONDITIONS.replace(r#"{"bucket":"kv"},"#, "");
        assert_eq!(read(&form(&fields(&without_bucket), "f"), 4096), Err("AccessDenied"));
        let other_bucket = CONDITIONS.replace(r#""kv""#, r#""other""#);
        assert_eq!(read(&form(&fields(&other_bucket), "f"), 4096), Err("AccessDenied"));
        assert_eq!(add("bucket", "other"), Err("AccessDenied"));
    }

    #[test]
    fn conditions_are_kept_by_what_is_stored() {
        assert_eq!(set("key", "elsewhere/x"), Err("AccessDenied"));
        assert_eq!(set("key", "${filename}"), Err("AccessDenied"));
        let key_is_name = CONDITIONS.replace("up/", "");
        let mut by_name = fields(&key_is_name);
        by_name[0].1 = "${filename}".to_owned();
        assert_eq!(read(&form(&by_name, ""), 4096), Err("InvalidArgument"));
        assert_eq!(read(&form(&by_name, &"k".repeat(1024)), 4096), Ok(true));
        assert_eq!(read(&form(&by_name, &"k".repeat(1025)), 4096), Err("KeyTooLongError"));
    }

    #[test]
    fn unsigned_doubled_and_malformed_forms_are_refused() {
        assert_eq!(with(|fields| fields.retain(|(name, _)| name != "policy")), Err("AccessDenied"));
        assert_eq!(with(|fields| fields.retain(|(name, _)| name != "x-amz-signature")), Err("AccessDenied"));
        assert_eq!(with(|fields| fields.retain(|(name, _)| name != "key")), Err("InvalidArgument"));
        assert_eq!(add("KEY", "up/x"), Err("InvalidArgument"));
        assert_eq!(add("x-amz-meta-a", "a\u{7}b"), Err("InvalidArgument"));
        assert_eq!(set("x-amz-algorithm", "AWS4-ECDSA-P256-SHA256"), Err("InvalidArgument"));
        assert_eq!(set("x-amz-credential", "AK/20260101/us-east-1/sts/aws4_request"), Err("InvalidArgument"));
        assert_eq!(set("x-amz-date", "yesterday"), Err("InvalidArgument"));
        assert_eq!(set("x-amz-date", "20260101T061600Z"), Err("RequestTimeTooSkewed"));
        for document in ["", "{}", "[]", "{\"expiration\":1,\"conditions\":[]}", "{\"conditions\":{}}"] {
            assert_eq!(set("policy", &BASE64_STANDARD.encode(document)), Err("InvalidPolicyDocument"), "{document}");
        }
        assert_eq!(set("policy", &policy(&"[".repeat(5_000))), Err("InvalidPolicyDocument"));
        assert_eq!(set("policy", "not base64!"), Err("InvalidPolicyDocument"));
    }

    #[test]
    fn forms_are_written_in_the_plainest_way() {
        let sound = form(&fields(CONDITIONS), "f");
        for (from, to) in [
            ("--B\r\nContent", "preamble\r\n--B\r\nContent"),
            ("form-data; name=\"key\"", "form-data; name=\"key\"; name=\"other\""),
            ("form-data; name=\"key\"", "form-data; name=key"),
            ("form-data; name=\"key\"", "form-data; name=\"k\\\"ey\""),
            ("form-data; name=\"key\"", "attachment; name=\"key\""),
            ("form-data; name=\"key\"", "form-data; name=\"\""),
            ("\r\n\r\nup/", "\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nup/"),
            ("; filename=\"f\"", "; filename=\"a\\b\""),
        ] {
            assert_eq!(read(&sound.replacen(from, to, 1), 4096), Err("MalformedPOSTRequest"), "{to}");
        }
        assert_eq!(read("--B--\r\n", 4096), Err("MalformedPOSTRequest"));
        assert_eq!(read(&sound[..sound.len() / 2], 4096), Ok(false));
        assert_eq!(
            read(&format!("--B\r\nContent-Disposition: {}", "x".repeat(200_000)), 4096),
            Err("MalformedPOSTRequest")
        );
        for content_type in
            ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=a b"]
        {
            assert!(FormReader::new(content_type, "kv".to_owned(), now()).is_err(), "{content_type}");
        }
        let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
        assert!(FormReader::new(&long, "kv".to_owned(), now()).is_err());
    }
}
