"""What an access key may not do, by no way round."""

from collections.abc import Iterator
from typing import Any

import pytest

from lib.answers import refusal
from lib.attacks import HOSTILE, SECRET, Target
from lib.buckets import bucket_maker

Calls = list[tuple[Any, dict[str, Any]]]

DENIED = (403, "AccessDenied")


@pytest.fixture(scope="module")
def own(guarded: Any) -> Iterator[str]:
    """A bucket of the restricted key's own."""
    buckets = bucket_maker(guarded)
    yield next(buckets)("scoped")
    next(buckets, None)


@pytest.fixture
def scoped(target: Target) -> Any:
    """boto3, with the key that may use `scoped-*` only."""
    return target.gateway.s3(target.gateway.keys.scoped)


@pytest.fixture
def reader(target: Target) -> Any:
    """boto3, with the key that may only read."""
    return target.gateway.s3(target.gateway.keys.reader)


def test_own_bucket(scoped: Any, own: str, key: str) -> None:
    scoped.put_object(Bucket=own, Key=key, Body=b"mine")
    scoped.copy_object(Bucket=own, Key=f"{key}@copy", CopySource={"Bucket": own, "Key": key})
    assert scoped.get_object(Bucket=own, Key=f"{key}@copy")["Body"].read() == b"mine"
    assert scoped.list_objects_v2(Bucket=own, Prefix=key)["KeyCount"] == 2


def test_foreign_buckets(target: Target, scoped: Any) -> None:
    name = {"Bucket": target.vault, "Key": "secret"}
    upload = {**name, "UploadId": "x"}
    part = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "x"}]}}
    calls: Calls = [
        (scoped.get_object, name),
        (scoped.put_object, {**name, "Body": HOSTILE}),
        (scoped.delete_object, name),
        (scoped.delete_objects, {"Bucket": target.vault, "Delete": {"Objects": [{"Key": "secret"}]}}),
        (scoped.get_object_tagging, name),
        (scoped.put_object_tagging, {**name, "Tagging": {"TagSet": []}}),
        (scoped.delete_object_tagging, name),
        (scoped.get_object_attributes, {**name, "ObjectAttributes": ["ETag"]}),
        (scoped.list_objects, {"Bucket": target.vault}),
        (scoped.list_objects_v2, {"Bucket": target.vault}),
        (scoped.list_object_versions, {"Bucket": target.vault}),
        (scoped.list_multipart_uploads, {"Bucket": target.vault}),
        (scoped.create_multipart_upload, name),
        (scoped.upload_part, {**upload, "PartNumber": 1, "Body": b"x"}),
        (scoped.complete_multipart_upload, {**upload, **part}),
        (scoped.abort_multipart_upload, upload),
        (scoped.list_parts, upload),
        (scoped.create_bucket, {"Bucket": "kv-not-mine"}),
        (scoped.delete_bucket, {"Bucket": target.vault}),
        (scoped.get_bucket_location, {"Bucket": target.vault}),
        (scoped.get_bucket_versioning, {"Bucket": target.vault}),
        (scoped.get_object, {"Bucket": "kv-there-is-none", "Key": "x"}),
    ]
    for call, arguments in calls:
        assert refusal(call, **arguments) == DENIED, call.__name__
    assert refusal(scoped.head_object, **name)[0] == 403
    assert refusal(scoped.head_bucket, Bucket=target.vault)[0] == 403


def test_listing_buckets_shows_one_s_own(target: Target, scoped: Any, own: str) -> None:
    try:
        found = [bucket["Name"] for bucket in scoped.list_buckets()["Buckets"]]
    except scoped.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied"  # noqa: PT017
    else:
        assert own in found
        assert target.vault not in found


def test_copies_from_foreign_buckets(target: Target, scoped: Any, own: str, key: str) -> None:
    source = {"Bucket": target.vault, "Key": "secret"}
    assert refusal(scoped.copy_object, Bucket=own, Key=key, CopySource=source) == DENIED
    upload = {"Bucket": own, "Key": key, "UploadId": scoped.create_multipart_upload(Bucket=own, Key=key)["UploadId"]}
    assert refusal(scoped.upload_part_copy, **upload, PartNumber=1, CopySource=source) == DENIED
    for spelling in (
        f"/{target.vault}/secret",
        f"{target.vault}/secret",
        f"%2F{target.vault}%2Fsecret",
        f"{own}/../{target.vault}/secret",
        f"{own}%2F..%2F{target.vault}%2Fsecret",
        f"//{target.vault}/secret",
        f"{target.vault}//secret",
        f"{target.vault}/secret?versionId=null",
        f"{target.vault}/secret?versionId={own}",
        f"arn:aws:s3:::{target.vault}/secret",
    ):
        answer = target.gateway.call(
            "PUT", f"/{own}/{key}", ("x-amz-copy-source", spelling), by=target.gateway.keys.scoped
        )
        assert 400 <= answer.status < 500, (spelling, str(answer))
    assert refusal(scoped.get_object, Bucket=own, Key=key)[0] == 404
    admin = target.gateway.s3()
    admin.copy_object(Bucket=own, Key=key, CopySource=source)
    assert scoped.get_object(Bucket=own, Key=key)["Body"].read() == SECRET


