"""Bodies that are not the ones that were promised, too long, too short, or too slow."""

import base64
import contextlib
import hashlib
import time
from collections.abc import Callable

import pytest

from lib.attacks import HOSTILE, SECRET, Target, check_refusal
from lib.chunked import crc32
from lib.forms import form
from lib.raw import Closed, Connection, Request
from lib.sigv4 import UNSIGNED, sha256

Body = Callable[[Target], Request]

DELETE_SECRET = "<Delete><Object><Key>{key}</Key></Object></Delete>"
TAGS = "<Tagging><TagSet><Tag><Key>{key}</Key><Value>1</Value></Tag></TagSet></Tagging>"


def md5(data: bytes) -> str:
    """`Content-MD5`."""
    return base64.b64encode(hashlib.md5(data).digest()).decode()


class Case:
    """An operation with a body: how to ask for it, and whether it was done."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.s3 = target.gateway.s3()
        self.name = {"Bucket": target.bucket, "Key": target.key}

    def request(self, *headers: tuple[str, str]) -> Request:
        """The sound request, unsigned."""
        raise NotImplementedError

    def other(self) -> bytes:
        """Another body, as long as the sound one, that would do harm."""
        raise NotImplementedError

    def done(self) -> bool:
        """Whether anything was done."""
        raise NotImplementedError


class Put(Case):
    """PutObject."""

    def request(self, *headers: tuple[str, str]) -> Request:
        return self.target.put(*headers)

    def other(self) -> bytes:
        return HOSTILE[::-1]

    def done(self) -> bool:
        return self.target.stored() is not None


class Part(Case):
    """UploadPart."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.upload = self.s3.create_multipart_upload(**self.name)["UploadId"]

    def request(self, *headers: tuple[str, str]) -> Request:
        return self.target.put(*headers).replace(query=[("partNumber", "1"), ("uploadId", self.upload)])

    def other(self) -> bytes:
        return HOSTILE[::-1]

    def done(self) -> bool:
        return "Parts" in self.s3.list_parts(**self.name, UploadId=self.upload)


class Delete(Case):
    """DeleteObjects."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.s3.put_object(Bucket=target.bucket, Key="treasured", Body=b"x")
        self.s3.put_object(Bucket=target.bucket, Key="worthless", Body=b"x")

    def request(self, *headers: tuple[str, str]) -> Request:
        body = DELETE_SECRET.format(key="worthless").encode()
        return self.target.gateway.request(
            "POST", f"/{self.target.bucket}", *headers, body=body, query=[("delete", "")]
        )

    def other(self) -> bytes:
        return DELETE_SECRET.format(key="treasured").encode()

    def done(self) -> bool:
        return self.s3.list_objects_v2(Bucket=self.target.bucket, Prefix="treasured")["KeyCount"] == 0 or (
            self.s3.list_objects_v2(Bucket=self.target.bucket, Prefix="worthless")["KeyCount"] == 0
        )


class Tag(Case):
    """PutObjectTagging."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.s3.put_object(**self.name, Body=b"x")

    def request(self, *headers: tuple[str, str]) -> Request:
        body = TAGS.format(key="good").encode()
        return self.target.gateway.request("PUT", self.target.path, *headers, body=body, query=[("tagging", "")])

    def other(self) -> bytes:
        return TAGS.format(key="evil").encode()

    def done(self) -> bool:
        return bool(self.s3.get_object_tagging(**self.name)["TagSet"])


