"""SIGTERM: what has begun is finished, then the process ends."""

import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from conftest import MakeGateway

from lib.buckets import bucket_maker
from lib.gateway import Gateway
from lib.raw import Connection
from lib.sigv4 import UNSIGNED


@pytest.fixture
def draining(make_gateway: MakeGateway) -> Iterator[Gateway]:
    """A gateway that waits a moment between `not ready` and the end."""
    gateway = make_gateway("fs", {"server": {"drain_grace": "500ms", "drain_timeout": "20s"}})
    yield gateway
    gateway.close()


def test_idle_ends_at_once(draining: Gateway) -> None:
    assert draining.stop() == 0


def test_requests_in_flight_are_finished(draining: Gateway) -> None:
    buckets = bucket_maker(draining)
    bucket = next(buckets)()
    body = os.urandom(4 << 20)
    put = draining.signer().sign(draining.request("PUT", f"/{bucket}/late", body=body), UNSIGNED).encode()
    with Connection(*draining.address) as connection:
        connection.send(put[: len(put) // 2])
        assert draining.process is not None
        draining.process.send_signal(signal.SIGTERM)
        draining.wait_for("/readyz", 503)
        connection.send(put[len(put) // 2 :])
        assert connection.response("PUT").status == 200
    assert draining.process.wait(30) == 0
    draining.process = None
    with socket.socket() as probe:
        assert probe.connect_ex(draining.address) != 0, "still listening"
    draining.start()
    assert draining.s3().get_object(Bucket=bucket, Key="late")["Body"].read() == body


def test_readers_get_all_their_bytes(draining: Gateway) -> None:
    buckets = bucket_maker(draining)
    bucket = next(buckets)()
    data = os.urandom(32 << 20)
    s3 = draining.s3()
    s3.put_object(Bucket=bucket, Key="block", Body=data)
    answer = s3.get_object(Bucket=bucket, Key="block")
    first = answer["Body"].read(1000)
    stopped: list[int] = []
    thread = threading.Thread(target=lambda: stopped.append(draining.stop()))
    thread.start()
    assert first + answer["Body"].read() == data
    s3.close()
    thread.join()
    assert stopped == [0]


def test_the_impatient_are_not_waited_for_forever(make_gateway: MakeGateway) -> None:
    gateway = make_gateway("fs", {"server": {"drain_timeout": "1s"}})
    request = gateway.request("PUT", "/kv-none/x", body=b"x" * 1000)
    with Connection(*gateway.address) as connection:
        connection.send(gateway.signer().sign(request).encode()[:-10])
        assert gateway.stop(20) == 0
    gateway.close()
