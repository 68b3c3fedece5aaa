"""A log far smaller than what goes through it, for as long as BLOCKGATE_SOAK_S says: nothing leaks."""

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import MakeGateway

from lib.gateway import Gateway
from lib.history import History
from lib.load import Client, Load, judge_all
from lib.staging import assert_no_crash, is_on, pending_bytes, segments, staging, wait_until, wait_until_uploaded

SECONDS = float(os.environ.get("BLOCKGATE_SOAK_S", "10"))
WARM_UP_S = 2.0
BUCKET = "kv-soak"
SEGMENT_MIB, CAPACITY_MIB, MEMORY_MIB = 4, 32, 64
WRITERS, KEYS, LENGTH_MAX = 4, 150, 1 << 20
GROWTH_MIB_MAX = 64

pytestmark = pytest.mark.timeout(180 + 2 * SECONDS)


def resident_mib(gateway: Gateway) -> float:
    """Memory of the process."""
    status = Path(f"/proc/{gateway.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def open_files(gateway: Gateway) -> int:
    """Its file descriptors, less those of the log's segments: one for each, as often as it is used again."""
    count = 0
    for entry in os.scandir(f"/proc/{gateway.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += not Path(os.readlink(entry.path)).name.startswith("segment-")
    return count


def held(gateway: Gateway) -> dict[str, float]:
    """What must be given back."""
    return {
        "file descriptors": open_files(gateway),
        "threads": len(os.listdir(f"/proc/{gateway.pid}/task")),
        "arena bytes": gateway.metric("blockgate_memory_used_bytes"),
        "leases": gateway.metric("blockgate_leases"),
        "pending bytes": pending_bytes(gateway),
        "staged blocks": gateway.metric("blockgate_staging_blocks"),
    }


def soak(gateway: Gateway, history: History, seconds: float, seed: str) -> None:
    """Load for that long; then everything is judged and removed."""
    load = Load(gateway, BUCKET, history, seed, writers=WRITERS, keys=KEYS, largest=LENGTH_MAX).start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not load.stopping.is_set():
        assert len(segments(gateway.folder / "staging")) <= CAPACITY_MIB // SEGMENT_MIB
        time.sleep(0.2)
    load.stop()
    client = Client(gateway, BUCKET, history)
    judge_all(client, history)
    wait_until_uploaded(gateway)
    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(client.delete, history.all_keys()))
    assert client.refused == 0
    assert judge_all(client, history).keys() == {"absent"}
    client.close()


def test_nothing_leaks(make_gateway: MakeGateway) -> None:
    sizes = {"capacity": f"{CAPACITY_MIB}MiB", "segment": f"{SEGMENT_MIB}MiB"}
    gateway = make_gateway("fs", start=False)
    gateway = make_gateway(
        gateway.store, {**staging(gateway.folder / "staging", **sizes), "memory": {"capacity": f"{MEMORY_MIB}MiB"}}
    )
    gateway.s3().create_bucket(Bucket=BUCKET)
    history = History()
    soak(gateway, history, WARM_UP_S, "warm-up")
    before, memory = held(gateway), resident_mib(gateway)
    soak(gateway, history, SECONDS, "soak")
    written = gateway.metric("blockgate_staging_written_bytes_total")
    print(f"{history.acknowledged} operations, {history.judged} answers judged, {written / 2**20:.0f} MiB staged")
    assert written > CAPACITY_MIB << 20, "the log was never full"
    assert gateway.metric("blockgate_staging_reclaimed_segments_total") > 0
    assert is_on(gateway)

    def given_back() -> bool:
        return all(value <= before[name] for name, value in held(gateway).items())

    try:
        wait_until(given_back, "everything is given back")
    except AssertionError as error:
        raise AssertionError(f"held before: {before}, after: {held(gateway)}") from error
    grown = resident_mib(gateway) - memory
    assert grown < GROWTH_MIB_MAX, f"memory grew by {grown:.0f} MiB"
    assert_no_crash(gateway)
    assert gateway.stop() == 0
    gateway.close()
