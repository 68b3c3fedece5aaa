"""The KV extension of a gateway, and a bucket to use it on."""

from collections.abc import Iterator

import pytest
from conftest import MakeGateway

from lib.buckets import MakeBucket, bucket_maker
from lib.gateway import Gateway
from lib.kv import Kv


@pytest.fixture(scope="session")
def kv_gateway(make_gateway: MakeGateway) -> Gateway:
    """A gateway on a folder, with patience of two seconds."""
    limits = {"header_timeout": "2s", "body_stall_timeout": "2s"}
    return make_gateway("fs", {"server": {"limits": limits}})


@pytest.fixture(scope="module")
def kv_buckets(kv_gateway: Gateway) -> Iterator[MakeBucket]:
    """Buckets that live as long as the module's tests."""
    yield from bucket_maker(kv_gateway)


@pytest.fixture
def kv(kv_gateway: Gateway, kv_buckets: MakeBucket) -> Iterator[Kv]:
    """An empty bucket, on a gateway that must be alive afterwards."""
    pid = kv_gateway.pid
    yield Kv(kv_gateway, kv_buckets())
    assert kv_gateway.alive()
    assert kv_gateway.pid == pid
