"""Every gateway whose log is to be scanned."""

from pathlib import Path
from typing import Protocol


class Logging(Protocol):
    """Something with a log and secrets that must not be in it."""

    log: Path


LOGS: set[Logging] = set()
