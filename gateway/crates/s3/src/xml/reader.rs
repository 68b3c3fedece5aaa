//! Walks through a document and compares it with a shape.

use quick_xml::Reader;
use quick_xml::events::{BytesDecl, BytesStart, Event};

use super::malformed;
use super::shape::{Content, Element, Text};
use crate::refusal::Refused;

/// Deepest nesting.
const DEPTH_MAX: usize = 16;
/// Most attributes of an element.
const ATTRIBUTES_MAX: usize = 8;
/// Longest key in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// Part numbers that S3 has.
const PART_NUMBERS: std::ops::RangeInclusive<u32> = 1..=10_000;

static ANY: Content = Content::Any;

/// An element that has begun and not ended.
struct Open {
    content: &'static Content,
    /// How often each of the content's elements has come.
    times: Vec<u32>,
    text: String,
}

impl Open {
    fn new(content: &'static Content) -> Self {
        let times = if let Content::Elements(elements) = content { vec![0; elements.len()] } else { Vec::new() };
        Self { content, times, text: String::new() }
    }

    /// The content of the element `name` that begins within this one.
    fn child(&mut self, name: &str) -> Result<&'static Content, Refused> {
        let elements = match self.content {
            Content::Any => return Ok(&ANY),
            Content::Text(_) => return Err(malformed("An element stands where text was expected.")),
            Content::Elements(elements) => elements,
        };
        let at = elements.iter().position(|element| element.name == name);
        let at = at.ok_or_else(|| malformed("The document has an element that S3 does not know."))?;
        self.times[at] += 1;
        if self.times[at] > *elements[at].times.end() {
            return Err(malformed("An element comes more often than it may."));
        }
        Ok(&elements[at].content)
    }

    fn take_text(&mut self, text: &str) -> Result<(), Refused> {
        match self.content {
            Content::Text(_) => self.text.push_str(text),
            Content::Elements(_) if !is_blank(text) => return Err(malformed("Text stands between elements.")),
            _ => {}
        }
        Ok(())
    }

    /// Whether the element may end as it is.
    fn end(&self) -> Result<(), Refused> {
        match self.content {
            Content::Text(kind) => check_text(*kind, &self.text),
            Content::Elements(elements) => {
                let missing = elements.iter().zip(&self.times).any(|(element, times)| times < element.times.start());
                if missing { Err(malformed("A required element is missing.")) } else { Ok(()) }
            }
            Content::Any => Ok(()),
        }
    }
}

/// The document as far as it has been read.
struct Walk {
    root: Option<&'static Element>,
    /// From the root inwards.
    open: Vec<Open>,
    root_seen: bool,
}

/// Refuses what is not one well-formed document with the root and the shape given.
pub(super) fn check(document: &[u8], root: Option<&'static Element>) -> Result<(), Refused> {
    let text = std::str::from_utf8(document).map_err(|_| malformed("The document is not UTF-8."))?;
    if !text.chars().all(is_xml_char) {
        return Err(malformed("The document holds a character that XML does not allow."));
    }
    let mut walk = Walk { root, open: Vec::new(), root_seen: false };
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    let mut first = true;
    loop {
        let event = reader.read_event().map_err(|_| malformed("The document is not well-formed XML."))?;
        match event {
            Event::Decl(declaration) if first => check_declaration(&declaration)?,
            Event::Decl(_) => return Err(malformed("An XML declaration must come first.")),
            Event::DocType(_) => return Err(malformed("A document type is not allowed.")),
            Event::PI(_) => return Err(malformed("Processing instructions are not allowed.")),
            Event::CData(_) => return Err(malformed("CDATA sections are not allowed.")),
            Event::Comment(_) => {}
            Event::Start(start) => walk.begin(&start)?,
            Event::Empty(start) => {
                walk.begin(&start)?;
                walk.end()?;
            }
            Event::End(_) => walk.end()?,
            Event::Text(text) => walk.text(&text)?,
            Event::GeneralRef(name) => walk.text(&resolve(&name)?)?,
            Event::Eof => return walk.eof(),
        }
        first = false;
    }
}

