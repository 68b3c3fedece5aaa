"""awscrt, as LMCache uses it: virtual-hosted, over its S3 client with 8 MiB parts."""

import io
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from awscrt.auth import AwsCredentialsProvider
from awscrt.exceptions import AwsCrtError
from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import ClientBootstrap, DefaultHostResolver, EventLoopGroup
from awscrt.s3 import S3Client, S3RequestTlsMode, S3RequestType, create_default_s3_signing_config

from lib import hosts
from lib.clients.base import PART_BYTES, Client, Refused
from lib.gateway import REGION, Gateway

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
TIMEOUT_S = 60


class AwsCrt(Client):
    """The AWS common runtime's S3 client: large objects go in parts, and come as parallel ranges with If-Match."""

    name = "awscrt"
    abilities = frozenset({"range", "multipart", "copy", "put_if_absent"})

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        super().__init__(gateway, folder)
        if hosts.refusal():
            pytest.skip(f"no virtual host names: {hosts.refusal()}")
        self.hosts: set[str] = set()
        group = EventLoopGroup(2)
        bootstrap = ClientBootstrap(group, DefaultHostResolver(group))
        provider = AwsCredentialsProvider.new_static(self.credentials.access_key, self.credentials.secret_key)
        self.client = S3Client(
            bootstrap=bootstrap,
            region=REGION,
            tls_mode=S3RequestTlsMode.DISABLED,
            signing_config=create_default_s3_signing_config(region=REGION, credential_provider=provider),
            part_size=PART_BYTES,
            multipart_upload_threshold=PART_BYTES,
        )

    def request(
        self,
        kind: S3RequestType,
        method: str,
        bucket: str,
        path: str,
        *headers: tuple[str, str],
        body: bytes | None = None,
        operation: str | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Sends one (meta) request; raises `Refused` on any status but 2xx."""
        host = f"{bucket}.localhost"
        if host not in self.hosts:
            hosts.add(host)
            self.hosts.add(host)
        fields = [("Host", f"{host}:{self.gateway.port}"), *headers]
        if body is not None:
            fields += [("Content-Length", str(len(body))), ("Content-Type", "application/octet-stream")]
        status, found, received = 0, {}, {}

        def on_headers(status_code: int, headers: list[tuple[str, str]], **_: object) -> None:
            nonlocal status, found
            status, found = status_code, {name.lower(): value for name, value in headers}

        def on_body(chunk: bytes, offset: int, **_: object) -> None:
            received[offset] = bytes(chunk)

        stream = io.BytesIO(body) if body is not None else None
        request = HttpRequest(method, path, HttpHeaders(fields), stream)
        running = self.client.make_request(
            type=kind, request=request, operation_name=operation, on_headers=on_headers, on_body=on_body
        )
        try:
            running.finished_future.result(TIMEOUT_S)
        except AwsCrtError as error:
            answer = getattr(error, "body", b"")
            raise Refused(f"{getattr(error, 'status_code', status)} {answer!r} {error}") from error
        return status, found, b"".join(received[offset] for offset in sorted(received))

    @staticmethod
    def path(key: str) -> str:
        """The request path of a key."""
        return "/" + quote(key, safe="/-_.~")

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.request(S3RequestType.PUT_OBJECT, "PUT", bucket, self.path(key), body=data)

    multipart = put

    def get(self, bucket: str, key: str) -> bytes:
        return self.request(S3RequestType.GET_OBJECT, "GET", bucket, self.path(key))[2]

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self._default("HEAD", bucket, self.path(key), operation="HeadObject")
        except Refused as refused:
            if str(refused).startswith("404"):
                return False
            raise
        return True

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        path = f"/?list-type=2&prefix={quote(prefix, safe='-_.~')}"
        answer = self._default("GET", bucket, path, operation="ListObjectsV2")
        return [entry.text or "" for entry in ElementTree.fromstring(answer).iter(f"{NAMESPACE}Key")]

    def delete(self, bucket: str, key: str) -> None:
        self._default("DELETE", bucket, self.path(key), operation="DeleteObject")

    def copy(self, bucket: str, source: str, target: str) -> None:
        header = ("x-amz-copy-source", f"{bucket}/{quote(source, safe='/-_.~')}")
        self.request(S3RequestType.DEFAULT, "PUT", bucket, self.path(target), header, operation="CopyObject")

    def range(self, bucket: str, key: str, spec: str) -> bytes:
        header = ("Range", f"bytes={spec}")
        return self.request(S3RequestType.GET_OBJECT, "GET", bucket, self.path(key), header)[2]

    def put_if_absent(self, bucket: str, key: str, data: bytes) -> None:
        header = ("If-None-Match", "*")
        self.request(S3RequestType.PUT_OBJECT, "PUT", bucket, self.path(key), header, body=data)

    def _default(self, method: str, bucket: str, path: str, *, operation: str) -> bytes:
        return self.request(S3RequestType.DEFAULT, method, bucket, path, operation=operation)[2]
