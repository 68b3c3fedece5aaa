"""A gateway under test: the real binary with its own configuration, port, credentials and log."""

import contextlib
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from lib.raw import Request, Response, send
from lib.sigv4 import Credentials, Signer

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("BLOCKGATE_BINARY", ROOT / "target/release/blockgate"))
START_TIMEOUT_S = 30.0
REGION = "us-east-1"

TALKATIVE = ["s3s", "s3s_aws", "hyper", "h2", "rustls", "aws_config", "aws_sdk_s3", "aws_sigv4", "aws_smithy_runtime"]
"""Dependencies that would log requests whole, credentials included."""

Settings = dict[str, Any]


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_credentials() -> Credentials:
    """A random access key."""
    return Credentials(f"BG{secrets.token_hex(9).upper()}", secrets.token_urlsafe(30))


@dataclass(frozen=True)
class Keys:
    """The access keys of every gateway under test."""

    admin: Credentials = field(default_factory=new_credentials)
    """May do everything."""
    reader: Credentials = field(default_factory=new_credentials)
    """May read every bucket."""
    scoped: Credentials = field(default_factory=new_credentials)
    """May do everything in buckets named `scoped-*`."""


@dataclass(frozen=True)
class UpstreamStore:
    """A store to put gateways in front of."""

    name: str
    settings: Settings
    """The `[upstream]` section."""
    secrets: tuple[str, ...] = ()
    """What no log may show."""

    @property
    def conditional_writes(self) -> bool:
        """Whether the store judges `If-Match` on PUT, and conditions on Complete. All judge `If-None-Match: *` on PUT."""
        return self.name != "radosgw"

    @property
    def some_parts_are_enough(self) -> bool:
        """Whether Complete may leave stored parts out."""
        return self.name != "radosgw"


def toml(settings: Settings) -> str:
    """Settings as TOML: sections, and arrays of tables for lists of dictionaries."""
    lines: list[str] = []
    for section, content in settings.items():
        tables = content if isinstance(content, list) else [content]
        for table in tables:
            lines.append(f"[[{section}]]" if isinstance(content, list) else f"[{section}]")
            lines.extend(f"{key} = {_value(value)}" for key, value in table.items())
    text = "\n".join(lines) + "\n"
    assert tomllib.loads(text) == settings, text
    return text


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value + "'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(_value(item) for item in value) + "]"


