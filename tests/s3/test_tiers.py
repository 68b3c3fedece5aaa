"""Where blocks come from: memory, the store, or nowhere."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import MakeGateway

from lib.answers import error_headers, headers, refusal
from lib.gateway import Gateway, UpstreamStore, s3_client
from lib.proxy import Proxy
from lib.sigv4 import Credentials

DATA = os.urandom(2 << 20)
EXPIRY_TIMEOUT_S = 15.0


def tier(s3: Any, bucket: str, key: str, **more: Any) -> str:
    """Reads a block whole; where it came from."""
    answer = s3.get_object(Bucket=bucket, Key=key, **more)
    assert more or answer["Body"].read() == DATA
    return headers(answer)["x-kv-tier"]


def test_written_blocks_are_in_memory(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=DATA)
    assert tier(s3, bucket, key) == "memory"
    assert tier(s3, bucket, key, Range="bytes=5-9") == "memory"
    assert headers(s3.head_object(Bucket=bucket, Key=key))["x-kv-tier"] == "memory"


def test_all_is_in_the_store(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key=key, Body=DATA, Metadata={"a": "b"})["ETag"]
    gateway.kill()
    gateway.start()
    answer = s3.get_object(Bucket=bucket, Key=key)
    assert (answer["Body"].read(), answer["ETag"], answer["Metadata"]) == (DATA, etag, {"a": "b"})
    assert headers(answer)["x-kv-tier"] == "upstream"
    assert tier(s3, bucket, key) == "memory"
    assert s3.head_object(Bucket=bucket, Key=key)["ETag"] == etag


def test_a_range_of_a_cold_block(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key=key, Body=DATA)["ETag"]
    gateway.restart()
    answer = s3.get_object(Bucket=bucket, Key=key, Range="bytes=1000000-1000099")
    assert (answer["Body"].read(), answer["ETag"]) == (DATA[1000000:1000100], etag)
    assert answer["ContentRange"] == f"bytes 1000000-1000099/{len(DATA)}"


def test_another_gateway_serves_the_same(
    gateway: Gateway, make_gateway: MakeGateway, s3: Any, bucket: str, key: str
) -> None:
    etag = s3.put_object(Bucket=bucket, Key=key, Body=DATA, Metadata={"a": "b"})["ETag"]
    other = make_gateway(gateway.store)
    answer = other.s3().get_object(Bucket=bucket, Key=key)
    assert (answer["Body"].read(), answer["ETag"], answer["Metadata"]) == (DATA, etag, {"a": "b"})
    assert headers(answer)["x-kv-tier"] == "upstream"
    other.s3().put_object(Bucket=bucket, Key=f"{key}@other", Body=DATA)
    assert tier(s3, bucket, f"{key}@other") == "upstream"
    other.close()


def test_objects_of_other_tools(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    """What was not stored through blockgate is served all the same."""
    if gateway.store.name == "fs":
        return
    settings = gateway.store.settings
    direct = s3_client(settings["endpoint"], Credentials(settings["access_key"], settings["secret_key"]))
    direct.put_object(Bucket=bucket, Key=key, Body=DATA, Metadata={"by": "hand"}, ContentType="x/y")
    answer = s3.get_object(Bucket=bucket, Key=key)
    assert (answer["Body"].read(), answer["Metadata"], answer["ContentType"]) == (DATA, {"by": "hand"}, "x/y")
    ours = direct.get_object(Bucket=bucket, Key=key)
    assert ours["Body"].read() == DATA
    s3.put_object(Bucket=bucket, Key=f"{key}@ours", Body=DATA)
    assert direct.get_object(Bucket=bucket, Key=f"{key}@ours")["Body"].read() == DATA


def test_overwrites_and_deletes_are_seen_at_once(s3: Any, bucket: str, key: str) -> None:
    for number in range(20):
        data = b"%d" % number * 1000
        s3.put_object(Bucket=bucket, Key=key, Body=data)
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == data
        assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(data)
        if number % 2:
            s3.delete_object(Bucket=bucket, Key=key)
            assert refusal(s3.head_object, Bucket=bucket, Key=key)[0] == 404
            assert refusal(s3.get_object, Bucket=bucket, Key=key) == (404, "NoSuchKey")


def test_a_miss_does_not_outlive_a_write(s3: Any, bucket: str, key: str) -> None:
    assert error_headers(s3.head_object, Bucket=bucket, Key=key)["x-kv-miss"] == "absent"
    s3.put_object(Bucket=bucket, Key=key, Body=DATA)
    assert tier(s3, bucket, key) == "memory"


def test_what_another_gateway_wrote_is_found_soon(
    gateway: Gateway, make_gateway: MakeGateway, s3: Any, bucket: str, key: str
) -> None:
    assert refusal(s3.head_object, Bucket=bucket, Key=key)[0] == 404
    other = make_gateway(gateway.store)
    other.s3().put_object(Bucket=bucket, Key=key, Body=DATA)
    other.close()
    wait_until(lambda: refused_or_none(s3, bucket, key) is None)
    assert tier(s3, bucket, key) == "upstream"


def refused_or_none(s3: Any, bucket: str, key: str) -> str | None:
    """The reason of a miss, or nothing."""
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except s3.exceptions.ClientError as error:
        return headers(error.response).get("x-kv-miss", "no reason")
    return None


def wait_until(condition: Any) -> None:
    """Polls."""
    deadline = time.monotonic() + EXPIRY_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize("how", ["metadata", "tag", "bucket"])
def test_expired_blocks_are_gone(
    gateway: Gateway, make_gateway: MakeGateway, s3: Any, make_bucket: Any, key: str, how: str
) -> None:
    bucket = make_bucket("ttl" if how == "bucket" else "kv")
    ways: dict[str, dict[str, Any]] = {
        "metadata": {"Metadata": {"kv-ttl": "2"}},
        "tag": {"Tagging": "kv-ttl=2"},
        "bucket": {},
    }
    answer = s3.put_object(Bucket=bucket, Key=key, Body=DATA, **ways[how])
    assert "expiry-date=" in headers(answer)["x-amz-expiration"]
    assert tier(s3, bucket, key) == "memory"
    assert "expiry-date=" in headers(s3.head_object(Bucket=bucket, Key=key))["x-amz-expiration"]
    wait_until(lambda: refused_or_none(s3, bucket, key) == "expired")
    assert error_headers(s3.get_object, Bucket=bucket, Key=key)["x-kv-miss"] == "expired"
    gateway.restart()
    assert error_headers(s3.get_object, Bucket=bucket, Key=key)["x-kv-miss"] == "expired"
    s3.put_object(Bucket=bucket, Key=key, Body=DATA, Metadata={"kv-ttl": "600"})
    assert tier(s3, bucket, key) == "memory"


@pytest.mark.parametrize("ttl", ["-1", "x", "1.5", "", "99999999999999999999"])
def test_nonsense_for_a_ttl(s3: Any, bucket: str, key: str, ttl: str) -> None:
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"x", Metadata={"kv-ttl": ttl})[0] == 400
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"x", Tagging=f"kv-ttl={ttl}")[0] == 400
    assert refusal(s3.head_object, Bucket=bucket, Key=key)[0] == 404


def test_fingerprints(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=DATA, Metadata={"kv-fingerprint": "llama-bf16"})
    path = f"/{bucket}/{key}"

    def asks(fingerprint: str) -> tuple[int, str | None]:
        for method in ("HEAD", "GET"):
            answer = gateway.call(method, path, ("x-amz-meta-kv-fingerprint", fingerprint))
        return answer.status, answer.header("x-kv-miss")

    for _ in range(2):
        assert asks("llama-bf16") == (200, None)
        assert asks("llama-fp8") == (404, "fingerprint")
        assert tier(s3, bucket, key)
        gateway.restart()


def test_fingerprints_can_be_required(s3: Any, make_bucket: Any, key: str) -> None:
    bucket = make_bucket("fp")
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"x")[0] == 400
    s3.put_object(Bucket=bucket, Key=key, Body=b"x", Metadata={"kv-fingerprint": "f"})


def test_many_readers_cause_one_read(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    data = os.urandom(16 << 20)
    s3.put_object(Bucket=bucket, Key=key, Body=data)
    gateway.restart()
    before = gateway.upstream_reads()
    start = threading.Barrier(16)

    def read(_: int) -> bool:
        start.wait()
        return bool(s3.get_object(Bucket=bucket, Key=key)["Body"].read() == data)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(read, range(16)))
    assert gateway.upstream_reads() - before == 1


@pytest.fixture
def slow(gateway: Gateway, make_gateway: MakeGateway) -> Any:
    """A gateway whose store can be made silent, and the means to do so."""
    if gateway.store.name == "fs":
        pytest.skip("a folder has no network that could be slow")
    settings = gateway.store.settings
    host, _, port = settings["endpoint"].removeprefix("http://").partition(":")
    proxy = Proxy((host, int(port)))
    store = UpstreamStore(
        gateway.store.name,
        {**settings, "endpoint": f"http://127.0.0.1:{proxy.port}"},
        gateway.store.secrets,
    )
    made = make_gateway(store)
    yield made, proxy
    made.close()
    proxy.close()


def test_deadlines(slow: tuple[Gateway, Proxy], s3: Any, bucket: str, key: str) -> None:
    gateway, proxy = slow
    s3.put_object(Bucket=bucket, Key=key, Body=DATA)
    path, header = f"/{bucket}/{key}", ("x-kv-deadline-ms", "300")
    proxy.hold()
    for method in ("HEAD", "GET"):
        answer = gateway.call(method, path, header)
        assert (answer.status, answer.header("x-kv-miss")) == (404, "deadline"), str(answer)
    proxy.release()
    long = ("x-kv-deadline-ms", "30000")
    assert gateway.call("GET", path, long).body == DATA
    proxy.hold()
    hit = gateway.call("GET", path, header)
    assert (hit.status, hit.header("x-kv-tier"), hit.body) == (200, "memory", DATA)
    proxy.release()


@pytest.mark.parametrize("text", ["x", "-1", "1e9", ""])
def test_nonsense_for_a_deadline(gateway: Gateway, bucket: str, key: str, text: str) -> None:
    assert gateway.call("GET", f"/{bucket}/{key}", ("x-kv-deadline-ms", text)).status == 400
