"""The store goes away and comes back."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import MakeGateway

from lib.answers import error_headers, headers, refusal
from lib.buckets import bucket_maker
from lib.gateway import Gateway, UpstreamStore
from lib.line import Line

DATA = os.urandom(1 << 20)
PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def line(store: UpstreamStore) -> Iterator[Line]:
    """A way to the store that can be cut."""
    if store.name == "fs":
        pytest.skip("a folder that is held open can't be cut off")
    made = Line(store)
    yield made
    if made.proxy:
        made.proxy.close()


@pytest.fixture(scope="module")
def fragile(line: Line, make_gateway: MakeGateway) -> Iterator[Gateway]:
    """A gateway over that way."""
    gateway = make_gateway(line.store)
    yield gateway
    gateway.close()


@pytest.fixture(scope="module")
def buckets(fragile: Gateway) -> Iterator[Any]:
    """Makes buckets."""
    yield from bucket_maker(fragile)


@pytest.fixture(scope="module")
def kv(buckets: Any) -> str:
    """A bucket that answers outages with misses."""
    made: str = buckets("kv")
    return made


@pytest.fixture(scope="module")
def honest(buckets: Any) -> str:
    """A bucket that answers outages with errors."""
    made: str = buckets("err")
    return made


@pytest.fixture
def outage(line: Line, fragile: Gateway, kv: str) -> Iterator[Line]:
    """An outage that ends with the test. It begins once the gateway has noticed the end of the last one."""
    until = time.monotonic() + PATIENCE_S
    while error_headers(fragile.s3().head_object, Bucket=kv, Key="nothing")["x-kv-miss"] != "absent":
        assert time.monotonic() < until, "the store is there again, and the gateway does not notice"
        time.sleep(0.1)
    yield line
    line.mend()


def test_reads_are_misses_at_once(fragile: Gateway, kv: str, honest: str, key: str, outage: Line) -> None:
    s3 = fragile.s3()
    s3.put_object(Bucket=kv, Key=f"{key}@hot", Body=DATA)
    for bucket in (kv, honest):
        s3.put_object(Bucket=bucket, Key=f"{key}@cold", Body=DATA)
    fragile.restart()
    assert s3.get_object(Bucket=kv, Key=f"{key}@hot")["Body"].read() == DATA
    outage.cut()

    for name in (f"{key}@cold", f"{key}@never was"):
        for call in (s3.head_object, s3.get_object):
            began = time.monotonic()
            assert refusal(call, Bucket=kv, Key=name)[0] == 404
            assert error_headers(call, Bucket=kv, Key=name)["x-kv-miss"] == "upstream_unavailable"
            assert time.monotonic() - began < PATIENCE_S, "an engine would have waited"
            assert refusal(call, Bucket=honest, Key=name)[0] == 503

    hot = s3.get_object(Bucket=kv, Key=f"{key}@hot")
    assert (hot["Body"].read(), headers(hot)["x-kv-tier"]) == (DATA, "memory")
    assert refusal(s3.put_object, Bucket=kv, Key=f"{key}@new", Body=DATA)[0] == 503
    assert refusal(s3.list_objects_v2, Bucket=kv)[0] == 503


def test_readiness_follows(fragile: Gateway, kv: str, key: str, outage: Line) -> None:
    s3 = fragile.s3()
    s3.put_object(Bucket=kv, Key=key, Body=DATA)
    fragile.restart()
    fragile.wait_for("/readyz")
    outage.cut()
    fragile.wait_for("/readyz", 503)
    assert fragile.ops("/healthz")[0] == 200
    outage.mend()
    fragile.wait_for("/readyz")
    until = time.monotonic() + PATIENCE_S
    while refusal_or_none(s3, kv, key) and time.monotonic() < until:
        time.sleep(0.1)
    assert s3.get_object(Bucket=kv, Key=key)["Body"].read() == DATA
    outage.cut()


def refusal_or_none(s3: Any, bucket: str, key: str) -> str | None:
    """The code of a refusal, or nothing."""
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except s3.exceptions.ClientError as error:
        return str(error.response["Error"]["Code"])
    return None


def test_started_before_its_store(line: Line, make_gateway: MakeGateway, outage: Line) -> None:
    if line.store.name == "fs":
        return  # a folder that is not there is made
    outage.cut()
    gateway = make_gateway(line.store, start=False).start(ready=False)
    assert gateway.ops("/readyz")[0] == 503
    outage.mend()
    gateway.wait_for("/readyz")
    assert gateway.s3().list_buckets()["Buckets"] is not None
    gateway.close()
    outage.cut()


def test_a_cut_in_the_middle_of_a_block(fragile: Gateway, kv: str, key: str, outage: Line) -> None:
    """Bytes that are not all there are never taken for a block."""
    if outage.proxy is None:
        return
    s3, data = fragile.s3(), os.urandom(32 << 20)
    s3.put_object(Bucket=kv, Key=key, Body=data)
    for after in (1 << 20, 20 << 20):
        fragile.restart()
        outage.proxy.cut_after(after)
        try:
            found = s3.get_object(Bucket=kv, Key=key)["Body"].read()
        except Exception:
            found = None
        assert found in (None, data)
        outage.cut()
        outage.mend()
        assert s3.get_object(Bucket=kv, Key=key)["Body"].read() == data
    outage.cut()
