"""What was done to a bucket, and so what a reader may find in it.

Each key has one writer. Its operations are numbered, and a block's bytes say whose they are and of which number, so that every
answer can be judged: right bytes, not older than what was acknowledged or seen, and a miss only where a deletion explains it.
"""

import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass


def content(key: str, number: int, length: int) -> bytes:
    """The block that operation `number` stores under `key`; no two are alike in any page."""
    head = f"{key} {number} {length}\n".encode()
    return (head + random.Random(f"{key} {number}").randbytes(max(0, length - len(head))))[:length]


LENGTH_MIN = 64
"""Of a block that says what it is."""


class Wrong(AssertionError):
    """A reader was shown what can't be."""


@dataclass(frozen=True)
class Step:
    """One operation on a key: a block of `length` bytes, or its deletion."""

    key: str
    number: int
    length: int | None
    outage: int
    """The outage during which it began; 0 is none."""


@dataclass
class Life:
    """The operations on one key, in order of their numbers."""

    steps: list[Step]
    known: int = 0
    """The last that is known to have happened: acknowledged, or seen."""

    @property
    def possible(self) -> list[Step]:
        """What the key can hold now."""
        return self.steps[self.known :]

    def __str__(self) -> str:
        shown = (f"{step.number}: {'gone' if step.length is None else step.length}" for step in self.possible[:9])
        return f"it may hold {{{', '.join(shown)}}}"


class History:
    """All keys of a bucket. Its methods may be called from many threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lives: dict[str, Life] = {}
        self.outages = 0
        self.outage = 0
        self.shaky = False
        """The store was or is away, or slow: a block that only it has may be a miss."""
        self.acknowledged = 0
        self.judged = 0

    # -- what happens -------------------------------------------------------------------------------------------------

    def begin(self, key: str, length: int | None) -> Step:
        """An operation on a key, about to be asked for."""
        with self.lock:
            life = self.lives.setdefault(key, Life([Step(key, 0, None, 0)]))
            life.steps.append(Step(key, len(life.steps), length, self.outage))
            return life.steps[-1]

    def acknowledge(self, steps: Iterable[Step]) -> None:
        """Operations were answered with success."""
        with self.lock:
            for step in steps:
                self.acknowledged += 1
                life = self.lives[step.key]
                life.known = max(life.known, step.number)

    def store_is_gone(self) -> None:
        """Nothing reaches the store from now on."""
        with self.lock:
            self.outages += 1
            self.outage, self.shaky = self.outages, True

    def store_is_slow(self) -> None:
        """It may take longer than readers wait."""
        with self.lock:
            self.shaky = True

    def store_is_back(self, *, surely: bool = True) -> None:
        """It is reached again; `surely`: and the gateway knows."""
        with self.lock:
            self.outage, self.shaky = 0, not surely

    # -- what readers find ---------------------------------------------------------------------------------------------

    def floor(self, key: str) -> int:
        """The number of the last operation that is known to have happened: to be asked before a read."""
        with self.lock:
            return self.lives[key].known

    def all_keys(self) -> list[str]:
        """Every key."""
        with self.lock:
            return sorted(self.lives)

    def judge_block(self, key: str, floor: int, found: bytes) -> None:
        """A read that began when `floor` was known delivered a block."""
        words = found[:200].split(b"\n")[0].split(b" ")
        sound = len(words) == 3 and words[0] == key.encode() and words[1].isdigit() and words[2].isdigit()
        if not sound or content(key, int(words[1]), int(words[2])) != found:
            raise Wrong(f"{key}: {len(found)} bytes that nobody stored, they begin with {found[:48]!r}")
        number = int(words[1])
        with self.lock:
            self.judged += 1
            life = self.lives[key]
            if number >= len(life.steps) or life.steps[number].length != len(found):
                raise Wrong(f"{key}: a block {number} of {len(found)} bytes was never stored")
            if number < floor:
                raise Wrong(f"{key}: block {number} rises again after operation {floor}: {life}")
            life.known = max(life.known, number)

    def judge_miss(self, key: str, floor: int, reason: str) -> None:
        """A read that began when `floor` was known found nothing."""
        with self.lock:
            self.judged += 1
            life = self.lives[key]
            steps = life.steps[floor:]
            if any(step.length is None for step in steps) and reason in ("absent", "upstream_unavailable", "deadline"):
                return
            here = all(step.outage and step.outage == self.outage for step in steps)
            if self.shaky and not here and reason in ("upstream_unavailable", "deadline"):
                return
            raise Wrong(f"{key}: a miss ({reason}) in outage {self.outage} after operation {floor}; {life}")

    def judge_list(self, prefix: str, listed: dict[str, int]) -> None:
        """A listing of keys and lengths, while nothing was asked for below the prefix."""
        with self.lock:
            for key in listed.keys() - self.lives.keys():
                raise Wrong(f"{key} is listed, and nobody stored it")
            for key, life in self.lives.items():
                if key.startswith(prefix) and listed.get(key) not in [step.length for step in life.possible]:
                    raise Wrong(f"{key} is listed with {listed.get(key)} bytes: {life}")
