//! `aws-chunked` in all its modes: whole, forged, cut, longer or shorter than it says.

use super::client::exchange;
use super::server::secret;
use super::{Draft, Server, assert_done, assert_refused};

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Signed,
    SignedTrailer,
    UnsignedTrailer,
}

const MODES: [Mode; 3] = [Mode::Signed, Mode::SignedTrailer, Mode::UnsignedTrailer];
/// CRC-32 of "hello world".
const CRC: &str = "DUoRhQ==";
const CHUNKS: [&str; 2] = ["hello ", "world"];

impl Mode {
    fn hash(self) -> &'static str {
        match self {
            Self::Signed => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            Self::SignedTrailer => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            Self::UnsignedTrailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }
    }

    fn draft(self, decoded_len: &str) -> Draft {
        let draft = Draft::new("PUT", "/kvs/k").with(|draft| draft.hash = self.hash().to_owned());
        let draft = draft.header("x-amz-decoded-content-length", decoded_len).header("content-encoding", "aws-chunked");
        if self == Self::Signed { draft } else { draft.header("x-amz-trailer", "x-amz-checksum-crc32") }
    }

    /// The body that belongs to `draft` with its signature `seed`.
    fn body(self, draft: &Draft, seed: &str, crc: &str) -> String {
        let date = draft.amz_date();
        let key = s3s_sigv4::derive_signing_key(secret(draft.access_key), &date, draft.region, draft.service);
        let sign = |text: &str| hex::encode(s3s_sigv4::calculate_signature_with_key(text, &key));
        let mut signature = seed.to_owned();
        let mut body = String::new();
        for chunk in CHUNKS.into_iter().chain([""]) {
            let text = s3s_sigv4::create_chunk_string_to_sign(&date, draft.region, draft.service, &signature, &[chunk]);
            signature = sign(&text);
            let field =
                if self == Self::UnsignedTrailer { String::new() } else { format!(";chunk-signature={signature}") };
            body += &format!("{:x}{field}\r\n", chunk.len());
            if !chunk.is_empty() {
                body += &format!("{chunk}\r\n");
            }
        }
        let trailer = format!("x-amz-checksum-crc32:{crc}");
        let (region, service) = (draft.region, draft.service);
        let canonical = format!("{trailer}\n");
        let text = s3s_sigv4::create_trailer_string_to_sign(&date, region, service, &signature, canonical.as_bytes());
        body + &match self {
            Self::Signed => "\r\n".to_owned(),
            Self::SignedTrailer => format!("{trailer}\r\nx-amz-trailer-signature:{}\r\n\r\n", sign(&text)),
            Self::UnsignedTrailer => format!("{trailer}\r\n\r\n"),
        }
    }
}

