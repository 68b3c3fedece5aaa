"""Put, get, head and delete."""

import base64
import hashlib
import os
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from awscrt import checksums

from lib.answers import error_headers, headers, refusal, status
from lib.gateway import Gateway

DATA = bytes(range(256)) * 1000


def b64(number: int, size: int) -> str:
    """A checksum as S3 writes it."""
    return base64.b64encode(number.to_bytes(size, "big")).decode()


def test_attributes_are_kept(s3: Any, bucket: str, key: str) -> None:
    sent = {
        "ContentType": "application/x-kv",
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="x"',
        "ContentEncoding": "zstd",
        "ContentLanguage": "de",
        "Metadata": {"model": "llama", "empty": "", "punctuation": "a=b; c,d"},
    }
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    s3.put_object(Bucket=bucket, Key=key, Body=DATA, Expires=expires, **sent)
    for answer in (s3.head_object(Bucket=bucket, Key=key), s3.get_object(Bucket=bucket, Key=key)):
        assert {name: answer[name] for name in sent} == sent
        assert headers(answer)["expires"] == expires.strftime("%a, %d %b %Y %H:%M:%S GMT")
        assert answer["ContentLength"] == len(DATA)
        assert abs(answer["LastModified"] - datetime.now(UTC)) < timedelta(minutes=2)
        assert headers(answer)["accept-ranges"] == "bytes"


def test_answers_carry_what_the_query_asks_for(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    answer = s3.get_object(
        Bucket=bucket,
        Key=key,
        ResponseContentType="text/x",
        ResponseCacheControl="no-store",
        ResponseContentLanguage="fr",
    )
    assert (answer["ContentType"], answer["CacheControl"], answer["ContentLanguage"]) == ("text/x", "no-store", "fr")


def test_absent(s3: Any, bucket: str, key: str) -> None:
    assert refusal(s3.get_object, Bucket=bucket, Key=key) == (404, "NoSuchKey")
    assert refusal(s3.head_object, Bucket=bucket, Key=key)[0] == 404
    assert refusal(s3.get_object, Bucket="kv-there-is-none", Key=key) == (404, "NoSuchBucket")
    assert refusal(s3.put_object, Bucket="kv-there-is-none", Key=key, Body=b"x") == (404, "NoSuchBucket")
    assert status(s3.delete_object(Bucket=bucket, Key=key)) == 204
    assert refusal(s3.get_object_tagging, Bucket=bucket, Key=key) == (404, "NoSuchKey")
    assert error_headers(s3.get_object, Bucket=bucket, Key=key)["x-kv-miss"] == "absent"
    assert error_headers(s3.head_object, Bucket=bucket, Key=key)["x-kv-miss"] == "absent"


def test_deletes_in_batches(s3: Any, bucket: str, key: str) -> None:
    names = [f"{key}/{number:04}" for number in range(25)]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"x")
    asked = [{"Key": name} for name in [*names, f"{key}/never was"]]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": asked})
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == sorted(entry["Key"] for entry in asked)
    assert s3.list_objects_v2(Bucket=bucket, Prefix=key)["KeyCount"] == 0
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": asked, "Quiet": True})
    assert "Deleted" not in quiet
    assert "Errors" not in quiet


CHECKSUMS = {
    "CRC32": b64(zlib.crc32(DATA), 4),
    "CRC32C": b64(checksums.crc32c(DATA), 4),
    "CRC64NVME": b64(checksums.crc64nvme(DATA), 8),
    "SHA1": base64.b64encode(hashlib.sha1(DATA).digest()).decode(),
    "SHA256": base64.b64encode(hashlib.sha256(DATA).digest()).decode(),
}