class Complete(Case):
    """CompleteMultipartUpload."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.upload = self.s3.create_multipart_upload(**self.name)["UploadId"]
        self.etags = [
            self.s3.upload_part(**self.name, UploadId=self.upload, PartNumber=number, Body=b"part")["ETag"].strip('"')
            for number in (1, 2)
        ]

    def document(self, number: int) -> bytes:
        """Completes with one of the two parts."""
        part = f"<Part><PartNumber>{number}</PartNumber><ETag>{self.etags[number - 1]}</ETag></Part>"
        return f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()

    def request(self, *headers: tuple[str, str]) -> Request:
        query = [("uploadId", self.upload)]
        return self.target.gateway.request("POST", self.target.path, *headers, body=self.document(1), query=query)

    def other(self) -> bytes:
        return self.document(2)

    def done(self) -> bool:
        return self.target.stored() is not None


CASES = [Put, Part, Delete, Tag, Complete]


@pytest.fixture(params=CASES, ids=lambda case: case.__name__)
def case(request: pytest.FixtureRequest, target: Target) -> Case:
    """Each operation with a body in turn."""
    made: Case = request.param(target)
    return made


def refused(case: Case, request: Request) -> None:
    """It is refused and nothing was done."""
    answer = case.target.gateway.send(request)
    if isinstance(case, Complete) and "x-amz-checksum" in str(request.headers):
        # There the header speaks of the whole object, whose checksums of other kinds nobody has.
        assert (answer.status, answer.code) == (501, "NotImplemented") or 400 <= answer.status < 500, str(answer)
    else:
        check_refusal(answer)
    assert not case.done()


def test_replayed_with_another_body(case: Case) -> None:
    signed = case.target.signer.sign(case.request())
    other = case.other()
    refused(case, signed.replace(body=other).with_header("Content-Length", str(len(other))))
    refused(case, signed.replace(body=b"").with_header("Content-Length", "0"))
    longer = signed.body + b" "
    refused(case, signed.replace(body=longer).with_header("Content-Length", str(len(longer))))
    assert case.target.gateway.send(signed).status == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Content-MD5", md5(b"other")),
        ("Content-MD5", "x"),
        ("Content-MD5", ""),
        ("Content-MD5", "AAAA"),
        ("x-amz-checksum-crc32", crc32(b"other")),
        ("x-amz-checksum-crc32", "AAAA"),
        ("x-amz-checksum-crc32", "!"),
        ("x-amz-checksum-crc32c", "AAAAAA=="),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
        ("x-amz-checksum-sha1", "A" * 27 + "="),
        ("x-amz-checksum-sha256", "A" * 43 + "="),
    ],
)
@pytest.mark.parametrize("hashed", [True, False], ids=["signed body", "unsigned body"])
def test_wrong_checksums(case: Case, name: str, value: str, hashed: bool) -> None:
    refused(case, case.target.signer.sign(case.request((name, value)), None if hashed else UNSIGNED))


def test_right_checksums(case: Case) -> None:
    body = case.request().body
    headers = [("Content-MD5", md5(body)), ("x-amz-checksum-crc32", crc32(body))]
    if isinstance(case, Complete):
        headers.pop()
    assert case.target.gateway.send(case.target.signer.sign(case.request(*headers))).status == 200


def test_two_checksums_of_which_one_is_wrong(case: Case) -> None:
    body = case.request().body
    headers = [("x-amz-checksum-crc32", crc32(body)), ("x-amz-checksum-sha256", "A" * 43 + "=")]
    refused(case, case.target.signer.sign(case.request(*headers)))


def test_cut_short(case: Case) -> None:
    for payload_hash in (None, UNSIGNED):
        data = case.target.signer.sign(case.request(), payload_hash).encode()
        for end in (len(data) - 1, len(data) - len(case.request().body)):
            with Connection(*case.target.gateway.address) as connection:
                connection.send(data[:end])
                connection.finish()
                with contextlib.suppress(Closed):  # nobody is there to be told
                    check_refusal(connection.response())
            assert not case.done()


def test_reset(case: Case) -> None:
    data = case.target.signer.sign(case.request(), UNSIGNED).encode()
    with Connection(*case.target.gateway.address) as connection:
        connection.send(data[:-1])
        connection.reset()
    # Another request, so that the reset has been seen.
    assert case.target.gateway.alive()
    assert not case.done()


@pytest.mark.parametrize("length", ["5497558138881", str(2**63 - 1), str(2**63), str(2**64), "9" * 30])
def test_oversized(case: Case, length: str) -> None:
    request = case.target.signer.sign(case.request(), UNSIGNED).with_header("Content-Length", length)
    with Connection(*case.target.gateway.address) as connection:
        connection.send(request.encode())
        check_refusal(connection.response())
    assert not case.done()


@pytest.mark.parametrize("length", ["-1", "+5", "5, 5", "0x5", "", "5 5", "5;", "1e1", "٥"])
def test_lengths_that_are_none(target: Target, length: str) -> None:
    request = target.signer.sign(target.put()).without_header("Content-Length").with_headers()
    head = request.head()[:-2] + f"Content-Length: {length}\r\n\r\n".encode()
    target.refused(head + HOSTILE, may_close=True, finish=True)


def test_neither_length_nor_chunks(target: Target) -> None:
    signed = target.signer.sign(target.put().without_header("Content-Length"), UNSIGNED)
    answer = target.refused(signed.replace(body=b""))
    assert answer is not None
    assert (answer.status, answer.code) == (411, "MissingContentLength")


def test_slow_headers(target: Target) -> None:
    data = target.signer.sign(target.put()).encode()
    with Connection(*target.gateway.address) as connection:
        connection.send(data[:50])
        with contextlib.suppress(Closed):
            assert connection.response().status == 408
    # One byte at a time does not help: the time is for all of them.
    with Connection(*target.gateway.address) as connection:
        sent = 0
        try:
            while sent < len(data) - 200:
                connection.socket.sendall(data[sent : sent + 1])
                sent += 1
                time.sleep(0.05)
        except OSError:
            pass
        assert sent < len(data) - 200
    assert target.stored() is None


def test_slow_bodies(target: Target) -> None:
    data = target.signer.sign(target.put(body=bytes(1 << 20)), UNSIGNED).encode()
    with Connection(*target.gateway.address) as connection:
        connection.send(data[: len(data) // 2])
        with contextlib.suppress(Closed):
            check_refusal(connection.response())
    assert target.stored() is None
    body, content_type = form([("key", target.key)], bytes(1 << 20))
    head = target.gateway.request("POST", f"/{target.bucket}", ("Content-Type", content_type), body=body).encode()
    with Connection(*target.gateway.address) as connection:
        connection.send(head[: len(head) // 2])
        with contextlib.suppress(Closed):
            check_refusal(connection.response())
    assert target.stored() is None


def test_nobody_waits_for_the_idle(target: Target) -> None:
    """Many connections that say nothing do not keep others out."""
    idle = [Connection(*target.gateway.address) for _ in range(200)]
    for connection in idle[::2]:
        connection.send(b"GET /")
    target.accepted(target.signer.sign(target.put()))
    for connection in idle:
        connection.socket.close()


def test_continue_comes_after_authentication(target: Target) -> None:
    expecting = target.put(("Expect", "100-continue"))
    for signed in (
        target.signer.sign(expecting).with_header("x-amz-content-sha256", sha256(b"x")),
        expecting,
        target.gateway.signer(target.gateway.keys.reader).sign(expecting),
    ):
        with Connection(*target.gateway.address) as connection:
            connection.send(signed.head())
            answer = connection.interim()
            assert answer.status == 403, "the body was asked for before the request was authenticated"
    signed = target.signer.sign(expecting)
    with Connection(*target.gateway.address) as connection:
        connection.send(signed.head())
        assert connection.interim().status == 100
        connection.send(signed.body)
        assert connection.response().status == 200
    assert target.stored() == HOSTILE


def test_secret_is_still_there(target: Target) -> None:
    assert target.gateway.call("GET", f"/{target.vault}/secret").body == SECRET
