"""Signatures that are not what they should be, in headers and in URLs."""

from datetime import timedelta

import pytest

from lib.answers import refusal
from lib.attacks import HOSTILE, SECRET, Make, Target, check_refusal
from lib.gateway import s3_client
from lib.raw import Request
from lib.sigv4 import EMPTY_SHA256, Credentials, default_signed, encode, sha256

UNSIGNED_HEADERS = {
    "x-amz-copy-source": "/{vault}/secret",
    "x-amz-meta-evil": "1",
    "x-amz-meta-kv-ttl": "1",
    "x-amz-tagging": "kv-ttl=1",
    "x-amz-acl": "public-read",
    "x-amz-storage-class": "GLACIER",
    "x-amz-website-redirect-location": "http://evil.example/",
    "x-amz-security-token": "x",
    "x-amz-checksum-crc32": "AAAAAA==",
    "x-amz-invented": "1",
    "X-AMZ-Meta-Case": "1",
}


@pytest.mark.parametrize("name", UNSIGNED_HEADERS)
@pytest.mark.parametrize("presigned", [False, True], ids=["header", "presigned"])
def test_unsigned_headers(target: Target, name: str, presigned: bool) -> None:
    sign = target.signer.presign if presigned else target.signer.sign
    extra = (name, UNSIGNED_HEADERS[name].format(vault=target.vault))
    target.refused(sign(target.put()).with_headers(extra))
    target.refused(sign(target.put(body=b"")).with_headers(extra))
    target.accepted(sign(target.put()))


def test_unsigned_headers_on_reads(target: Target) -> None:
    signed = target.signer.sign(target.get(f"/{target.vault}/secret"))
    check_refusal(target.gateway.send(signed.with_headers(("x-amz-meta-kv-fingerprint", "f"))))
    assert target.gateway.send(signed).body == SECRET


@pytest.mark.parametrize("presigned", [False, True], ids=["header", "presigned"])
def test_host_unsigned(target: Target, presigned: bool) -> None:
    sign = target.signer.presign if presigned else target.signer.sign
    request = target.put()
    names = [name for name in default_signed(target.signer.sign(request).headers) if name != "host"]
    target.refused(sign(request, signed=names if not presigned else ["content-length"]))
    target.refused(sign(request, signed=[]))
    target.accepted(sign(request))


@pytest.mark.parametrize(
    "changes",
    [
        {"region": "eu-west-1"},
        {"region": "US-EAST-1"},
        {"region": ""},
        {"service": "iam"},
        {"service": "s3express"},
        {"terminator": "aws5_request"},
        {"terminator": "aws4_request/"},
        {"scope_date": "20200101"},
        {"scope_date": "99991231"},
        {"scope_date": "2020-1-1"},
        {"scope_date": ""},
    ],
    ids=str,
)
@pytest.mark.parametrize("presigned", [False, True], ids=["header", "presigned"])
def test_other_scopes(target: Target, changes: dict[str, str], presigned: bool) -> None:
    signer = target.signer.but(**changes)
    target.refused((signer.presign if presigned else signer.sign)(target.put()))


@pytest.mark.parametrize("minutes", [-16, 16, -60 * 24, 60 * 24])
def test_skewed_clock(target: Target, minutes: int) -> None:
    target.refused(target.signer.at(timedelta(minutes=minutes)).sign(target.put()))
    target.accepted(target.signer.at(timedelta(minutes=14 if minutes > 0 else -14)).sign(target.put()))


@pytest.mark.parametrize(
    "stamp", ["", "x", "20200101", "2026-01-01T00:00:00Z", "Tue, 01 Dec 2026 10:00:00 GMT", "9" * 16]
)
def test_dates_that_are_none(target: Target, stamp: str) -> None:
    target.refused(target.signer.sign(target.put(("x-amz-date", stamp))))


@pytest.mark.parametrize("expires", ["604801", "0", "-1", "x", "1e3", "", "+60", "60.5", "99999999999999999999"])
def test_lifetimes(target: Target, expires: str) -> None:
    target.refused(target.signer.presign(target.put(), expires))
    target.accepted(target.signer.presign(target.put(), 604800))


def test_expired_and_future_urls(target: Target) -> None:
    then = target.signer.at(timedelta(minutes=-10))
    target.refused(then.presign(target.put(), 60))
    target.refused(target.signer.at(timedelta(minutes=20)).presign(target.put(), 3600))
    target.accepted(then.presign(target.put(), 3600))


def test_urls_are_for_one_thing(target: Target) -> None:
    url = target.signer.presign(target.get(f"/{target.vault}/secret"))
    assert target.gateway.send(url).body == SECRET
    for other in (
        url.replace(method="PUT", body=HOSTILE).with_headers(("Content-Length", str(len(HOSTILE)))),
        url.replace(method="DELETE"),
        url.replace(path=f"/{target.vault}/other"),
        url.replace(path=f"/{target.vault}"),
        url.replace(query=[*url.query, ("versionId", "null")]),
        url.replace(query=[*url.query, ("response-content-type", "text/html")]),
        url.replace(query=[*url.query, ("acl", "")]),
        url.with_header("Host", "evil.example"),
    ):
        check_refusal(target.gateway.send(other))


