"""HTTP/1.1 by hand: every byte that goes out is the test's own."""

import contextlib
import re
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from dataclasses import replace as _replace

RECEIVE_TIMEOUT_S = 20.0

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One request as it goes on the wire. `path` and `query` are already percent-encoded; nothing is added or reordered."""

    method: str
    path: str
    query: Pairs = field(default_factory=list)
    headers: Pairs = field(default_factory=list)
    body: bytes = b""

    def replace(self, **changes: object) -> "Request":
        """The same request but for some fields."""
        return _replace(self, **changes)  # type: ignore[arg-type]

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def with_headers(self, *pairs: tuple[str, str]) -> "Request":
        """The same request with further headers at the end."""
        return self.replace(headers=[*self.headers, *pairs])

    def with_header(self, name: str, value: str) -> "Request":
        """The same request with one header replaced or added."""
        return self.without_header(name).with_headers((name, value))

    def without_header(self, name: str) -> "Request":
        """The same request without a header."""
        return self.replace(headers=[(key, value) for key, value in self.headers if key.lower() != name.lower()])

    def target(self) -> str:
        """The request target."""
        query = "&".join(f"{key}={value}" if value else key for key, value in self.query)
        return f"{self.path}?{query}" if query else self.path

    def head(self) -> bytes:
        """Request line and headers."""
        lines = [f"{self.method} {self.target()} HTTP/1.1", *(f"{key}: {value}" for key, value in self.headers)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def encode(self) -> bytes:
        """All of it."""
        return self.head() + self.body


@dataclass(frozen=True)
class Response:
    """A response, its body whole."""

    status: int
    headers: Pairs
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def code(self) -> str | None:
        """The S3 error code in the body."""
        match = re.search(rb"<Code>([^<]*)</Code>", self.body)
        return match[1].decode() if match else None

    def __str__(self) -> str:
        return f"{self.status} {self.code or ''} {self.body[:300]!r}"


class Closed(Exception):
    """The server closed the connection without (the rest of) an answer."""


class Connection:
    """One TCP connection."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None, server_name: str | None = None) -> None:
        self.socket = socket.create_connection((host, port), timeout=RECEIVE_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=server_name or host)
        self.pending = b""

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends; a server that has already hung up is no error here, `response` will tell what it said."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def finish(self) -> None:
        """Says that nothing more will be sent."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.socket.close()

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Closed(f"reset after {self.pending[:200]!r}") from error
        if not data:
            raise Closed(f"closed after {self.pending[:200]!r}")
        self.pending += data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.pending:
            self._more()
        line, _, self.pending = self.pending.partition(mark)
        return line

    def _exactly(self, count: int) -> bytes:
        while len(self.pending) < count:
            self._more()
        data, self.pending = self.pending[:count], self.pending[count:]
        return data

    def interim(self) -> Response:
        """Reads one response head, 1xx included, without its body."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.[01] (\d{3})(?: .*)?", lines[0])
        assert match, f"not a status line: {lines[0]!r}"
        headers = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines[1:])]
        return Response(int(match[1]), headers, b"")

    def response(self, method: str = "GET") -> Response:
        """Reads one response, 1xx skipped.

        Raises `Closed` when there is none.
        """
        head = self.interim()
        while head.status // 100 == 1:
            head = self.interim()
        if method == "HEAD" or head.status in (204, 304):
            return head
        return Response(head.status, head.headers, self._body(head))

    def _body(self, head: Response) -> bytes:
        if (head.header("transfer-encoding") or "").lower() == "chunked":
            body = b""
            while size := int(self._until(b"\r\n").split(b";")[0], 16):
                body += self._exactly(size)
                self._exactly(2)
            while self._until(b"\r\n"):
                pass
            return body
        length = head.header("content-length")
        if length is not None:
            return self._exactly(int(length))
        body = b""
        with contextlib.suppress(Closed):
            while True:
                self._more()
        body, self.pending = self.pending, b""
        return body


def exchange(endpoint: tuple[str, int], data: bytes, method: str = "GET", *, finish: bool = False) -> Response:
    """Sends bytes on a connection of their own and reads the answer. `finish` says that nothing more will come."""
    with Connection(*endpoint) as connection:
        connection.send(data)
        if finish:
            connection.finish()
        return connection.response(method)


def send(endpoint: tuple[str, int], request: Request, *, finish: bool = False) -> Response:
    """Sends a request on a connection of its own and reads the answer."""
    return exchange(endpoint, request.encode(), request.method, finish=finish)


def http_chunks(pieces: Iterable[bytes]) -> bytes:
    """Pieces as the body of a `Transfer-Encoding: chunked` message, final chunk included."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"
