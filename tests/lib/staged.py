"""A bucket behind a staging log, and what was done to it."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lib.gateway import Gateway
from lib.history import History
from lib.load import Client, judge_all
from lib.staging import wait_until_uploaded

BUCKET = "kv-staged"


@dataclass
class Staged:
    """A gateway with its log in `path`."""

    gateway: Gateway
    path: Path
    history: History = field(default_factory=History)
    filled: int = 0

    @cached_property
    def client(self) -> Client:
        """A client of the bucket."""
        return Client(self.gateway, BUCKET, self.history)

    def fill(self, count: int = 24, length: int = 1 << 20, refused_max: int = 0) -> None:
        """Stores that many more blocks, and waits until the store has them too. All but `refused_max` must be taken."""
        refused = self.client.refused
        for _ in range(count):
            self.client.put(f"block/{self.filled}", length - self.filled)
            self.filled += 1
        refused = self.client.refused - refused
        assert refused <= refused_max, f"{refused} of {count} PUTs were refused"
        wait_until_uploaded(self.gateway)

    def judge(self) -> dict[str, int]:
        """Reads everything; how many blocks came from which tier, or missed why."""
        return judge_all(self.client, self.history)

    def judge_cold(self) -> dict[str, int]:
        """The same with nothing in memory."""
        self.gateway.restart()
        return self.judge()

    def create_bucket(self) -> "Staged":
        """The first thing to do."""
        self.client.s3.create_bucket(Bucket=BUCKET)
        return self
