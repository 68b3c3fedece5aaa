"""XML that is not what it should be, on every operation that reads XML."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lib.attacks import Target, check_refusal
from lib.documents import NOT_ON_FS, READ_ON_FS, SPOILS, Operation
from lib.raw import Response


@pytest.fixture
def upload(target: Target) -> Iterator[dict[str, str]]:
    """An upload with one part, and an object beside it under the same key."""
    s3 = target.gateway.s3()
    s3.put_object(Bucket=target.bucket, Key=target.key, Body=b"before", Tagging="before=1")
    name = {"Bucket": target.bucket, "Key": target.key}
    upload_id = s3.create_multipart_upload(**name)["UploadId"]
    etag = s3.upload_part(**name, UploadId=upload_id, PartNumber=1, Body=b"after")["ETag"]
    yield {"{upload}": upload_id, "{etag}": etag.strip('"')}
    with contextlib.suppress(s3.exceptions.NoSuchUpload):  # the control completes it
        s3.abort_multipart_upload(**name, UploadId=upload_id)


def filled(operation: Operation, values: dict[str, str]) -> Operation:
    """With the upload's id and ETag in place."""
    query = [(name, values.get(value, value)) for name, value in operation.query]
    return replace(operation, query=query, inside=operation.inside.replace("{etag}", values["{etag}"]))


def send(target: Target, operation: Operation, body: bytes | None = None) -> Response:
    """Signs and sends an operation's document."""
    return target.gateway.send(target.signer.sign(operation.request(target, body)))


def unchanged(target: Target) -> None:
    """Nothing was done."""
    s3: Any = target.gateway.s3()
    assert target.stored() == b"before"
    assert s3.get_object_tagging(Bucket=target.bucket, Key=target.key)["TagSet"] == [{"Key": "before", "Value": "1"}]


@pytest.mark.parametrize("how", SPOILS)
@pytest.mark.parametrize("operation", READ_ON_FS, ids=lambda operation: operation.name)
def test_spoilt(target: Target, upload: dict[str, str], operation: Operation, how: str) -> None:
    operation = filled(operation, upload)
    answer = send(target, operation, SPOILS[how](operation))
    check_refusal(answer)
    assert answer.status in (400, 413), str(answer)
    unchanged(target)


@pytest.mark.parametrize("operation", READ_ON_FS, ids=lambda operation: operation.name)
def test_sound(target: Target, upload: dict[str, str], operation: Operation) -> None:
    operation = filled(operation, upload)
    spellings = [
        operation.document(),
        f"<{operation.root}>{operation.inside}</{operation.root}>",
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- a comment -->{operation.document()}\n',
    ]
    for text in spellings[: 1 if operation.name == "CompleteMultipartUpload" else 3]:
        assert send(target, operation, text.encode()).status == 200


@pytest.mark.parametrize("how", ["nothing", "text", "DTD", "external entity", "billion laughs", "deep", "huge", "NUL"])
@pytest.mark.parametrize("operation", NOT_ON_FS, ids=lambda operation: operation.name)
def test_spoilt_where_nothing_is_supported(target: Target, operation: Operation, how: str) -> None:
    target.gateway.s3().put_object(Bucket=target.bucket, Key=target.key, Body=b"before")
    answer = send(target, operation, SPOILS[how](operation))
    assert answer.status == 501 or 400 <= answer.status < 500, str(answer)
    assert b"root:" not in answer.body
    assert target.stored() == b"before"


CREATE = Operation("CreateBucket", "PUT", [], "CreateBucketConfiguration", "", on_object=False)


@pytest.mark.parametrize("how", [how for how in SPOILS if how not in ("nothing", "blank", "empty root")])
def test_spoilt_creation(target: Target, how: str) -> None:
    fresh = replace(target, bucket=f"kv-{target.key[-16:]}")
    operation = replace(CREATE, inside="<LocationConstraint>us-east-1</LocationConstraint>")
    check_refusal(send(fresh, operation, SPOILS[how](operation)))
    assert target.gateway.call("HEAD", f"/{fresh.bucket}").status == 404


SCHEMA: dict[str, list[str]] = {
    "DeleteObjects": [
        "<Object></Object>",
        "<Object><Key></Key></Object>",
        "<Object><Key>a</Key><Key>b</Key></Object>",
        "<Object><Key>a</Key><Evil/></Object>",
        "<Object><Key><b>a</b></Key></Object>",
        "<Quiet>maybe</Quiet><Object><Key>a</Key></Object>",
        "<Quiet>true</Quiet><Quiet>false</Quiet><Object><Key>a</Key></Object>",
        "<Quiet>true</Quiet>",
        "<Object><Key>a</Key></Object>" * 1001,
        f"<Object><Key>{'k' * 1025}</Key></Object>",
        "<Object><Key>.blockgate/ledger/x</Key></Object>",
    ],
    "CompleteMultipartUpload": [
        "<Part><PartNumber>1</PartNumber></Part>",
        "<Part><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>x</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber></PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>0</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>-1</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>10001</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>4294967297</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>18446744073709551617</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag><Evil/></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>../../x</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>" * 2,
        "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>x</ETag></Part>" for n in range(1, 10_002)),
    ],
    "PutObjectTagging": [
        "",
        "<TagSet/><TagSet/>",
        "<TagSet><Tag><Key>a</Key></Tag></TagSet>",
        "<TagSet><Tag><Value>a</Value></Tag></TagSet>",
        "<TagSet><Tag><Key></Key><Value>b</Value></Tag></TagSet>",
        "<TagSet><Tag><Key>a</Key><Key>b</Key><Value>c</Value></Tag></TagSet>",
        "<TagSet><Tag><Key>a</Key><Value>b</Value><Evil/></Tag></TagSet>",
        "<TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>a</Key><Value>2</Value></Tag></TagSet>",
        "<TagSet>" + "".join(f"<Tag><Key>{n}</Key><Value/></Tag>" for n in range(11)) + "</TagSet>",
        "<TagSet>text</TagSet>",
    ],
}


@pytest.mark.parametrize(
    ("name", "inside"),
    [(name, inside) for name, documents in SCHEMA.items() for inside in documents],
    ids=lambda text: text[:60],
)
def test_against_the_schema(target: Target, upload: dict[str, str], name: str, inside: str) -> None:
    operation = next(operation for operation in READ_ON_FS if operation.name == name)
    answer = send(target, filled(replace(operation, inside=inside), upload))
    if name == "DeleteObjects" and answer.status == 200:
        # A key that can't be is refused on its own.
        assert "<Error>" in answer.body.decode()
        assert "<Deleted>" not in answer.body.decode()
    else:
        check_refusal(answer)
    unchanged(target)
