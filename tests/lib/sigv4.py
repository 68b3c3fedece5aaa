"""AWS Signature Version 4, with every piece open to being made wrong.

What is left unsaid is made rightly. All signatures made here are remembered, so that the scan of the gateway's logs can look
for them.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from lib.raw import Pairs, Request

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

SIGNATURES: set[str] = set()


@dataclass(frozen=True)
class Credentials:
    """An access key."""

    access_key: str
    secret_key: str = field(repr=False)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def mac(key: bytes, text: str) -> bytes:
    """HMAC-SHA256."""
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def encode(data: bytes | str, safe: str = "") -> str:
    """Percent-encodes as the canonical request does."""
    return quote(data, safe=safe + "-_.~")


@dataclass(frozen=True)
class Signer:
    """A credential, an instant and a scope."""

    credentials: Credentials
    region: str = "us-east-1"
    service: str = "s3"
    terminator: str = "aws4_request"
    when: datetime | None = None
    scope_date: str | None = None

    def at(self, shift: timedelta) -> "Signer":
        """The same signer, its clock set wrong."""
        return replace(self, when=datetime.now(UTC) + shift)

    def but(self, **changes: Any) -> "Signer":
        """The same signer with another region, service, …"""
        return replace(self, **changes)

    @property
    def stamp(self) -> str:
        """`x-amz-date`."""
        return (self.when or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")

    @property
    def date(self) -> str:
        """Date of the scope."""
        return self.stamp[:8] if self.scope_date is None else self.scope_date

    @property
    def scope(self) -> str:
        """The credential scope."""
        return f"{self.date}/{self.region}/{self.service}/{self.terminator}"

    @property
    def credential(self) -> str:
        """`Credential=`."""
        return f"{self.credentials.access_key}/{self.scope}"

    def key(self) -> bytes:
        """The signing key."""
        key = f"AWS4{self.credentials.secret_key}".encode()
        for part in (self.date, self.region, self.service, self.terminator):
            key = mac(key, part)
        return key

    def signature(self, string_to_sign: str) -> str:
        """Signs, and remembers the signature."""
        made = mac(self.key(), string_to_sign).hex()
        SIGNATURES.add(made)
        return made

    def string_to_sign(self, stamp: str, canonical: str) -> str:
        """The string to sign of a request."""
        return "\n".join(["AWS4-HMAC-SHA256", stamp, self.scope, sha256(canonical.encode("latin-1"))])

    def sign(self, request: Request, payload_hash: str | None = None, signed: Iterable[str] | None = None) -> Request:
        """Adds `x-amz-date`, `x-amz-content-sha256` (unless there) and `Authorization`.

        `payload_hash` is the body's own unless given; `signed` names the signed headers, by default `host`, `content-md5`,
        `content-type` and every `x-amz-*`.
        """
        stamp, given = request.header("x-amz-date"), request.header("x-amz-content-sha256")
        stamp = self.stamp if stamp is None else stamp
        payload_hash = payload_hash or (sha256(request.body) if given is None else given)
        request = request.with_header("x-amz-date", stamp).with_header("x-amz-content-sha256", payload_hash)
        names = default_signed(request.headers) if signed is None else sorted(signed)
        canonical = canonical_request(request, names, payload_hash)
        signature = self.signature(self.string_to_sign(stamp, canonical))
        return request.with_headers(
            (
                "Authorization",
                f"AWS4-HMAC-SHA256 Credential={self.credential}, SignedHeaders={';'.join(names)}, Signature={signature}",
            )
        )

    def presign(
        self,
        request: Request,
        expires_s: int | str = 300,
        payload_hash: str = UNSIGNED,
        signed: Iterable[str] | None = None,
        extra: Pairs | None = None,
    ) -> Request:
        """Adds the query parameters of a presigned URL. `signed` names the signed headers, `host` and `x-amz-*` by default."""
        stamp = self.stamp
        names = default_signed(request.headers) if signed is None else sorted(signed)
        query = [
            *request.query,
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", encode(self.credential)),
            ("X-Amz-Date", stamp),
            ("X-Amz-Expires", str(expires_s)),
            ("X-Amz-SignedHeaders", encode(";".join(names))),
            *(extra or []),
        ]
        request = request.replace(query=query)
        canonical = canonical_request(request, names, payload_hash)
        signature = self.signature(self.string_to_sign(stamp, canonical))
        return request.replace(query=[*query, ("X-Amz-Signature", signature)])

    def policy(
        self, conditions: list[Any] | None, expires: timedelta = timedelta(minutes=5), raw: str | None = None
    ) -> Pairs:
        """The fields of a POST form that carry a policy and its signature.

        The policy covers the signature's own fields too. `raw` is the policy's JSON as it is, but for `"SIGNATURE"`, which stands
        for conditions on those fields.
        """
        until = (datetime.now(UTC) + expires).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        fields = [
            ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
            ("x-amz-credential", self.credential),
            ("x-amz-date", self.stamp),
        ]
        covered = [{name: value} for name, value in fields]
        if raw is None:
            text = json.dumps({"expiration": until, "conditions": [*(conditions or []), *covered]})
        else:
            text = raw.replace('"SIGNATURE"', ",".join(json.dumps(condition) for condition in covered))
        encoded = base64.b64encode(text.encode()).decode()
        return [*fields, ("policy", encoded), ("x-amz-signature", self.signature(encoded))]

    def chunk_signature(self, stamp: str, previous: str, data: bytes) -> str:
        """The signature of one chunk of a signed stream."""
        text = ["AWS4-HMAC-SHA256-PAYLOAD", stamp, self.scope, previous, EMPTY_SHA256, sha256(data)]
        return self.signature("\n".join(text))

    def trailer_signature(self, stamp: str, previous: str, trailers: bytes) -> str:
        """The signature of the trailers of a signed stream, given as `name:value\\n` lines."""
        text = ["AWS4-HMAC-SHA256-TRAILER", stamp, self.scope, previous, sha256(trailers)]
        return self.signature("\n".join(text))


def seed(request: Request) -> str:
    """The signature that a signed request carries."""
    return (request.header("authorization") or "").rpartition("Signature=")[2]


def default_signed(headers: Pairs) -> list[str]:
    """Names of the headers that have to be signed."""
    names = {key.lower() for key, _ in headers}
    return sorted(
        name for name in names if name in ("host", "content-md5", "content-type") or name.startswith("x-amz-")
    )


def canonical_request(request: Request, names: list[str], payload_hash: str) -> str:
    """The canonical request. Headers that are not there count as empty."""
    query = sorted((encode(unquote_to_bytes(key)), encode(unquote_to_bytes(value))) for key, value in request.query)
    headers = [
        f"{name}:{','.join(' '.join(value.split()) for key, value in request.headers if key.lower() == name)}\n"
        for name in names
    ]
    return "\n".join(
        [
            request.method,
            encode(unquote_to_bytes(request.path), safe="/"),
            "&".join(f"{key}={value}" for key, value in query),
            "".join(headers),
            ";".join(names),
            payload_hash,
        ]
    )