def test_copies_to_foreign_buckets(target: Target, scoped: Any, own: str, key: str) -> None:
    scoped.put_object(Bucket=own, Key=key, Body=HOSTILE)
    assert refusal(scoped.copy_object, Bucket=target.vault, Key="x", CopySource={"Bucket": own, "Key": key}) == DENIED


@pytest.mark.parametrize(
    "spelling",
    ["/{own}/../{vault}/secret", "/{own}%2F..%2F{vault}/secret", "//{vault}/secret", "/{own}//../{vault}/secret"],
)
def test_paths_into_foreign_buckets(target: Target, own: str, spelling: str) -> None:
    path = spelling.format(own=own, vault=target.vault)
    answer = target.gateway.call("GET", path, by=target.gateway.keys.scoped)
    assert 400 <= answer.status < 500, str(answer)
    assert SECRET not in answer.body


def test_virtual_hosts_of_foreign_buckets(target: Target) -> None:
    request = target.gateway.request("GET", "/secret").with_header("Host", f"{target.vault}.localhost")
    answer = target.gateway.send(target.gateway.signer(target.gateway.keys.scoped).sign(request))
    assert (answer.status, answer.code) == DENIED
    assert target.gateway.send(target.signer.sign(request)).body == SECRET


def test_a_mix_of_keys_to_delete(target: Target, scoped: Any, own: str, key: str) -> None:
    """A document can name keys only, and they are the bucket's."""
    scoped.put_object(Bucket=own, Key=key, Body=b"x")
    names = [key, f"../{target.vault}/secret", f"/{target.vault}/secret"]
    scoped.delete_objects(Bucket=own, Delete={"Objects": [{"Key": name} for name in names]})
    assert target.gateway.call("GET", f"/{target.vault}/secret").body == SECRET


def test_reading_only(target: Target, reader: Any) -> None:
    name = {"Bucket": target.vault, "Key": "secret"}
    assert reader.get_object(**name)["Body"].read() == SECRET
    assert reader.list_objects_v2(Bucket=target.vault)["KeyCount"] == 1
    assert reader.get_object_tagging(**name)["TagSet"] == []
    upload = {**name, "UploadId": "x"}
    part = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "x"}]}}
    calls: Calls = [
        (reader.put_object, {**name, "Body": HOSTILE}),
        (reader.delete_object, name),
        (reader.delete_objects, {"Bucket": target.vault, "Delete": {"Objects": [{"Key": "secret"}]}}),
        (reader.put_object_tagging, {**name, "Tagging": {"TagSet": []}}),
        (reader.delete_object_tagging, name),
        (reader.copy_object, {"Bucket": target.bucket, "Key": "x", "CopySource": name}),
        (reader.create_multipart_upload, name),
        (reader.upload_part, {**upload, "PartNumber": 1, "Body": b"x"}),
        (reader.upload_part_copy, {**upload, "PartNumber": 1, "CopySource": name}),
        (reader.complete_multipart_upload, {**upload, **part}),
        (reader.abort_multipart_upload, upload),
        (reader.create_bucket, {"Bucket": "kv-not-mine"}),
        (reader.delete_bucket, {"Bucket": target.vault}),
    ]
    for call, arguments in calls:
        assert refusal(call, **arguments) == DENIED, call.__name__


def test_signatures_of_the_weak_do_not_work_for_the_strong(target: Target) -> None:
    """An access key is bound to its own secret and to its own rights."""
    keys = target.gateway.keys
    request = target.gateway.signer(keys.reader).sign(target.put())
    text = (request.header("Authorization") or "").replace(keys.reader.access_key, keys.admin.access_key)
    target.refused(request.with_header("Authorization", text))
    target.refused(request)
