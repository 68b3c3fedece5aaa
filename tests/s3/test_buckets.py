"""Buckets."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.answers import refusal, status
from lib.gateway import REGION, Gateway


def test_come_and_go(s3: Any) -> None:
    name = f"kv-{secrets.token_hex(6)}"
    assert refusal(s3.head_bucket, Bucket=name)[0] == 404
    assert status(s3.create_bucket(Bucket=name)) == 200
    assert status(s3.head_bucket(Bucket=name)) == 200
    found = {bucket["Name"]: bucket["CreationDate"] for bucket in s3.list_buckets()["Buckets"]}
    assert abs(found[name] - datetime.now(UTC)) < timedelta(minutes=2)
    assert status(s3.create_bucket(Bucket=name)) == 200, "again, as in AWS's first region"
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    assert refusal(s3.delete_bucket, Bucket=name) == (409, "BucketNotEmpty")
    s3.delete_object(Bucket=name, Key="k")
    assert status(s3.delete_bucket(Bucket=name)) == 204
    assert refusal(s3.head_bucket, Bucket=name)[0] == 404
    assert refusal(s3.delete_bucket, Bucket=name) == (404, "NoSuchBucket")


def test_location_and_versioning(s3: Any, bucket: str) -> None:
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert refusal(s3.get_bucket_location, Bucket="kv-there-is-none") == (404, "NoSuchBucket")
    assert refusal(s3.get_bucket_versioning, Bucket="kv-there-is-none") == (404, "NoSuchBucket")


def test_location_constraint(s3: Any) -> None:
    name = f"kv-{secrets.token_hex(6)}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize(
    "name", ["ab", "A" * 10, "a_b_c", "-abc", "abc-", "a..b", "192.168.5.4", "x" * 64, ".abc", "_kv", "a%2Fb"]
)
def test_bad_names(gateway: Gateway, name: str) -> None:
    answer = gateway.call("PUT", f"/{name}")
    assert (answer.status, answer.code) in ((400, "InvalidBucketName"), (404, "NoSuchBucket")), str(answer)
    assert name not in gateway.call("GET", "/").body.decode()


def test_what_is_not_supported(gateway: Gateway, s3: Any, bucket: str) -> None:
    """The fs upstream has no such thing; an s3 upstream answers for itself."""
    if gateway.store.name != "fs":
        return
    assert refusal(s3.get_bucket_website, Bucket=bucket) == (404, "NoSuchWebsiteConfiguration")
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (404, "NoSuchLifecycleConfiguration")
    rule = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    changes: list[tuple[Any, dict[str, Any]]] = [
        (s3.put_bucket_versioning, {"VersioningConfiguration": {"Status": "Enabled"}}),
        (s3.put_bucket_lifecycle_configuration, {"LifecycleConfiguration": {"Rules": [rule]}}),
        (s3.put_bucket_policy, {"Policy": "{}"}),
    ]
    for call, more in changes:
        assert refusal(call, Bucket=bucket, **more) == (501, "NotImplemented"), call.__name__
