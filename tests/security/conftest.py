"""The gateway under attack, and what attackers are after."""

from collections.abc import Iterator

import pytest
from conftest import MakeGateway

from lib.attacks import SECRET, Target
from lib.buckets import bucket_maker
from lib.gateway import Gateway


@pytest.fixture(scope="session")
def guarded(make_gateway: MakeGateway) -> Gateway:
    """A gateway on a folder, with patience of a second."""
    limits = {"header_timeout": "1s", "body_stall_timeout": "1s"}
    return make_gateway("fs", {"server": {"limits": limits}})


@pytest.fixture(scope="session")
def aims(guarded: Gateway) -> Iterator[Target]:
    """A bucket to write to and a bucket with a secret."""
    buckets = bucket_maker(guarded)
    make = next(buckets)
    target = Target(guarded, make(), make("vault"))
    guarded.s3().put_object(Bucket=target.vault, Key="secret", Body=SECRET)
    yield target
    next(buckets, None)


@pytest.fixture
def target(aims: Target, key: str) -> Iterator[Target]:
    """The aims, with a key of the test's own. Whatever the test does, afterwards the server lives and the secret is there."""
    pid = aims.gateway.pid
    yield aims.at(key)
    assert aims.gateway.alive(), "the server died"
    assert aims.gateway.pid == pid
    answer = aims.gateway.call("GET", f"/{aims.vault}/secret")
    assert (answer.status, answer.body) == (200, SECRET), str(answer)
