"""A gateway with a staging log, looked at from outside."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from lib.gateway import Gateway, Settings

PATIENCE_S = 60.0
"""A disk is tried again every few seconds; a store that was gone, too."""
QUIET: Settings = {"log_level": "info"}
"""For gateways that do much: nobody reads gigabytes of trace."""
PAGE_BYTES = 4096
HEADER_PAGES = 2
"""A segment's header is there twice."""


def staging(path: Path, capacity: str = "96MiB", segment: str = "8MiB", **more: str) -> Settings:
    """The sections of a gateway that stages under `path`."""
    section = {"path": str(path), "capacity": capacity, "segment": segment, **more}
    return {"staging": section, "bucket": [{"name": "kv-*", "write": "back"}], "telemetry": QUIET}


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits for something that must come."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(0.05)


def is_on(gateway: Gateway) -> bool:
    """Whether blocks are taken in."""
    return gateway.metric("blockgate_staging_on") == 1


def wait_until_on(gateway: Gateway) -> None:
    """Waits for a disk to be taken into use again."""
    wait_until(lambda: is_on(gateway), "staging comes back")


def wait_until_off(gateway: Gateway) -> None:
    """Waits for a broken disk to be noticed."""
    wait_until(lambda: not is_on(gateway), "the disk's failure is noticed")


def pending_bytes(gateway: Gateway) -> float:
    """Acknowledged bytes that the store does not have yet."""
    return gateway.metric("blockgate_staging_pending_bytes")


def wait_until_uploaded(gateway: Gateway) -> None:
    """Waits until the store has everything."""
    wait_until(lambda: pending_bytes(gateway) == 0, "everything is uploaded")


def segments(path: Path) -> list[Path]:
    """The files of a log."""
    return sorted(path.glob("segment-*.log"))


def warnings(gateway: Gateway) -> list[str]:
    """What an operator would see."""
    lines = [line for line in gateway.log.read_text(errors="replace").splitlines() if line.startswith("{")]
    entries = [json.loads(line) for line in lines]
    return [json.dumps(entry) for entry in entries if entry.get("level") in ("WARN", "ERROR")]


def assert_warned(gateway: Gateway, *gist: str) -> None:
    """One line tells an operator all of this."""
    found = warnings(gateway)
    assert any(all(part in line for part in gist) for line in found), f"no line tells {gist}:\n" + "\n".join(found)


def assert_no_crash(gateway: Gateway) -> None:
    """Nothing in it failed in a way that nobody thought of."""
    text = gateway.log.read_text(errors="replace")
    assert "panicked" not in text, text[text.index("panicked") :][:2000]
    assert gateway.process is None or gateway.alive()
