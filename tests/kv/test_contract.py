"""openapi.yaml: a valid document, whose examples fit it, and which the gateway keeps whatever it is asked."""

import json
import secrets
import struct
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import openapi_spec_validator
import pytest
import requests
import schemathesis
import yaml
from awscrt.checksums import crc64nvme
from conftest import MakeGateway
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lib.gateway import ROOT, Gateway
from lib.raw import Request
from lib.sigv4 import Signer

SPEC = ROOT / "openapi/openapi.yaml"
DOCUMENT = yaml.safe_load(SPEC.read_text())
FRAMES = "application/vnd.blockgate.frames"
EXAMPLES_PER_OPERATION = 40
RESPONSE_S_MAX = 20
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def frame(index: int, flags: int, payload: bytes) -> bytes:
    """A frame of status 200."""
    return struct.pack("<4sIHHIQQ", b"KVB1", index, 200, flags, 0, len(payload), crc64nvme(payload)) + payload


def put_body(blocks: list[bytes], ttl_s: int | None) -> bytes:
    """The body of a put."""
    frames = []
    for index, block in enumerate(blocks):
        header = {"key": f"contract/{index}", "ttl_s": ttl_s}
        frames += [frame(index, 2, json.dumps(header).encode()), frame(index, 0, block)]
    end = {"blocks": len(blocks), "bytes": sum(map(len, blocks))}
    return b"".join([*frames, frame(0, 3, json.dumps(end).encode())])


def damaged(body: bytes, at: int, to: int) -> bytes:
    """The body with one byte changed."""
    at %= len(body)
    return body[:at] + bytes([to]) + body[at + 1 :]


WHOLE = st.builds(put_body, st.lists(st.binary(max_size=100), max_size=4), st.sampled_from([None, 60, 0, 2**63]))
schemathesis.openapi.media_type(
    FRAMES,
    st.one_of(WHOLE, st.builds(damaged, WHOLE, st.integers(0, 1000), st.integers(0, 255)), st.binary(max_size=200)),
)


class Sign(requests.auth.AuthBase):
    """Signs what requests is about to send."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer

    def __call__(self, prepared: requests.PreparedRequest) -> requests.PreparedRequest:
        url = urlsplit(prepared.url or "")
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body or b""
        assert isinstance(body, bytes)
        prepared.headers["Host"] = url.netloc
        query = [(name, value) for name, _, value in (pair.partition("=") for pair in url.query.split("&") if pair)]
        query = [(name, value.replace("+", "%20")) for name, value in query]
        headers = [(name, str(value)) for name, value in prepared.headers.items() if name.lower() != "authorization"]
        signed = self.signer.sign(Request(prepared.method or "", url.path, query, headers, body))
        prepared.headers.update(dict(signed.headers))
        return prepared


@pytest.fixture(scope="module")
def kv_gateway(make_gateway: MakeGateway) -> Gateway:
    """A gateway with the bucket that the requests are for."""
    gateway = make_gateway("fs")
    gateway.s3().create_bucket(Bucket="contract")
    return gateway


def test_document_is_valid() -> None:
    """As the OpenAPI 3.1 specification wants it."""
    openapi_spec_validator.validate(DOCUMENT)


def test_examples_fit_their_schemas() -> None:
    """Each example of each body."""

    def contents(node: Any) -> list[dict[str, Any]]:
        if isinstance(node, list):
            return [found for each in node for found in contents(each)]
        if not isinstance(node, dict):
            return []
        here = [node] if "schema" in node and "examples" in node else []
        return here + [found for each in node.values() for found in contents(each)]

    count = 0
    for content in contents(DOCUMENT):
        schema = {**content["schema"], "components": DOCUMENT["components"]}
        for example in content["examples"].values():
            jsonschema.Draft202012Validator(schema).validate(example["value"])
            count += 1
    assert count > 30


schema = schemathesis.openapi.from_path(SPEC)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_PER_OPERATION,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_asked(case: schemathesis.Case, kv_gateway: Gateway) -> None:
    """Any request is answered as the document says, and none with a 5xx."""
    bucket = str(case.path_parameters.get("bucket", ""))
    if bucket and len(bucket) % 4:
        case.path_parameters["bucket"] = "contract"
    response = case.call(
        base_url=kv_gateway.endpoint, auth=Sign(kv_gateway.signer()), timeout=RESPONSE_S_MAX, allow_redirects=False
    )
    case.validate_response(response, checks=CHECKS)


def test_unsigned_requests_are_refused(kv_gateway: Gateway) -> None:
    """Every operation, with the error that the document promises."""
    for path, item in DOCUMENT["paths"].items():
        method = "POST" if "post" in item else "GET"
        url = kv_gateway.endpoint + path.format(bucket="contract")
        body = {"keys": [secrets.token_hex(4)]} if method == "POST" else None
        answer = requests.request(method, url, json=body, timeout=RESPONSE_S_MAX)
        assert answer.status_code == 403, path
        assert answer.json()["error"]["code"] == "AccessDenied"
        assert answer.headers["x-amz-request-id"] == answer.json()["error"]["request_id"]
