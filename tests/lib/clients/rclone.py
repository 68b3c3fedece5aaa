"""rclone."""

import json
from collections.abc import Sequence
from pathlib import Path

from lib.clients.base import Client, program
from lib.gateway import REGION, Gateway


class Rclone(Client):
    """rclone's s3 backend."""

    name = "rclone"
    abilities = frozenset({"range", "multipart", "copy", "presign_get"})

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        super().__init__(gateway, folder)
        self.program = program("rclone")

    def rclone(self, *arguments: str | Path) -> bytes:
        """Runs `rclone`."""
        return self.run(
            self.program,
            "--config",
            "/dev/null",
            "--retries=1",
            "--low-level-retries=1",
            *arguments,
            RCLONE_CONFIG_BG_TYPE="s3",
            RCLONE_CONFIG_BG_PROVIDER="Other",
            RCLONE_CONFIG_BG_ENDPOINT=self.gateway.endpoint,
            RCLONE_CONFIG_BG_REGION=REGION,
            RCLONE_CONFIG_BG_ACCESS_KEY_ID=self.credentials.access_key,
            RCLONE_CONFIG_BG_SECRET_ACCESS_KEY=self.credentials.secret_key,
        )

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.rclone("copyto", self.file(data), f"bg:{bucket}/{key}")

    def get(self, bucket: str, key: str) -> bytes:
        return self.rclone("cat", f"bg:{bucket}/{key}")

    def exists(self, bucket: str, key: str) -> bool:
        # Of what is not there rclone says that it is a folder.
        return not json.loads(self.rclone("lsjson", "--stat", f"bg:{bucket}/{key}"))["IsDir"]

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        keys = self.rclone("lsf", "--recursive", "--files-only", f"bg:{bucket}").decode().splitlines()
        return [key for key in keys if key.startswith(prefix)]

    def delete(self, bucket: str, key: str) -> None:
        self.rclone("deletefile", f"bg:{bucket}/{key}")

    def copy(self, bucket: str, source: str, target: str) -> None:
        self.rclone("copyto", f"bg:{bucket}/{source}", f"bg:{bucket}/{target}")

    def range(self, bucket: str, key: str, spec: str) -> bytes:
        first, _, last = spec.partition("-")
        if not first:
            return self.rclone("cat", f"--tail={last}", f"bg:{bucket}/{key}")
        count = [f"--count={int(last) - int(first) + 1}"] if last else []
        return self.rclone("cat", f"--offset={first}", *count, f"bg:{bucket}/{key}")

    def multipart(self, bucket: str, key: str, data: bytes) -> None:
        sizes = ["--s3-upload-cutoff=8M", "--s3-chunk-size=8M"]
        self.rclone("copyto", *sizes, self.file(data), f"bg:{bucket}/{key}")

    def presign_get(self, bucket: str, key: str) -> str:
        return self.rclone("link", "--expire=5m", f"bg:{bucket}/{key}").decode().strip()
