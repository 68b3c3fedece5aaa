"""Drives NIXL's OBJ plugin on host memory against an S3 endpoint.

Arguments: `store|load|absent`, then a JSON object with endpoint, bucket, region, access_key, secret_key, chunk_mib, count,
prefix and crt (whether its CRT client, with multipart and ranges, moves the bytes). Prints one JSON object.
"""

import hashlib
import json
import sys
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

TRANSFER_SECONDS_MAX = 120
CRT_MIN_BYTES = 5 * 2**20


def content(key, size_bytes):
    """The bytes that belong to `key`: pseudo-random, reproducible."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    return numpy.random.default_rng(seed).integers(0, 256, size_bytes, dtype=numpy.uint8)


def transfer(agent, operation, arrays, keys, size_bytes):
    """Moves all arrays to or from their objects; the final state of the transfer."""
    memory = [(array.ctypes.data, size_bytes, 0, "") for array in arrays]
    objects = [(0, size_bytes, device, key) for device, key in enumerate(keys)]
    local = agent.register_memory(memory, "DRAM", backends=["OBJ"])
    remote = agent.register_memory(objects, "OBJ", backends=["OBJ"])
    handle = agent.initialize_xfer(operation, local.trim(), remote.trim(), agent.name, backends=["OBJ"])
    state = agent.transfer(handle)
    deadline = time.monotonic() + TRANSFER_SECONDS_MAX
    while state == "PROC" and time.monotonic() < deadline:
        time.sleep(0.005)
        state = agent.check_xfer_state(handle)
    agent.release_xfer_handle(handle)
    agent.deregister_memory(local)
    agent.deregister_memory(remote)
    return state


def lookup(agent, keys):
    """How many keys are there: one HEAD each."""
    return sum(
        found is not None
        for found in agent.query_memory([(0, 0, device, key) for device, key in enumerate(keys)], "OBJ", "OBJ")
    )


def main():
    """Builds an agent with the OBJ backend, and runs one phase."""
    phase, settings = sys.argv[1], json.loads(sys.argv[2])
    agent = nixl_agent("blockgate-test", nixl_agent_config(backends=[]))
    parameters = {
        "bucket": settings["bucket"],
        "endpoint_override": settings["endpoint"],
        "scheme": "http",
        "region": settings["region"],
        "use_virtual_addressing": "false",
        "access_key": settings["access_key"],
        "secret_key": settings["secret_key"],
    }
    if settings["crt"]:
        parameters["crtMinLimit"] = str(CRT_MIN_BYTES)
    agent.create_backend("OBJ", parameters)
    size_bytes = settings["chunk_mib"] * 2**20
    keys = [f"{settings['prefix']}/layer-{i}@rank0" for i in range(settings["count"])]

    result = {"found_before": lookup(agent, keys)}
    if phase == "store":
        result["stored"] = transfer(agent, "WRITE", [content(key, size_bytes) for key in keys], keys, size_bytes)
    if phase != "absent":
        arrays = [numpy.zeros(size_bytes, dtype=numpy.uint8) for _ in keys]
        result["loaded"] = transfer(agent, "READ", arrays, keys, size_bytes)
        result["exact"] = sum(
            numpy.array_equal(array, content(key, size_bytes)) for array, key in zip(arrays, keys, strict=True)
        )
    result["found"] = lookup(agent, keys)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
