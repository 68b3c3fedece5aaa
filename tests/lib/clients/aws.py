"""The aws command line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lib.clients.base import Client, Refused, program
from lib.gateway import REGION, Gateway


class AwsCli(Client):
    """`aws s3` and `aws s3api`."""

    name = "aws"
    abilities = frozenset({"range", "multipart", "copy", "tag", "presign_get", "put_if_absent"})

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        super().__init__(gateway, folder)
        self.program = program("aws")
        self.config = self.file(b"[default]\ns3 =\n    signature_version = s3v4\n")  # `presign` would take version 2

    def aws(self, *arguments: str | Path) -> bytes:
        """Runs `aws`."""
        return self.run(
            self.program,
            "--endpoint-url",
            self.gateway.endpoint,
            *arguments,
            AWS_ACCESS_KEY_ID=self.credentials.access_key,
            AWS_SECRET_ACCESS_KEY=self.credentials.secret_key,
            AWS_DEFAULT_REGION=REGION,
            AWS_MAX_ATTEMPTS="1",
            AWS_CONFIG_FILE=str(self.config),
        )

    def api(self, operation: str, *arguments: str | Path) -> Any:
        """Runs `aws s3api`."""
        output = self.aws("s3api", operation, *arguments)
        return json.loads(output) if output.strip() else {}

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.api("put-object", "--bucket", bucket, "--key", key, "--body", self.file(data))

    def get(self, bucket: str, key: str) -> bytes:
        path = self.file()
        self.api("get-object", "--bucket", bucket, "--key", key, path)
        return path.read_bytes()

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self.api("head-object", "--bucket", bucket, "--key", key)
        except Refused as refused:
            if "(404)" in str(refused):
                return False
            raise
        return True

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        found = self.api("list-objects-v2", "--bucket", bucket, "--prefix", prefix)
        return [entry["Key"] for entry in found.get("Contents", [])]

    def delete(self, bucket: str, key: str) -> None:
        self.aws("s3", "rm", f"s3://{bucket}/{key}")

    def copy(self, bucket: str, source: str, target: str) -> None:
        self.aws("s3", "cp", f"s3://{bucket}/{source}", f"s3://{bucket}/{target}")

    def range(self, bucket: str, key: str, spec: str) -> bytes:
        path = self.file()
        self.api("get-object", "--bucket", bucket, "--key", key, "--range", f"bytes={spec}", path)
        return path.read_bytes()

    def multipart(self, bucket: str, key: str, data: bytes) -> None:
        self.aws("s3", "cp", self.file(data), f"s3://{bucket}/{key}")

    def tag(self, bucket: str, key: str, tags: dict[str, str]) -> None:
        pairs = [{"Key": name, "Value": value} for name, value in tags.items()]
        self.api("put-object-tagging", "--bucket", bucket, "--key", key, "--tagging", json.dumps({"TagSet": pairs}))

    def tags(self, bucket: str, key: str) -> dict[str, str]:
        pairs = self.api("get-object-tagging", "--bucket", bucket, "--key", key)["TagSet"]
        return {pair["Key"]: pair["Value"] for pair in pairs}

    def presign_get(self, bucket: str, key: str) -> str:
        return self.aws("s3", "presign", f"s3://{bucket}/{key}", "--expires-in", "300").decode().strip()

    def put_if_absent(self, bucket: str, key: str, data: bytes) -> None:
        self.api("put-object", "--bucket", bucket, "--key", key, "--body", self.file(data), "--if-none-match", "*")
