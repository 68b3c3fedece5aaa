"""Drives the S3 L2 adapter of LMCache's multi-process server, on CPU tensors, against an S3 endpoint.

Arguments: `store|load|absent|list|delete`, then a JSON object with endpoint, region, access_key, secret_key, chunk_mib,
count, model. Prints one JSON object.
"""

import hashlib
import json
import os
import select
import sys

import torch
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.s3_l2_adapter import S3L2Adapter, S3L2AdapterConfig
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj

TASK_SECONDS_MAX = 120


def content(key, size_bytes):
    """The bytes that belong to `key`: pseudo-random, reproducible."""
    seed = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big", signed=True)
    return torch.randint(0, 256, (size_bytes,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def memory_of(tensor):
    """An LMCache memory object over a flat byte tensor."""
    metadata = MemoryObjMetadata(
        shape=tensor.shape,
        dtype=tensor.dtype,
        address=tensor.data_ptr(),
        phy_size=tensor.numel(),
        ref_count=1,
        fmt=MemoryFormat.BINARY_BUFFER,
        shapes=[tensor.shape],
        dtypes=[tensor.dtype],
    )
    return TensorMemoryObj(tensor, metadata, None)


def wait(event_fd):
    """Waits until the adapter says that a task is done."""
    if not select.select([event_fd], [], [], TASK_SECONDS_MAX)[0]:
        raise TimeoutError("the adapter did not finish its task")
    os.eventfd_read(event_fd)


def lookup(adapter, keys):
    """How many keys a lookup finds."""
    task = adapter.submit_lookup_and_lock_task(keys, {})
    wait(adapter.get_lookup_and_lock_event_fd())
    bitmap = adapter.query_lookup_and_lock_result(task)
    adapter.submit_unlock(keys)
    return sum(bitmap.test(i) for i in range(len(keys)))


def load(adapter, keys, size_bytes):
    """Looks up, loads into fresh tensors, and compares every byte."""
    found = lookup(adapter, keys)
    tensors = [torch.zeros(size_bytes, dtype=torch.uint8) for _ in keys]
    task = adapter.submit_load_task(keys, [memory_of(tensor) for tensor in tensors])
    wait(adapter.get_load_event_fd())
    loaded = adapter.query_load_result(task)
    exact = sum(
        loaded.test(i) and torch.equal(tensor, content(key, size_bytes))
        for i, (key, tensor) in enumerate(zip(keys, tensors, strict=True))
    )
    return {"found": found, "exact": exact, "size_bytes": size_bytes}


def store(adapter, keys, size_bytes):
    """Stores every key that a lookup rightly does not find."""
    found_before = lookup(adapter, keys)
    task = adapter.submit_store_task(keys, [memory_of(content(key, size_bytes)) for key in keys])
    wait(adapter.get_store_event_fd())
    stored = adapter.pop_completed_store_tasks()[task].is_successful()
    adapter._object_size_cache.clear()  # ask the server, not the adapter's memory
    return {"found_before": found_before, "stored": stored} | load(adapter, keys, size_bytes)


def listing(adapter, keys, model):
    """Lists the model's keys, two a page."""
    listed, cursor = [], None
    while True:
        page = adapter.list_l2_keys(model_name=model, page_size=2, cursor=cursor)
        listed += [entry.key for entry in page.entries]
        cursor = page.next_page_token
        if cursor is None:
            break
    expected = {key.to_encoded_object_key() for key in keys}
    return {"listed": len(listed), "exact": set(listed) == expected}


def main():
    """Builds the adapter from its own configuration, and runs one phase."""
    phase, settings = sys.argv[1], json.loads(sys.argv[2])
    adapter = S3L2Adapter(
        S3L2AdapterConfig.from_dict(
            {
                "s3_endpoint": settings["endpoint"],
                "s3_region": settings["region"],
                "s3_num_io_threads": 4,
                "s3_prefer_http2": False,
                "disable_tls": True,
                "aws_access_key_id": settings["access_key"],
                "aws_secret_access_key": settings["secret_key"],
            }
        )
    )
    size_bytes = settings["chunk_mib"] * 2**20
    keys = [
        ObjectKey(chunk_hash=hashlib.sha256(bytes([i])).digest(), model_name=settings["model"], kv_rank=i)
        for i in range(settings["count"])
    ]
    if phase == "store":
        result = store(adapter, keys, size_bytes)
    elif phase in ("load", "absent"):
        result = load(adapter, keys, size_bytes)
    elif phase == "list":
        result = listing(adapter, keys, settings["model"])
    else:
        adapter.delete(keys)
        result = {"found": lookup(adapter, keys)}
    adapter.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
