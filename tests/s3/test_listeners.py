"""Ways to address a bucket, and TLS."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import MakeGateway

from lib.buckets import bucket_maker
from lib.gateway import Gateway, s3_client
from lib.raw import Closed, send


def test_virtual_host(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    for host in (f"{bucket}.localhost:{gateway.port}", f"{bucket}.localhost"):
        request = gateway.request("PUT", f"/{key}", body=b"virtual").with_header("Host", host)
        assert gateway.send(gateway.signer().sign(request)).status == 200
        request = gateway.request("GET", f"/{key}").with_header("Host", host)
        answer = gateway.send(gateway.signer().sign(request))
        assert (answer.status, answer.body) == (200, b"virtual")
        request = gateway.request("GET", "/", query=[("list-type", "2"), ("prefix", "key%2F")]).with_header(
            "Host", host
        )
        assert key in gateway.send(gateway.signer().sign(request)).body.decode()
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"virtual"


def test_a_path_on_a_virtual_host_is_a_key(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    request = gateway.request("PUT", f"/{bucket}/{key}", body=b"x").with_header("Host", f"{bucket}.localhost")
    assert gateway.send(gateway.signer().sign(request)).status == 200
    assert s3.get_object(Bucket=bucket, Key=f"{bucket}/{key}")["Body"].read() == b"x"


def test_absolute_form(gateway: Gateway, s3: Any, bucket: str, key: str) -> None:
    """As the AWS SDK for C++ sends it over its CRT client."""
    signed = gateway.signer().sign(gateway.request("PUT", f"/{bucket}/{key}", body=b"absolute"))
    answer = gateway.send(signed.replace(path=f"http://{gateway.host}{signed.path}"))
    assert answer.status == 200, str(answer)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"absolute"


@pytest.fixture(scope="module")
def single(make_gateway: MakeGateway) -> Iterator[tuple[Gateway, str]]:
    """A gateway whose listener stands for one bucket, and that bucket."""
    gateway = make_gateway("fs")
    buckets = bucket_maker(gateway)
    bucket = next(buckets)()
    one = make_gateway(gateway.store, {"server": {"default_bucket": bucket}})
    yield one, bucket
    one.close()
    next(buckets, None)


def test_default_bucket(single: tuple[Gateway, str], key: str) -> None:
    gateway, bucket = single
    for path in (f"/{key}", f"//{key}", f"/{bucket}/{key}", "/model%408%400%40-3f%40bf16"):
        for host in (gateway.host, "blocks.example:1234"):
            request = gateway.request("PUT", path, body=path.encode()).with_header("Host", host)
            assert gateway.send(gateway.signer().sign(request)).status == 200
            request = gateway.request("GET", path).with_header("Host", host)
            assert gateway.send(gateway.signer().sign(request)).body == path.encode()
    answer = gateway.call("GET", "/", query=[("list-type", "2")])
    assert f"<Name>{bucket}</Name>" in answer.body.decode()
    for name in (key, f"/{key}", f"{bucket}/{key}"):
        assert f"<Key>{name}</Key>" in answer.body.decode()


@pytest.fixture(scope="module")
def tls(make_gateway: MakeGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Path]]:
    """A gateway that speaks TLS, and its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,DNS:*.localhost,IP:127.0.0.1"]
    names += ["-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    gateway = make_gateway("fs", {"server": {"tls": {"cert": str(certificate), "key": str(key)}}})
    yield gateway, certificate
    gateway.close()


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_tls(tls: tuple[Gateway, Path], key: str, version: str) -> None:
    gateway, certificate = tls
    endpoint = f"https://127.0.0.1:{gateway.port}"
    s3 = s3_client(endpoint, gateway.keys.admin, verify=str(certificate))
    bucket, data = f"kv-{key[-8:]}", bytes(range(256)) * 40_000
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="one", Body=data)
    assert s3.get_object(Bucket=bucket, Key="one")["Body"].read() == data

    with httpx.Client(http2=version == "HTTP/2", verify=str(certificate)) as client:
        for method, body in (("PUT", data[::-1]), ("GET", b""), ("HEAD", b"")):
            request = gateway.signer().sign(gateway.request(method, f"/{bucket}/two", body=body))
            fields = [pair for pair in request.headers if pair[0] != "Content-Length"]
            answer = client.request(method, f"{endpoint}/{bucket}/two", headers=fields, content=body or None)
            assert (answer.status_code, answer.http_version) == (200, version)
            if method == "GET":
                assert answer.content == data[::-1]


def test_plain_http_on_a_tls_port(tls: tuple[Gateway, Path]) -> None:
    gateway, _ = tls
    with pytest.raises(Closed):
        send(gateway.address, gateway.request("GET", "/"))
    assert gateway.alive()
