"""LMCache as it ships: its in-process S3 connector, and the S3 adapter of its multi-process server."""

from typing import Any

import pytest
from conftest import MakeGateway

from lib import hosts
from lib.gateway import Gateway, free_port

from .conftest import Drive

CHUNKS = 3
MODELS = ["meta-llama/Llama-3.1-8B", "/models/llama", "//share//llama"]


@pytest.fixture(scope="module")
def lmcache_gateway(make_gateway: MakeGateway) -> Gateway:
    """A gateway with a listener on which every request is for the bucket `kvcache`, as LMCache's addressing wants it."""
    return make_gateway(
        "fs", {"server": {"listener": [{"listen": f"127.0.0.1:{free_port()}", "default_bucket": "kvcache"}]}}
    )


def settings(gateway: Gateway, host: str, chunk_mib: int, model: str) -> dict[str, Any]:
    """What a driver needs to know."""
    return {
        "endpoint": f"s3://{host}",
        "region": "us-east-1",
        "access_key": gateway.keys.admin.access_key,
        "secret_key": gateway.keys.admin.secret_key,
        "chunk_mib": chunk_mib,
        "count": CHUNKS,
        "model": model,
    }


def default_bucket_host(gateway: Gateway) -> str:
    """The listener that stands for the bucket."""
    return str(gateway.settings["server"]["listener"][0]["listen"])


def virtual_host(gateway: Gateway) -> str:
    """The bucket as a host name."""
    if hosts.refusal():
        pytest.skip(f"*** SKIPPED: {hosts.refusal()} ***")
    hosts.add("kvcache.localhost")
    return f"kvcache.localhost:{gateway.port}"


@pytest.mark.parametrize("chunk_mib", [2, 32])
@pytest.mark.parametrize("address", [default_bucket_host, virtual_host])
@pytest.mark.parametrize("driver", ["lmcache_connector", "lmcache_mp"])
def test_store_look_up_and_load(
    lmcache_gateway: Gateway, drive: Drive, driver: str, address: Any, chunk_mib: int
) -> None:
    """Chunks are absent, then stored, found and loaded byte for byte: from memory, and after a restart from the store."""
    model = f"{MODELS[0]}-{address.__name__}-{chunk_mib}"
    given = settings(lmcache_gateway, address(lmcache_gateway), chunk_mib, model)
    whole = {"found": CHUNKS, "exact": CHUNKS, "size_bytes": chunk_mib * 2**20}

    stored = drive(driver, "store", given)
    assert stored.pop("found_before") == 0
    assert stored.pop("stored", True) is True
    assert stored == whole

    reads = lmcache_gateway.metric("blockgate_reads_total", tier="upstream")
    assert drive(driver, "load", given) == whole
    assert lmcache_gateway.metric("blockgate_reads_total", tier="upstream") == reads, (
        "memory serves what was just stored"
    )

    lmcache_gateway.restart()
    assert drive(driver, "load", given) == whole


@pytest.mark.parametrize("model", MODELS)
def test_multi_process_adapter_lists_and_deletes(lmcache_gateway: Gateway, drive: Drive, model: str) -> None:
    """Any model name does, also a path: the adapter lists exactly its keys, page by page, and deletes them."""
    given = settings(lmcache_gateway, default_bucket_host(lmcache_gateway), 1, model)
    assert drive("lmcache_mp", "store", given)["exact"] == CHUNKS
    assert drive("lmcache_mp", "list", given) == {"listed": CHUNKS, "exact": True}
    assert drive("lmcache_mp", "delete", given) == {"found": 0}
    assert drive("lmcache_mp", "list", given) == {"listed": 0, "exact": False}
