"""Keys that stores confuse stay apart and are listed as themselves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from lib.buckets import bucket_maker
from lib.clients import CLIENTS, Client
from lib.gateway import Gateway
from lib.keys import BASE, NASTY, listing, ordered

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
XML_UNSAFE = {key for key in NASTY if any(ord(char) < 32 or char in "\ufffe\uffff" for char in key)}

# What each client can put on the wire as it is: all but boto3 tidy some keys up themselves.
BY_CLIENT = {
    "curl": [key for key in NASTY if len(key) < 256],
    "awscrt": [key for key in NASTY if len(key) < 256],
    "aws": ["/a", "a//b", "a/../b", f"{BASE}@bfloat16@tag%value", "k" * 1024],
    "s3cmd": ["a//b", "a\\b", "a/b", "a/b/c", f"{BASE}@bfloat16@tag%value", "k" * 1024],
    "rclone": ["a\\b", "a:b", "a/b", "a/b.c", f"{BASE}@bfloat16@tag%value"],
}


@pytest.fixture(scope="module")
def filled(gateway: Gateway) -> Iterator[str]:
    """A bucket that holds every nasty key, its own name as its content."""
    buckets = bucket_maker(gateway)
    bucket = next(buckets)("kv")
    s3 = gateway.s3()
    for key in NASTY:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    yield bucket
    next(buckets, None)


def test_each_is_an_object_of_its_own(s3: Any, filled: str) -> None:
    for key in NASTY:
        answer = s3.get_object(Bucket=filled, Key=key)
        assert answer["Body"].read() == key.encode(), key
        assert s3.head_object(Bucket=filled, Key=key)["ContentLength"] == len(key.encode()), key


def test_each_is_listed_as_itself(s3: Any, filled: str) -> None:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=filled)
    found = [(entry["Key"], entry["Size"]) for page in pages for entry in page["Contents"]]
    assert found == [(key, len(key.encode())) for key in ordered(NASTY)]


def test_a_plain_listing_is_well_formed(gateway: Gateway, filled: str) -> None:
    request = gateway.request("GET", f"/{filled}", query=[("list-type", "2")])
    answer = gateway.send(gateway.signer().sign(request))
    assert answer.status == 200
    root = ElementTree.fromstring(answer.body)
    # What XML can't hold is answered encoded, asked for or not.
    assert root.findtext(f"{NAMESPACE}EncodingType") == "url"
    found = [unquote(entry.text or "") for entry in root.iter(f"{NAMESPACE}Key")]
    assert found == ordered(NASTY)


@pytest.mark.parametrize("delimiter", ["/", "a", "//", "@"])
@pytest.mark.parametrize("prefix", ["", "/", "a", "a/", "a//", "../", BASE, "k", "ü", "%"])
def test_folding(s3: Any, filled: str, prefix: str, delimiter: str) -> None:
    found: list[tuple[str, bool]] = []
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=filled, Prefix=prefix, Delimiter=delimiter, PaginationConfig={"PageSize": 7}
    )
    for page in pages:
        entries = [(entry["Key"], False) for entry in page.get("Contents", [])]
        entries += [(entry["Prefix"], True) for entry in page.get("CommonPrefixes", [])]
        assert len(entries) <= 7
        found += sorted(entries, key=lambda entry: entry[0].encode())
    assert found == listing(NASTY, prefix, delimiter)


@pytest.mark.parametrize("after", ["/", "a", "a/b", "a/b/", BASE, "k" * 1023, "zzz", "\U0010ffff"])
def test_start_after(s3: Any, filled: str, after: str) -> None:
    answer = s3.list_objects_v2(Bucket=filled, StartAfter=after)
    assert [entry["Key"] for entry in answer.get("Contents", [])] == [key for key, _ in listing(NASTY, after=after)]


def test_deleting_one_leaves_the_others(s3: Any, make_bucket: Any) -> None:
    bucket = make_bucket()
    kept = set(NASTY[:24])
    for key in kept:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in NASTY[:24:2]:
        s3.delete_object(Bucket=bucket, Key=key)
        kept.remove(key)
    answer = s3.list_objects_v2(Bucket=bucket)
    assert [entry["Key"] for entry in answer["Contents"]] == ordered(kept)
    assert all(s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode() for key in kept)


def test_copy_and_batch_delete(s3: Any, make_bucket: Any) -> None:
    bucket = make_bucket()
    for key in NASTY:
        s3.put_object(Bucket=bucket, Key="source", Body=key.encode())
        s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": "source"})
        s3.copy_object(Bucket=bucket, Key="target", CopySource={"Bucket": bucket, "Key": key})
        assert s3.get_object(Bucket=bucket, Key="target")["Body"].read() == key.encode(), key
    named = [{"Key": key} for key in NASTY if key not in XML_UNSAFE]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": named})
    assert not answer.get("Errors")
    left = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert left == ordered({*XML_UNSAFE, "source", "target"})


@pytest.mark.parametrize("name", BY_CLIENT)
def test_through_other_clients(name: str, gateway: Gateway, s3: Any, make_bucket: Any, tmp_path: Path) -> None:
    client: Client = CLIENTS[name](gateway, tmp_path)
    bucket = make_bucket()
    keys = BY_CLIENT[name]
    for key in keys:
        client.put(bucket, key, key.encode())
    for key in keys:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode(), key
        assert client.get(bucket, key) == key.encode(), key
    found = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert found == ordered(keys)
    if not XML_UNSAFE & set(keys):
        assert ordered(client.list(bucket)) == ordered(keys)
