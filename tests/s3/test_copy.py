"""Copies on the server."""

import os
from typing import Any

import pytest

from lib.answers import headers, refusal
from lib.gateway import Gateway

DATA = os.urandom(50_000)
SENT = {"Metadata": {"a": "b"}, "ContentType": "x/y", "CacheControl": "no-cache"}


@pytest.fixture
def source(s3: Any, bucket: str, key: str) -> dict[str, str]:
    """An object to copy."""
    s3.put_object(Bucket=bucket, Key=key, Body=DATA, Tagging="t=u", **SENT)
    return {"Bucket": bucket, "Key": key}


def test_everything_comes_along(s3: Any, bucket: str, key: str, source: dict[str, str]) -> None:
    target = {"Bucket": bucket, "Key": f"{key}@copy"}
    result = s3.copy_object(**target, CopySource=source)["CopyObjectResult"]
    answer = s3.get_object(**target)
    assert answer["Body"].read() == DATA
    assert {name: answer[name] for name in SENT} == SENT
    assert result["ETag"] == answer["ETag"] == s3.head_object(**source)["ETag"]
    assert s3.get_object_tagging(**target)["TagSet"] == [{"Key": "t", "Value": "u"}]


def test_replaced_attributes(s3: Any, bucket: str, key: str, source: dict[str, str]) -> None:
    target = {"Bucket": bucket, "Key": f"{key}@copy"}
    s3.copy_object(
        **target,
        CopySource=source,
        MetadataDirective="REPLACE",
        Metadata={"c": "d"},
        ContentType="z/z",
        TaggingDirective="REPLACE",
        Tagging="v=w",
    )
    answer = s3.get_object(**target)
    assert (answer["Metadata"], answer["ContentType"]) == ({"c": "d"}, "z/z")
    assert "CacheControl" not in answer
    assert s3.get_object_tagging(**target)["TagSet"] == [{"Key": "v", "Value": "w"}]


def test_onto_itself(s3: Any, source: dict[str, str]) -> None:
    assert refusal(s3.copy_object, **source, CopySource=source) == (400, "InvalidRequest")
    s3.copy_object(**source, CopySource=source, MetadataDirective="REPLACE", Metadata={"new": "1"})
    answer = s3.get_object(**source)
    assert (answer["Body"].read(), answer["Metadata"]) == (DATA, {"new": "1"})


def test_what_is_not_there(s3: Any, bucket: str, key: str, source: dict[str, str]) -> None:
    target = {"Bucket": bucket, "Key": f"{key}@copy"}
    absent = {"Bucket": bucket, "Key": f"{key}@none"}
    assert refusal(s3.copy_object, **target, CopySource=absent) == (404, "NoSuchKey")
    absent = {"Bucket": "kv-there-is-none", "Key": key}
    assert refusal(s3.copy_object, **target, CopySource=absent) == (404, "NoSuchBucket")
    assert refusal(s3.copy_object, Bucket="kv-there-is-none", Key=key, CopySource=source) == (404, "NoSuchBucket")
    assert refusal(s3.head_object, **target)[0] == 404


def test_conditions_on_the_source(s3: Any, bucket: str, key: str, source: dict[str, str]) -> None:
    target = {"Bucket": bucket, "Key": f"{key}@copy"}
    etag = s3.head_object(**source)["ETag"]
    for refused in ({"CopySourceIfMatch": '"other"'}, {"CopySourceIfNoneMatch": etag}):
        assert refusal(s3.copy_object, **target, CopySource=source, **refused) == (412, "PreconditionFailed")
    assert refusal(s3.head_object, **target)[0] == 404
    s3.copy_object(**target, CopySource=source, CopySourceIfMatch=etag)
    assert s3.get_object(**target)["Body"].read() == DATA


@pytest.mark.parametrize("spelling", ["/{}/{}", "{}/{}"])
def test_spellings_of_the_source(gateway: Gateway, s3: Any, bucket: str, key: str, spelling: str) -> None:
    s3.put_object(Bucket=bucket, Key=f"{key} a+b%", Body=DATA)
    header = ("x-amz-copy-source", spelling.format(bucket, f"{key}%20a%2Bb%25"))
    assert gateway.call("PUT", f"/{bucket}/{key}@copy", header).status == 200
    assert s3.get_object(Bucket=bucket, Key=f"{key}@copy")["Body"].read() == DATA


@pytest.mark.parametrize(
    "text", ["", "/", "x", "/x", "//", "b/", "%ff/k", "b/%ff", "b/k?versionId=1&x", "arn:aws:s3:x"]
)
def test_nonsense_for_a_source(gateway: Gateway, bucket: str, key: str, text: str) -> None:
    answer = gateway.call("PUT", f"/{bucket}/{key}", ("x-amz-copy-source", text))
    assert 400 <= answer.status < 500, str(answer)
    assert gateway.call("HEAD", f"/{bucket}/{key}").status == 404


def test_between_kinds_of_bucket(s3: Any, make_bucket: Any, bucket: str, key: str, source: dict[str, str]) -> None:
    plain = {"Bucket": make_bucket("pass"), "Key": key}
    s3.copy_object(**plain, CopySource=source)
    assert s3.get_object(**plain)["Body"].read() == DATA
    back = {"Bucket": bucket, "Key": f"{key}@back"}
    s3.copy_object(**back, CopySource=plain)
    answer = s3.get_object(**back)
    assert (answer["Body"].read(), answer["Metadata"]) == (DATA, SENT["Metadata"])


def test_a_copy_lives_as_it_is_told(s3: Any, bucket: str, key: str) -> None:
    source, target = {"Bucket": bucket, "Key": key}, {"Bucket": bucket, "Key": f"{key}@copy"}
    s3.put_object(**source, Body=DATA, Metadata={"kv-ttl": "600"})
    s3.copy_object(**target, CopySource=source)
    assert "expiry-date" in headers(s3.head_object(**target))["x-amz-expiration"]
    s3.copy_object(**target, CopySource=source, MetadataDirective="REPLACE", Metadata={})
    assert "x-amz-expiration" not in headers(s3.head_object(**target))
