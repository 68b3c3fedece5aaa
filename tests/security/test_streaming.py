"""Bodies in aws-chunked encoding that are not what they should be, in every mode."""

from collections.abc import Callable

import pytest

from lib.attacks import Target
from lib.chunked import MODES, SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER, Piece, Spoil, Stream, crc32, stream
from lib.raw import Connection
from lib.sigv4 import seed

PAYLOAD = bytes(range(256)) * 80  # two chunks and a half
TRANSPORTS = ["length", "chunked"]
SIGNED_MODES = [SIGNED, SIGNED_TRAILER]
TRAILER_MODES = [SIGNED_TRAILER, UNSIGNED_TRAILER]


def made(target: Target, mode: str, payload: bytes = PAYLOAD, checksum: str | None = None) -> Stream:
    """A sound stream."""
    return stream(target.signer, target.put().without_header("Content-Length"), mode, payload, checksum=checksum)


def refused(target: Target, data: bytes, **more: bool) -> None:
    """Sends it, and nothing more; it is refused."""
    target.refused(data, method="PUT", **more)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", MODES)
def test_made_rightly(target: Target, mode: str, transport: str) -> None:
    target.accepted(made(target, mode).encode(transport=transport))
    assert target.stored() == PAYLOAD
    target.accepted(made(target, mode, b"").encode(transport=transport))
    assert target.stored() == b""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", MODES)
def test_fabricated_request_signature(target: Target, mode: str, transport: str) -> None:
    sound = made(target, mode)
    authorization = sound.request.header("Authorization") or ""
    request = sound.request.with_header("Authorization", authorization.replace(seed(sound.request), "0" * 64))
    refused(target, Stream(request, sound.pieces).encode(transport=transport))


def count(pieces: list[Piece], kind: str) -> int:
    """How many pieces are of a kind."""
    return sum(piece.kind == kind for piece in pieces)


def change(kind: str, number: int, to: Callable[[bytes], bytes]) -> Spoil:
    """Changes the n-th piece of a kind."""

    def spoil(pieces: list[Piece]) -> list[Piece]:
        found = [piece for piece in pieces if piece.kind == kind]
        found[number].data = to(found[number].data)
        return pieces

    return spoil


