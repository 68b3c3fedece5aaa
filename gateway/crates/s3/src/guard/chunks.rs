//! The framing of `aws-chunked` bodies, watched while it passes by.
//!
//! s3s takes the chunks apart and verifies their signatures, but takes sizes with anything behind their digits, a body
//! without its last chunk, and trailers that are missing or were never announced. What passes here has exactly the form
//! that the headers announced:
//! ```text
//! <hex size>[;chunk-signature=<64 hex>]\r\n <bytes> \r\n     … until a size of 0, which has no bytes and no \r\n, then
//! [<trailer>:<value>\r\n [x-amz-trailer-signature:<64 hex>\r\n]] \r\n
//! ```

use super::payload::Chunked;
use crate::refusal::Refused;

/// Longest line before a chunk's bytes.
const SIZE_LINE_BYTES_MAX: usize = 128;
/// Most hex digits of a size: s3s reads 32 bits.
const SIZE_DIGITS_MAX: usize = 8;
/// Longest trailer section.
const TRAILER_BYTES_MAX: usize = 1024;
const SIGNATURE_FIELD: &[u8] = b"chunk-signature=";
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// Follows one body.
#[derive(Debug)]
pub(crate) struct ChunkWatch {
    shape: Chunked,
    state: State,
    decoded_len: u64,
}

#[derive(Debug)]
enum State {
    /// Within the line that begins a chunk.
    Size(Vec<u8>),
    /// Within a chunk's bytes: how many are missing.
    Bytes(u64),
    /// Behind a chunk's bytes: `\r`, then `\n`.
    Return,
    Feed,
    /// Behind the line of the last chunk: everything to the end of the body.
    Trailer(Vec<u8>),
}

fn malformed(what: &'static str) -> Refused {
    Refused::new("IncompleteBody", what)
}

impl ChunkWatch {
    pub(crate) fn new(shape: Chunked) -> Self {
        Self { shape, state: State::Size(Vec::new()), decoded_len: 0 }
    }

    /// Follows the next bytes of the body.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        while !bytes.is_empty() {
            bytes = self.step(bytes)?;
        }
        Ok(())
    }

    /// Follows some of `bytes` (at least one) and returns the others.
    fn step<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Refused> {
        match &mut self.state {
            State::Size(line) => {
                let end = bytes.iter().position(|&b| b == b'\n').map(|at| at + 1);
                let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                if line.len() + part.len() > SIZE_LINE_BYTES_MAX {
                    return Err(malformed("The line before a chunk is too long."));
                }
                line.extend_from_slice(part);
                if end.is_some() {
                    let size = size_of(line, self.shape.signed)?;
                    self.begin(size)?;
                }
                Ok(rest)
            }
            State::Bytes(missing) => {
                let taken = usize::try_from(*missing).unwrap_or(usize::MAX).min(bytes.len());
                *missing -= taken as u64;
                if *missing == 0 {
                    self.state = State::Return;
                }
                Ok(&bytes[taken..])
            }
            State::Return if bytes[0] == b'\r' => {
                self.state = State::Feed;
                Ok(&bytes[1..])
            }
            State::Feed if bytes[0] == b'\n' => {
                self.state = State::Size(Vec::new());
                Ok(&bytes[1..])
            }
            State::Return | State::Feed => Err(malformed("A chunk is not as long as its size says.")),
            State::Trailer(text) => {
                if text.len() + bytes.len() > TRAILER_BYTES_MAX {
                    return Err(malformed("There is data after the last chunk."));
                }
                text.extend_from_slice(bytes);
                Ok(&[])
            }
        }
    }

    fn begin(&mut self, size: u64) -> Result<(), Refused> {
        self.decoded_len += size;
        if self.decoded_len > self.shape.decoded_len {
            return Err(malformed("The chunks hold more than x-amz-decoded-content-length says."));
        }
        if size == 0 && self.decoded_len < self.shape.decoded_len {
            return Err(malformed("The chunks hold less than x-amz-decoded-content-length says."));
        }
        self.state = if size == 0 { State::Trailer(Vec::new()) } else { State::Bytes(size) };
        Ok(())
    }

    /// Whether the body may end here.
    pub(crate) fn end(&self) -> Result<(), Refused> {
        match &self.state {
            State::Trailer(text) => check_trailer(text, &self.shape),
            _ => Err(malformed("The body ends before its last chunk.")),
        }
    }
}

