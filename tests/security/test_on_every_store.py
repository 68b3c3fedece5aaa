"""The attacks that reach the store, on each of the three."""

from collections.abc import Iterator

import pytest

from lib.attacks import HOSTILE, SECRET, Target, check_refusal
from lib.buckets import bucket_maker
from lib.chunked import MODES, SIGNED, Piece, crc32, stream
from lib.documents import READ_ON_FS, SPOILS
from lib.gateway import Gateway
from lib.raw import Connection
from lib.sigv4 import UNSIGNED

PAYLOAD = bytes(range(256)) * 300


@pytest.fixture(scope="module")
def on_store(gateway: Gateway) -> Iterator[Target]:
    """A bucket to write to and a bucket with a secret, on each store."""
    buckets = bucket_maker(gateway)
    make = next(buckets)
    target = Target(gateway, make(), make("vault"))
    gateway.s3().put_object(Bucket=target.vault, Key="secret", Body=SECRET)
    yield target
    next(buckets, None)


@pytest.fixture
def aim(on_store: Target, key: str) -> Iterator[Target]:
    """The aims, with a key of the test's own."""
    pid = on_store.gateway.pid
    yield on_store.at(key)
    assert on_store.gateway.alive()
    assert on_store.gateway.pid == pid
    assert on_store.gateway.call("GET", f"/{on_store.vault}/secret").body == SECRET


@pytest.mark.parametrize("large", [False, True], ids=["block", "larger than memory takes"])
@pytest.mark.parametrize("mode", MODES)
def test_streams(aim: Target, mode: str, large: bool) -> None:
    """Also where bytes go to the store as they come."""
    payload = PAYLOAD * 20 if large else PAYLOAD
    if large:
        aim = Target(aim.gateway, small_bucket(aim), aim.vault, aim.key)
    request = aim.put().without_header("Content-Length")
    sound = stream(aim.signer, request, mode, payload, chunk_bytes=65536)
    middle = len(sound.pieces) // 2

    def altered(pieces: list[Piece]) -> list[Piece]:
        data = [piece for piece in pieces if piece.kind == "data"][-1]
        data.data = data.data[:-3] + bytes([data.data[-3] ^ 1]) + data.data[-2:]
        return pieces

    aim.refused(sound.encode(lambda pieces: pieces[:middle]), method="PUT")
    aim.refused(sound.encode(altered), method="PUT")
    aim.refused(sound.encode()[:-2000], method="PUT", finish=True, may_close=True)
    if mode != SIGNED:
        wrong = stream(aim.signer, request, mode, payload, checksum=crc32(b"other"), chunk_bytes=65536)
        aim.refused(wrong.encode(), method="PUT")
        aim.refused(sound.encode(lambda pieces: [p for p in pieces if not p.kind.startswith("trailer")]), method="PUT")
    aim.accepted(sound.encode())
    assert aim.stored() == payload


def small_bucket(aim: Target) -> str:
    """A bucket whose blocks are small, made once."""
    name = f"small-{aim.bucket}"
    if aim.gateway.call("HEAD", f"/{name}").status == 404:
        aim.gateway.s3().create_bucket(Bucket=name)
    return name


@pytest.mark.parametrize("payload_hash", [None, UNSIGNED])
def test_bodies_cut_short(aim: Target, payload_hash: str | None) -> None:
    data = aim.signer.sign(aim.put(body=PAYLOAD * 20), payload_hash).encode()
    aim.refused(data[:-1], finish=True, may_close=True)
    with Connection(*aim.gateway.address) as connection:
        connection.send(data[: len(data) // 2])
        connection.reset()
    assert aim.stored() is None


def test_a_cut_overwrite_leaves_what_was_there(aim: Target) -> None:
    aim.accepted(aim.signer.sign(aim.put(body=PAYLOAD)))
    data = aim.signer.sign(aim.put(body=PAYLOAD[::-1]), UNSIGNED).encode()
    with Connection(*aim.gateway.address) as connection:
        connection.send(data[:-1])
        connection.reset()
    assert aim.stored() == PAYLOAD


def test_unsigned_copy_source(aim: Target) -> None:
    source = ("x-amz-copy-source", f"/{aim.vault}/secret")
    aim.refused(aim.signer.sign(aim.put(body=b"")).with_headers(source))
    scoped = aim.gateway.signer(aim.gateway.keys.scoped)
    aim.refused(scoped.sign(aim.put(source, body=b"")))


def test_another_body(aim: Target) -> None:
    aim.refused(aim.signer.sign(aim.put()).replace(body=HOSTILE[::-1]))
    aim.refused(aim.signer.sign(aim.put(("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="))))
    aim.refused(aim.signer.sign(aim.put(("x-amz-checksum-crc32", "AAAAAA==")), UNSIGNED))


@pytest.mark.parametrize(
    "how", ["nothing", "another root", "cut", "DTD", "billion laughs", "deep inside", "huge", "NUL"]
)
def test_documents(aim: Target, how: str) -> None:
    for operation in READ_ON_FS:
        body = SPOILS[how](operation)
        check_refusal(aim.gateway.send(aim.signer.sign(operation.request(aim, body))))


@pytest.mark.parametrize(
    "text", ["../{vault}/secret", "%2e%2e%2f{vault}%2fsecret", "..%5c{vault}%5csecret", "/../{vault}/secret"]
)
def test_traversal(aim: Target, text: str) -> None:
    path = f"/{aim.bucket}/{text.format(vault=aim.vault)}"
    check_refusal(aim.gateway.call("GET", path))
    assert aim.gateway.call("PUT", path, body=HOSTILE).status == 200
    assert aim.gateway.call("GET", path).body == HOSTILE
    assert aim.gateway.call("DELETE", path).status == 204


@pytest.mark.parametrize("text", ["%00", "%ff", "k" * 1025, ".blockgate/x"])
def test_keys(aim: Target, text: str) -> None:
    for method in ("PUT", "GET", "DELETE"):
        check_refusal(aim.gateway.call(method, f"/{aim.bucket}/{text}", body=b"x" if method == "PUT" else b""))


def test_part_numbers(aim: Target) -> None:
    s3 = aim.gateway.s3()
    upload_id = s3.create_multipart_upload(Bucket=aim.bucket, Key=aim.key)["UploadId"]
    for number in ("0", "10001", "4294967297"):
        request = aim.put().replace(query=[("partNumber", number), ("uploadId", upload_id)])
        aim.refused(aim.signer.sign(request))
    s3.abort_multipart_upload(Bucket=aim.bucket, Key=aim.key, UploadId=upload_id)