impl Walk {
    fn begin(&mut self, start: &BytesStart<'_>) -> Result<(), Refused> {
        if self.open.len() == DEPTH_MAX {
            return Err(malformed("The document is nested too deeply."));
        }
        let name = start.name();
        let name = name.as_ref();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
            return Err(malformed("An element has a name that S3 does not know."));
        }
        check_attributes(start)?;
        let content = match self.open.last_mut() {
            Some(parent) => parent.child(name)?,
            None => self.begin_root(name)?,
        };
        self.open.push(Open::new(content));
        Ok(())
    }

    fn begin_root(&mut self, name: &str) -> Result<&'static Content, Refused> {
        if std::mem::replace(&mut self.root_seen, true) {
            return Err(malformed("The document has two roots."));
        }
        match self.root {
            None => Ok(&ANY),
            Some(root) if root.name == name => Ok(&root.content),
            Some(_) => Err(malformed("The document's root is not the one of this operation.")),
        }
    }

    fn end(&mut self) -> Result<(), Refused> {
        // The reader has compared the names of start and end.
        self.open.pop().map_or_else(|| Err(malformed("An element ends that has not begun.")), |element| element.end())
    }

    fn text(&mut self, text: &str) -> Result<(), Refused> {
        match self.open.last_mut() {
            Some(element) => element.take_text(text),
            None if is_blank(text) => Ok(()),
            None => Err(malformed("Text stands outside the root.")),
        }
    }

    fn eof(&self) -> Result<(), Refused> {
        if self.root_seen && self.open.is_empty() { Ok(()) } else { Err(malformed("The document is not complete.")) }
    }
}

fn check_declaration(declaration: &BytesDecl<'_>) -> Result<(), Refused> {
    let version_fits = declaration.version().is_ok_and(|version| version.as_ref() == "1.0");
    let encoding_fits = match declaration.encoding() {
        None => true,
        Some(Ok(name)) => ["utf-8", "utf8", "us-ascii"].iter().any(|known| name.eq_ignore_ascii_case(known)),
        Some(Err(_)) => false,
    };
    if version_fits && encoding_fits { Ok(()) } else { Err(malformed("The document must be XML 1.0 in UTF-8.")) }
}

/// Namespaces and types may be named; nothing else is said in attributes.
fn check_attributes(start: &BytesStart<'_>) -> Result<(), Refused> {
    for (count, attribute) in start.attributes().enumerate() {
        let attribute = attribute.map_err(|_| malformed("An attribute is malformed or given twice."))?;
        let name = attribute.key.as_ref();
        let known = name == "xmlns" || name.starts_with("xmlns:") || name.starts_with("xsi:");
        if !known || count == ATTRIBUTES_MAX || attribute.value.contains(['<', '&']) {
            return Err(malformed("An element has an attribute that S3 does not know."));
        }
    }
    Ok(())
}

fn check_text(kind: Text, text: &str) -> Result<(), Refused> {
    let number = || text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    let fits = match kind {
        Text::String => true,
        Text::Key if text.len() > KEY_BYTES_MAX => {
            return Err(Refused::new("KeyTooLongError", "Your key is too long."));
        }
        Text::Key => !text.is_empty(),
        Text::Bool => matches!(text, "true" | "false" | "TRUE" | "FALSE"),
        Text::Number => !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()),
        Text::PartNumber => match number() {
            Some(number) if !PART_NUMBERS.contains(&number) => {
                let message = "Part number must be an integer between 1 and 10000, inclusive.";
                return Err(Refused::new("InvalidArgument", message));
            }
            number => number.is_some(),
        },
    };
    if fits { Ok(()) } else { Err(malformed("An element holds a value that it can't have.")) }
}