def drop(*kinds: str) -> Spoil:
    """Leaves out all pieces of some kinds."""
    return lambda pieces: [piece for piece in pieces if piece.kind not in kinds]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("number", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", SIGNED_MODES)
def test_fabricated_chunk_signatures(target: Target, mode: str, number: int, transport: str) -> None:
    sound = made(target, mode)
    assert count(sound.pieces, "signature") == 4
    for forged in (
        b";chunk-signature=" + b"0" * 64,
        b";chunk-signature=",
        b"",
        b";x=y",
        b";chunk-signature=" + b"a" * 63,
    ):
        refused(target, sound.encode(change("signature", number, lambda _, f=forged: f), transport))  # type: ignore[misc]


@pytest.mark.parametrize("mode", SIGNED_MODES)
def test_exchanged_chunks(target: Target, mode: str) -> None:
    def exchange(pieces: list[Piece]) -> list[Piece]:
        return [*pieces[3:6], *pieces[0:3], *pieces[6:]]

    def repeat(pieces: list[Piece]) -> list[Piece]:
        return [*pieces[0:3], *pieces]

    refused(target, made(target, mode).encode(exchange))
    refused(target, made(target, mode).encode(repeat))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_altered_data(target: Target, mode: str, number: int) -> None:
    altered = change("data", number, lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    refused(target, made(target, mode).encode(altered))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", MODES)
def test_cut_at_each_boundary(target: Target, mode: str, transport: str) -> None:
    """HTTP's own framing is sound: only the encoding tells that something is missing."""
    sound = made(target, mode)
    for end in range(len(sound.pieces)):
        if mode == SIGNED and end == len(sound.pieces) - 1:
            continue  # only the last empty line is missing
        refused(target, sound.encode(lambda pieces, e=end: pieces[:e], transport))  # type: ignore[misc]


@pytest.mark.parametrize("mode", MODES)
def test_cut_connections(target: Target, mode: str) -> None:
    """The connection ends where HTTP's framing says that more will come."""
    sound = made(target, mode)
    whole = sound.encode()
    body = len(b"".join(piece.data for piece in sound.pieces))
    ends, position = [], len(whole) - body
    for piece in sound.pieces:
        ends += [position, position + len(piece.data) // 2]
        position += len(piece.data)
    for end in sorted(set(ends)):
        refused(target, whole[:end], finish=True, may_close=True)


@pytest.mark.parametrize("mode", MODES)
def test_resets(target: Target, mode: str) -> None:
    whole = made(target, mode).encode()
    for end in (len(whole) // 3, len(whole) - 2):
        with Connection(*target.gateway.address) as connection:
            connection.send(whole[:end])
            connection.reset()
    assert target.stored() is None


MISSING = {
    "final chunk": drop("final"),
    "all after the data": lambda pieces: [piece for piece in pieces if piece.kind in ("size", "signature", "data")][:9],
    "last data": lambda pieces: pieces[:6] + pieces[9:],
}


@pytest.mark.parametrize("what", MISSING)
@pytest.mark.parametrize("mode", MODES)
def test_missing_pieces(target: Target, mode: str, what: str) -> None:
    refused(target, made(target, mode).encode(MISSING[what]))


TRAILERS = {
    "missing": drop("trailer"),
    "missing with its signature": drop("trailer", "trailer-signature"),
    "another name": change("trailer", 0, lambda data: data.replace(b"crc32", b"crc32c")),
    "no value": change("trailer", 0, lambda _: b"x-amz-checksum-crc32:\r\n"),
    "no colon": change("trailer", 0, lambda _: b"x-amz-checksum-crc32\r\n"),
    "doubled": change("trailer", 0, lambda data: data + data),
    "another beside it": change("trailer", 0, lambda data: data + b"x-amz-meta-evil:1\r\n"),
    "not base64": change("trailer", 0, lambda _: b"x-amz-checksum-crc32:!!!!!!!!\r\n"),
    "too short": change("trailer", 0, lambda _: b"x-amz-checksum-crc32:AAAA\r\n"),
    "endless": change("trailer", 0, lambda data: data + b"x-amz-a:" + b"a" * (1 << 20) + b"\r\n"),
}


@pytest.mark.parametrize("what", TRAILERS)
@pytest.mark.parametrize("mode", TRAILER_MODES)
def test_trailers(target: Target, mode: str, what: str) -> None:
    refused(target, made(target, mode).encode(TRAILERS[what]), may_close=what == "endless")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", TRAILER_MODES)
def test_wrong_trailers(target: Target, mode: str, transport: str) -> None:
    """Honestly encoded and signed; only the checksum is of other bytes."""
    refused(target, made(target, mode, checksum=crc32(b"other")).encode(transport=transport))
    refused(target, made(target, mode, b"", checksum=crc32(b"other")).encode(transport=transport))


@pytest.mark.parametrize(
    "forged", [b"", b"x-amz-trailer-signature:\r\n", b"x-amz-trailer-signature:" + b"0" * 64 + b"\r\n"]
)
def test_trailer_signatures(target: Target, forged: bytes) -> None:
    refused(target, made(target, SIGNED_TRAILER).encode(change("trailer-signature", 0, lambda _: forged)))


SIZES = [
    "1fff",
    "2001",
    "0",
    "1",
    "ffffffff",
    "7fffffffffffffff",
    "8000000000000000",
    "ffffffffffffffff",
    "10000000000000000",
    "0" * 64 + "2000",
    "0x2000",
    "+2000",
    "-2000",
    " 2000",
    "2000 ",
    "\t2000",
    "2_000",
    "2000h",
    "",
    ";",
    "g",
    "é",
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_chunk_sizes(target: Target, mode: str, size: str) -> None:
    for number in (0, 1):
        spoil = change("size", number, lambda _: size.encode())
        refused(target, made(target, mode).encode(spoil))
        refused(target, made(target, mode).encode(spoil)[:-100], finish=True, may_close=True)


@pytest.mark.parametrize(
    "length",
    ["0", "1", "20479", "20481", str(2**63), str(2**64), str(2**64 + 20480), "-1", "+20480", "x", "", "20480.0"],
)
@pytest.mark.parametrize("mode", MODES)
def test_decoded_lengths(target: Target, mode: str, length: str) -> None:
    request = target.put().without_header("Content-Length")
    refused(target, stream(target.signer, request, mode, PAYLOAD, decoded_length=length).encode())


AFTER = {
    "junk": b"junk",
    "another chunk": b"5\r\nhello\r\n0\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("what", AFTER)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", MODES)
def test_data_after_the_end(target: Target, mode: str, transport: str, what: str) -> None:
    refused(target, made(target, mode).encode(lambda pieces: [*pieces, Piece("junk", AFTER[what])], transport))


@pytest.mark.parametrize("mode", MODES)
def test_endless_chunk_header(target: Target, mode: str) -> None:
    refused(
        target,
        made(target, mode).encode(change("size", 0, lambda data: data + b";" + b"a" * (1 << 20))),
        may_close=True,
    )


@pytest.mark.parametrize("mode", MODES)
def test_bodies_that_are_not_encoded(target: Target, mode: str) -> None:
    refused(target, made(target, mode).encode(lambda _: [Piece("data", PAYLOAD)]))
    refused(target, made(target, mode).encode(lambda _: []))


@pytest.mark.parametrize("other", MODES)
@pytest.mark.parametrize("mode", MODES)
def test_another_mode_than_announced(target: Target, mode: str, other: str) -> None:
    if mode != other:
        refused(target, Stream(made(target, mode).request, made(target, other).pieces).encode())


@pytest.mark.parametrize("mode", MODES)
def test_parts_too(target: Target, mode: str) -> None:
    s3 = target.gateway.s3()
    upload_id = s3.create_multipart_upload(Bucket=target.bucket, Key=target.key)["UploadId"]
    request = (
        target.put().without_header("Content-Length").replace(query=[("partNumber", "1"), ("uploadId", upload_id)])
    )
    sound = stream(target.signer, request, mode, PAYLOAD)
    for spoil in (
        drop("final"),
        change("data", 1, lambda data: data[:-3] + b"???"),
        change("size", 0, lambda _: b"2001"),
    ):
        refused(target, sound.encode(spoil))
        assert "Parts" not in s3.list_parts(Bucket=target.bucket, Key=target.key, UploadId=upload_id)
    target.accepted(sound.encode())
    assert s3.list_parts(Bucket=target.bucket, Key=target.key, UploadId=upload_id)["Parts"][0]["Size"] == len(PAYLOAD)
    s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=upload_id)
