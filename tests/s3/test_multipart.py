"""Multipart uploads."""

import os
from typing import Any

import pytest

from lib.answers import headers, refusal, status
from lib.gateway import Gateway

PART = 5 << 20


def begin(s3: Any, bucket: str, key: str, **more: Any) -> dict[str, str]:
    """Begins an upload; what names it in further calls."""
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key, **more)["UploadId"]
    return {"Bucket": bucket, "Key": key, "UploadId": upload_id}


def put_parts(s3: Any, upload: dict[str, str], parts: dict[int, bytes]) -> dict[str, Any]:
    """Stores parts; what completes the upload."""
    stored = [
        {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=data)["ETag"]}
        for number, data in parts.items()
    ]
    return {"Parts": stored}


def test_becomes_one_block(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    parts = {1: os.urandom(PART), 2: os.urandom(PART + 1), 3: os.urandom(1000)}
    whole = b"".join(parts.values())
    sent = {"Metadata": {"a": "b"}, "ContentType": "x/y", "CacheControl": "no-cache", "Tagging": "t=u"}
    upload = begin(s3, bucket, key, **sent)
    done = s3.complete_multipart_upload(**upload, MultipartUpload=put_parts(s3, upload, parts))
    assert done["ETag"].endswith('-1"')
    assert (done["Bucket"], done["Key"]) == (bucket, key)

    etag = s3.put_object(Bucket=bucket, Key=f"{key}@put", Body=whole)["ETag"]
    assert done["ETag"] == etag, "the same bytes have the same ETag, however they came"

    answer = s3.get_object(Bucket=bucket, Key=key)
    assert answer["Body"].read() == whole
    assert (answer["Metadata"], answer["ContentType"], answer["CacheControl"]) == ({"a": "b"}, "x/y", "no-cache")
    assert s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] == [{"Key": "t", "Value": "u"}]
    ranged = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={PART - 5}-{PART + 4}", IfMatch=etag)
    assert ranged["Body"].read() == whole[PART - 5 : PART + 5]
    assert headers(ranged)["x-kv-tier"] == "memory"

    gateway.restart()
    again = s3.get_object(Bucket=bucket, Key=key)
    assert (again["Body"].read(), again["ETag"]) == (whole, etag)
    assert headers(again)["x-kv-tier"] == "upstream"


def test_parts_in_any_order_and_again(s3: Any, bucket: str, key: str) -> None:
    upload = begin(s3, bucket, key)
    put_parts(s3, upload, {7: b"the end, first"})
    put_parts(s3, upload, {2: os.urandom(PART)})
    data = os.urandom(PART)
    parts = put_parts(s3, upload, {2: data, 7: b"the end"})
    s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == data + b"the end"


def test_nothing_is_seen_before_the_end(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"before")
    upload = begin(s3, bucket, key)
    parts = put_parts(s3, upload, {1: b"after"})
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"before"
    s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"after"


def test_abort(s3: Any, bucket: str, key: str) -> None:
    upload = begin(s3, bucket, key)
    parts = put_parts(s3, upload, {1: b"x"})
    assert status(s3.abort_multipart_upload(**upload)) == 204
    assert refusal(s3.complete_multipart_upload, **upload, MultipartUpload=parts) == (404, "NoSuchUpload")
    assert refusal(s3.upload_part, **upload, PartNumber=2, Body=b"x") == (404, "NoSuchUpload")
    assert refusal(s3.list_parts, **upload) == (404, "NoSuchUpload")
    assert refusal(s3.head_object, Bucket=bucket, Key=key)[0] == 404


def test_listing_parts(s3: Any, bucket: str, key: str) -> None:
    upload = begin(s3, bucket, key)
    sizes = {1: 10, 3: 30, 5: 50, 10_000: 4}
    parts = put_parts(s3, upload, {number: bytes(size) for number, size in sizes.items()})
    answer = s3.list_parts(**upload)
    assert {part["PartNumber"]: part["Size"] for part in answer["Parts"]} == sizes
    assert [part["ETag"] for part in answer["Parts"]] == [part["ETag"] for part in parts["Parts"]]
    page = s3.list_parts(**upload, MaxParts=2)
    assert ([part["PartNumber"] for part in page["Parts"]], page["IsTruncated"]) == ([1, 3], True)
    rest = s3.list_parts(**upload, PartNumberMarker=page["NextPartNumberMarker"])
    assert ([part["PartNumber"] for part in rest["Parts"]], rest["IsTruncated"]) == ([5, 10_000], False)


def test_listing_uploads(s3: Any, empty_bucket: str) -> None:
    names = ["a", "a/b", "a//b", "z"]
    uploads = [begin(s3, empty_bucket, name) for name in names]
    expected = sorted((upload["Key"], upload["UploadId"]) for upload in uploads)

    def found(**more: Any) -> list[tuple[str, str]]:
        answer = s3.list_multipart_uploads(Bucket=empty_bucket, **more)
        return sorted((upload["Key"], upload["UploadId"]) for upload in answer.get("Uploads", []))

    assert found() == expected
    assert [name for name, _ in found(Prefix="a/")] == ["a//b", "a/b"]
    page = s3.list_multipart_uploads(Bucket=empty_bucket, MaxUploads=2)
    assert page["IsTruncated"]
    more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    paged = [(upload["Key"], upload["UploadId"]) for upload in page["Uploads"]]
    assert sorted(paged + found(**more)) == expected
    s3.abort_multipart_upload(**uploads[0])
    assert found() == [upload for upload in expected if upload[0] != "a"]