def without(name: str) -> Make:
    """A presigned URL that lacks a parameter."""

    def make(target: Target) -> Request:
        url = target.signer.presign(target.put())
        return url.replace(query=[pair for pair in url.query if pair[0] != name])

    return make


@pytest.mark.parametrize(
    "name",
    ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"],
)
def test_incomplete_urls(target: Target, name: str) -> None:
    target.refused(without(name)(target))


def test_credentials_in_both_places(target: Target) -> None:
    url = target.signer.presign(target.put())
    both = target.signer.sign(url)
    target.refused(both)
    target.refused(url.with_headers(("Authorization", "AWS4-HMAC-SHA256 x")))
    query = [("X-Amz-Signature", "0" * 64)]
    target.refused(target.signer.sign(target.put().replace(query=query)))
    target.accepted(url)


def test_signature_version_2(target: Target) -> None:
    keys = target.gateway.keys.admin
    old = s3_client(target.gateway.endpoint, keys, signature_version="s3")
    url = old.generate_presigned_url("get_object", Params={"Bucket": target.vault, "Key": "secret"}, ExpiresIn=60)
    assert "AWSAccessKeyId=" in url
    path, _, query = url.removeprefix(target.gateway.endpoint).partition("?")
    pairs = [(name, value) for name, _, value in (pair.partition("=") for pair in query.split("&"))]
    check_refusal(target.gateway.send(target.get(path).replace(query=pairs)))
    for call, more in ((old.get_object, {}), (old.put_object, {"Body": HOSTILE})):
        assert refusal(call, Bucket=target.vault, Key="secret", **more)[0] in (400, 403)


FORGED = {
    "another secret": lambda t: t.signer.but(credentials=Credentials(t.gateway.keys.admin.access_key, "x")),
    "another key's secret": lambda t: t.signer.but(
        credentials=Credentials(t.gateway.keys.admin.access_key, t.gateway.keys.scoped.secret_key)
    ),
    "unknown access key": lambda t: t.signer.but(credentials=Credentials("NOBODY", t.gateway.keys.admin.secret_key)),
    "no access key": lambda t: t.signer.but(credentials=Credentials("", t.gateway.keys.admin.secret_key)),
    "slashes in the access key": lambda t: t.signer.but(
        credentials=Credentials(f"{t.gateway.keys.admin.access_key}/x", t.gateway.keys.admin.secret_key)
    ),
}


@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("presigned", [False, True], ids=["header", "presigned"])
def test_other_credentials(target: Target, how: str, presigned: bool) -> None:
    signer = FORGED[how](target)
    target.refused((signer.presign if presigned else signer.sign)(target.put()))


def respell(change: str) -> Make:
    """Signs, then changes the Authorization header's text: `old→new`."""

    def make(target: Target) -> Request:
        request = target.signer.sign(target.put())
        old, _, new = change.partition("→")
        text = request.header("Authorization") or ""
        assert old in text
        return request.with_header("Authorization", text.replace(old, new, 1))

    return make


@pytest.mark.parametrize(
    "change",
    [
        "AWS4-HMAC-SHA256 →",
        "AWS4-HMAC-SHA256→AWS4-HMAC-SHA512",
        "AWS4-HMAC-SHA256→AWS4-ECDSA-P256-SHA256",
        "AWS4-HMAC-SHA256→aws4-hmac-sha256x",
        "AWS4-HMAC-SHA256→Bearer",
        "Credential=→Credential=x",
        "Credential=→Credential=x, Credential=",
        "Credential=→",
        "SignedHeaders=→SignedHeaders=x;",
        "SignedHeaders=→SignedHeaders=host, SignedHeaders=",
        "SignedHeaders=host;→SignedHeaders=Host;",
        "SignedHeaders=host;→SignedHeaders=host;host;",
        "SignedHeaders=host;→SignedHeaders=;host;",
        "SignedHeaders=→Headers=",
        "Signature=→Signature=x",
        "Signature=→Signature= ",
        "Signature=→Signature=, Signature=",
        "Signature=→Sig=",
        "/aws4_request→/aws4_request/aws4_request",
        "/s3/→/",
        "/s3/→//s3/",
    ],
)
def test_malformed_authorization(target: Target, change: str) -> None:
    target.refused(respell(change)(target))


