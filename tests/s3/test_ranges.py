"""Ranges, from memory and from the store."""

import os
from typing import Any

import pytest

from lib.answers import refusal
from lib.gateway import Gateway

SIZE = 300_000
DATA = os.urandom(SIZE)


@pytest.fixture(scope="module", params=["kv", "pass"])
def target(request: pytest.FixtureRequest, gateway: Gateway, make_module_bucket: Any) -> str:
    """Path of an object in a cached and in a plain bucket."""
    bucket = make_module_bucket(request.param)
    gateway.s3().put_object(Bucket=bucket, Key="ranged", Body=DATA)
    return f"/{bucket}/ranged"


@pytest.mark.parametrize(
    ("spec", "first", "last"),
    [
        ("0-0", 0, 0),
        ("0-8388607", 0, SIZE - 1),
        (f"0-{SIZE - 1}", 0, SIZE - 1),
        ("100-199", 100, 199),
        (f"{SIZE - 1}-{SIZE - 1}", SIZE - 1, SIZE - 1),
        (f"{SIZE - 10}-", SIZE - 10, SIZE - 1),
        (f"{SIZE - 10}-{SIZE + 10}", SIZE - 10, SIZE - 1),
        (f"5-{2**63 - 1}", 5, SIZE - 1),
        ("-1", SIZE - 1, SIZE - 1),
        ("-1000", SIZE - 1000, SIZE - 1),
        (f"-{SIZE * 2}", 0, SIZE - 1),
    ],
)
def test_satisfiable(gateway: Gateway, target: str, spec: str, first: int, last: int) -> None:
    answer = gateway.call("GET", target, ("Range", f"bytes={spec}"))
    assert answer.status == 206, str(answer)
    assert answer.header("content-range") == f"bytes {first}-{last}/{SIZE}"
    assert answer.header("content-length") == str(last - first + 1)
    assert answer.body == DATA[first : last + 1]
    head = gateway.call("HEAD", target, ("Range", f"bytes={spec}"))
    assert (head.status, head.header("content-range")) == (206, f"bytes {first}-{last}/{SIZE}")


@pytest.mark.parametrize("spec", [f"{SIZE}-", f"{SIZE}-{SIZE + 5}", "-0", f"{2**62}-{2**63 - 1}"])
def test_beyond_the_end(gateway: Gateway, target: str, spec: str) -> None:
    answer = gateway.call("GET", target, ("Range", f"bytes={spec}"))
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert answer.header("content-range") == f"bytes */{SIZE}"


@pytest.mark.parametrize(
    "spec", ["bytes=5-3", "bytes=", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", "bytes=--5", "junk"]
)
def test_what_is_no_single_range_is_not_honoured(gateway: Gateway, target: str, spec: str) -> None:
    answer = gateway.call("GET", target, ("Range", spec))
    assert answer.status in (200, 400, 416), str(answer)
    if answer.status == 200:
        assert answer.body == DATA


def test_empty_object_has_no_range(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"")
    answer = gateway.call("GET", f"/{bucket}/{key}", ("Range", "bytes=0-8388607"))
    assert (answer.status, answer.header("content-range")) == (416, "bytes */0")


def test_if_match_with_a_range(s3: Any, bucket: str, key: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key=key, Body=DATA)["ETag"]
    answer = s3.get_object(Bucket=bucket, Key=key, Range="bytes=0-9", IfMatch=etag)
    assert answer["Body"].read() == DATA[:10]
    refused = refusal(s3.get_object, Bucket=bucket, Key=key, Range="bytes=0-9", IfMatch='"other"')
    assert refused == (412, "PreconditionFailed")
