"""curl --aws-sigv4."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from lib.clients.base import PART_BYTES, Client, Refused, program
from lib.gateway import REGION, Gateway
from lib.sigv4 import sha256

# Named, since curl 7.88 signs a content type also where it sends none.
TYPE = "Content-Type: application/octet-stream"
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Curl(Client):
    """curl, signing by itself; queries are written sorted and with `=`, as older releases need."""

    name = "curl"
    abilities = frozenset({"range", "multipart", "copy", "tag", "put_if_absent"})

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        super().__init__(gateway, folder)
        self.program = program("curl")

    def curl(
        self, path: str, *arguments: str | Path, query: str = "", method: str = "GET", data: bytes | None = None
    ) -> bytes:
        """Runs `curl`; raises `Refused` on any status but 2xx."""
        body, config = self.file(), self.file()
        # --upload-file would add its name to a key that ends with a slash.
        content = ["--data-binary", f"@{self.file(data)}", "--header", TYPE] if data is not None else []
        config.write_text(f'user = "{self.credentials.access_key}:{self.credentials.secret_key}"\n')
        url = f"{self.gateway.endpoint}/{quote(path, safe='/-_.~')}{'?' + query if query else ''}"
        status = self.run(
            self.program,
            *("--silent", "--show-error", "--path-as-is", "--config", config, "--output", body),
            *("--aws-sigv4", f"aws:amz:{REGION}:s3", "--write-out", "%{http_code}"),
            *("--request", method, "--header", f"x-amz-content-sha256: {sha256(data or b'')}"),
            *content,
            *arguments,
            url,
        ).decode()
        answer = body.read_bytes()
        if not status.startswith("2"):
            raise Refused(f"{status} {answer[:500]!r}")
        return answer

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.curl(f"{bucket}/{key}", method="PUT", data=data)

    def get(self, bucket: str, key: str) -> bytes:
        return self.curl(f"{bucket}/{key}")

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self.curl(f"{bucket}/{key}", "--head", method="HEAD")
        except Refused as refused:
            if str(refused).startswith("404"):
                return False
            raise
        return True

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        answer = self.curl(bucket, query=f"list-type=2&prefix={quote(prefix, safe='-_.~')}")
        return [entry.text or "" for entry in ElementTree.fromstring(answer).iter(f"{NAMESPACE}Key")]

    def delete(self, bucket: str, key: str) -> None:
        self.curl(f"{bucket}/{key}", method="DELETE")

    def copy(self, bucket: str, source: str, target: str) -> None:
        header = f"x-amz-copy-source: /{bucket}/{quote(source, safe='/-_.~')}"
        self.curl(f"{bucket}/{target}", "--header", header, method="PUT", data=b"")

    def range(self, bucket: str, key: str, spec: str) -> bytes:
        return self.curl(f"{bucket}/{key}", "--range", spec)

    def multipart(self, bucket: str, key: str, data: bytes) -> None:
        path = f"{bucket}/{key}"
        answer = self.curl(path, method="POST", query="uploads=")
        upload = re.search(rb"<UploadId>(.*)</UploadId>", answer)
        assert upload, answer
        upload_id = quote(upload[1].decode(), safe="-_.~")
        parts = ""
        for number, start in enumerate(range(0, len(data), PART_BYTES), 1):
            headers = self.file()
            self.curl(
                path,
                *("--dump-header", headers),
                query=f"partNumber={number}&uploadId={upload_id}",
                method="PUT",
                data=data[start : start + PART_BYTES],
            )
            etag = re.search(r"(?im)^etag: *(.*?)\s*$", headers.read_text())
            assert etag, headers.read_text()
            parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag[1])}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        self.curl(path, query=f"uploadId={upload_id}", method="POST", data=document.encode())

    def tag(self, bucket: str, key: str, tags: dict[str, str]) -> None:
        pairs = "".join(f"<Tag><Key>{name}</Key><Value>{value}</Value></Tag>" for name, value in tags.items())
        document = f"<Tagging><TagSet>{pairs}</TagSet></Tagging>"
        self.curl(f"{bucket}/{key}", query="tagging=", method="PUT", data=document.encode())

    def tags(self, bucket: str, key: str) -> dict[str, str]:
        root = ElementTree.fromstring(self.curl(f"{bucket}/{key}", query="tagging="))
        pairs = root.iter(f"{NAMESPACE}Tag")
        return {pair.findtext(f"{NAMESPACE}Key", ""): pair.findtext(f"{NAMESPACE}Value", "") for pair in pairs}

    def put_if_absent(self, bucket: str, key: str, data: bytes) -> None:
        self.curl(f"{bucket}/{key}", "--header", "If-None-Match: *", method="PUT", data=data)
