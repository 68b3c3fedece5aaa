"""Power cuts and full disks: a block is whole, or it is not there."""

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeGateway

from lib import hosts
from lib.answers import outcome, refusal
from lib.buckets import remove_bucket
from lib.gateway import Gateway, UpstreamStore

ROUNDS = 4
WRITERS = 4


def block(number: int) -> bytes:
    """The bytes that belong to a number: their own length, and what they are, follow from it."""
    generator = random.Random(number)
    return generator.randbytes(generator.choice([100, 70_000, 1 << 20, 6 << 20]))


def writer(gateway: Gateway, bucket: str, name: str, kept: dict[str, int], stop: threading.Event) -> None:
    """Stores blocks, over and over, until the gateway is gone. What was acknowledged is noted."""
    s3 = gateway.s3(read_timeout=20)
    generator = random.Random(name)
    while not stop.is_set():
        number = generator.randrange(1 << 30)
        key = f"{name}/{generator.randrange(6)}"
        kept[f"{key}?"] = number
        try:
            if generator.random() < 0.3:
                multipart(s3, bucket, key, block(number))
            else:
                s3.put_object(Bucket=bucket, Key=key, Body=block(number))
        except Exception:  # the gateway is gone: whether this one was stored is open
            return
        kept[key] = number


def multipart(s3: Any, bucket: str, key: str, data: bytes) -> None:
    """Stores a block in two parts."""
    upload = {"Bucket": bucket, "Key": key, "UploadId": s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]}
    cut = min(len(data), 5 << 20)
    etags = [
        s3.upload_part(**upload, PartNumber=number, Body=part)["ETag"]
        for number, part in enumerate([data[:cut], data[cut:]], 1)
    ]
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def test_killed_while_writing(store: UpstreamStore, make_gateway: MakeGateway) -> None:
    gateway = make_gateway(store)
    s3, bucket = gateway.s3(), "kv-crash"
    s3.create_bucket(Bucket=bucket)
    kept: dict[str, int] = {}
    for turn in range(ROUNDS):
        stop = threading.Event()
        threads = [
            threading.Thread(target=writer, args=(gateway, bucket, f"{turn}-{number}", kept, stop))
            for number in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        stop.wait(0.5 + 0.2 * turn)
        gateway.kill()
        stop.set()
        for thread in threads:
            thread.join()
        gateway.start()

    acknowledged = {key: number for key, number in kept.items() if not key.endswith("?")}
    assert len(acknowledged) >= ROUNDS, "hardly anything was written before the kill"
    listed = {entry["Key"]: entry["Size"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}
    for key in {key.removesuffix("?") for key in kept}:
        possible = [block(kept[name]) for name in (key, f"{key}?") if name in kept]
        if key not in acknowledged and key not in listed:
            # What was in flight may have reached the store after the listing.
            answer = outcome(s3.get_object, Bucket=bucket, Key=key)
            assert answer == 404 or s3.get_object(Bucket=bucket, Key=key)["Body"].read() in possible
            continue
        found = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert found in possible, f"{key} is neither the last acknowledged block nor the one in flight"
        assert listed[key] == len(found)
    remove_bucket(s3, bucket)
    gateway.close()


def test_full_disk(make_gateway: MakeGateway, tmp_path: Path) -> None:
    if hosts.refusal():
        pytest.skip(f"can't mount a small disk: {hosts.refusal()}")
    disk = tmp_path / "disk"
    hosts.mount_small_disk(disk, 24 << 20)
    try:
        gateway = make_gateway(UpstreamStore("fs", {"kind": "fs", "path": str(disk / "blocks")}))
        s3, bucket, data = gateway.s3(), "kv-full", os.urandom(4 << 20)
        s3.create_bucket(Bucket=bucket)
        stored = 0
        while (answer := outcome(s3.put_object, Bucket=bucket, Key=f"block/{stored}", Body=data)) == 200:
            stored += 1
        assert answer in (503, 507)
        assert 3 <= stored <= 5
        assert refusal(s3.get_object, Bucket=bucket, Key=f"block/{stored}") == (404, "NoSuchKey")
        listed = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
        assert listed == [f"block/{number}" for number in range(stored)]
        gateway.restart()
        for key in listed:
            assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == data
        s3.delete_object(Bucket=bucket, Key=listed[0])
        s3.put_object(Bucket=bucket, Key="again", Body=data)
        assert s3.get_object(Bucket=bucket, Key="again")["Body"].read() == data
        gateway.close()
    finally:
        hosts.unmount(disk)