def test_part_copy(s3: Any, bucket: str, key: str) -> None:
    source = os.urandom(PART + 100)
    s3.put_object(Bucket=bucket, Key=f"{key}@source", Body=source)
    upload = begin(s3, bucket, key)
    copied = [
        s3.upload_part_copy(
            **upload,
            PartNumber=number,
            CopySource={"Bucket": bucket, "Key": f"{key}@source"},
            CopySourceRange=f"bytes={first}-{last}",
        )["CopyPartResult"]["ETag"]
        for number, (first, last) in enumerate([(0, PART - 1), (PART, PART + 99)], 1)
    ]
    parts = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(copied, 1)]}
    s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == source


def test_part_copy_refusals(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"0123456789")
    upload = {**begin(s3, bucket, f"{key}@target"), "PartNumber": 1}
    source = {"Bucket": bucket, "Key": key}
    for spec in ("bytes=5-10", "bytes=10-", "bytes=-3", "0-3", "bytes=3-1"):
        refused = refusal(s3.upload_part_copy, **upload, CopySource=source, CopySourceRange=spec)
        assert refused[0] in (400, 416), (spec, refused)
    missing = {"Bucket": bucket, "Key": f"{key}@none"}
    assert refusal(s3.upload_part_copy, **upload, CopySource=missing) == (404, "NoSuchKey")
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key=f"{key}@target", UploadId=upload["UploadId"])


def test_completion_refusals(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    upload = begin(s3, bucket, key)
    etags = {part["PartNumber"]: part["ETag"] for part in put_parts(s3, upload, {1: b"small", 2: b"tail"})["Parts"]}

    def complete(*parts: tuple[int, str]) -> tuple[int, str]:
        named = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
        return refusal(s3.complete_multipart_upload, **upload, MultipartUpload={"Parts": named})

    assert complete((1, etags[1]), (2, etags[2])) == (400, "EntityTooSmall")
    assert complete((2, etags[2]), (1, etags[1])) == (400, "InvalidPartOrder")
    assert complete((1, etags[1]), (1, etags[1])) == (400, "InvalidPartOrder")
    assert complete((1, '"0123456789abcdef0123456789abcdef"')) == (400, "InvalidPart")
    assert complete((3, etags[1])) == (400, "InvalidPart")
    assert complete() == (400, "MalformedXML")
    assert refusal(s3.head_object, Bucket=bucket, Key=key)[0] == 404
    if not gateway.store.some_parts_are_enough:
        return
    named = {"Parts": [{"PartNumber": 2, "ETag": etags[2]}]}
    s3.complete_multipart_upload(**upload, MultipartUpload=named)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"tail"


@pytest.mark.parametrize("upload_id", ["none", "../../x", "x" * 1000, "%00"])
def test_unknown_upload(s3: Any, bucket: str, key: str, upload_id: str) -> None:
    name = {"Bucket": bucket, "Key": key, "UploadId": upload_id}
    assert refusal(s3.upload_part, **name, PartNumber=1, Body=b"x") == (404, "NoSuchUpload")
    assert refusal(s3.list_parts, **name) == (404, "NoSuchUpload")
    assert refusal(s3.abort_multipart_upload, **name) == (404, "NoSuchUpload")


def test_an_upload_belongs_to_its_key(s3: Any, bucket: str, key: str) -> None:
    upload = begin(s3, bucket, key)
    other = {**upload, "Key": f"{key}@other"}
    assert refusal(s3.upload_part, **other, PartNumber=1, Body=b"x") == (404, "NoSuchUpload")


def test_expiry_and_fingerprint_of_an_upload(s3: Any, bucket: str, key: str) -> None:
    upload = begin(s3, bucket, key, Metadata={"kv-ttl": "600", "kv-fingerprint": "f1"})
    s3.complete_multipart_upload(**upload, MultipartUpload=put_parts(s3, upload, {1: b"x"}))
    head = s3.head_object(Bucket=bucket, Key=key)
    assert "expiry-date" in headers(head)["x-amz-expiration"]
    assert head["Metadata"] == {"kv-ttl": "600", "kv-fingerprint": "f1"}


def test_passthrough_bucket(s3: Any, make_bucket: Any, key: str) -> None:
    bucket = make_bucket("pass")
    upload = begin(s3, bucket, key)
    parts = {1: os.urandom(PART), 2: b"tail"}
    etag = s3.complete_multipart_upload(**upload, MultipartUpload=put_parts(s3, upload, parts))["ETag"]
    assert etag.endswith('-2"')
    answer = s3.get_object(Bucket=bucket, Key=key)
    assert (answer["Body"].read(), answer["ETag"]) == (b"".join(parts.values()), etag)