class Gateway:
    """One gateway process, restartable on the same ports and files."""

    def __init__(self, folder: Path, store: UpstreamStore, keys: Keys, settings: Settings | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.store = store
        self.keys = keys
        self.port = free_port()
        self.ops_port = free_port()
        self.config = folder / "blockgate.toml"
        self.log = folder / "gateway.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.settings = self._settings(settings or {})
        self.config.write_text(toml(self.settings))
        self.config.chmod(0o600)

    def _settings(self, changes: Settings) -> Settings:
        def access(credentials: Credentials, **more: Any) -> Settings:
            return {"access_key": credentials.access_key, "secret_key": credentials.secret_key, **more}

        settings: Settings = {
            "server": {"listen": f"127.0.0.1:{self.port}", "ops_listen": f"127.0.0.1:{self.ops_port}"},
            "access": [
                access(self.keys.admin),
                access(self.keys.reader, permissions=["read"]),
                access(self.keys.scoped, buckets=["scoped-*"]),
            ],
            "upstream": self.store.settings,
            "memory": {"capacity": "192MiB"},
            "index": {"entries": 100_000, "negative_ttl": "200ms"},
            "telemetry": {
                "log_format": "json",
                "log_level": ",".join(["trace", *(f"{name}=trace" for name in TALKATIVE)]),
            },
        }
        for section, content in changes.items():
            if isinstance(content, list):
                settings[section] = content
            else:
                settings[section] = {**settings.get(section, {}), **content}
        return settings

    def configure(self, section: str, **changes: Any) -> None:
        """Changes settings; they hold from the next start."""
        self.settings[section] = {**self.settings[section], **changes}
        self.config.write_text(toml(self.settings))

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, *, wait: bool = True, ready: bool = True) -> "Gateway":
        """Starts the process and waits until it is ready (or, without `ready`, alive)."""
        assert self.process is None
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("BLOCKGATE__", "AWS_"))}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--config", self.config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment,
            )
        if wait:
            self.wait_for("/readyz" if ready else "/healthz")
        return self

    def wait_for(self, path: str, status: int = 200) -> None:
        """Waits until the operations listener answers `path` so."""
        deadline = time.monotonic() + START_TIMEOUT_S
        answer: int | None = None
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway exited with {self.process.returncode}:\n{self.log_tail()}")
            with contextlib.suppress(OSError):
                answer = self.ops(path)[0]
                if answer == status:
                    return
            time.sleep(0.02)
        raise AssertionError(f"{path} answers {answer}, not {status}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The end of the log, for messages."""
        return self.log.read_text(errors="replace")[-4000:]

    @property
    def pid(self) -> int:
        """The process."""
        assert self.process is not None
        return self.process.pid

    def alive(self) -> bool:
        """Whether the process runs and answers."""
        return self.process is not None and self.process.poll() is None and self.ops("/healthz")[0] == 200

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self, timeout_s: float = 40.0) -> int:
        """Asks the process to end, and returns its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout_s)
        self.process = None
        return status

    def restart(self) -> None:
        """Ends and starts it: memory is empty then."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends the process if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    # -- talk ---------------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """URL of the S3 listener."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the S3 listener."""
        return ("127.0.0.1", self.port)

    @property
    def host(self) -> str:
        """The `Host` header."""
        return f"127.0.0.1:{self.port}"

    def ops(self, path: str) -> tuple[int, str]:
        """Status and text of a path on the operations listener."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        total = 0.0
        for line in self.ops("/metrics")[1].splitlines():
            match = re.fullmatch(r"([A-Za-z0-9_:]+)(?:\{(.*)\})? (\S+)(?: \d+)?", line)
            if match and match[1] == name:
                found = dict(re.findall(r'([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                if all(found.get(key) == value for key, value in labels.items()):
                    total += float(match[3])
        return total

    def upstream_reads(self) -> float:
        """How many GETs went to the upstream so far."""
        return self.metric("blockgate_upstream_requests_total", operation="get")

    def s3(self, credentials: Credentials | None = None, **config: Any) -> Any:
        """A boto3 client that retries nothing."""
        return s3_client(self.endpoint, credentials or self.keys.admin, **config)

    def signer(self, credentials: Credentials | None = None) -> Signer:
        """A signer by hand."""
        return Signer(credentials or self.keys.admin, REGION)

    def request(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"", query: Any = ()) -> Request:
        """An unsigned request with `Host`, and `Content-Length` where there is a body."""
        length = [("Content-Length", str(len(body)))] if body or method in ("PUT", "POST") else []
        return Request(method, path, list(query), [("Host", self.host), *headers, *length], body)

    def call(
        self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"", query: Any = (), by: Any = None
    ) -> Response:
        """Signs and sends a request. `path` and `query` are percent-encoded; `by` is the access key, the administrator's."""
        return self.send(self.signer(by).sign(self.request(method, path, *headers, body=body, query=query)))

    def send(self, request: Request, *, finish: bool = False) -> Response:
        """Sends a request on a connection of its own."""
        return send(self.address, request, finish=finish)


def s3_client(endpoint: str, credentials: Credentials, *, verify: bool | str = True, **config: Any) -> Any:
    """A boto3 client, path-style unless told otherwise, without retries."""
    addressing = config.pop("addressing_style", "path")
    settings = {
        "s3": {"addressing_style": addressing},
        "retries": {"total_max_attempts": 1},
        "connect_timeout": 5,
        "read_timeout": 60,
        "max_pool_connections": 40,
        **config,
    }
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        region_name=REGION,
        verify=verify,
        config=Config(**settings),
    )


def tls_context(certificate: Path) -> ssl.SSLContext:
    """Trusts one certificate."""
    return ssl.create_default_context(cafile=str(certificate))
