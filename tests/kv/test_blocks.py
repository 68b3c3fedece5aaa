"""Blocks through the KV extension, byte for byte, and bodies that are cut, damaged, slow, deep or huge."""

import json
import random
from typing import Any

import pytest
from conftest import MakeGateway

from lib.gateway import Gateway
from lib.keys import NASTY
from lib.kv import DATA, Body, Frame, Kv, decode, encode, end, header, put_frames, refusal
from lib.raw import Connection
from lib.sigv4 import UNSIGNED

SEED = 20260101


def blocks_of(count: int, sizes: list[int]) -> dict[str, bytes]:
    """Blocks that differ."""
    chance = random.Random(SEED)
    return {f"model@{index}": chance.randbytes(sizes[index % len(sizes)]) for index in range(count)}


def test_blocks_come_back_on_every_store(gateway: Gateway, empty_bucket: str, make_gateway: MakeGateway) -> None:
    kv = Kv(gateway, empty_bucket)
    blocks = blocks_of(12, [1, 70_000, 0, 1_000_000])
    assert {result["status"] for result in kv.put(blocks)} == {200}
    names = list(blocks)
    for side in (kv, Kv(make_gateway(gateway.store), empty_bucket)):
        assert side.ok("lookup", {"keys": [*names, "absent"]})["matched"] == len(names)
        assert side.get(names).blocks == blocks
        assert side.get(names, stripes=7, mode="all", order="ready").blocks == blocks
    assert kv.ok("delete", {"keys": names})["deleted"] == len(names)
    assert kv.present(names) == [False] * len(names)


def test_both_faces_show_the_same_blocks(kv: Kv) -> None:
    kv.put({"by-kv": b"kv bytes"}, fingerprint="f", ttl_s=600)
    s3 = kv.gateway.s3()
    answer = s3.get_object(Bucket=kv.bucket, Key="by-kv")
    assert answer["Body"].read() == b"kv bytes"
    assert answer["Metadata"]["kv-fingerprint"] == "f"
    assert "x-amz-expiration" in answer["ResponseMetadata"]["HTTPHeaders"]
    s3.put_object(Bucket=kv.bucket, Key="by-s3", Body=b"s3 bytes")
    assert kv.get(["by-kv", "by-s3"]).blocks == {"by-kv": b"kv bytes", "by-s3": b"s3 bytes"}
    assert kv.get(["by-kv"], fingerprint="g").misses == {"by-kv": "fingerprint"}


def test_every_key_is_itself(kv: Kv) -> None:
    blocks = {key: f"block of {key!a}".encode() for key in NASTY}
    assert {result["status"] for result in kv.put(blocks)} == {200}
    assert kv.get(NASTY, mode="all").blocks == blocks
    assert kv.ok("delete", {"keys": NASTY})["deleted"] == len(NASTY)


def test_keys_that_nobody_has(kv: Kv) -> None:
    for key in ["", "a\0b", ".blockgate/x", "k" * 1025]:
        assert refusal(kv.ask("lookup", {"keys": [key]})) == (400, "InvalidArgument")
        assert [result["code"] for result in kv.put({key: b"x"})] == ["InvalidArgument"]


def test_a_cut_upload_stores_what_came_whole(kv: Kv) -> None:
    blocks = {"a": b"A" * 100, "b": b"B" * 100}
    frames = put_frames(blocks)
    body = encode(frames)
    boundaries = [sum(len(frame.encode()) for frame in frames[:count]) for count in range(len(frames))]
    for cut in sorted({*boundaries, *(boundary + 1 for boundary in boundaries), *(b + 31 for b in boundaries)}):
        request = kv.gateway.signer().sign(kv.request("put", body), payload_hash=UNSIGNED)
        with Connection(*kv.gateway.address) as connection:
            connection.send(request.head() + body[:cut])
            connection.finish()
            assert refusal(connection.response()) == (400, "IncompleteBody"), cut
        assert kv.present(["a", "b"]) == [cut >= boundaries[2], cut >= boundaries[4]], cut
        kv.ok("delete", {"keys": ["a", "b"]})