/// Sends `body` in one of HTTP's two framings.
async fn send(server: &Server, draft: &Draft, body: impl FnOnce(&str) -> String, http_chunks: bool) -> super::Reply {
    // The framing of HTTP is not signed, so the body's signature does not depend on its length.
    let (head, seed) = draft.signed(server);
    let body = body(&seed);
    let (framing, body) = if http_chunks {
        ("transfer-encoding: chunked".to_owned(), format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
    } else {
        (format!("content-length: {}", body.len()), body)
    };
    let head = head.replacen("\r\n\r\n", &format!("\r\n{framing}\r\n\r\n"), 1);
    exchange(server, format!("{head}{body}").as_bytes()).await
}

#[tokio::test]
async fn whole_bodies_of_every_mode_are_stored() {
    let server = Server::start().await;
    for mode in MODES {
        let draft = mode.draft("11");
        for http_chunks in [false, true] {
            let reply = send(&server, &draft, |seed| mode.body(&draft, seed, CRC), http_chunks).await;
            assert_done(&server, &reply, "put kvs/k = hello world");
        }
    }
}

#[tokio::test]
async fn bodies_cut_anywhere_are_not() {
    let server = Server::start().await;
    for mode in MODES {
        let draft = mode.draft("11");
        let whole_len = mode.body(&draft, &"0".repeat(64), CRC).len();
        for len in 1..whole_len {
            let reply = send(&server, &draft, |seed| mode.body(&draft, seed, CRC)[..len].to_owned(), false).await;
            assert_refused(&server, &reply, 400, "IncompleteBody");
        }
    }
}

#[tokio::test]
async fn forged_signatures_and_wrong_trailers_are_refused() {
    let server = Server::start().await;
    for mode in [Mode::Signed, Mode::SignedTrailer] {
        let draft = mode.draft("11");
        let body = |seed: &str| mode.body(&draft, seed, CRC);
        let forged = |seed: &str| {
            let body = body(seed);
            let at = body.find("signature=").unwrap() + 10;
            format!("{}{}{}", &body[..at], "0".repeat(64), &body[at + 64..])
        };
        assert_refused(&server, &send(&server, &draft, forged, false).await, 403, "SignatureDoesNotMatch");
        let other_bytes = |seed: &str| body(seed).replacen("hello ", "HELLO ", 1);
        assert_refused(&server, &send(&server, &draft, other_bytes, false).await, 403, "SignatureDoesNotMatch");
        let last_forged = |seed: &str| {
            let body = body(seed);
            let at = body.rfind("chunk-signature=").unwrap() + 16;
            format!("{}{}{}", &body[..at], "0".repeat(64), &body[at + 64..])
        };
        assert_refused(&server, &send(&server, &draft, last_forged, false).await, 403, "SignatureDoesNotMatch");
    }
    let draft = Mode::SignedTrailer.draft("11");
    let body = |seed: &str| Mode::SignedTrailer.body(&draft, seed, CRC).replacen(CRC, "AAAAAA==", 1);
    assert_refused(&server, &send(&server, &draft, body, false).await, 403, "SignatureDoesNotMatch");
    for mode in [Mode::SignedTrailer, Mode::UnsignedTrailer] {
        let draft = mode.draft("11");
        let body = |seed: &str| mode.body(&draft, seed, "AAAAAA==");
        assert_refused(&server, &send(&server, &draft, body, false).await, 400, "BadDigest");
    }
}

#[tokio::test]
async fn sizes_that_are_odd_or_lie_are_refused() {
    let server = Server::start().await;
    let mode = Mode::UnsignedTrailer;
    let draft = mode.draft("11");
    for size in ["+6", "-6", "0x6", " 6", "6 ", "7", "5", "8000000000000000", "ffffffffffffffff", "7fffffff", "6;x=1"] {
        let body = |seed: &str| mode.body(&draft, seed, CRC).replacen("6\r\n", &format!("{size}\r\n"), 1);
        assert_refused(&server, &send(&server, &draft, body, false).await, 400, "IncompleteBody");
    }
    for decoded_len in ["0", "10", "12"] {
        let draft = mode.draft(decoded_len);
        let body = |seed: &str| mode.body(&draft, seed, CRC);
        assert_refused(&server, &send(&server, &draft, body, false).await, 400, "IncompleteBody");
    }
    for more in ["x", "5\r\nworld\r\n0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"] {
        let body = |seed: &str| mode.body(&draft, seed, CRC) + more;
        assert_refused(&server, &send(&server, &draft, body, false).await, 400, "IncompleteBody");
    }
}

#[tokio::test]
async fn headers_that_do_not_fit_the_mode_are_refused() {
    let server = Server::start().await;
    let mode = Mode::UnsignedTrailer;
    for (from, to, status, code) in [
        ("x-amz-decoded-content-length", "x-amz-meta-a", 411, "MissingContentLength"),
        ("x-amz-trailer", "x-amz-meta-a", 400, "InvalidRequest"),
    ] {
        let mut draft = mode.draft("11");
        draft.headers.iter_mut().find(|(name, _)| name == from).unwrap().0 = to.to_owned();
        let body = |seed: &str| mode.body(&draft, seed, CRC);
        assert_refused(&server, &send(&server, &draft, body, false).await, status, code);
    }
    for decoded_len in ["", "11x", "+11", "-1"] {
        let draft = mode.draft(decoded_len);
        let body = |seed: &str| mode.body(&draft, seed, CRC);
        assert_refused(&server, &send(&server, &draft, body, false).await, 400, "InvalidArgument");
    }
    let huge = mode.draft("9223372036854775808");
    let body = |seed: &str| mode.body(&huge, seed, CRC);
    assert_refused(&server, &send(&server, &huge, body, false).await, 400, "EntityTooLarge");
    // A mode that is not signed for.
    let plain = Draft::new("PUT", "/kvs/k").header("content-encoding", "aws-chunked").body(b"0\r\n\r\n");
    assert_refused(&server, &plain.send(&server).await, 400, "InvalidRequest");
    let elliptic = mode.draft("11").with(|draft| draft.hash = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD".to_owned());
    let body = |seed: &str| mode.body(&elliptic, seed, CRC);
    assert_refused(&server, &send(&server, &elliptic, body, false).await, 400, "InvalidRequest");
}
