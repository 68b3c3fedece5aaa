"""What every client must be able to do, through every store."""

import os
import random
import urllib.error
import urllib.request
from typing import Any

import pytest

from lib.clients import CLIENTS, Client, Refused
from lib.gateway import Gateway

LARGE_BYTES = 32 << 20


def clients_that(*abilities: str) -> pytest.MarkDecorator:
    """One test for each client that has the abilities."""
    names = [name for name, client in CLIENTS.items() if client.abilities >= set(abilities)]
    return pytest.mark.parametrize("client", names, indirect=True)


@pytest.fixture(scope="module")
def started(gateway: Gateway) -> dict[str, Client]:
    """Clients in use, by name."""
    return {}


@pytest.fixture
def client(
    request: pytest.FixtureRequest,
    gateway: Gateway,
    started: dict[str, Client],
    tmp_path_factory: pytest.TempPathFactory,
) -> Client:
    """One client."""
    name: str = request.param
    if name not in started:
        started[name] = CLIENTS[name](gateway, tmp_path_factory.mktemp(name))
    return started[name]


@pytest.fixture(scope="session")
def large() -> bytes:
    """32 MiB: LMCache's chunk of 256 tokens."""
    return random.Random(32).randbytes(LARGE_BYTES)


@clients_that()
def test_object_comes_and_goes(client: Client, s3: Any, bucket: str, key: str) -> None:
    data = os.urandom(2 << 20)
    assert not client.exists(bucket, key)
    client.put(bucket, key, data)
    assert client.exists(bucket, key)
    assert client.get(bucket, key) == data
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == data

    client.put(bucket, key, data[::-1])
    assert client.get(bucket, key) == data[::-1]

    client.delete(bucket, key)
    assert not client.exists(bucket, key)


@clients_that()
def test_empty_object(client: Client, bucket: str, key: str) -> None:
    client.put(bucket, key, b"")
    assert client.exists(bucket, key)
    assert client.get(bucket, key) == b""


@clients_that()
def test_listing(client: Client, bucket: str, key: str) -> None:
    names = [f"{key}/{name}" for name in ("a", "a@b", "a@b/c", "z")]
    for name in names:
        client.put(bucket, name, name.encode())
    assert sorted(client.list(bucket, f"{key}/")) == names
    assert [client.get(bucket, name) for name in names] == [name.encode() for name in names]


@clients_that("copy")
def test_copy(client: Client, bucket: str, key: str) -> None:
    data = os.urandom(1 << 16)
    client.put(bucket, key, data)
    client.copy(bucket, key, f"{key}@copy")
    assert client.get(bucket, f"{key}@copy") == data


@clients_that("range")
def test_ranges(client: Client, s3: Any, bucket: str, key: str) -> None:
    data = os.urandom(10_000)
    s3.put_object(Bucket=bucket, Key=key, Body=data)
    assert client.range(bucket, key, "0-99") == data[:100]
    assert client.range(bucket, key, "5000-5999") == data[5000:6000]
    assert client.range(bucket, key, "9000-") == data[9000:]
    assert client.range(bucket, key, "-500") == data[-500:]
    assert client.range(bucket, key, "9990-20000") == data[9990:]
    try:
        beyond = client.range(bucket, key, "10000-10099")
    except Refused:
        pass
    else:
        # rclone knows the length and does not ask.
        assert (client.name, beyond) == ("rclone", b"")


@clients_that("multipart")
def test_multipart(client: Client, s3: Any, bucket: str, key: str, large: bytes) -> None:
    client.multipart(bucket, key, large)
    head = s3.head_object(Bucket=bucket, Key=key)
    assert head["ContentLength"] == LARGE_BYTES
    assert head["ETag"].endswith('-1"'), "a multipart upload ends as one block"
    assert client.get(bucket, key) == large


@clients_that("tag")
def test_tags(client: Client, s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert client.tags(bucket, key) == {}
    tags = {"model": "llama", "layer": "7"}
    client.tag(bucket, key, tags)
    assert client.tags(bucket, key) == tags
    answer = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in answer} == tags


@clients_that("presign_get")
def test_presigned_get(client: Client, s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"presigned")
    url = client.presign_get(bucket, key)
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.read() == b"presigned"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url.replace(key, f"{key}x"), timeout=10)


@clients_that("presign_put")
def test_presigned_put(client: Client, bucket: str, key: str) -> None:
    url = client.presign_put(bucket, key)
    with urllib.request.urlopen(urllib.request.Request(url, b"by url", method="PUT"), timeout=10) as answer:
        assert answer.status == 200
    assert client.get(bucket, key) == b"by url"


@clients_that("put_if_absent")
def test_conditional_put(client: Client, bucket: str, key: str) -> None:
    client.put_if_absent(bucket, key, b"first")
    with pytest.raises(Refused, match=r"412|PreconditionFailed"):
        client.put_if_absent(bucket, key, b"second")
    assert client.get(bucket, key) == b"first"
