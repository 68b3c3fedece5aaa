"""Messages that two readers of HTTP could take for different things."""

import contextlib

import pytest

from lib.attacks import HOSTILE, SECRET, Target, check_refusal
from lib.chunked import UNSIGNED_TRAILER, crc32, stream
from lib.raw import Closed, Connection, Request, http_chunks

BODY = b"%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n" % (len(HOSTILE), HOSTILE, crc32(HOSTILE).encode())
SIZE = b"%x" % len(BODY)


def signed(target: Target) -> Request:
    """A PUT in aws-chunked encoding, without any framing by HTTP. Its body is `BODY`."""
    request = target.put().without_header("Content-Length")
    made = stream(target.signer, request, UNSIGNED_TRAILER, HOSTILE)
    assert b"".join(piece.data for piece in made.pieces) == BODY
    return made.request


def test_http_chunks(target: Target) -> None:
    request = signed(target).with_headers(("Transfer-Encoding", "chunked"))
    target.accepted(request.replace(body=http_chunks([BODY[:5], BODY[5:]])))
    assert target.stored() == HOSTILE


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "{n}"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Content-Length", "{n}")],
        [("Transfer-Encoding", "chunked"), ("Content-Length", "0")],
        [("Content-Length", "{n}"), ("Content-Length", "5")],
        [("Content-Length", "5"), ("Content-Length", "{n}")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked, chunked")],
        [("Transfer-Encoding", "gzip, chunked")],
        [("Transfer-Encoding", "chunked, gzip")],
        [("Transfer-Encoding", "gzip")],
        [("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "xchunked")],
        [("Transfer-Encoding", "chunked;x=y")],
        [("Transfer-Encoding", "")],
        [("Transfer-Encoding ", "chunked")],
        [("Transfer-Encoding", "\x0bchunked")],
        [("Content-Length", "{n}"), ("Transfer-Encoding", "xchunked")],
    ],
    ids=str,
)
def test_contradictory_framing(target: Target, headers: list[tuple[str, str]]) -> None:
    chunks = http_chunks([BODY])
    filled = [(name, value.replace("{n}", str(len(chunks)))) for name, value in headers]
    inner = target.signer.sign(target.get(f"/{target.vault}/secret")).encode()
    with Connection(*target.gateway.address) as connection:
        connection.send(signed(target).with_headers(*filled).replace(body=chunks).encode())
        connection.send(inner)
        answer = connection.response()
        both = {"Content-Length", "Transfer-Encoding"} == {name for name, _ in headers}
        if answer.status == 200 and both:
            # RFC 9112, 6.1: taken by its chunks alone, and the connection ends.
            assert target.stored() == HOSTILE
        else:
            check_refusal(answer)
            assert target.stored() is None
        with contextlib.suppress(Closed):
            raise AssertionError(f"what came after was answered: {connection.response()}")


@pytest.mark.parametrize(
    "chunk",
    [
        *(sign + SIZE for sign in (b"+", b"-", b"0x", b" ", b"\t", b"_", b"\x0b")),
        *(SIZE + sign for sign in (b"\n", b"\r", b"\x00", b"h", b"_")),
        b"",
        b"g",
        b"1" + b"0" * 16,
        b"f" * 16,
        b"7" + b"f" * 15,
    ],
)
def test_odd_chunk_sizes(target: Target, chunk: bytes) -> None:
    request = signed(target).with_headers(("Transfer-Encoding", "chunked"))
    body = chunk + b"\r\n" + BODY + b"\r\n0\r\n\r\n"
    target.refused(request.replace(body=body), finish=True, may_close=True)


CHUNKS = {
    "bare LF": SIZE + b"\n" + BODY + b"\n0\n\n",
    "no CRLF": SIZE + b"\r\n" + BODY + b"0\r\n\r\n",
    "junk for CRLF": SIZE + b"\r\n" + BODY + b"xx0\r\n\r\n",
    "no last chunk": SIZE + b"\r\n" + BODY + b"\r\n",
    "cut last chunk": SIZE + b"\r\n" + BODY + b"\r\n0",
    "long extension": SIZE + b";" + b"x" * (1 << 20) + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "many trailers": SIZE + b"\r\n" + BODY + b"\r\n0\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
}


@pytest.mark.parametrize("what", CHUNKS)
def test_odd_chunks(target: Target, what: str) -> None:
    request = signed(target).with_headers(("Transfer-Encoding", "chunked"))
    target.refused(request.replace(body=CHUNKS[what]), finish=True, may_close=True)


def raw(target: Target, data: bytes) -> None:
    """Bytes that are no request: refused, or hung up on."""
    target.refused(data, finish=True, may_close=True)


@pytest.mark.parametrize(
    "change", ["no host", "empty host", "two hosts", "host with a path", "host with a user", "host with a space"]
)
def test_hosts(target: Target, change: str) -> None:
    host = target.gateway.host
    hosts = {
        "no host": [],
        "empty host": [("Host", "")],
        "two hosts": [("Host", host), ("Host", f"{target.vault}.localhost")],
        "host with a path": [("Host", f"{host}/x")],
        "host with a user": [("Host", f"user@{host}")],
        "host with a space": [("Host", f"{host} x")],
    }[change]
    request = target.put()
    request = request.replace(headers=[*hosts, *request.headers[1:]])
    raw(target, target.signer.sign(request).encode())


def test_target_of_another_host(target: Target) -> None:
    request = target.signer.sign(target.put())
    for url in (
        f"http://{target.vault}.localhost{request.path}",
        f"http://evil.example{request.path}",
        f"https://{target.gateway.host}x{request.path}",
        f"ftp://{target.gateway.host}{request.path}",
        "http://",
        "*",
        request.path.removeprefix("/"),
    ):
        raw(target, request.replace(path=url).encode())
    target.accepted(request.replace(path=f"http://{target.gateway.host}{request.path}"))


@pytest.mark.parametrize(
    "line",
    [
        b"GET",
        b"GET /",
        b"GET / HTTP/0.9",
        b"GET / HTTP/9.9",
        b"GET / HTTP/1.1 x",
        b"GET  / HTTP/1.1",
        b"G\x00T / HTTP/1.1",
        b"GET /\x00 HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET / x HTTP/1.1",
        b"CONNECT evil.example:443 HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0",
        b"",
        b"\x00" * 1000,
    ],
    ids=repr,
)
def test_request_lines(target: Target, line: bytes) -> None:
    raw(target, line + b"\r\nHost: " + target.gateway.host.encode() + b"\r\n\r\n")


@pytest.mark.parametrize(
    "header",
    [
        b"x-evil : 1",
        b" x-evil: 1",
        b"x-amz-meta-a: 1\r\n folded",
        b"x-evil\x00: 1",
        b"x-evil: \x00",
        b"x-evil: a\rb",
        b": 1",
        b"x-evil",
        b"x-\xff: 1",
        b"x evil: 1",
    ],
    ids=repr,
)
def test_header_lines(target: Target, header: bytes) -> None:
    head = target.signer.sign(target.put()).head()[:-2]
    raw(target, head + header + b"\r\n\r\n" + HOSTILE)


@pytest.mark.parametrize("what", ["one", "many", "target", "query", "authorization", "metadata"])
def test_a_mebibyte_of_headers(target: Target, what: str) -> None:
    request = target.put()
    size = 1 << 20
    spoilt = {
        "one": lambda: target.signer.sign(request).with_headers(("x-evil", "x" * size)),
        "many": lambda: target.signer.sign(request).with_headers(*((f"x-{n}", "x" * 90) for n in range(size // 100))),
        "target": lambda: target.signer.sign(request.replace(path=f"/{target.bucket}/{'x' * size}")),
        "query": lambda: target.signer.sign(request.replace(query=[("x", "y" * size)])),
        "authorization": lambda: request.with_headers(("Authorization", "AWS4-HMAC-SHA256 " + "x" * size)),
        "metadata": lambda: target.signer.sign(request.with_headers(("x-amz-meta-a", "x" * size))),
    }[what]()
    target.refused(spoilt, may_close=True)


def test_more_metadata_than_s3_allows(target: Target) -> None:
    target.refused(target.signer.sign(target.put(("x-amz-meta-a", "x" * 2050))))
    target.accepted(target.signer.sign(target.put(("x-amz-meta-a", "x" * 1900))))


def test_pipelined_requests_are_answered_in_order(target: Target) -> None:
    first = target.signer.sign(target.put())
    second = target.signer.sign(target.get())
    with Connection(*target.gateway.address) as connection:
        connection.send(first.encode() + second.encode())
        assert connection.response("PUT").status == 200
        assert connection.response("GET").body == HOSTILE


def test_a_refused_body_is_not_taken_for_a_request(target: Target) -> None:
    """What follows a refused head is the body that was announced, or the connection's end."""
    inner = target.signer.sign(target.get(f"/{target.vault}/secret")).encode()
    outer = target.put(body=inner)
    with Connection(*target.gateway.address) as connection:
        connection.send(outer.encode())
        check_refusal(connection.response())
        with contextlib.suppress(Closed):
            answer = connection.response()
            raise AssertionError(f"the body was answered: {answer}")
    answer = target.gateway.send(target.signer.sign(target.get(f"/{target.vault}/secret")))
    assert answer.body == SECRET
