"""What lies in the log is not what was written: bits flipped, segments cut, files of others."""

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MakeGateway

from lib.staged import Staged
from lib.staging import HEADER_PAGES, PAGE_BYTES, assert_no_crash, assert_warned, segments, staging

SEEDS = range(3)
STATE_BYTES = 64 << 10
"""Where the marks of a segment's records are: damage there could raise the dead."""
VERSION_AT = 8
"""Where a header's page says which format it is of."""
OTHER_VERSION = 99


@pytest.fixture
def staged(make_gateway: MakeGateway, tmp_path: Path) -> Iterator[Staged]:
    """A stopped gateway, its log full of blocks that were overwritten and deleted since, and the newest of them."""
    log = tmp_path / "log"
    made = Staged(make_gateway("fs", staging(log)), log).create_bucket()
    generator = random.Random(2)
    client = made.client
    for _ in range(60):
        client.put(f"changed/{generator.randrange(12)}", generator.randrange(1 << 10, 1 << 20))
        if generator.random() < 0.2:
            client.delete(f"changed/{generator.randrange(12)}")
    made.fill(16)
    assert made.gateway.stop() == 0
    assert len(segments(made.path)) >= 4
    yield made
    made.gateway.close()


def flip(path: Path, at: int, generator: random.Random) -> None:
    """Flips one bit."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << generator.randrange(8))]))


def assert_lives(staged: Staged) -> dict[str, int]:
    """It starts, serves nothing but what is right, and works."""
    staged.gateway.start()
    tiers = staged.judge()
    staged.fill(8)
    staged.judge_cold()
    assert_no_crash(staged.gateway)
    return tiers


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("crashed", [False, True])
def test_flipped_bits(staged: Staged, seed: int, crashed: bool) -> None:
    """Anywhere; half of them where the log keeps its own."""
    generator = random.Random(seed)
    if crashed:
        staged.gateway.start()
        for number in range(0, 16, 2):
            staged.client.put(f"block/{number}", generator.randrange(1 << 10, 1 << 20))
            staged.client.delete(f"block/{number + 1}")
        staged.fill(8)
        staged.gateway.kill()
    for path in segments(staged.path):
        size = path.stat().st_size
        for _ in range(24):
            flip(path, generator.randrange(generator.choice([STATE_BYTES, size])), generator)
    assert_lives(staged)


def test_every_block_damaged(staged: Staged) -> None:
    """A bit in each 16 KiB: the store has to give everything, and each block that is dropped is counted."""
    generator = random.Random(3)
    for path in segments(staged.path):
        for at in range(STATE_BYTES, path.stat().st_size, 16 << 10):
            flip(path, at + generator.randrange(16 << 10), generator)
    tiers = assert_lives(staged)
    assert tiers.get("upstream", 0) >= 16, tiers


def test_damage_is_counted_and_told(staged: Staged) -> None:
    for path in segments(staged.path):
        whole = path.read_bytes()
        for number in range(16):
            # In the middle of the bytes of a block: the log's own parts are sound.
            at = whole.find(f"block/{number} 1 ".encode())
            if at >= 0:
                flip(path, at + 200_000, random.Random(number))
    staged.gateway.start()
    tiers = staged.judge()
    assert tiers.get("upstream", 0) >= 16, tiers
    counted = staged.gateway.metric("blockgate_corrupt_blocks_total", tier="staging")
    assert counted == 16, counted
    assert_warned(staged.gateway, "staging", "block/3")
    assert_no_crash(staged.gateway)


@pytest.mark.parametrize("seed", SEEDS)
def test_cut_segments(staged: Staged, seed: int) -> None:
    generator = random.Random(seed)
    paths = segments(staged.path)
    for path in generator.sample(paths, len(paths) // 2):
        size = path.stat().st_size
        os.truncate(path, generator.choice([0, 100, PAGE_BYTES, STATE_BYTES, size // 2, size - 4096, size - 1]))
        assert path.stat().st_size < size
    assert_lives(staged)


def test_lost_segments(staged: Staged) -> None:
    """A hole in the log: what it held comes from the store, what it superseded stays dead."""
    for path in segments(staged.path)[::2]:
        path.unlink()
    assert_lives(staged)


def refusal_of(staged: Staged) -> str:
    """What a gateway says that does not start."""
    before = staged.gateway.log.stat().st_size
    staged.gateway.start(wait=False)
    assert staged.gateway.process is not None
    assert staged.gateway.process.wait(20) != 0
    staged.gateway.process = None
    assert_no_crash(staged.gateway)
    return staged.gateway.log.read_bytes()[before:].decode(errors="replace")


def test_a_file_of_somebody_else(staged: Staged) -> None:
    """It is named, and left as it is."""
    path = staged.path / "segment-0000ffff.log"
    path.write_bytes(b"my thesis, the only copy " * 1000)
    before = path.read_bytes()
    message = refusal_of(staged)
    assert path.name in message
    assert path.read_bytes() == before
    path.unlink()
    assert_lives(staged)


def test_a_segment_of_another_version(staged: Staged) -> None:
    """A later blockgate wrote it: what it holds may be acknowledged and not uploaded, so it is neither read nor overwritten."""
    path = segments(staged.path)[0]
    sound = path.read_bytes()
    with path.open("r+b") as file:
        for page in range(HEADER_PAGES):
            file.seek(page * PAGE_BYTES + VERSION_AT)
            file.write(struct.pack("<I", OTHER_VERSION))
    before = path.read_bytes()
    message = refusal_of(staged)
    assert path.name in message
    assert f"version {OTHER_VERSION}" in message
    assert path.read_bytes() == before
    path.write_bytes(sound)
    assert_lives(staged)


def test_segments_of_another_size(staged: Staged) -> None:
    """The setting was changed: what is there is read, and goes as its turn comes."""
    for size in ("4MiB", "16MiB"):
        staged.gateway.configure("staging", segment=size)
        assert assert_lives(staged).get("staging", 0) >= 16
        assert staged.gateway.stop() == 0
    staged.gateway.start()
    staged.fill(110)
    assert {path.stat().st_size for path in segments(staged.path)} == {16 << 20}
    staged.judge_cold()
    assert_no_crash(staged.gateway)
