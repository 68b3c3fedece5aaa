"""A disk that fills up, fails, turns read-only: it is no staging for a while, and never a wrong byte or a failed read."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MakeGateway

from lib.disk import Disk, NoDisk
from lib.load import Load
from lib.staged import BUCKET, Staged
from lib.staging import (
    assert_no_crash,
    assert_warned,
    is_on,
    segments,
    staging,
    wait_until_off,
    wait_until_on,
    warnings,
)

DISK_BYTES = 128 << 20
MIB = 1 << 20
NO_ROOM = "No space left on device"
IO_ERROR = "Input/output error"
READ_ONLY = "Read-only file system"
UNDER_WAY = 1
"""The PUT that meets a failure may be refused: the log can't forget what it half has while the disk takes nothing."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small disk of its own."""
    try:
        made = Disk(tmp_path, DISK_BYTES)
    except NoDisk as reason:
        pytest.skip(f"no small disk to break: {reason}")
    yield made
    made.close()


@pytest.fixture
def staged(disk: Disk, make_gateway: MakeGateway) -> Iterator[Staged]:
    """A gateway in front of a folder that stages on the small disk; not started."""
    log = disk.path / "log"
    made = Staged(make_gateway("fs", staging(log), start=False), log)
    yield made
    made.gateway.close()


def begin(staged: Staged) -> None:
    """Starts it."""
    staged.gateway.start()
    staged.create_bucket()


def end(staged: Staged) -> None:
    """It has lived through it all."""
    assert_no_crash(staged.gateway)
    assert staged.gateway.stop() == 0


def test_no_room_from_the_beginning(disk: Disk, staged: Staged) -> None:
    disk.fill()
    begin(staged)
    staged.fill(4)
    assert not is_on(staged.gateway)
    assert_warned(staged.gateway, "staging", NO_ROOM)
    assert staged.judge_cold() == {"upstream": 4}
    disk.empty()
    wait_until_on(staged.gateway)
    staged.fill(4)
    assert staged.judge_cold().get("staging", 0) >= 4
    end(staged)


def test_a_disk_that_others_fill_up(disk: Disk, staged: Staged) -> None:
    """Segments that are there are used over and over; only more of them there can't be."""
    begin(staged)
    staged.fill(40)
    have = len(segments(staged.path))
    assert have >= 4
    disk.fill()
    for _ in range(3):
        staged.fill(24)
    assert len(segments(staged.path)) == have
    assert is_on(staged.gateway)
    assert staged.gateway.metric("blockgate_staging_reclaimed_segments_total") > 0
    assert_warned(staged.gateway, "staging is full before its capacity")
    assert staged.judge_cold().get("staging", 0) > 0
    end(staged)


def test_a_disk_that_fails(disk: Disk, staged: Staged) -> None:
    begin(staged)
    staged.fill(24)
    staged.gateway.restart()
    disk.break_down()
    assert staged.judge() == {"upstream": 24}
    staged.fill(8, refused_max=UNDER_WAY)
    wait_until_off(staged.gateway)
    assert_warned(staged.gateway, "staging", IO_ERROR)
    assert staged.gateway.metric("blockgate_staging_io_errors_total") > 0
    noisy = [line for line in warnings(staged.gateway) if IO_ERROR in line]
    assert len(noisy) < 20, "a line for each failure is too many:\n" + "\n".join(noisy)
    staged.judge()
    disk.mend()
    wait_until_on(staged.gateway)
    staged.fill(8)
    assert staged.judge_cold().get("staging", 0) >= 8
    end(staged)


def test_a_disk_that_fails_under_load(disk: Disk, staged: Staged) -> None:
    """Writers and readers go on, over three failures that are each noticed and overcome."""
    begin(staged)
    generator = random.Random(1)
    for turn in range(3):
        load = Load(staged.gateway, BUCKET, staged.history, f"failing {turn}").start()
        try:
            load.stopping.wait(generator.uniform(0.3, 1.0))
            disk.break_down()
            load.stopping.wait(generator.uniform(0.3, 1.0))
            wait_until_off(staged.gateway)
            disk.mend()
            wait_until_on(staged.gateway)
            load.stopping.wait(0.5)
        finally:
            load.stop()
        staged.judge()
    staged.judge_cold()
    end(staged)


def test_a_thin_disk_that_runs_dry(disk: Disk, staged: Staged) -> None:
    """Room that was allocated is refused when it is written to."""
    begin(staged)
    staged.fill(12)
    disk.run_dry()
    staged.fill(12, refused_max=UNDER_WAY)
    wait_until_off(staged.gateway)
    assert_warned(staged.gateway, "staging", NO_ROOM)
    staged.judge()
    disk.refresh()
    wait_until_on(staged.gateway)
    staged.fill(4)
    assert staged.judge_cold().get("staging", 0) >= 4
    end(staged)


def test_a_disk_that_turns_read_only(disk: Disk, staged: Staged) -> None:
    """Reads go on. It is taken into use again once it was repaired, which takes a restart: Linux repairs no mounted disk."""
    begin(staged)
    staged.fill(24)
    staged.gateway.restart()
    disk.turn_read_only()
    staged.fill(8, refused_max=UNDER_WAY)
    wait_until_off(staged.gateway)
    assert_warned(staged.gateway, "staging", READ_ONLY)
    tiers = staged.judge()
    assert tiers.get("staging", 0) >= 20, tiers
    client = staged.client
    for number in range(4):
        client.put(f"block/{number}", MIB)
        client.delete(f"block/{number + 4}")
    staged.judge()
    assert staged.gateway.stop() == 0
    disk.unmount()
    disk.repair()
    disk.mount()
    staged.gateway.start()
    assert staged.judge().get("staging", 0) >= 16
    assert is_on(staged.gateway)
    end(staged)
