"""What errors look like."""

from xml.etree import ElementTree

from lib.gateway import Gateway


def test_document(gateway: Gateway, bucket: str, key: str) -> None:
    answer = gateway.call("GET", f"/{bucket}/{key}")
    assert answer.status == 404
    assert answer.header("content-type") == "application/xml"
    root = ElementTree.fromstring(answer.body)
    assert root.tag == "Error"
    assert root.findtext("Code") == "NoSuchKey"
    assert root.findtext("Message")
    assert root.findtext("RequestId") == answer.header("x-amz-request-id")


def test_head_has_none(gateway: Gateway, bucket: str, key: str) -> None:
    answer = gateway.call("HEAD", f"/{bucket}/{key}")
    assert (answer.status, answer.body) == (404, b"")


def test_every_answer_has_a_request_id(gateway: Gateway, bucket: str) -> None:
    answers = [gateway.call("GET", f"/{bucket}"), gateway.call("GET", f"/{bucket}/none"), gateway.call("GET", "/")]
    found = {answer.header("x-amz-request-id") for answer in answers}
    assert len(found) == 3
    assert None not in found


def test_unsigned(gateway: Gateway, bucket: str) -> None:
    answer = gateway.send(gateway.request("GET", f"/{bucket}"))
    assert (answer.status, answer.code) == (403, "AccessDenied")


def test_methods_that_do_not_exist(gateway: Gateway, bucket: str, key: str) -> None:
    for method in ("PATCH", "PROPFIND", "TRACE"):
        answer = gateway.call(method, f"/{bucket}/{key}")
        assert answer.status in (400, 405, 501), str(answer)
