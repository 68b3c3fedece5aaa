"""NIXL's OBJ plugin: its standard client, and its CRT client."""

import pytest
from conftest import MakeGateway

from lib.gateway import Gateway

from .conftest import Drive

COUNT = 4


@pytest.fixture(scope="module")
def nixl_gateway(make_gateway: MakeGateway) -> Gateway:
    """A gateway with a bucket."""
    gateway = make_gateway("fs")
    gateway.s3().create_bucket(Bucket="kvcache")
    return gateway


@pytest.mark.parametrize(("crt", "chunk_mib"), [(False, 2), (False, 32), (True, 2), (True, 32)])
def test_write_query_and_read(nixl_gateway: Gateway, drive: Drive, crt: bool, chunk_mib: int) -> None:
    """Objects are absent, then written, found and read byte for byte: from memory, and after a restart from the store."""
    given = {
        "endpoint": nixl_gateway.endpoint,
        "bucket": "kvcache",
        "region": "us-east-1",
        "access_key": nixl_gateway.keys.admin.access_key,
        "secret_key": nixl_gateway.keys.admin.secret_key,
        "chunk_mib": chunk_mib,
        "count": COUNT,
        "prefix": f"model/{'crt' if crt else 'standard'}-{chunk_mib}",
        "crt": crt,
    }
    assert drive("nixl_obj", "absent", given) == {"found_before": 0, "found": 0}
    read = {"loaded": "DONE", "exact": COUNT, "found": COUNT}
    assert drive("nixl_obj", "store", given) == {"found_before": 0, "stored": "DONE", **read}
    assert drive("nixl_obj", "load", given) == {"found_before": COUNT, **read}
    nixl_gateway.restart()
    assert drive("nixl_obj", "load", given) == {"found_before": COUNT, **read}
