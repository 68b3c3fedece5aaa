"""POST forms whose policy does not allow them, or is none."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from lib.attacks import HOSTILE, SECRET, Target
from lib.forms import form
from lib.gateway import s3_client
from lib.raw import Pairs, Request
from lib.sigv4 import Signer


def post(target: Target, fields: Pairs, data: bytes | None = HOSTILE, bucket: str = "", **more: Any) -> Request:
    """A form, sent to the bucket."""
    body, content_type = form(fields, data, **more)
    return target.gateway.request("POST", f"/{bucket or target.bucket}", ("Content-Type", content_type), body=body)


def conditions(target: Target) -> list[Any]:
    """What the sound policy demands."""
    return [{"bucket": target.bucket}, {"key": target.key}]


def sound(target: Target, signer: Signer | None = None, **more: Any) -> Pairs:
    """The sound form's fields."""
    return [("key", target.key), *(signer or target.signer).policy(conditions(target), **more)]


def test_sound(target: Target) -> None:
    target.accepted(post(target, sound(target)), 204)
    assert target.stored() == HOSTILE


EXPIRY = '"expiration":"2099-01-01T00:00:00.000Z"'
BUCKET = '{"bucket":"BUCKET"}'
KEY = '{"key":"KEY"}'
SIGNATURE = '"SIGNATURE"'


def policy(*conditions: str, expiry: str = EXPIRY) -> str:
    """A policy's JSON."""
    return f'{{{expiry},"conditions":[{",".join([*conditions, SIGNATURE])}]}}'


# `BUCKET` and `KEY` stand for the form's own, `SIGNATURE` for conditions on the fields that carry it.
POLICIES = {
    "empty": "",
    "no JSON": "hello",
    "a list": "[]",
    "null": "null",
    "empty object": "{}",
    "no expiration": f'{{"conditions":[{BUCKET},{KEY},{SIGNATURE}]}}',
    "no conditions": f"{{{EXPIRY}}}",
    "empty conditions": policy(),
    "conditions that are no list": f'{{{EXPIRY},"conditions":{KEY}}}',
    "expiration that is no date": policy(BUCKET, KEY, expiry='"expiration":"soon"'),
    "expiration that is a number": policy(BUCKET, KEY, expiry='"expiration":4102444800'),
    "past expiration": policy(BUCKET, KEY, expiry='"expiration":"2020-01-01T00:00:00.000Z"'),
    "does not cover the key": policy(BUCKET),
    "does not cover the bucket": policy(KEY),
    "another key": policy(BUCKET, '{"key":"other"}'),
    "another bucket": policy('{"bucket":"other"}', KEY),
    "another start": policy(BUCKET, '["starts-with","$key","other/"]'),
    "unknown operator": policy(BUCKET, '["like","$key","KEY"]'),
    "operator without a field": policy(BUCKET, '["eq","KEY"]'),
    "condition that is a text": policy(BUCKET, KEY, '"key"'),
    "condition of a number": policy(BUCKET, '{"key":1}'),
    "condition of two": policy('{"bucket":"BUCKET","key":"other"}', BUCKET),
    "too small a range": policy(BUCKET, KEY, '["content-length-range",0,1]'),
    "too large a range": policy(BUCKET, KEY, '["content-length-range",99,999]'),
    "range of texts": policy(BUCKET, KEY, '["content-length-range","a","b"]'),
    "negative range": policy(BUCKET, KEY, '["content-length-range",-5,-1]'),
    "turned range": policy(BUCKET, KEY, '["content-length-range",99,0]'),
    "a field that is not sent": policy(BUCKET, KEY, '{"acl":"private"}'),
    "doubled member": policy(BUCKET, KEY, expiry=f"{EXPIRY},{EXPIRY}"),
    "text after it": f"{policy(BUCKET, KEY)} x",
}


@pytest.mark.parametrize("what", POLICIES)
def test_policies(target: Target, what: str) -> None:
    """Each is signed as it is."""
    raw = POLICIES[what].replace("BUCKET", target.bucket).replace("KEY", target.key)
    target.refused(post(target, [("key", target.key), *target.signer.policy(None, raw=raw)]))


@pytest.mark.parametrize(
    "raw",
    ["[" * 100_000, "[" * 50_000 + "]" * 50_000, '{"a":' * 50_000 + "1" + "}" * 50_000],
    ids=["open", "list", "object"],
)
def test_deep_policies(target: Target, raw: str) -> None:
    for text in (raw, f'{{{EXPIRY},"conditions":{raw}}}', f'{{{EXPIRY},"conditions":[{raw}]}}'):
        target.refused(post(target, [("key", target.key), *target.signer.policy(None, raw=text)]))


def test_huge_policy(target: Target) -> None:
    many = [{"x-ignore-a": "b" * 1000} for _ in range(3000)]
    fields = [("key", target.key), *target.signer.policy([*conditions(target), *many])]
    target.refused(post(target, fields))