/// Reads the line before a chunk, `\r\n` included.
fn size_of(line: &[u8], signed: bool) -> Result<u64, Refused> {
    let line = line.strip_suffix(b"\r\n").ok_or_else(|| malformed("A chunk's size does not end in CRLF."))?;
    let mut fields = line.splitn(2, |&b| b == b';');
    let digits = fields.next().unwrap_or_default();
    if digits.is_empty() || digits.len() > SIZE_DIGITS_MAX || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(malformed("A chunk's size is not a hexadecimal number."));
    }
    let signature_fits = match fields.next() {
        Some(field) if signed => field.strip_prefix(SIGNATURE_FIELD).is_some_and(is_signature),
        field => field.is_none() && !signed,
    };
    if !signature_fits {
        return Err(malformed("A chunk's signature is malformed, missing, or was not announced."));
    }
    let text = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16).map_err(|_| malformed("A chunk's size is not a hexadecimal number."))
}

fn is_signature(text: &[u8]) -> bool {
    text.len() == 64 && text.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
}

/// Exactly the announced trailer and, where chunks are signed, its signature; a blank line last. Lines may end in a bare
/// LF, and a blank line may stand before the signature: that is how the signing of the AWS documentation's example reads,
/// and some clients write it so.
fn check_trailer(text: &[u8], shape: &Chunked) -> Result<(), Refused> {
    let text = std::str::from_utf8(text).map_err(|_| malformed("The trailer is not ASCII."))?;
    let ended = if shape.trailer.is_some() { text.ends_with("\n\r\n") } else { text == "\r\n" };
    if !ended {
        return Err(malformed("The body does not end in a blank line."));
    }
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).filter(|line| !line.is_empty());
    let mut wanted = shape.trailer.into_iter().chain(shape.trailer.filter(|_| shape.signed).map(|_| TRAILER_SIGNATURE));
    for line in lines {
        let name = line.split_once(':').map(|(name, _)| name);
        if name.is_none_or(|name| wanted.next().is_none_or(|wanted| !wanted.eq_ignore_ascii_case(name))) {
            return Err(malformed("The trailer is not the one that was announced."));
        }
    }
    if wanted.next().is_some() {
        return Err(malformed("The trailer that was announced did not come."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CRC: &str = "x-amz-checksum-crc32";

    fn shape(signed: bool, trailer: bool, decoded_len: u64) -> Chunked {
        Chunked { signed, trailer: trailer.then_some(CRC), decoded_len }
    }

    fn watch(shape: Chunked, body: &[u8], step: usize) -> bool {
        let mut watch = ChunkWatch::new(shape);
        body.chunks(step).all(|part| watch.follow(part).is_ok()) && watch.end().is_ok()
    }

    fn signed(text: &str) -> String {
        text.replace("SIG", &"0123456789abcdef".repeat(4))
    }

    /// A sound body of every mode, 11 bytes in two chunks.
    fn sound() -> Vec<(Chunked, String)> {
        vec![
            (shape(false, true, 11), format!("6\r\nhello \r\n5\r\nworld\r\n0\r\n{CRC}:DUoRhQ==\r\n\r\n")),
            (
                shape(true, false, 11),
                signed(
                    "6;chunk-signature=SIG\r\nhello \r\n5;chunk-signature=SIG\r\nworld\r\n0;chunk-signature=SIG\r\n\r\n",
                ),
            ),
            (
                shape(true, true, 11),
                signed(&format!(
                    "b;chunk-signature=SIG\r\nhello world\r\n0;chunk-signature=SIG\r\n\
                     {CRC}:DUoRhQ==\r\nx-amz-trailer-signature:SIG\r\n\r\n"
                )),
            ),
            (
                shape(true, true, 11),
                signed(&format!(
                    "0B;chunk-signature=SIG\r\nhello world\r\n0;chunk-signature=SIG\r\n\
                     {CRC}:DUoRhQ==\n\r\nx-amz-trailer-signature:SIG\r\n\r\n"
                )),
            ),
        ]
    }

    #[test]
    fn sound_bodies_pass_however_they_arrive() {
        for (shape, body) in sound() {
            for step in [1, 2, 3, 7, 4096] {
                assert!(watch(shape.clone(), body.as_bytes(), step), "{body} by {step}");
            }
        }
        assert!(watch(shape(false, true, 0), format!("0\r\n{CRC}:AAAAAA==\r\n\r\n").as_bytes(), 9));
    }

    #[test]
    fn a_body_cut_anywhere_is_refused() {
        for (shape, body) in sound() {
            for len in 0..body.len() {
                assert!(!watch(shape.clone(), &body.as_bytes()[..len], 4096), "{body} cut to {len}");
            }
        }
    }

    #[test]
    fn anything_behind_the_end_is_refused() {
        for (shape, body) in sound() {
            for more in ["x", "0\r\n\r\n", "5\r\nworld\r\n", "a:b\r\n\r\n", "\r\nx:y\r\n\r\n"] {
                assert!(!watch(shape.clone(), format!("{body}{more}").as_bytes(), 4096), "{body} + {more}");
            }
        }
    }

    #[test]
    fn odd_sizes_are_refused() {
        for size in [
            "+b",
            "-b",
            "0xb",
            " b",
            "b ",
            "b;",
            "b;x=1",
            "",
            "b\t",
            "g",
            "000000000000b",
            "8000000000000000",
            "ffffffff",
            "b\r",
            "b\n",
        ] {
            let body = format!("{size}\r\nhello world\r\n0\r\n{CRC}:DUoRhQ==\r\n\r\n");
            assert!(!watch(shape(false, true, 11), body.as_bytes(), 4096), "{size:?}");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for (_, body) in sound() {
            for decoded_len in [0, 10, 12] {
                let shape = Chunked { decoded_len, ..shape(body.contains("SIG"), body.contains(CRC), 0) };
                assert!(!watch(shape, body.as_bytes(), 4096), "{body} as {decoded_len}");
            }
        }
        for body in ["a\r\nhello world\r\n0\r\n", "c\r\nhello world\r\n0\r\n", "b\r\nhello world0\r\n"] {
            let body = format!("{body}{CRC}:DUoRhQ==\r\n\r\n");
            assert!(!watch(shape(false, true, 11), body.as_bytes(), 4096), "{body}");
        }
    }

    #[test]
    fn trailers_and_signatures_are_those_that_were_announced() {
        let unsigned = |end: &str| watch(shape(false, true, 5), format!("5\r\nworld\r\n0\r\n{end}").as_bytes(), 4096);
        let crc = format!("{CRC}:AAAAAA==\r\n");
        assert!(unsigned(&format!("{crc}\r\n")));
        for end in [
            "\r\n".to_owned(),
            String::new(),
            crc.clone(),
            format!("{crc}{crc}\r\n"),
            format!("{crc}x-amz-meta-a:b\r\n\r\n"),
            "x-amz-checksum-sha1:AAAA\r\n\r\n".to_owned(),
            signed(&format!("{crc}x-amz-trailer-signature:SIG\r\n\r\n")),
            format!("{CRC}\r\n\r\n"),
        ] {
            assert!(!unsigned(&end), "{end:?}");
        }
        // Signatures missing where announced, or there where not.
        let plain = "5\r\nworld\r\n0\r\n\r\n";
        assert!(!watch(shape(true, false, 5), plain.as_bytes(), 4096));
        let whole = signed("5;chunk-signature=SIG\r\nworld\r\n0;chunk-signature=SIG\r\n\r\n");
        assert!(watch(shape(true, false, 5), whole.as_bytes(), 4096));
        assert!(!watch(shape(true, false, 5), whole.replace("0123", "012").as_bytes(), 4096));
        assert!(!watch(shape(true, false, 5), whole.replace("abcdef", "ABCDEF").as_bytes(), 4096));
        assert!(!watch(shape(true, true, 5), whole.as_bytes(), 4096));
        assert!(!watch(shape(false, true, 5), whole.as_bytes(), 4096));
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut watch = ChunkWatch::new(shape(false, true, 11));
        assert!((0..200).any(|_| watch.follow(b"0").is_err()));
        let mut watch = ChunkWatch::new(shape(false, true, 0));
        watch.follow(b"0\r\n").unwrap();
        assert!((0..2000).any(|_| watch.follow(b"x").is_err()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200), signed: bool, trailer: bool) {
            let _ = watch(shape(signed, trailer, 20), &body, 7);
        }

        #[test]
        fn any_cut_into_chunks_passes(cuts in proptest::collection::vec(1usize..300, 1..12), step in 1usize..64) {
            let total: usize = cuts.iter().sum();
            let mut body = Vec::new();
            for cut in cuts {
                body.extend_from_slice(format!("{cut:x}\r\n").as_bytes());
                body.extend(std::iter::repeat_n(b'\n', cut));
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(format!("0\r\n{CRC}:AAAAAA==\r\n\r\n").as_bytes());
            prop_assert!(watch(shape(false, true, total as u64), &body, step));
        }
    }
}
