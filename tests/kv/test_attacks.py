"""Requests to the KV extension that must not be believed: the same guard and the same signatures as S3's."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from lib.chunked import MODES, stream
from lib.gateway import Gateway
from lib.kv import FRAMES, JSON, Body, Kv, encode, put_frames, refusal
from lib.raw import Connection, Request, http_chunks
from lib.sigv4 import UNSIGNED, Credentials, Signer, sha256

BLOCKS = {"a": b"block a", "b": b"block b"}
DELETE = {"keys": ["a", "b"]}


@pytest.fixture
def full(kv: Kv) -> Kv:
    """A bucket with two blocks, which no attack may remove."""
    kv.put(BLOCKS)
    return kv


def unharmed(kv: Kv) -> None:
    assert kv.get(["a", "b"]).blocks == BLOCKS


def signer(kv: Kv) -> Signer:
    return kv.gateway.signer()


OPERATIONS = ["lookup", "exists", "get", "delete", "touch"]


@pytest.mark.parametrize("operation", [*OPERATIONS, "put"])
def test_unsigned(full: Kv, operation: str) -> None:
    body: Body = encode(put_frames({"a": b"other"})) if operation == "put" else {"keys": ["a"]}
    assert refusal(full.gateway.send(full.request(operation, body))) == (403, "AccessDenied")
    unharmed(full)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_wrong_secret(full: Kv, operation: str) -> None:
    admin = full.gateway.keys.admin
    for credentials, code in [
        (Credentials(admin.access_key, admin.secret_key + "x"), "SignatureDoesNotMatch"),
        (Credentials("BGNOBODYKNOWSME", admin.secret_key), "InvalidAccessKeyId"),
    ]:
        request = full.gateway.signer(credentials).sign(full.request(operation, DELETE))
        assert refusal(full.gateway.send(request)) == (403, code)
    unharmed(full)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_another_body_than_was_signed(full: Kv, operation: str) -> None:
    signed = signer(full).sign(full.request(operation, {"keys": ["x", "y"]}))
    body = json.dumps(DELETE).encode()
    assert len(body) == len(signed.body)
    assert refusal(full.gateway.send(signed.replace(body=body))) == (400, "BadDigest")
    wrong_hash = signer(full).sign(full.request(operation, DELETE), payload_hash=sha256(b"other"))
    assert refusal(full.gateway.send(wrong_hash)) == (400, "BadDigest")
    unharmed(full)


@pytest.mark.parametrize("operation", ["delete", "touch"])
def test_what_destroys_is_bound_to_its_signature(full: Kv, operation: str) -> None:
    request = full.request(operation, DELETE)
    for unbound in [
        signer(full).sign(request, payload_hash=UNSIGNED),
        signer(full).presign(request.without_header("Content-Type").with_headers(("Content-Type", JSON))),
    ]:
        assert refusal(full.gateway.send(unbound)) == (400, "InvalidRequest")
    unharmed(full)


def test_reads_may_leave_their_body_unsigned(full: Kv) -> None:
    request = signer(full).sign(full.request("lookup", DELETE), payload_hash=UNSIGNED)
    answer = full.gateway.send(request)
    assert (answer.status, json.loads(answer.body)["matched"]) == (200, 2)


def test_promised_digests_are_kept(full: Kv) -> None:
    for name, value in [("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="), ("x-amz-checksum-crc32", "AAAAAA==")]:
        bodies: list[tuple[str, Body]] = [("delete", DELETE), ("put", encode(put_frames({"a": b"other", "c": b"new"})))]
        for operation, body in bodies:
            request = signer(full).sign(full.request(operation, body, (name, value)), payload_hash=UNSIGNED)
            assert refusal(full.gateway.send(request)) == (400, "BadDigest"), (name, operation)
    unharmed(full)
    assert full.present(["c"]) == [False]


def test_a_put_with_another_hash_stores_nothing(full: Kv) -> None:
    body = encode(put_frames({"a": b"other", "c": b"new"}))
    request = signer(full).sign(full.request("put", body), payload_hash=sha256(b"another body"))
    assert refusal(full.gateway.send(request)) == (400, "BadDigest")
    unharmed(full)
    assert full.present(["c"]) == [False]


@pytest.mark.parametrize("hashed", [True, False])
def test_puts_with_and_without_a_hash(kv: Kv, hashed: bool) -> None:
    request = kv.request("put", encode(put_frames(BLOCKS)))
    signed = signer(kv).sign(request) if hashed else signer(kv).sign(request, payload_hash=UNSIGNED)
    assert kv.gateway.send(signed).status == 200
    unharmed(kv)


Change = Callable[[Signer], Signer]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s.but(service="kv"), (400, "AuthorizationHeaderMalformed")),
        (lambda s: s.but(region="eu-north-1"), (400, "AuthorizationHeaderMalformed")),
        (lambda s: s.but(terminator="aws5_request"), (400, "AuthorizationHeaderMalformed")),
        (lambda s: s.but(scope_date="20200101"), (403, "SignatureDoesNotMatch")),
        (lambda s: s.at(timedelta(hours=-1)), (403, "RequestTimeTooSkewed")),
        (lambda s: s.at(timedelta(hours=1)), (403, "RequestTimeTooSkewed")),
    ],
)
def test_scope_and_clock(full: Kv, change: Change, expected: tuple[int, str]) -> None:
    request = change(signer(full)).sign(full.request("delete", DELETE))
    assert refusal(full.gateway.send(request)) == expected
    unharmed(full)


def test_headers_that_are_not_covered(full: Kv) -> None:
    request = full.request("delete", DELETE)
    without_host = signer(full).sign(request, signed=["x-amz-content-sha256", "x-amz-date"])
    assert refusal(full.gateway.send(without_host)) == (400, "AuthorizationHeaderMalformed")
    extra = signer(full).sign(request).with_headers(("x-amz-meta-a", "b"))
    assert refusal(full.gateway.send(extra)) == (403, "AccessDenied")
    unharmed(full)


@pytest.mark.parametrize("name", ["Host", "Content-Type", "x-amz-content-sha256", "x-amz-date", "Authorization"])
def test_doubled_headers(full: Kv, name: str) -> None:
    request = signer(full).sign(full.request("delete", DELETE))
    value = request.header(name)
    assert value
    assert refusal(full.gateway.send(request.with_headers((name, value)))) == (400, "InvalidRequest")
    unharmed(full)


def test_length_and_chunks(full: Kv) -> None:
    request = signer(full).sign(full.request("delete", DELETE)).with_headers(("Transfer-Encoding", "chunked"))
    answer = full.gateway.send(request.replace(body=http_chunks([request.body])))
    # The HTTP parser lets the chunks count; the request has no length then.
    assert refusal(answer) == (411, "MissingContentLength")
    unharmed(full)


def test_json_in_http_chunks(full: Kv) -> None:
    request = signer(full).sign(full.request("lookup", DELETE)).without_header("Content-Length")
    request = request.with_headers(("Transfer-Encoding", "chunked"))
    answer = full.gateway.send(request.replace(body=http_chunks([request.body[:5], request.body[5:]])))
    assert refusal(answer) == (411, "MissingContentLength")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", ["put", "lookup", "delete"])
def test_chunked_payloads_are_refused(full: Kv, mode: str, operation: str) -> None:
    body = encode(put_frames({"c": b"new"})) if operation == "put" else json.dumps(DELETE).encode()
    kind = FRAMES if operation == "put" else JSON
    for method in ("POST", "PUT"):
        request = Request(method, full.path(operation), [], [("Host", full.gateway.host), ("Content-Type", kind)])
        made = stream(signer(full), request, mode, body)
        with Connection(*full.gateway.address) as connection:
            connection.send(made.encode())
            status, _ = refusal(connection.response())
        assert status in (400, 405, 501)
    unharmed(full)
    assert full.present(["c"]) == [False]


def test_forms_do_not_sign(full: Kv) -> None:
    request = full.request("delete", b"--x--", ("Content-Type", "multipart/form-data; boundary=x"))
    assert refusal(full.gateway.send(request)) == (403, "AccessDenied")
    assert refusal(full.gateway.send(signer(full).sign(request)))[0] == 400
    unharmed(full)


def test_permissions(full: Kv) -> None:
    keys = full.gateway.keys
    reader, scoped = (Kv(full.gateway, full.bucket, by) for by in (keys.reader, keys.scoped))
    frames = encode(put_frames({"a": b"other"}))
    assert reader.ok("lookup", DELETE)["matched"] == 2
    assert reader.get(["a"]).blocks == {"a": BLOCKS["a"]}
    writes: list[tuple[str, Body]] = [("delete", DELETE), ("touch", {**DELETE, "ttl_s": 5}), ("put", frames)]
    for operation, body in writes:
        assert refusal(reader.ask(operation, body)) == (403, "AccessDenied")
    for operation in OPERATIONS:
        assert refusal(scoped.ask(operation, {"keys": ["a"]})) == (403, "AccessDenied")
    assert refusal(scoped.ask("put", frames)) == (403, "AccessDenied")
    assert full.gateway.call("GET", "/_kv/v1/fleet", by=keys.scoped).status == 200
    assert full.gateway.call("GET", full.path("stats"), by=keys.scoped).status == 403
    unharmed(full)


def test_another_path_than_was_signed(full: Kv) -> None:
    lookup = signer(full).sign(full.request("lookup", DELETE))
    delete = lookup.replace(path=full.path("delete"))
    assert refusal(full.gateway.send(delete)) == (403, "SignatureDoesNotMatch")
    for path in [full.path("delete").replace("_", "%5F", 1), "/" + full.path("delete"), full.path("delete") + "/"]:
        request = signer(full).sign(full.request("lookup", DELETE).replace(path=path))
        assert full.gateway.send(request).status in (400, 404)
    unharmed(full)


def test_continue_comes_only_to_who_is_authenticated(full: Kv) -> None:
    request = full.request("delete", DELETE, ("Expect", "100-continue"))
    with Connection(*full.gateway.address) as connection:
        connection.send(request.head())
        assert connection.interim().status == 403
    with Connection(*full.gateway.address) as connection:
        connection.send(signer(full).sign(request).head())
        assert connection.interim().status == 100
    unharmed(full)


def test_a_bucket_of_a_host_has_keys_there(kv: Kv, kv_gateway: Gateway) -> None:
    """Where the host names the bucket, the path is a key whatever it looks like."""
    host = f"{kv.bucket}.localhost:{kv_gateway.port}"
    key = "/_kv/v1/other/lookup"
    put = Request("PUT", key, [], [("Host", host), ("Content-Length", "5")], b"bytes")
    assert kv_gateway.send(signer(kv).sign(put)).status == 200
    get = Request("GET", key, [], [("Host", host)])
    assert kv_gateway.send(signer(kv).sign(get)).body == b"bytes"
    post = kv.request("lookup", {"keys": []}).with_header("Host", host)
    assert b"<Error>" in kv_gateway.send(signer(kv).sign(post)).body
