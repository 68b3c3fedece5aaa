"""s3cmd."""

from collections.abc import Sequence
from pathlib import Path

from lib.clients.base import Client, Refused, program
from lib.gateway import REGION, Gateway


class S3cmd(Client):
    """s3cmd, path-style."""

    name = "s3cmd"
    abilities = frozenset({"multipart", "copy", "tag"})

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        super().__init__(gateway, folder)
        self.program = program("s3cmd")
        self.config = self.file()
        self.config.write_text(
            "[default]\n"
            f"access_key = {self.credentials.access_key}\n"
            f"secret_key = {self.credentials.secret_key}\n"
            f"host_base = {gateway.host}\n"
            f"host_bucket = {gateway.host}\n"
            f"bucket_location = {REGION}\n"
            "use_https = False\n"
            "max_retries = 1\n"
        )

    def s3cmd(self, *arguments: str | Path) -> str:
        """Runs `s3cmd`."""
        return self.run(self.program, "-c", self.config, "--no-progress", *arguments).decode()

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.s3cmd("put", "--disable-multipart", self.file(data), f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str) -> bytes:
        path = self.file()
        self.s3cmd("get", "--force", f"s3://{bucket}/{key}", path)
        return path.read_bytes()

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self.s3cmd("info", f"s3://{bucket}/{key}")
        except Refused as refused:
            if "404" in str(refused):
                return False
            raise
        return True

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        lines = self.s3cmd("ls", "--recursive", f"s3://{bucket}/{prefix}").splitlines()
        return [line.partition(f"s3://{bucket}/")[2] for line in lines]

    def delete(self, bucket: str, key: str) -> None:
        self.s3cmd("del", f"s3://{bucket}/{key}")

    def copy(self, bucket: str, source: str, target: str) -> None:
        self.s3cmd("cp", f"s3://{bucket}/{source}", f"s3://{bucket}/{target}")

    def multipart(self, bucket: str, key: str, data: bytes) -> None:
        self.s3cmd("put", "--multipart-chunk-size-mb=8", self.file(data), f"s3://{bucket}/{key}")

    def tag(self, bucket: str, key: str, tags: dict[str, str]) -> None:
        self.s3cmd("settagging", f"s3://{bucket}/{key}", "&".join(f"{name}={value}" for name, value in tags.items()))

    def tags(self, bucket: str, key: str) -> dict[str, str]:
        lines = self.s3cmd("gettagging", f"s3://{bucket}/{key}").splitlines()
        pairs = [line.split(":") for line in lines if line.startswith("\t")]
        return {name.strip(): value.strip() for name, value in pairs}