def test_a_vanished_client_stores_what_came_whole_and_no_more(kv: Kv) -> None:
    body = encode(put_frames({"a": b"A" * 100, "b": b"B" * 100_000}))
    request = kv.gateway.signer().sign(kv.request("put", body), payload_hash=UNSIGNED)
    with Connection(*kv.gateway.address) as connection:
        connection.send(request.head() + body[:50_000])
        connection.reset()
    for _ in range(200):
        if kv.present(["a"]) == [True]:
            break
    assert kv.get(["a", "b"], mode="all").blocks == {"a": b"A" * 100}


def test_a_flipped_bit_is_never_stored(kv: Kv) -> None:
    blocks = {"a": b"A" * 40, "b": b"B" * 40}
    body = encode(put_frames(blocks))
    chance = random.Random(SEED)
    for bit in chance.sample(range(len(body) * 8), 150):
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        answer = kv.ask("put", bytes(damaged))
        statuses = [result["status"] for result in json.loads(answer.body).get("results", [])]
        assert answer.status != 200 or statuses != [200, 200], f"bit {bit} went unnoticed"
        for key, data in kv.get(["a", "b"], mode="all").blocks.items():
            assert data == blocks[key], f"bit {bit}"
        kv.ok("delete", {"keys": ["a", "b"]})


def test_frames_in_a_wrong_order(kv: Kv) -> None:
    good, data = header(0, "a"), Frame(0, b"bytes")
    for frames in [
        [data, good, end(1, 5)],
        [good, good, data, end(1, 5)],
        [good, end(0, 0)],
        [good.but(index=1), data.but(index=1), end(1, 5)],
        [good, data.but(stripe=1), end(1, 5)],
        [good, data, data, end(2, 10)],
        [good, data, end(1, 6)],
        [good, data, end(1, 5), end(1, 5)],
        [good.but(status=404), data, end(1, 5)],
        [good.but(flags=1), data, end(1, 5)],
    ]:
        status, code = refusal(kv.ask("put", encode(frames)))
        assert (status, code) in [(400, "InvalidFrame"), (400, "BadDigest")], frames
    lengths: list[tuple[int, tuple[int, str]]] = [
        (1 << 63, (413, "EntityTooLarge")),
        (65 << 20, (413, "EntityTooLarge")),
    ]
    for length, expected in lengths:
        assert refusal(kv.ask("put", encode([good, data.but(length=length)]))) == expected
    long = header(0, "a").but(length=1 << 20)
    assert refusal(kv.ask("put", encode([long]))) == (400, "LimitExceeded")


def test_a_group_is_stored_whole_or_not_at_all(kv: Kv) -> None:
    blocks = {"a": b"A" * 100, "b": b"B" * 100}
    frames = put_frames(blocks)
    broken = [*frames[:3], frames[3].but(crc=1), frames[4]]
    assert refusal(kv.ask("put", encode(broken), query=[("group", "true")])) == (400, "BadDigest")
    assert kv.present(["a", "b"]) == [False, False]
    results = kv.ok("put", encode(frames), query=[("group", "true")])["results"]
    assert [result["status"] for result in results] == [200, 200]
    assert kv.get(["a", "b"]).blocks == blocks
    assert refusal(kv.ask("put", encode(frames), query=[("gruop", "true")])) == (400, "InvalidArgument")


def test_a_slow_reader_holds_nobody_up(kv: Kv) -> None:
    blocks = blocks_of(64, [1 << 20])
    names = list(blocks)
    for start in range(0, len(names), 16):
        kv.put({name: blocks[name] for name in names[start : start + 16]})
    request = kv.gateway.signer().sign(kv.request("get", {"keys": names, "stripes": 4}))
    connections = [Connection(*kv.gateway.address) for _ in range(8)]
    for connection in connections:
        connection.send(request.encode())
        assert connection.interim().status == 200
    assert kv.get(names[:4]).blocks == {name: blocks[name] for name in names[:4]}
    for connection in connections[:-1]:
        connection.reset()
    kv.put({"another": b"block"})
    assert kv.get(["another"]).blocks == {"another": b"block"}
    connections[-1].reset()


def test_stripes_and_ranges_cut_as_the_contract_says(kv: Kv) -> None:
    blocks = blocks_of(3, [1003])
    kv.put(blocks)
    names = list(blocks)
    frames = decode(kv.ask("get", {"keys": names, "stripes": 4}).body)
    data = [frame for frame in frames if frame.flags == DATA]
    assert [(frame.stripe, frame.index) for frame in data] == [(s, i) for s in range(4) for i in range(3)]
    assert [len(frame.payload) for frame in data[::3]] == [250, 250, 250, 253]
    assert kv.get(names, stripes=4).blocks == blocks
    ranges = [{"offset": 1000, "length": 3}, {"offset": 0, "length": 1}]
    assert kv.get(names, ranges=ranges).blocks == {name: data[1000:] + data[:1] for name, data in blocks.items()}