@pytest.mark.parametrize("algorithm", CHECKSUMS)
def test_checksums_are_verified(s3: Any, bucket: str, key: str, algorithm: str) -> None:
    name, value = f"Checksum{algorithm}", CHECKSUMS[algorithm]
    s3.put_object(Bucket=bucket, Key=key, Body=DATA, **{name: value})
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == DATA

    wrong = base64.b64encode(bytes(len(base64.b64decode(value)))).decode()
    assert refusal(s3.put_object, Bucket=bucket, Key=f"{key}x", Body=DATA, **{name: wrong}) == (400, "BadDigest")
    assert refusal(s3.head_object, Bucket=bucket, Key=f"{key}x")[0] == 404
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=DATA[::-1], **{name: value}) == (400, "BadDigest")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == DATA


def test_content_md5_is_verified(s3: Any, bucket: str, key: str) -> None:
    def md5(data: bytes) -> str:
        return base64.b64encode(hashlib.md5(data).digest()).decode()

    s3.put_object(Bucket=bucket, Key=key, Body=DATA, ContentMD5=md5(DATA))
    refused = refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"other", ContentMD5=md5(DATA))
    assert refused == (400, "BadDigest")
    assert refusal(s3.put_object, Bucket=bucket, Key=key, Body=b"other", ContentMD5="x")[1] == "InvalidDigest"
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == DATA


def test_answers_carry_the_blocks_checksum(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=DATA)
    for call in (s3.head_object, s3.get_object):
        answer = call(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        assert answer["ChecksumCRC64NVME"] == CHECKSUMS["CRC64NVME"]


def test_etag_names_checksum_and_length(s3: Any, bucket: str, key: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key=key, Body=DATA)["ETag"]
    assert etag == f'"{checksums.crc64nvme(DATA):016x}{len(DATA):016x}-1"'
    assert s3.head_object(Bucket=bucket, Key=key)["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key=key)["ETag"] == etag
    assert s3.list_objects_v2(Bucket=bucket, Prefix=key)["Contents"][0]["Size"] == len(DATA)


def test_passthrough_etag_is_the_md5(gateway: Gateway, s3: Any, make_bucket: Any, key: str) -> None:
    bucket = make_bucket("pass")
    etag = s3.put_object(Bucket=bucket, Key=key, Body=DATA)["ETag"]
    assert etag == f'"{hashlib.md5(DATA).hexdigest()}"'
    for _ in range(2):
        answer = s3.get_object(Bucket=bucket, Key=key)
        assert (answer["Body"].read(), answer["ETag"]) == (DATA, etag)
        assert headers(answer).get("x-kv-tier", "upstream") == "upstream"


def test_larger_than_a_block(gateway: Gateway, s3: Any, make_bucket: Any, key: str) -> None:
    bucket, data = make_bucket("small"), os.urandom(3 << 20)
    s3.put_object(Bucket=bucket, Key=key, Body=data, Metadata={"a": "b"})
    for _ in range(2):
        answer = s3.get_object(Bucket=bucket, Key=key)
        assert (answer["Body"].read(), answer["Metadata"]) == (data, {"a": "b"})
        assert headers(answer)["x-kv-tier"] == "upstream"
    part = s3.get_object(Bucket=bucket, Key=key, Range="bytes=2000000-2000999")
    assert part["Body"].read() == data[2000000:2001000]


def test_head_says_what_get_will(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=DATA, ContentType="a/b", Metadata={"c": "d"})
    get, head = (gateway.call(method, f"/{bucket}/{key}") for method in ("GET", "HEAD"))
    differ = {"date", "x-amz-request-id", "x-kv-tier"}

    def told(answer: Any) -> dict[str, str]:
        return {name.lower(): value for name, value in answer.headers if name.lower() not in differ}

    assert told(head) == told(get)
    assert head.body == b""


def test_object_attributes(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=DATA)
    answer = s3.get_object_attributes(
        Bucket=bucket, Key=key, ObjectAttributes=["ETag", "ObjectSize", "StorageClass", "Checksum"]
    )
    assert answer["ObjectSize"] == len(DATA)
    assert answer["ETag"] == s3.head_object(Bucket=bucket, Key=key)["ETag"].strip('"')
    assert answer["Checksum"]["ChecksumCRC64NVME"] == CHECKSUMS["CRC64NVME"]
