"""Keys and bucket names that want out, or in, or to break what shows them."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import pytest

from lib.answers import refusal
from lib.attacks import HOSTILE, SECRET, Target, check_refusal

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"

TRAVERSALS = [
    "../{vault}/secret",
    "../../{vault}/secret",
    "x/../../{vault}/secret",
    "%2e%2e/{vault}/secret",
    "%2e%2e%2f{vault}%2fsecret",
    "..%2f{vault}%2fsecret",
    "%252e%252e%252f{vault}%252fsecret",
    "..\\{vault}\\secret",
    "..%5c{vault}%5csecret",
    "%2e%2e%5c{vault}%5csecret",
    "..;/{vault}/secret",
    ".../...//{vault}/secret",
    "/{vault}/secret",
    "//{vault}/secret",
    "../../../../../../../../etc/passwd",
    "%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "file:///etc/passwd",
    "..",
    "../",
    ".",
    "./../.",
    "%c0%2e%c0%2e/{vault}/secret",
    "%c0%ae%c0%ae/{vault}/secret",
    "%uff0e%uff0e/{vault}/secret",
    "../blockgate.toml",
    "../../gateway.log",
]


def files(target: Target) -> set[Path]:
    """All that lies beside the store's folder."""
    folder = target.gateway.folder
    return {path for path in folder.parent.rglob("*") if "blocks" not in path.relative_to(folder.parent).parts}


@pytest.mark.parametrize("text", TRAVERSALS)
def test_traversal(target: Target, text: str) -> None:
    """Such a key is a key like any other, or refused; it leads nowhere else."""
    before = files(target)
    path = f"/{target.bucket}/{text.format(vault=target.vault)}"
    for method in ("GET", "HEAD"):
        answer = target.gateway.call(method, path)
        check_refusal(answer)
        assert b"root:" not in answer.body
    put = target.gateway.call("PUT", path, body=HOSTILE)
    if put.status == 200:
        assert target.gateway.call("GET", path).body == HOSTILE
        assert target.gateway.call("DELETE", path).status == 204
        assert target.gateway.call("GET", path).status == 404
    else:
        check_refusal(put)
    assert files(target) == before


@pytest.mark.parametrize("text", TRAVERSALS)
def test_traversal_by_copies(target: Target, text: str) -> None:
    source = f"/{target.bucket}/{text.format(vault=target.vault)}"
    check_refusal(target.gateway.call("PUT", target.path, ("x-amz-copy-source", source)))
    assert target.stored() is None


@pytest.mark.parametrize(
    "name",
    ["..", ".", "%2e%2e", "..%2f..", "%2fetc", ".blockgate", "_kv", "%00", "a%00b", "%ff%fe", "a%2f..%2fb", "~root"],
)
def test_bucket_names(target: Target, name: str) -> None:
    before = files(target)
    for method in ("GET", "PUT", "DELETE", "HEAD"):
        check_refusal(target.gateway.call(method, f"/{name}"))
        check_refusal(target.gateway.call(method, f"/{name}/passwd"))
    assert files(target) == before


@pytest.mark.parametrize(
    "text",
    ["%00", "a%00", "%00a", "a%00/../b", "%ff", "a%fe%ffb", "%c3%28", "%ed%a0%80", "%f8%88%80%80%80", "%80", "%e2%82"],
)
def test_keys_that_are_no_text(target: Target, text: str) -> None:
    path = f"/{target.bucket}/{text}"
    for request in (
        target.gateway.request("PUT", path, body=HOSTILE),
        target.gateway.request("GET", path),
        target.gateway.request("DELETE", path),
        target.gateway.request("POST", path, query=[("uploads", "")]),
        target.gateway.request("PUT", target.path, ("x-amz-copy-source", path)),
        target.gateway.request("GET", f"/{target.bucket}", query=[("list-type", "2"), ("prefix", text)]),
        target.gateway.request("GET", f"/{target.bucket}", query=[("list-type", "2"), ("start-after", text)]),
    ):
        answer = target.gateway.send(target.signer.sign(request))
        check_refusal(answer)
        assert answer.status == 400, str(answer)


@pytest.mark.parametrize("text", ["%", "%a", "%zz", "a%2", "%u0041", "%%34%31"])
def test_broken_percent_encoding(target: Target, text: str) -> None:
    """Refused, or taken as it stands: never an error of the server."""
    request = target.signer.sign(target.gateway.request("GET", f"/{target.bucket}/{text}"))
    check_refusal(target.gateway.send(request))


def test_long_keys(target: Target) -> None:
    for key in ("k" * 1025, "ü" * 513, "k" * 5000, "/" * 1025):
        answer = target.gateway.call("PUT", f"/{target.bucket}/{quote(key)}", body=HOSTILE)
        check_refusal(answer)
        assert answer.code == "KeyTooLongError"
    path = f"/{target.bucket}/{'k' * 1024}"
    assert target.gateway.call("PUT", path, body=HOSTILE).status == 200
    assert target.gateway.call("DELETE", path).status == 204