@pytest.mark.parametrize(
    "body",
    [
        b'{"keys":' + b"[" * 100_000,
        b'{"keys":' + b"[" * 9 + b"]" * 9 + b"}",
        b'{"a":' * 50_000,
        b'{"keys":["a"],"keys":["b"]}',
        b'{"keys":["a"],"deadline":1}',
        b'[["a"],"","",null,0,false,null]',
        b'{"keys":["a"]}{}',
        b'{"keys":["\\ud800"]}',
        b'{"keys":["\xff"]}',
        b'\xef\xbb\xbf{"keys":["a"]}',
        b'{"deadline_ms":1e400}',
        b'{"deadline_ms":18446744073709551616}',
        b"",
        b"null",
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_json_that_is_not_the_operations(kv: Kv, body: bytes) -> None:
    status, code = refusal(kv.ask("lookup", body, ("Content-Type", "application/json")))
    assert (status, code) in [(400, "InvalidJson"), (400, "LimitExceeded")]


def test_more_than_the_limits(kv: Kv) -> None:
    def code(operation: str, body: dict[str, Any]) -> tuple[int, str]:
        return refusal(kv.ask(operation, body))

    assert code("lookup", {"keys": ["k"] * 65_537}) == (400, "LimitExceeded")
    assert code("lookup", {"keys": ["k" * 200] * 65_000}) == (413, "EntityTooLarge")
    assert code("get", {"keys": [], "stripes": 1025}) == (400, "LimitExceeded")
    assert code("get", {"keys": [], "ranges": [{"offset": 0, "length": 1}] * 257}) == (400, "LimitExceeded")
    assert code("lookup", {"keys": [], "deadline_ms": 3_600_001}) == (400, "LimitExceeded")
    assert kv.ok("lookup", {"keys": ["k"] * 65_536})["matched"] == 0


def test_a_silent_body_times_out(kv: Kv) -> None:
    for operation, body in [("lookup", b'{"keys"'), ("put", encode([header(0, "a")]))]:
        kind = "application/json" if operation == "lookup" else "application/vnd.blockgate.frames"
        request = kv.request(operation, body + b" " * 100, ("Content-Type", kind))
        signed = kv.gateway.signer().sign(request, payload_hash=UNSIGNED)
        with Connection(*kv.gateway.address) as connection:
            connection.send(signed.head() + body)
            assert refusal(connection.response()) == (408, "RequestTimeout")


def test_touch_gives_new_time(kv: Kv) -> None:
    kv.put({"a": b"A", "b": b"B"}, ttl_s=600)
    assert kv.ok("touch", {"keys": ["a", "b", "c"], "ttl_s": 1200})["touched"] == 2
    assert refusal(kv.ask("touch", {"keys": ["a"]})) == (400, "InvalidJson")


def test_deletes_by_prefix_and_fingerprint(kv: Kv) -> None:
    kv.put({"m/a": b"1", "m/b": b"2", "n/c": b"3"})
    kv.put({"n/d": b"4"}, fingerprint="f")
    assert kv.ok("delete", {"prefix": "m/"})["deleted"] == 2
    assert kv.present(["m/a", "m/b", "n/c", "n/d"]) == [False, False, True, True]
    assert kv.ok("delete", {"fingerprint": "f"})["deleted"] == 1
    assert kv.present(["n/c", "n/d"]) == [True, False]
    wrong: list[Body] = [{}, {"keys": ["a"], "prefix": "b"}, {"prefix": ""}, {"prefix": "a", "key_suffix": "b"}]
    for body in wrong:
        assert refusal(kv.ask("delete", body)) == (400, "InvalidArgument")


def test_operations_are_counted(kv: Kv) -> None:
    before = kv.gateway.metric("blockgate_requests_total", operation="KvLookup", status="200")
    kv.ok("lookup", {"keys": ["a"]})
    assert kv.gateway.metric("blockgate_requests_total", operation="KvLookup", status="200") == before + 1
