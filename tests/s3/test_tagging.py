"""Object tags."""

from typing import Any

import pytest

from lib.answers import headers, refusal, status


def pairs(**tags: str) -> list[dict[str, str]]:
    """Tags as boto3 has them."""
    return [{"Key": name, "Value": value} for name, value in tags.items()]


def test_come_and_go(s3: Any, bucket: str, key: str) -> None:
    name = {"Bucket": bucket, "Key": key}
    s3.put_object(**name, Body=b"x", Tagging="model=llama&note=a%20b%2Bc")
    assert s3.get_object_tagging(**name)["TagSet"] == pairs(model="llama", note="a b+c")
    assert headers(s3.get_object(**name))["x-amz-tagging-count"] == "2"
    s3.put_object_tagging(**name, Tagging={"TagSet": pairs(one="1")})
    assert s3.get_object_tagging(**name)["TagSet"] == pairs(one="1")
    assert status(s3.delete_object_tagging(**name)) == 204
    assert s3.get_object_tagging(**name)["TagSet"] == []
    assert "x-amz-tagging-count" not in headers(s3.get_object(**name))
    assert s3.get_object(**name)["Body"].read() == b"x"


def test_go_with_the_object(s3: Any, bucket: str, key: str) -> None:
    name = {"Bucket": bucket, "Key": key}
    s3.put_object(**name, Body=b"x", Tagging="a=b")
    s3.put_object(**name, Body=b"y")
    assert s3.get_object_tagging(**name)["TagSet"] == []


def test_absent(s3: Any, bucket: str, key: str) -> None:
    name = {"Bucket": bucket, "Key": key}
    assert refusal(s3.put_object_tagging, **name, Tagging={"TagSet": pairs(a="b")}) == (404, "NoSuchKey")
    assert refusal(s3.delete_object_tagging, **name)[0] in (204, 404)


@pytest.mark.parametrize(
    "tags",
    [
        pairs(**{f"t{number}": "x" for number in range(11)}),
        pairs(**{"k" * 129: "x"}),
        pairs(k="v" * 257),
        [*pairs(a="1"), *pairs(a="2")],
    ],
    ids=["eleven", "long key", "long value", "doubled"],
)
def test_too_much(s3: Any, bucket: str, key: str, tags: list[dict[str, str]]) -> None:
    name = {"Bucket": bucket, "Key": key}
    s3.put_object(**name, Body=b"x", Tagging="kept=1")
    refused = refusal(s3.put_object_tagging, **name, Tagging={"TagSet": tags})
    assert refused in ((400, "InvalidTag"), (400, "BadRequest"), (400, "MalformedXML")), refused
    assert s3.get_object_tagging(**name)["TagSet"] == pairs(kept="1")


def test_ttl_by_tag(s3: Any, bucket: str, key: str) -> None:
    name = {"Bucket": bucket, "Key": key}
    s3.put_object(**name, Body=b"x", Tagging="kv-ttl=600")
    assert "expiry-date" in headers(s3.head_object(**name))["x-amz-expiration"]
    s3.put_object(**name, Body=b"x")
    assert "x-amz-expiration" not in headers(s3.head_object(**name))
    s3.put_object_tagging(**name, Tagging={"TagSet": pairs(**{"kv-ttl": "600"})})
    assert "expiry-date" in headers(s3.head_object(**name))["x-amz-expiration"]