CONTROLS = [chr(number) for number in [*range(1, 32), 127, 0x85, 0xFFFE, 0xFFFF, 0x202E, 0xFEFF]]


def test_control_characters_and_the_listing_after_them(target: Target, s3_admin: Any) -> None:
    keys = [f"{target.key}/a{char}b" for char in CONTROLS]
    paths = [f"/{target.bucket}/{quote(key)}" for key in keys]
    for key, path in zip(keys, paths, strict=True):
        assert target.gateway.call("PUT", path, body=key.encode()).status == 200, key
    query = [("list-type", "2"), ("prefix", quote(f"{target.key}/", safe=""))]

    encoded = target.gateway.call("GET", f"/{target.bucket}", query=[*query, ("encoding-type", "url")])
    found = [unquote(entry.text or "") for entry in ElementTree.fromstring(encoded.body).iter(f"{NAMESPACE}Key")]
    assert found == sorted(keys, key=str.encode)

    for plain in (
        target.gateway.call("GET", f"/{target.bucket}", query=query),
        target.gateway.call("GET", f"/{target.bucket}", query=query[1:]),
        target.gateway.call("GET", f"/{target.bucket}", query=[("versions", ""), query[1]]),
    ):
        assert plain.status == 200
        assert len(list(ElementTree.fromstring(plain.body).iter(f"{NAMESPACE}Key"))) == len(keys)

    for key, path in zip(keys, paths, strict=True):
        assert target.gateway.call("GET", path).body == key.encode()
        assert target.gateway.call("DELETE", path).status == 204


@pytest.fixture
def s3_admin(target: Target) -> Any:
    """boto3, as the administrator."""
    return target.gateway.s3()


def test_reserved_names(target: Target) -> None:
    for name in (".blockgate/", ".blockgate/x", ".blockgate/ledger/1", ".blockgate/../.blockgate/x", "%2eblockgate/x"):
        path = f"/{target.bucket}/{name}"
        for method, body in (("PUT", HOSTILE), ("GET", b""), ("HEAD", b""), ("DELETE", b"")):
            check_refusal(target.gateway.call(method, path, body=body))
        check_refusal(target.gateway.call("POST", path, query=[("uploads", "")]))
        check_refusal(target.gateway.call("PUT", target.path, ("x-amz-copy-source", path)))


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "]]>", "&amp;", "'\"", "<!--", "<?x?>"])
def test_names_in_documents(target: Target, text: str) -> None:
    """What a client sent is shown as text, never as markup."""
    answer = target.gateway.call("GET", f"/{target.bucket}/{quote(text, safe='')}")
    assert answer.status == 404
    assert answer.header("content-type") == "application/xml"
    root = ElementTree.fromstring(answer.body)
    assert [child.tag for child in root if list(child)] == []
    listing = target.gateway.call("GET", f"/{target.bucket}", query=[("prefix", quote(text, safe=""))])
    assert ElementTree.fromstring(listing.body).findtext(f"{NAMESPACE}Prefix") == text


@pytest.mark.parametrize("text", ["a%0d%0aSet-Cookie:x", "a%0aSet-Cookie:x", "a%00b", "%ff", "%7f"])
@pytest.mark.parametrize(
    "name", ["content-type", "content-disposition", "cache-control", "content-encoding", "expires"]
)
def test_names_in_headers(target: Target, name: str, text: str) -> None:
    """What the query asks to be answered can't begin another header."""
    request = target.gateway.request("GET", f"/{target.vault}/secret", query=[(f"response-{name}", text)])
    answer = target.gateway.send(target.signer.sign(request))
    assert answer.status < 500, str(answer)
    assert answer.header("set-cookie") is None
    assert b"Set-Cookie" not in answer.body


def test_links_out_of_the_store_are_not_followed(target: Target, tmp_path: Path) -> None:
    """Someone who can write to the folder by other means gains nothing from the gateway."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    blocks = Path(target.gateway.store.settings["path"])
    roots = [path for path in blocks.rglob(f"*{target.bucket}*") if path.is_dir()]
    assert roots, "where do blocks lie?"
    links = []
    for root in roots:
        for link, to in ((root / "link", outside), (root / "file", outside / "secret")):
            link.symlink_to(to)
            links.append(link)
    for name in ("link/secret", "file", "link"):
        check_refusal(target.gateway.call("GET", f"/{target.bucket}/{name}"))
        put = target.gateway.call("PUT", f"/{target.bucket}/{name}", body=HOSTILE)
        assert put.status < 500, str(put)
        target.gateway.call("DELETE", f"/{target.bucket}/{name}")
    assert {path.name for path in outside.iterdir()} == {"secret"}
    assert (outside / "secret").read_bytes() == SECRET
    for link in links:
        link.unlink(missing_ok=True)
    assert refusal(target.gateway.s3().get_object, Bucket=target.bucket, Key="link/secret")[0] == 404
