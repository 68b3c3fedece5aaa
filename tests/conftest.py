"""Stores, gateways and buckets for the tests."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lib import hosts
from lib.buckets import MakeBucket, bucket_maker
from lib.gateway import Gateway, Keys, Settings, UpstreamStore, new_credentials
from lib.logs import LOGS

STORES = ["fs", "radosgw", "seaweedfs"]

# The bucket's name chooses its settings.
BUCKETS: list[Settings] = [
    {"name": "pass-*", "mode": "passthrough"},
    {"name": "ttl-*", "ttl": "2s"},
    {"name": "err-*", "on_upstream_error": "error"},
    {"name": "fp-*", "require_fingerprint": True},
    {"name": "small-*", "max_block_bytes": "1MiB"},
]


def pytest_configure(config: pytest.Config) -> None:
    """Before any thread is started."""
    hosts.private_namespace()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The scan of all logs comes after all that could have written them."""
    items.sort(key=lambda item: item.path.name == "test_logs.py")


def open_store(name: str, folder: Path) -> UpstreamStore:
    """A store to put a gateway in front of; skips where it is not there."""
    if name == "fs":
        return UpstreamStore("fs", {"kind": "fs", "path": str(folder / "blocks")})
    variable = f"BLOCKGATE_TEST_{name.upper()}"
    if variable not in os.environ:
        pytest.skip(f"no {name} here: {variable} is not set (tests/run sets it)")
    access_key, secret_key, region = (
        os.environ[f"{variable}_{part}"] for part in ("ACCESS_KEY", "SECRET_KEY", "REGION")
    )
    settings = {
        "kind": "s3",
        "endpoint": os.environ[variable],
        "access_key": access_key,
        "secret_key": secret_key,
        "region": region,
    }
    return UpstreamStore(name, settings, (secret_key,))


@pytest.fixture(scope="session")
def keys() -> Keys:
    """The access keys of all gateways."""
    return Keys(new_credentials(), new_credentials(), new_credentials())


MakeGateway = Callable[..., Gateway]


@pytest.fixture(scope="session")
def make_gateway(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[MakeGateway]:
    """Starts gateways that live until the end: `make_gateway(store, settings, start=True)`. `store` may be a name."""
    made: list[Gateway] = []

    def make(store: UpstreamStore | str, settings: Settings | None = None, *, start: bool = True) -> Gateway:
        folder = tmp_path_factory.mktemp("gateway")
        if isinstance(store, str):
            store = open_store(store, folder)
        gateway = Gateway(folder, store, keys, {"bucket": BUCKETS, **(settings or {})})
        LOGS.append(gateway)
        made.append(gateway)
        return gateway.start() if start else gateway

    yield make
    for gateway in made:
        gateway.close()


@pytest.fixture(scope="session", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> UpstreamStore:
    """Each of the three stores in turn."""
    return open_store(request.param, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def gateway(store: UpstreamStore, make_gateway: MakeGateway) -> Gateway:
    """A gateway in front of each of the three stores in turn."""
    return make_gateway(store)


@pytest.fixture(scope="session")
def fs_gateway(make_gateway: MakeGateway) -> Gateway:
    """A gateway on a folder, for what does not depend on the store."""
    return make_gateway("fs")


@pytest.fixture(scope="session")
def s3(gateway: Gateway) -> Any:
    """boto3, as the administrator."""
    return gateway.s3()


@pytest.fixture
def make_bucket(gateway: Gateway) -> Iterator[MakeBucket]:
    """Buckets that live as long as the test."""
    yield from bucket_maker(gateway)


@pytest.fixture(scope="module")
def make_module_bucket(gateway: Gateway) -> Iterator[MakeBucket]:
    """Buckets that live as long as the module's tests."""
    yield from bucket_maker(gateway)


@pytest.fixture(scope="module")
def bucket(make_module_bucket: MakeBucket) -> str:
    """A bucket that the module's tests share."""
    return make_module_bucket()


@pytest.fixture
def empty_bucket(make_bucket: MakeBucket) -> str:
    """A bucket of the test's own."""
    return make_bucket()


@pytest.fixture
def key() -> str:
    """A key that nobody else uses."""
    return f"key/{secrets.token_hex(8)}"