@pytest.mark.parametrize(
    "extra",
    [
        ("acl", "public-read"),
        ("x-amz-meta-evil", "1"),
        ("x-amz-meta-kv-ttl", "1"),
        ("Content-Type", "text/html"),
        ("Cache-Control", "max-age=9"),
        ("tagging", "<Tagging><TagSet/></Tagging>"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-website-redirect-location", "http://evil.example"),
        ("success_action_redirect", "http://evil.example"),
        ("redirect", "http://evil.example"),
        ("success_action_status", "201"),
        ("x-amz-security-token", "x"),
        ("bucket", "other"),
        ("evil", "1"),
    ],
)
def test_uncovered_fields(target: Target, extra: tuple[str, str]) -> None:
    target.refused(post(target, [extra, *sound(target)]))
    target.refused(post(target, [*sound(target), extra]))


def replaced(fields: Pairs, name: str, value: str | None) -> Pairs:
    """Fields with one changed, or left out."""
    return [
        (key, value if key == name and value is not None else old)
        for key, old in fields
        if key != name or value is not None
    ]


@pytest.mark.parametrize(
    "name", ["key", "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"]
)
def test_missing_and_doubled_fields(target: Target, name: str) -> None:
    fields = sound(target)
    target.refused(post(target, replaced(fields, name, None)))
    pair = next(pair for pair in fields if pair[0] == name)
    target.refused(post(target, [*fields, pair]))
    target.refused(post(target, [(name.upper(), pair[1]), *fields]))
    target.refused(post(target, replaced(fields, name, "")))
    target.refused(post(target, replaced(fields, name, "x")))


def test_other_signers(target: Target) -> None:
    for signer in (
        target.signer.but(region="eu-west-1"),
        target.signer.but(service="iam"),
        target.signer.but(terminator="aws5_request"),
        target.signer.but(scope_date="20200101"),
        target.signer.at(timedelta(days=-8)),
        target.signer.at(timedelta(hours=1)),
        target.gateway.signer(target.gateway.keys.reader),
        target.gateway.signer(target.gateway.keys.scoped),
    ):
        target.refused(post(target, sound(target, signer)))
    target.refused(post(target, sound(target, expires=timedelta(seconds=-1))))


def test_altered_policies(target: Target) -> None:
    fields = dict(sound(target))
    other = json.loads(base64.b64decode(fields["policy"]))
    other["conditions"] = []
    altered = base64.b64encode(json.dumps(other).encode()).decode()
    for policy in (altered, fields["policy"][:-4], fields["policy"] + "=", f" {fields['policy']}", "!" * 100):
        target.refused(post(target, replaced(list(fields.items()), "policy", policy)))
    target.refused(post(target, replaced(list(fields.items()), "x-amz-signature", fields["x-amz-signature"].upper())))


def test_a_form_is_for_its_bucket(target: Target) -> None:
    body, content_type = form(
        [("key", "secret"), *target.signer.policy([{"bucket": target.bucket}, {"key": "secret"}])], HOSTILE
    )
    target.refused(target.gateway.request("POST", f"/{target.vault}", ("Content-Type", content_type), body=body))
    target.refused(target.gateway.request("POST", f"/{target.bucket}/x", ("Content-Type", content_type), body=body))


def test_signature_version_2(target: Target) -> None:
    old = s3_client(target.gateway.endpoint, target.gateway.keys.admin, signature_version="s3")
    made = old.generate_presigned_post(target.bucket, target.key, ExpiresIn=60)
    assert "AWSAccessKeyId" in made["fields"]
    target.refused(post(target, list(made["fields"].items())))


def test_fields_after_the_file(target: Target) -> None:
    """They do not count: neither as a policy, nor as attributes that it allows."""
    fields = sound(target)
    target.refused(post(target, fields[:1], after=fields[1:]))
    target.refused(post(target, fields[1:], after=fields[:1]))


def test_no_file_and_no_form(target: Target) -> None:
    target.refused(post(target, sound(target), None))
    target.refused(post(target, []))
    target.refused(post(target, [("key", target.key)]))
    request = post(target, sound(target))
    for content_type in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        f"multipart/form-data; boundary={'x' * 5000}",
        "multipart/form-data; boundary=other",
        "multipart/mixed; boundary=x",
        "application/x-www-form-urlencoded",
        "",
    ):
        target.refused(request.with_header("Content-Type", content_type))


def test_broken_forms(target: Target) -> None:
    request = post(target, sound(target))
    for end in (len(request.body) - 3, len(request.body) - 40, len(request.body) // 2, 10):
        cut = request.body[:end]
        target.refused(request.replace(body=cut).with_header("Content-Length", str(end)))
        target.refused(request.replace(body=cut), finish=True, may_close=True)
    target.refused(post(target, [*((f"x-ignore-{n}", "x") for n in range(5000)), *sound(target)]))
    target.refused(post(target, [("x-ignore-a", "x" * (2 << 20)), *sound(target)]))
    target.refused(post(target, [("x-ignore-" + "a" * (1 << 20), "x"), *sound(target)]))


@pytest.mark.parametrize("name", ["../{vault}/x", "%00", "a\x00b", "k" * 1025, ".blockgate/x", ""])
def test_keys(target: Target, name: str) -> None:
    key = name.format(vault=target.vault)
    signed = target.signer.policy([{"bucket": target.bucket}, ["starts-with", "$key", ""]])
    answer = target.gateway.send(post(target, [("key", key), *signed]))
    assert answer.status < 500, str(answer)
    if name in ("a\x00b", "k" * 1025, ".blockgate/x", ""):
        assert answer.status in (400, 403), str(answer)
    assert target.gateway.call("GET", f"/{target.vault}/x").status == 404
    assert target.gateway.call("GET", f"/{target.vault}/secret").body == SECRET


def test_redirects_can_not_begin_another_header(target: Target) -> None:
    address = "http://127.0.0.1/\r\nSet-Cookie: x=y"
    fields = [("success_action_redirect", address), ("key", target.key)]
    signed = target.signer.policy([*conditions(target), {"success_action_redirect": address}])
    answer = target.gateway.send(post(target, [*fields, *signed]))
    assert answer.status < 500, str(answer)
    assert answer.header("set-cookie") is None
