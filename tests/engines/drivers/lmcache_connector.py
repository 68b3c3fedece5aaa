"""Drives LMCache's own S3Connector (the in-process one), on CPU tensors, against an S3 endpoint.

Arguments: `store|load|absent`, then a JSON object with endpoint, region, access_key, secret_key, chunk_mib, count, model.
Prints one JSON object. `store` looks up (absent), puts and gets back; `load` looks up and gets in a fresh process.
Bytes are a function of the key, so that every process can check them.
"""

import asyncio
import hashlib
import json
import sys
import threading

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.connector import ConnectorContext
from lmcache.v1.storage_backend.connector.s3_adapter import S3ConnectorAdapter
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

CHUNK_TOKENS = 256
LAYERS = 2


def content(key, size_bytes):
    """The bytes that belong to `key`: pseudo-random, reproducible."""
    seed = int.from_bytes(hashlib.sha256(key.to_string().encode()).digest()[:8], "big", signed=True)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (size_bytes,), dtype=torch.uint8, generator=generator)


async def store(connector, backend, keys, metadata):
    """Puts every key that a lookup rightly does not find, and reads it back."""
    found_before = sum([await connector.exists(key) for key in keys])
    for key in keys:
        block = backend.allocate(connector.meta_shapes, connector.meta_dtypes, connector.meta_fmt)
        data = content(key, block.get_size())
        torch.frombuffer(block.byte_array, dtype=torch.uint8).copy_(data)
        await connector.put(key, block)
        block.ref_count_down()
    # The connector remembers sizes for the life of the process: forget them, so that the server is asked.
    connector.object_size_cache.clear()
    return {"found_before": found_before} | await load(connector, backend, keys, metadata)


async def load(connector, backend, keys, metadata):
    """Counts the keys that a lookup finds, and those whose bytes come back exact."""
    found = await connector.batched_async_contains("lookup", keys)
    exact = 0
    for key, block in zip(keys, await connector.batched_get(keys), strict=True):
        if block is not None:
            got = torch.frombuffer(block.byte_array, dtype=torch.uint8)
            exact += bool(torch.equal(got, content(key, block.get_size())))
            block.ref_count_down()
    return {"found": found, "exact": exact, "size_bytes": connector.full_chunk_size_bytes}


async def absent(connector, backend, keys, metadata):
    """A lookup and a get of what was never stored."""
    return await load(connector, backend, keys, metadata)


def main():
    """Builds the connector as LMCache's engine does, and runs one phase."""
    phase, settings = sys.argv[1], json.loads(sys.argv[2])
    # (layers, K and V, tokens, heads, head size) in bf16
    head_size = settings["chunk_mib"] * 2**20 // (LAYERS * 2 * CHUNK_TOKENS * 2 * 8)
    metadata = LMCacheMetadata(
        model_name=settings["model"],
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(LAYERS, 2, CHUNK_TOKENS, 8, head_size),
        chunk_size=CHUNK_TOKENS,
    )
    config = LMCacheEngineConfig.from_defaults(
        chunk_size=CHUNK_TOKENS,
        local_cpu=True,
        max_local_cpu_size=0.5,
        remote_url=settings["endpoint"],
        extra_config={
            "save_chunk_meta": False,
            "s3_num_io_threads": 4,
            "s3_prefer_http2": False,
            "s3_region": settings["region"],
            "disable_tls": True,
            "aws_access_key_id": settings["access_key"],
            "aws_secret_access_key": settings["secret_key"],
        },
    )
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    backend = LocalCPUBackend(config, metadata, "cpu")
    context = ConnectorContext(settings["endpoint"], loop, backend, config, metadata)
    connector = S3ConnectorAdapter().create_connector(context)
    # Hashes may be negative: both signs are used.
    keys = [
        CacheEngineKey(settings["model"], 1, 0, (-1) ** i * (0x5EED_0000 + i), torch.bfloat16)
        for i in range(settings["count"])
    ]
    phases = {"store": store, "load": load, "absent": absent}
    result = asyncio.run_coroutine_threadsafe(phases[phase](connector, backend, keys, metadata), loop).result(120)
    print(json.dumps(result))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
