"""The KV extension by hand: frames, and requests with every piece open to being made wrong."""

import json
import struct
from dataclasses import dataclass, field, replace
from typing import Any

from awscrt import checksums

from lib.gateway import Gateway
from lib.raw import Request, Response
from lib.sigv4 import Credentials

Body = bytes | dict[str, Any]

FRAMES = "application/vnd.blockgate.frames"
JSON = "application/json"

DATA, JSON_FLAG, END = 0, 2, 3

STATUSES = {200, 400, 403, 404, 405, 408, 411, 413, 415, 500, 501, 503, 507}
"""What the contract documents."""


@dataclass(frozen=True)
class Frame:
    """One frame. What is left unsaid is made rightly."""

    index: int
    payload: bytes
    flags: int = DATA
    status: int = 200
    stripe: int = 0
    length: int | None = None
    crc: int | None = None
    magic: bytes = b"KVB1"

    def encode(self) -> bytes:
        """Header and payload."""
        length = len(self.payload) if self.length is None else self.length
        crc = checksums.crc64nvme(self.payload) if self.crc is None else self.crc
        return (
            self.magic
            + struct.pack("<IHHIQQ", self.index, self.status, self.flags, self.stripe, length, crc)
            + self.payload
        )

    def but(self, **changes: Any) -> "Frame":
        """The same frame with some fields wrong."""
        return replace(self, **changes)

    @property
    def json(self) -> Any:
        """The payload of a JSON frame."""
        return json.loads(self.payload)


def header(index: int, key: str, **more: Any) -> Frame:
    """The frame that announces a block of a `put`."""
    return Frame(index, json.dumps({"key": key, **more}).encode(), JSON_FLAG)


def end(blocks: int, size: int) -> Frame:
    """The last frame."""
    return Frame(0, json.dumps({"blocks": blocks, "bytes": size}).encode(), END)


def put_frames(blocks: dict[str, bytes], **more: Any) -> list[Frame]:
    """The frames of a `put`."""
    frames: list[Frame] = []
    for index, (key, data) in enumerate(blocks.items()):
        frames += [header(index, key, **more), Frame(index, data)]
    return [*frames, end(len(blocks), sum(map(len, blocks.values())))]


def encode(frames: list[Frame]) -> bytes:
    """Frames as a body."""
    return b"".join(frame.encode() for frame in frames)


def decode(body: bytes) -> list[Frame]:
    """The frames of a body, which must be sound and end with the last frame."""
    frames: list[Frame] = []
    while body:
        assert not frames or frames[-1].flags != END, "bytes behind the last frame"
        assert len(body) >= 32, "a frame's header is cut"
        magic = body[:4]
        index, status, flags, stripe, length, crc = struct.unpack("<IHHIQQ", body[4:32])
        payload = body[32 : 32 + length]
        assert magic == b"KVB1"
        assert len(payload) == length, "a frame is cut"
        assert checksums.crc64nvme(payload) == crc, "a payload without its checksum"
        frames.append(Frame(index, payload, flags, status, stripe))
        body = body[32 + length :]
    assert frames, "no frame"
    assert frames[-1].flags == END, "the last frame is missing"
    return frames


@dataclass
class Got:
    """What a `get` delivered: blocks by key, joined from their stripes, and misses by key."""

    blocks: dict[str, bytes] = field(default_factory=dict)
    misses: dict[str, str] = field(default_factory=dict)


class Kv:
    """The operations on one bucket of a gateway."""

    def __init__(self, gateway: Gateway, bucket: str, by: Credentials | None = None) -> None:
        self.gateway = gateway
        self.bucket = bucket
        self.by = by

    def path(self, operation: str) -> str:
        """Where an operation is."""
        return f"/_kv/v1/{self.bucket}/{operation}"

    def request(self, operation: str, body: Body, *headers: tuple[str, str], query: Any = ()) -> Request:
        """An unsigned request."""
        kind = JSON if isinstance(body, dict) else FRAMES
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        typed = [] if any(name.lower() == "content-type" for name, _ in headers) else [("Content-Type", kind)]
        return self.gateway.request("POST", self.path(operation), *typed, *headers, body=data, query=query)

    def ask(self, operation: str, body: Body, *headers: tuple[str, str], query: Any = ()) -> Response:
        """A signed request, answered."""
        request = self.gateway.signer(self.by).sign(self.request(operation, body, *headers, query=query))
        return checked(self.gateway.send(request))

    def ok(self, operation: str, body: Body, **more: Any) -> Any:
        """A request that succeeds; its JSON."""
        answer = self.ask(operation, body, **more)
        assert answer.status == 200, str(answer)
        return json.loads(answer.body)

    def put(self, blocks: dict[str, bytes], **more: Any) -> list[dict[str, Any]]:
        """Stores blocks; an outcome for each."""
        results: list[dict[str, Any]] = self.ok("put", encode(put_frames(blocks, **more)))["results"]
        return results

    def get(self, keys: list[str], **more: Any) -> Got:
        """Reads blocks."""
        answer = self.ask("get", {"keys": keys, **more})
        assert answer.status == 200, str(answer)
        got = Got()
        for frame in decode(answer.body):
            if frame.flags == DATA:
                got.blocks[keys[frame.index]] = got.blocks.get(keys[frame.index], b"") + frame.payload
            elif frame.status == 404:
                got.misses[keys[frame.index]] = frame.json["reason"]
        return got

    def present(self, keys: list[str]) -> list[bool]:
        """Which keys are there."""
        return [key not in self.get(keys, mode="all").misses for key in keys]


def checked(answer: Response) -> Response:
    """An answer as the contract has it: its status, and where it is an error its JSON."""
    assert answer.status in STATUSES, str(answer)
    assert answer.header("x-amz-request-id"), str(answer)
    if answer.status != 200 and answer.body:
        assert answer.header("content-type") == JSON, str(answer)
        error = json.loads(answer.body)["error"]
        assert set(error) == {"code", "message", "request_id"}
        assert error["message"]
        assert error["request_id"] == answer.header("x-amz-request-id")
    return answer


def refusal(answer: Response) -> tuple[int, str]:
    """Status and code of an error."""
    checked(answer)
    assert answer.status != 200, str(answer)
    return answer.status, json.loads(answer.body)["error"]["code"]
