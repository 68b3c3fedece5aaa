"""What every attack has in common: a target, and a refusal that gives nothing away."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lib.gateway import Gateway
from lib.raw import Closed, Connection, Request, Response
from lib.sigv4 import Signer

SECRET = b"the secret that nobody is to see 8f1d"
HOSTILE = b"hostile bytes"


@dataclass(frozen=True)
class Target:
    """Where attacks go."""

    gateway: Gateway
    bucket: str
    vault: str
    key: str = ""

    def at(self, key: str) -> "Target":
        """The same with another key."""
        return replace(self, key=key)

    @property
    def path(self) -> str:
        """The path to write to."""
        return f"/{self.bucket}/{self.key}"

    @property
    def signer(self) -> Signer:
        """The administrator's signer."""
        return self.gateway.signer()

    def put(self, *headers: tuple[str, str], body: bytes = HOSTILE) -> Request:
        """An unsigned PUT of the key."""
        return self.gateway.request("PUT", self.path, *headers, body=body)

    def get(self, path: str | None = None) -> Request:
        """An unsigned GET, of the key by default."""
        return self.gateway.request("GET", path or self.path)

    def stored(self) -> bytes | None:
        """What is stored under the key."""
        answer = self.gateway.call("GET", self.path)
        if answer.status == 200:
            return answer.body
        assert answer.status == 404, str(answer)
        return None

    def refused(
        self, attack: Request | bytes, *, finish: bool = False, may_close: bool = False, method: str | None = None
    ) -> Response | None:
        """Sends an attack: it is refused, and nothing is stored or disclosed.

        `finish` says that nothing more will be sent; `may_close` allows the server to just hang up.
        """
        data = attack.encode() if isinstance(attack, Request) else attack
        method = method or (attack.method if isinstance(attack, Request) else "GET")
        with Connection(*self.gateway.address) as connection:
            connection.send(data)
            if finish:
                connection.finish()
            try:
                answer = connection.response(method)
            except Closed:
                assert may_close, "closed without an answer"
                answer = None
        if answer:
            check_refusal(answer)
        assert self.stored() is None
        return answer

    def accepted(self, request: Request | bytes, status: int = 200) -> Response:
        """The positive control: the same made rightly."""
        data = request.encode() if isinstance(request, Request) else request
        method = request.method if isinstance(request, Request) else "PUT"
        with Connection(*self.gateway.address) as connection:
            connection.send(data)
            answer = connection.response(method)
        assert answer.status == status, str(answer)
        return answer


def check_refusal(answer: Response) -> None:
    """A refusal is the client's fault, and says nothing that it should not."""
    assert 400 <= answer.status < 500, str(answer)
    assert SECRET not in answer.body
    assert SECRET.decode() not in str(answer.headers)


Make = Callable[[Target], Request]
