"""Buckets that are removed after use."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from lib.gateway import Gateway

MakeBucket = Callable[..., str]


def bucket_maker(gateway: Gateway) -> Iterator[MakeBucket]:
    """Creates buckets and, in the end, removes them with all that is in them: `make("ttl")` is one named `ttl-…`."""
    client = gateway.s3()
    made: list[str] = []

    def make(kind: str = "kv") -> str:
        name = f"{kind}-{secrets.token_hex(6)}"
        client.create_bucket(Bucket=name)
        made.append(name)
        return name

    yield make
    for name in made:
        if gateway.process is not None and gateway.process.poll() is None:
            remove_bucket(client, name)


def remove_bucket(client: Any, bucket: str) -> None:
    """Removes a bucket and all that is in it."""
    for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        # radosgw may list one that is over.
        with contextlib.suppress(client.exceptions.NoSuchUpload):
            client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            client.delete_object(Bucket=bucket, Key=entry["Key"])
    client.delete_bucket(Bucket=bucket)
