"""Listings: pages, folding, encodings, versions."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from lib.answers import refusal
from lib.buckets import bucket_maker
from lib.gateway import Gateway
from lib.keys import listing, ordered

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
KEYS = [
    *(f"chain/{number:03}" for number in range(30)),
    *(f"folders/{letter}/{number}" for letter in "abc" for number in range(3)),
    "folders/a",
    "folders/",
    "plain",
    "spaced out +&%",
    "ünï",
]


@pytest.fixture(scope="module")
def filled(gateway: Gateway) -> Iterator[str]:
    """A bucket that holds `KEYS`."""
    buckets = bucket_maker(gateway)
    bucket = next(buckets)("kv")
    s3 = gateway.s3()
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    yield bucket
    next(buckets, None)


def entries(page: Any) -> list[tuple[str, bool]]:
    """What a page holds, as `listing` tells it."""
    found = [(entry["Key"], False) for entry in page.get("Contents", [])]
    found += [(entry["Prefix"], True) for entry in page.get("CommonPrefixes", [])]
    return sorted(found, key=lambda entry: entry[0].encode())


def test_entries_are_described(s3: Any, filled: str) -> None:
    page = s3.list_objects_v2(Bucket=filled, Prefix="plain", FetchOwner=True)
    assert (page["Name"], page["Prefix"], page["KeyCount"], page["IsTruncated"]) == (filled, "plain", 1, False)
    entry = page["Contents"][0]
    assert (entry["Size"], entry["StorageClass"]) == (5, "STANDARD")
    assert abs(entry["LastModified"] - datetime.now(UTC)) < timedelta(minutes=5)
    assert entry["ETag"].startswith('"')


@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("prefix", ["", "chain/", "folders/", "folders/a", "none"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pages_v2(s3: Any, filled: str, prefix: str, delimiter: str, size: int) -> None:
    found: list[tuple[str, bool]] = []
    more: dict[str, str] = {}
    for _ in range(len(KEYS) + 1):
        page = s3.list_objects_v2(Bucket=filled, Prefix=prefix, Delimiter=delimiter, MaxKeys=size, **more)
        assert page["KeyCount"] == len(entries(page)) <= size
        found += entries(page)
        if not page["IsTruncated"]:
            break
        more = {"ContinuationToken": page["NextContinuationToken"]}
    assert found == listing(KEYS, prefix, delimiter)


@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pages_v1(s3: Any, filled: str, delimiter: str, size: int) -> None:
    found: list[tuple[str, bool]] = []
    marker = ""
    for _ in range(len(KEYS) + 1):
        page = s3.list_objects(Bucket=filled, Delimiter=delimiter, MaxKeys=size, Marker=marker)
        assert page["Marker"] == marker
        found += entries(page)
        if not page["IsTruncated"]:
            break
        marker = page["NextMarker"] if delimiter else page["Contents"][-1]["Key"]
    assert found == listing(KEYS, "", delimiter)


def test_start_after(s3: Any, filled: str) -> None:
    page = s3.list_objects_v2(Bucket=filled, StartAfter="chain/010", Prefix="chain/", MaxKeys=3)
    assert [entry["Key"] for entry in page["Contents"]] == ["chain/011", "chain/012", "chain/013"]
    assert page["StartAfter"] == "chain/010"
    # A token outweighs it.
    page = s3.list_objects_v2(
        Bucket=filled, StartAfter="zzz", Prefix="chain/", ContinuationToken=page["NextContinuationToken"], MaxKeys=1
    )
    assert [entry["Key"] for entry in page["Contents"]] == ["chain/014"]


def test_no_keys_wanted(s3: Any, filled: str) -> None:
    page = s3.list_objects_v2(Bucket=filled, MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"], page.get("Contents", [])) == (0, False, [])


@pytest.mark.parametrize(
    "query", ["max-keys=-1", "max-keys=x", "max-keys=99999999999999999999", "continuation-token=", "encoding-type=x"]
)
def test_nonsense(gateway: Gateway, filled: str, query: str) -> None:
    name, _, value = query.partition("=")
    answer = gateway.call("GET", f"/{filled}", query=[("list-type", "2"), (name, value)])
    assert (answer.status, answer.code) == (400, "InvalidArgument"), str(answer)


def test_more_than_a_thousand_is_a_thousand(s3: Any, filled: str) -> None:
    page = s3.list_objects_v2(Bucket=filled, MaxKeys=5000)
    assert page["KeyCount"] == len(KEYS)


def test_url_encoding(gateway: Gateway, filled: str) -> None:
    for version in ([("list-type", "2")], []):
        query = [*version, ("encoding-type", "url"), ("prefix", quote("spaced out +")), ("delimiter", "%25")]
        answer = gateway.call("GET", f"/{filled}", query=query)
        root = ElementTree.fromstring(answer.body)
        assert root.findtext(f"{NAMESPACE}EncodingType") == "url"
        folded = root.findtext(f"{NAMESPACE}CommonPrefixes/{NAMESPACE}Prefix")
        assert folded in ("spaced+out+%2B%26%25", "spaced%20out%20%2B%26%25")
        assert root.findtext(f"{NAMESPACE}Delimiter") == "%25"


def test_versions_are_null(s3: Any, filled: str) -> None:
    page = s3.list_object_versions(Bucket=filled, Prefix="chain/", MaxKeys=10)
    assert [entry["Key"] for entry in page["Versions"]] == [f"chain/{number:03}" for number in range(10)]
    assert {(entry["VersionId"], entry["IsLatest"]) for entry in page["Versions"]} == {("null", True)}
    assert page["IsTruncated"]
    rest = s3.list_object_versions(
        Bucket=filled,
        Prefix="chain/",
        KeyMarker=page["NextKeyMarker"],
        VersionIdMarker=page.get("NextVersionIdMarker", ""),
    )
    assert [entry["Key"] for entry in rest["Versions"]] == [f"chain/{number:03}" for number in range(10, 30)]


def test_reserved_names_are_hidden(s3: Any, filled: str) -> None:
    assert all(not entry["Key"].startswith(".blockgate/") for entry in s3.list_objects_v2(Bucket=filled)["Contents"])
    assert s3.list_objects_v2(Bucket=filled, Prefix=".blockgate/")["KeyCount"] == 0
    assert refusal(s3.put_object, Bucket=filled, Key=".blockgate/x", Body=b"x")[0] in (400, 403)
    assert refusal(s3.get_object, Bucket=filled, Key=".blockgate/x")[0] in (400, 403, 404)


def test_no_such_bucket(s3: Any) -> None:
    assert refusal(s3.list_objects_v2, Bucket="kv-there-is-none") == (404, "NoSuchBucket")
    assert refusal(s3.list_objects, Bucket="kv-there-is-none") == (404, "NoSuchBucket")


def test_large_listing(s3: Any, make_bucket: Any, gateway: Gateway) -> None:
    if gateway.store.name != "fs":
        return  # hundreds of PUTs, where they cost least
    bucket = make_bucket()
    names = [f"{number % 10}/{number}" for number in range(1100)]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    first = s3.list_objects_v2(Bucket=bucket)
    assert (first["KeyCount"], first["IsTruncated"]) == (1000, True)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == ordered(names)