def test_altered_signatures(target: Target) -> None:
    request = target.signer.sign(target.put())
    text = request.header("Authorization") or ""
    start, _, signature = text.rpartition("=")
    flipped = ("0" if signature[0] != "0" else "1") + signature[1:]
    for other in (
        flipped,
        signature.upper() + "0",
        signature[:-1],
        signature[:32],
        "",
        "0" * 64,
        signature + "00",
        "é" * 32,
    ):
        target.refused(request.with_header("Authorization", f"{start}={other}"))
    for junk in (
        "",
        " ",
        "x",
        "AWS4-HMAC-SHA256",
        "Basic eDp5",
        "AWS x:y",
        "=" * 9000,
        "AWS4-HMAC-SHA256 " + "," * 9000,
    ):
        target.refused(request.with_header("Authorization", junk))
    target.accepted(request)


def test_signatures_are_for_one_thing(target: Target) -> None:
    signed = target.signer.sign(target.get(f"/{target.vault}/secret"))
    assert target.gateway.send(signed).body == SECRET
    for other in (
        signed.replace(method="DELETE"),
        signed.replace(path=f"/{target.vault}/other"),
        signed.replace(path=f"/{target.vault}"),
        signed.replace(query=[("tagging", "")]),
        signed.replace(query=[("x", "y")]),
        signed.with_header("Host", "evil.example"),
        signed.with_header("x-amz-date", "20200101T000000Z"),
        signed.with_header("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ):
        check_refusal(target.gateway.send(other))


@pytest.mark.parametrize(
    "text",
    [
        sha256(b"another body"),
        EMPTY_SHA256,
        "",
        "x",
        "0" * 63,
        "unsigned-payload",
        "UNSIGNED",
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
        "STREAMING-UNSIGNED-PAYLOAD",
        "STREAMING-",
    ],
)
def test_payload_hashes(target: Target, text: str) -> None:
    target.refused(target.signer.sign(target.put(("x-amz-content-sha256", text))))
    target.accepted(target.signer.sign(target.put(("x-amz-content-sha256", "UNSIGNED-PAYLOAD"))))


def test_without_authentication(target: Target) -> None:
    target.refused(target.put())
    for path in (f"/{target.vault}/secret", f"/{target.vault}", "/"):
        check_refusal(target.gateway.send(target.get(path)))
        check_refusal(target.gateway.send(target.get(path).replace(method="DELETE")))


DOUBLED_HEADERS = [
    "Authorization",
    "Host",
    "x-amz-date",
    "x-amz-content-sha256",
    "Content-Type",
    "Content-MD5",
    "x-amz-meta-a",
    "x-amz-tagging",
    "x-amz-copy-source",
    "Range",
    "If-None-Match",
    "x-amz-decoded-content-length",
]


@pytest.mark.parametrize("name", DOUBLED_HEADERS)
def test_doubled_headers(target: Target, name: str) -> None:
    given = {
        "Content-MD5": "Qz/bDUvx7yaNWaE1CgoOcQ==",
        "x-amz-tagging": "a=b",
        "x-amz-copy-source": f"/{target.vault}/secret",
        "Range": "bytes=0-1",
        "x-amz-decoded-content-length": str(len(HOSTILE)),
    }
    base = target.put()
    if base.header(name) is None and name not in ("Authorization", "x-amz-date", "x-amz-content-sha256"):
        base = base.with_headers((name, given.get(name, "x")))
    signed = target.signer.sign(base)
    value = signed.header(name) or ""
    target.refused(signed.with_headers((name, value)))
    target.refused(signed.with_headers((name.upper(), value)))
    if name not in ("Authorization", "x-amz-date", "x-amz-content-sha256"):
        # The same twice, and honestly signed.
        target.refused(target.signer.sign(base.with_headers((name, value))))


@pytest.mark.parametrize(
    "name", ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signature"]
)
def test_doubled_parameters_of_urls(target: Target, name: str) -> None:
    url = target.signer.presign(target.put())
    pair = next(pair for pair in url.query if pair[0] == name)
    target.refused(url.replace(query=[*url.query, pair]))
    target.refused(url.replace(query=[pair, *url.query]))
    target.refused(target.signer.presign(target.put(), extra=[(name, "x")]))
    target.refused(target.signer.presign(target.put(), extra=[(encode(name.lower()), "x")]), may_close=False)


@pytest.mark.parametrize(
    "query",
    [
        [("uploadId", "a"), ("partNumber", "1"), ("partNumber", "2")],
        [("uploadId", "a"), ("uploadId", "b"), ("partNumber", "1")],
        [("tagging", ""), ("tagging", "")],
        [("list-type", "2"), ("prefix", "a"), ("prefix", "b")],
        [("versionId", "null"), ("versionId", "null")],
        [("%75ploadId", "a"), ("uploadId", "b")],
    ],
    ids=str,
)
def test_doubled_parameters(target: Target, query: list[tuple[str, str]]) -> None:
    for request in (target.put(), target.get()):
        target.refused(target.signer.sign(request.replace(query=query)))
