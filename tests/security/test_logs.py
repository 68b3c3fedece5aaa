"""Runs last: what all gateways logged, at `trace`, holds no secret."""

import re

import pytest

from lib.gateway import Gateway, Keys
from lib.logs import LOGS
from lib.sigv4 import SIGNATURES

PATTERN = re.compile(rb"(?i)signature[\"'\\:= ]{1,6}[0-9a-f]{64}")


@pytest.fixture(scope="module")
def logs(guarded: Gateway) -> list[tuple[Gateway, bytes]]:
    """Every log of this run."""
    assert guarded.alive()
    return [(gateway, gateway.log.read_bytes()) for gateway in LOGS if gateway.log.exists()]


def test_there_is_something_to_scan(guarded: Gateway, logs: list[tuple[Gateway, bytes]]) -> None:
    assert all(b'"level":"DEBUG"' in text for gateway, text in logs if gateway is guarded)


def test_no_secret_key(logs: list[tuple[Gateway, bytes]], keys: Keys) -> None:
    for gateway, text in logs:
        own = (keys.admin.secret_key, keys.reader.secret_key, keys.scoped.secret_key)
        for secret in (*own, *gateway.store.secrets):
            assert secret.encode() not in text, gateway.log


def test_no_signature(logs: list[tuple[Gateway, bytes]]) -> None:
    assert SIGNATURES
    for gateway, text in logs:
        found = set(re.findall(rb"[0-9a-f]{64}", text)) & {signature.encode() for signature in SIGNATURES}
        assert not found, gateway.log
        assert not PATTERN.search(text), gateway.log
