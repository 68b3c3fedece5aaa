"""aws-chunked bodies, in every mode, with every piece open to being made wrong."""

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from lib.raw import Request
from lib.sigv4 import Signer, seed

SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
MODES = [SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER]

CHUNK_BYTES = 8192


def crc32(data: bytes) -> str:
    """`x-amz-checksum-crc32`."""
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


@dataclass
class Piece:
    """A part of an encoded body, named so that attacks can find it."""

    kind: str  # "size", "signature", "data", "final", "trailer", "trailer-signature", "end"
    data: bytes


Spoil = Callable[[list[Piece]], list[Piece]]


@dataclass
class Stream:
    """A PUT whose body is aws-chunked."""

    request: Request
    pieces: list[Piece]

    def encode(self, spoil: Spoil | None = None, transport: str = "length") -> bytes:
        """The whole message. `spoil` changes the pieces; the framing of HTTP is always sound: by length, or in HTTP chunks."""
        pieces = spoil([Piece(piece.kind, piece.data) for piece in self.pieces]) if spoil else self.pieces
        body = b"".join(piece.data for piece in pieces)
        if transport == "length":
            return self.request.with_headers(("Content-Length", str(len(body)))).head() + body
        head = self.request.with_headers(("Transfer-Encoding", "chunked")).head()
        parts = [body[start : start + 1000] for start in range(0, len(body), 1000)]
        return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def stream(
    signer: Signer,
    request: Request,
    mode: str,
    payload: bytes,
    *,
    decoded_length: str | None = None,
    checksum: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Stream:
    """Signs `request` and encodes `payload`. `checksum` is the crc32 put into the trailer, the right one by default."""
    trailing = mode != SIGNED
    request = request.with_headers(
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(len(payload)) if decoded_length is None else decoded_length),
        *([("x-amz-trailer", "x-amz-checksum-crc32")] if trailing else []),
    )
    request = signer.sign(request, mode)
    return Stream(request, list(_pieces(signer, request, mode, payload, checksum, chunk_bytes)))


def _pieces(
    signer: Signer, request: Request, mode: str, payload: bytes, checksum: str | None, chunk_bytes: int
) -> list[Piece]:
    stamp = request.header("x-amz-date") or ""
    previous = seed(request)
    signed = mode != UNSIGNED_TRAILER
    pieces = []
    for start in [*range(0, len(payload), chunk_bytes), len(payload)]:
        data = payload[start : start + chunk_bytes]
        pieces.append(Piece("size" if data else "final", b"%x" % len(data)))
        if signed:
            previous = signer.chunk_signature(stamp, previous, data)
            pieces.append(Piece("signature", b";chunk-signature=" + previous.encode()))
        pieces.append(Piece("data" if data else "end", b"\r\n" + data + (b"\r\n" if data else b"")))
    if mode == SIGNED:
        return [*pieces, Piece("end", b"\r\n")]
    value = checksum or crc32(payload)
    pieces.append(Piece("trailer", f"x-amz-checksum-crc32:{value}\r\n".encode()))
    if signed:
        signature = signer.trailer_signature(stamp, previous, f"x-amz-checksum-crc32:{value}\n".encode())
        pieces.append(Piece("trailer-signature", f"x-amz-trailer-signature:{signature}\r\n".encode()))
    return [*pieces, Piece("end", b"\r\n")]
