"""Conditional requests."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import MakeGateway

from lib.answers import error_headers, refusal, status
from lib.gateway import Gateway

PAST = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE_MARGIN = timedelta(hours=1)


@pytest.fixture(scope="module", params=["kv", "pass"])
def target(request: pytest.FixtureRequest, gateway: Gateway, make_module_bucket: Any) -> dict[str, Any]:
    """An object, in a cached and in a plain bucket."""
    s3, bucket = gateway.s3(), make_module_bucket(request.param)
    etag = s3.put_object(Bucket=bucket, Key="conditional", Body=b"conditional")["ETag"]
    head = s3.head_object(Bucket=bucket, Key="conditional")
    return {"Bucket": bucket, "Key": "conditional", "etag": etag, "modified": head["LastModified"]}


def conditions(target: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    """Conditions, and the status that they lead to."""
    etag, modified = target["etag"], target["modified"]
    return [
        ({"IfMatch": etag}, 200),
        ({"IfMatch": "*"}, 200),
        ({"IfMatch": etag.strip('"')}, 200),
        ({"IfMatch": '"other"'}, 412),
        ({"IfNoneMatch": '"other"'}, 200),
        ({"IfNoneMatch": etag}, 304),
        ({"IfNoneMatch": "*"}, 304),
        ({"IfModifiedSince": PAST}, 200),
        ({"IfModifiedSince": modified}, 304),
        ({"IfUnmodifiedSince": modified}, 200),
        ({"IfUnmodifiedSince": PAST}, 412),
        ({"IfMatch": etag, "IfUnmodifiedSince": PAST}, 200),
        ({"IfMatch": '"other"', "IfUnmodifiedSince": modified}, 412),
        ({"IfNoneMatch": '"other"', "IfModifiedSince": modified}, 200),
        ({"IfNoneMatch": etag, "IfModifiedSince": PAST}, 304),
    ]


@pytest.mark.parametrize("number", range(15))
@pytest.mark.parametrize("operation", ["get_object", "head_object"])
def test_reads(s3: Any, target: dict[str, Any], operation: str, number: int) -> None:
    asked, expected = conditions(target)[number]
    call = getattr(s3, operation)
    name = {"Bucket": target["Bucket"], "Key": target["Key"]}
    if expected == 200:
        assert status(call(**name, **asked)) == 200
    else:
        assert refusal(call, **name, **asked)[0] == expected
        if expected == 304:
            assert error_headers(call, **name, **asked)["etag"] == target["etag"]


def test_writes(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    first = s3.put_object(Bucket=bucket, Key=key, Body=b"1", IfNoneMatch="*")["ETag"]
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"2", IfNoneMatch="*") == (412, "PreconditionFailed")
    if not gateway.store.conditional_writes:
        # What plainly does not hold is told; what could only be judged by the store is not promised.
        for etag, expected in (('"x"', (412, "PreconditionFailed")), (first, (501, "NotImplemented"))):
            assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"3", IfMatch=etag) == expected
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"1"
        return
    assert refusal(s3.put_object, Bucket=bucket, Key=f"{key}@none", Body=b"0", IfMatch='"x"')[0] in (404, 412)
    second = s3.put_object(Bucket=bucket, Key=key, Body=b"3", IfMatch=first)["ETag"]
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"4", IfMatch=first) == (412, "PreconditionFailed")
    answer = s3.get_object(Bucket=bucket, Key=key)
    assert (answer["Body"].read(), answer["ETag"]) == (b"3", second)


def test_completions(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    def upload(**condition: str) -> Any:
        upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        name = {"Bucket": bucket, "Key": key, "UploadId": upload_id}
        etag = s3.upload_part(**name, PartNumber=1, Body=b"part")["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        return s3.complete_multipart_upload(**name, MultipartUpload=parts, **condition)

    if not gateway.store.conditional_writes:
        assert refusal(upload, IfNoneMatch="*") == (501, "NotImplemented")
        return
    etag = upload(IfNoneMatch="*")["ETag"]
    assert refusal(upload, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert upload(IfMatch=etag)["ETag"] == etag
    assert refusal(upload, IfMatch='"other"') == (412, "PreconditionFailed")


def test_one_of_many_wins(gateway: Gateway, make_gateway: MakeGateway, s3: Any, bucket: str, key: str) -> None:
    """`If-None-Match: *` is a lock, also between gateways."""
    clients = [s3, make_gateway(gateway.store).s3()]

    def lock(number: int) -> int:
        try:
            clients[number % 2].put_object(Bucket=bucket, Key=key, Body=b"%d" % number, IfNoneMatch="*")
        except clients[0].exceptions.ClientError as error:
            return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
        return 200

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lock, range(16)))
    assert outcomes.count(200) == 1, outcomes
    assert set(outcomes) <= {200, 412, 409}
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"%d" % outcomes.index(200)
