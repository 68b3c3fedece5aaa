"""Uploads by HTML form."""

import secrets
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from lib.forms import form
from lib.gateway import Gateway
from lib.raw import Response


def post(gateway: Gateway, bucket: str, fields: dict[str, str], data: bytes, filename: str = "f.bin") -> Response:
    """Posts a form whose policy covers all of its fields."""
    conditions: list[Any] = [{"bucket": bucket}, *({name: value} for name, value in fields.items())]
    signed = gateway.signer().policy(conditions)
    body, content_type = form([*fields.items(), *signed], data, filename)
    return gateway.send(gateway.request("POST", f"/{bucket}", ("Content-Type", content_type), body=body))


def test_stored_with_its_fields(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    data = secrets.token_bytes(100_000) + b"\r\n--boundary--\r\n"
    fields = {"key": key, "Content-Type": "x/y", "Cache-Control": "no-cache", "x-amz-meta-model": "llama"}
    answer = post(gateway, bucket, fields, data)
    assert answer.status == 204, str(answer)
    found = s3.get_object(Bucket=bucket, Key=key)
    assert found["Body"].read() == data
    assert (found["ContentType"], found["CacheControl"], found["Metadata"]) == ("x/y", "no-cache", {"model": "llama"})
    assert answer.header("etag") == found["ETag"]


def test_named_after_the_file(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    signed = gateway.signer().policy([{"bucket": bucket}, ["starts-with", "$key", f"{key}/"]])
    body, content_type = form([("key", f"{key}/${{filename}}"), *signed], b"named", "photo 1.jpg")
    answer = gateway.send(gateway.request("POST", f"/{bucket}", ("Content-Type", content_type), body=body))
    assert answer.status == 204, str(answer)
    assert s3.get_object(Bucket=bucket, Key=f"{key}/photo 1.jpg")["Body"].read() == b"named"


@pytest.mark.parametrize("status", ["200", "201", "204"])
def test_answers_as_asked(gateway: Gateway, bucket: str, key: str, status: str) -> None:
    answer = post(gateway, bucket, {"key": key, "success_action_status": status}, b"x")
    assert answer.status == int(status), str(answer)
    if status == "201":
        root = ElementTree.fromstring(answer.body)
        assert (root.tag, root.findtext("Bucket"), root.findtext("Key")) == ("PostResponse", bucket, key)
        # s3s writes it without quotes here.
        assert f'"{root.findtext("ETag")}"' == answer.header("etag")


def test_redirects_as_asked(gateway: Gateway, bucket: str, key: str) -> None:
    answer = post(gateway, bucket, {"key": key, "success_action_redirect": "http://127.0.0.1/done?a=b"}, b"x")
    assert answer.status == 303, str(answer)
    location = answer.header("location") or ""
    assert location.startswith("http://127.0.0.1/done?a=b&")
    assert f"key={quote(key, safe='')}" in location


def test_size_within_bounds(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    for size, expected in ((5, 400), (10, 204), (20, 204), (21, 400)):
        signed = gateway.signer().policy([{"bucket": bucket}, {"key": key}, ["content-length-range", 10, 20]])
        body, content_type = form([("key", key), *signed], bytes(size))
        answer = gateway.send(gateway.request("POST", f"/{bucket}", ("Content-Type", content_type), body=body))
        assert answer.status == expected, str(answer)
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 20


def test_boto3_makes_such_forms(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    made = gateway.s3(signature_version="s3v4").generate_presigned_post(bucket, key, ExpiresIn=60)
    body, content_type = form(list(made["fields"].items()), b"by boto3")
    answer = gateway.send(gateway.request("POST", f"/{bucket}", ("Content-Type", content_type), body=body))
    assert answer.status == 204, str(answer)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"by boto3"