/// The five entities of XML, and characters by number.
fn resolve(name: &str) -> Result<String, Refused> {
    if let Some(entity) = quick_xml::escape::resolve_xml_entity(name) {
        return Ok(entity.to_owned());
    }
    let unknown = || malformed("The document refers to an entity that it can't have.");
    let number = name.strip_prefix('#').ok_or_else(unknown)?;
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |hex| (hex, 16));
    let digits_fit = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    let code = digits_fit.then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    let c = code.and_then(char::from_u32).filter(|&c| is_xml_char(c)).ok_or_else(unknown)?;
    Ok(c.to_string())
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|b| b" \t\r\n".contains(&b))
}

/// The characters of XML 1.0.
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::check;

    fn delete(inner: &str) -> Result<(), &'static str> {
        check("DeleteObjects", format!("<Delete>{inner}</Delete>").as_bytes()).map_err(|refused| refused.code)
    }

    fn complete(inner: &str) -> Result<(), &'static str> {
        let document = format!("<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>");
        check("CompleteMultipartUpload", document.as_bytes()).map_err(|refused| refused.code)
    }

    const OBJECT: &str = "<Object><Key>a</Key></Object>";
    const MALFORMED: Result<(), &str> = Err("MalformedXML");

    #[test]
    fn what_clients_send_passes() {
        for document in [
            r#"<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a&amp;b&#13;c</Key></Object><Quiet>true</Quiet></Delete>"#,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Delete>\n  <Quiet>false</Quiet>\n  <Object><VersionId/><Key> € </Key></Object>\n</Delete>\n",
            "<!-- a comment --><Delete><Object><Key>a</Key><ETag>x</ETag><Size>12</Size></Object></Delete>",
        ] {
            assert_eq!(check("DeleteObjects", document.as_bytes()), Ok(()), "{document}");
        }
        assert_eq!(complete("<Part><ETag>\"e\"</ETag><PartNumber>10000</PartNumber></Part>"), Ok(()));
        let tagging = "<Tagging><TagSet><Tag><Key>k</Key><Value></Value></Tag></TagSet></Tagging>";
        assert_eq!(check("PutObjectTagging", tagging.as_bytes()), Ok(()));
        assert_eq!(check("PutObjectTagging", b"<Tagging><TagSet/></Tagging>"), Ok(()));
        let bucket =
            "<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>";
        assert_eq!(check("CreateBucket", bucket.as_bytes()), Ok(()));
        assert_eq!(check("PutBucketCors", b"<CORSConfiguration><CORSRule/></CORSConfiguration>"), Ok(()));
        assert_eq!(check("CreateBucket", b""), Ok(()));
    }

    #[test]
    fn what_is_not_plain_xml_is_refused() {
        assert_eq!(delete(OBJECT), Ok(()));
        for document in [
            "<!DOCTYPE Delete [<!ENTITY x \"y\">]><Delete><Object><Key>&x;</Key></Object></Delete>".to_owned(),
            "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><Delete><Object><Key>a</Key></Object></Delete>".to_owned(),
            format!("<?php x?><Delete>{OBJECT}</Delete>"),
            format!("<?xml version=\"1.1\"?><Delete>{OBJECT}</Delete>"),
            format!("<?xml version=\"1.0\" encoding=\"UTF-16\"?><Delete>{OBJECT}</Delete>"),
            format!(" <?xml version=\"1.0\"?><Delete>{OBJECT}</Delete>"),
            format!("<Delete>{OBJECT}</Delete><Delete>{OBJECT}</Delete>"),
            format!("<Delete>{OBJECT}</Delete>x"),
            format!("x<Delete>{OBJECT}</Delete>"),
            format!("<Delete>{OBJECT}"),
            format!("<Delete>{OBJECT}</Delte>"),
            format!("<Delete x=\"1\">{OBJECT}</Delete>"),
            format!("<Delete xmlns=\"a\" xmlns=\"b\">{OBJECT}</Delete>"),
            format!("<d:Delete xmlns:d=\"x\">{OBJECT}</d:Delete>"),
            format!("</Delete>{OBJECT}"),
            "not xml".to_owned(),
            " ".to_owned(),
            "<".to_owned(),
        ] {
            assert_eq!(check("DeleteObjects", document.as_bytes()).map_err(|r| r.code), MALFORMED, "{document}");
        }
        for inner in [
            "<Object><Key><![CDATA[a]]></Key></Object>",
            "<Object><Key>&unknown;</Key></Object>",
            "<Object><Key>&#0;</Key></Object>",
            "<Object><Key>&#x1;</Key></Object>",
            "<Object><Key>&#xD800;</Key></Object>",
            "<Object><Key>&#+65;</Key></Object>",
            "<Object><Key>a & b</Key></Object>",
            "<Object><Key>a\u{1}</Key></Object>",
            "<Object><Key>a\u{ffff}</Key></Object>",
        ] {
            assert_eq!(delete(inner), MALFORMED, "{inner}");
        }
        assert_eq!(check("DeleteObjects", b"<Delete>\xff</Delete>").map_err(|r| r.code), MALFORMED);
    }

    #[test]
    fn what_has_another_shape_is_refused() {
        for inner in [
            "",
            "<Quiet>true</Quiet>",
            "<Object/>",
            "<Object><Key/></Object>",
            "<Object><Key>a</Key><Key>b</Key></Object>",
            "<Object><Key>a<b/></Key></Object>",
            "<Object><Key>a</Key>text</Object>",
            "<Object><Key>a</Key><Other/></Object>",
            "<Object><Key>a</Key></Object><Quiet>true</Quiet><Quiet>false</Quiet>",
            "<Object><Key>a</Key></Object><Quiet>yes</Quiet>",
            "<object><Key>a</Key></object>",
        ] {
            assert_eq!(delete(inner), MALFORMED, "{inner}");
        }
        assert_eq!(delete(&OBJECT.repeat(1_000)), Ok(()));
        assert_eq!(delete(&OBJECT.repeat(1_001)), MALFORMED);
        let long = |len| delete(&format!("<Object><Key>{}</Key></Object>", "k".repeat(len)));
        assert_eq!((long(1024), long(1025)), (Ok(()), Err("KeyTooLongError")));
        let part = |number: &str| complete(&format!("<Part><ETag>e</ETag><PartNumber>{number}</PartNumber></Part>"));
        for number in ["", "1x", "+1", "-1", " 1", "0x1", "4294967297"] {
            assert_eq!(part(number), MALFORMED, "{number}");
        }
        assert_eq!((part("0"), part("10001")), (Err("InvalidArgument"), Err("InvalidArgument")));
        for (operation, document) in [
            ("CompleteMultipartUpload", "<Delete><Object><Key>a</Key></Object></Delete>"),
            ("PutObjectTagging", "<TagSet></TagSet>"),
            ("CreateBucket", "<CreateBucketConfiguration><Other/></CreateBucketConfiguration>"),
            ("PutBucketLifecycleConfiguration", "<Delete/>"),
        ] {
            assert_eq!(check(operation, document.as_bytes()).map_err(|r| r.code), MALFORMED, "{operation}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert_eq!(check("SelectObjectContent", nested(16).as_bytes()), Ok(()));
        assert_eq!(check("SelectObjectContent", nested(17).as_bytes()).map_err(|r| r.code), MALFORMED);
        assert_eq!(check("SelectObjectContent", "<a>".repeat(1_000_000).as_bytes()).map_err(|r| r.code), MALFORMED);
    }

    proptest! {
        #[test]
        fn no_document_makes_it_panic(text in "[<>/!?&;#xa \\[\\]\"'=CDATA-]{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = check("DeleteObjects", text.as_bytes());
            let _ = check("DeleteObjects", &bytes);
        }
    }
}
