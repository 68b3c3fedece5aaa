"""What every client can be asked."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from lib.gateway import Gateway

COMMAND_TIMEOUT_S = 60
PART_BYTES = 8 << 20


class Refused(Exception):
    """The client reports that the server refused; holds what it said."""


class Client:
    """One client program or library, speaking to one gateway.

    `abilities` names the verbs that it has, beyond put, get, exists, list and delete.
    """

    name: ClassVar[str]
    abilities: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        self.gateway = gateway
        self.folder = folder
        self.credentials = gateway.keys.admin

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Stores an object."""
        raise NotImplementedError

    def get(self, bucket: str, key: str) -> bytes:
        """Reads an object."""
        raise NotImplementedError

    def exists(self, bucket: str, key: str) -> bool:
        """Asks for an object's head."""
        raise NotImplementedError

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        """All keys that begin so."""
        raise NotImplementedError

    def delete(self, bucket: str, key: str) -> None:
        """Removes an object."""
        raise NotImplementedError

    def copy(self, bucket: str, source: str, target: str) -> None:
        """Copies on the server."""
        raise NotImplementedError

    def range(self, bucket: str, key: str, spec: str) -> bytes:
        """Reads the bytes `0-9`, `10-` or `-10`."""
        raise NotImplementedError

    def multipart(self, bucket: str, key: str, data: bytes) -> None:
        """Stores an object in parts of 8 MiB."""
        raise NotImplementedError

    def tag(self, bucket: str, key: str, tags: dict[str, str]) -> None:
        """Sets an object's tags."""
        raise NotImplementedError

    def tags(self, bucket: str, key: str) -> dict[str, str]:
        """Reads an object's tags."""
        raise NotImplementedError

    def presign_get(self, bucket: str, key: str) -> str:
        """A URL that lets anyone read."""
        raise NotImplementedError

    def presign_put(self, bucket: str, key: str) -> str:
        """A URL that lets anyone write."""
        raise NotImplementedError

    def put_if_absent(self, bucket: str, key: str, data: bytes) -> None:
        """Stores an object unless there is one."""
        raise NotImplementedError

    # -- for those that are programs ----------------------------------------------------------------------------------

    def file(self, data: bytes = b"") -> Path:
        """A new file."""
        path = self.folder / secrets.token_hex(8)
        path.write_bytes(data)
        return path

    def run(self, *command: str | Path, **environment: str) -> bytes:
        """Runs a program and returns what it printed.

        Raises `Refused` when it fails.
        """
        base = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "RCLONE_"))}
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_TIMEOUT_S,
            env={**base, "HOME": str(self.folder), **environment},
            check=False,
        )
        if done.returncode != 0:
            raise Refused(
                f"{command[0]} exits {done.returncode}: {done.stderr.decode()} {done.stdout[-2000:].decode()}"
            )
        return done.stdout


def program(name: str) -> str:
    """Path of a program: of this Python's environment, or of the machine; skips where there is none."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found
