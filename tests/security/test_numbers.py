"""Numbers out of bounds."""

import pytest

from lib.attacks import Target, check_refusal

PART_NUMBERS = [
    "0",
    "-1",
    "10001",
    "65537",
    "2147483648",
    "4294967296",
    "4294967297",
    "18446744073709551617",
    "9" * 40,
    "1.0",
    "1e3",
    "0x1",
    "+1",
    "%201",
    "1%20",
    "",
    "x",
    "%00",
]


@pytest.mark.parametrize("number", PART_NUMBERS)
def test_part_numbers(target: Target, number: str) -> None:
    s3 = target.gateway.s3()
    name = {"Bucket": target.bucket, "Key": target.key}
    upload_id = s3.create_multipart_upload(**name)["UploadId"]
    request = target.put().replace(query=[("partNumber", number), ("uploadId", upload_id)])
    target.refused(target.signer.sign(request))
    source = ("x-amz-copy-source", f"/{target.vault}/secret")
    copy = target.put(source, body=b"").replace(query=request.query)
    target.refused(target.signer.sign(copy))
    assert "Parts" not in s3.list_parts(**name, UploadId=upload_id)
    target.accepted(target.signer.sign(request.replace(query=[("partNumber", "10000"), ("uploadId", upload_id)])))
    s3.abort_multipart_upload(**name, UploadId=upload_id)
    check_refusal(target.gateway.call("GET", f"/{target.vault}/secret", query=[("partNumber", number)]))


@pytest.mark.parametrize("text", ["-1", "x", "", "9" * 30, "1.5", "%00", "+1"])
@pytest.mark.parametrize("name", ["max-keys", "max-uploads", "max-parts", "part-number-marker"])
def test_page_sizes(target: Target, name: str, text: str) -> None:
    s3 = target.gateway.s3()
    upload = s3.create_multipart_upload(Bucket=target.bucket, Key=target.key)["UploadId"]
    if name == "max-keys":
        answers = [
            target.gateway.call("GET", f"/{target.bucket}", query=[("list-type", "2"), (name, text)]),
            target.gateway.call("GET", f"/{target.bucket}", query=[(name, text)]),
            target.gateway.call("GET", f"/{target.bucket}", query=[("versions", ""), (name, text)]),
        ]
    elif name == "max-uploads":
        answers = [target.gateway.call("GET", f"/{target.bucket}", query=[("uploads", ""), (name, text)])]
    else:
        answers = [target.gateway.call("GET", target.path, query=[("uploadId", upload), (name, text)])]
    for answer in answers:
        check_refusal(answer)
    s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=upload)


@pytest.mark.parametrize("token", ["x", "%00", "../../x", "%ff", "A" * 5000, "AAAA"])
@pytest.mark.parametrize("name", ["continuation-token", "marker", "key-marker", "start-after"])
def test_markers(target: Target, name: str, token: str) -> None:
    """A marker may be any key; a token only one that was handed out."""
    kind = {
        "continuation-token": [("list-type", "2")],
        "start-after": [("list-type", "2")],
        "key-marker": [("versions", "")],
    }
    answer = target.gateway.call("GET", f"/{target.bucket}", query=[*kind.get(name, []), (name, token)])
    if name == "continuation-token":
        check_refusal(answer)
    assert answer.status < 500, str(answer)


@pytest.mark.parametrize("text", ["-1", "x", "", "9" * 30, "1.5"])
def test_deadlines(target: Target, text: str) -> None:
    check_refusal(target.gateway.call("GET", f"/{target.vault}/secret", ("x-kv-deadline-ms", text)))
    assert target.gateway.call("GET", f"/{target.vault}/secret", ("x-kv-deadline-ms", "9999")).status == 200


@pytest.mark.parametrize(
    "spec",
    ["bytes=0-", f"bytes=-{'9' * 40}", f"bytes={'9' * 40}-", f"bytes=0-{'9' * 40}", "bytes=" + "0-1," * 5000 + "0-1"],
)
def test_ranges(target: Target, spec: str) -> None:
    answer = target.gateway.call("GET", f"/{target.vault}/secret", ("Range", spec))
    assert answer.status in (200, 206, 400, 416, 431), str(answer)
