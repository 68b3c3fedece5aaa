"""Operations that read a document, each with a sound one, and ways to spoil it."""

from collections.abc import Callable
from dataclasses import dataclass

from lib.attacks import Target
from lib.raw import Pairs, Request

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass(frozen=True)
class Operation:
    """An operation that reads XML. `root` is its document's root element, `inside` what is in it."""

    name: str
    method: str
    query: Pairs
    root: str
    inside: str
    on_object: bool = True
    required: bool = True
    """Whether the document may not be left out."""

    def document(self) -> str:
        """The sound document."""
        return f'<{self.root} xmlns="{NAMESPACE}">{self.inside}</{self.root}>'

    def request(self, target: Target, body: bytes | None = None, *headers: tuple[str, str]) -> Request:
        """An unsigned request. `{upload}` and `{etag}` stand for those of an upload with one part."""
        path = target.path if self.on_object else f"/{target.bucket}"
        data = self.document().encode() if body is None else body
        return target.gateway.request(self.method, path, *headers, body=data, query=self.query)


READ_ON_FS = [
    Operation("DeleteObjects", "POST", [("delete", "")], "Delete", "<Object><Key>none</Key></Object>", on_object=False),
    Operation(
        "CompleteMultipartUpload",
        "POST",
        [("uploadId", "{upload}")],
        "CompleteMultipartUpload",
        "<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>",
    ),
    Operation(
        "PutObjectTagging",
        "PUT",
        [("tagging", "")],
        "Tagging",
        "<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>",
    ),
]

# The fs upstream refuses them all; what matters is that nothing worse happens.
NOT_ON_FS = [
    Operation(name, method, [(query, "")], root, inside, on_object=on_object)
    for name, method, query, root, inside, on_object in [
        ("PutBucketTagging", "PUT", "tagging", "Tagging", "<TagSet/>", False),
        ("PutBucketVersioning", "PUT", "versioning", "VersioningConfiguration", "<Status>Enabled</Status>", False),
        ("PutBucketLifecycle", "PUT", "lifecycle", "LifecycleConfiguration", "", False),
        ("PutBucketCors", "PUT", "cors", "CORSConfiguration", "", False),
        ("PutBucketAcl", "PUT", "acl", "AccessControlPolicy", "", False),
        ("PutBucketEncryption", "PUT", "encryption", "ServerSideEncryptionConfiguration", "", False),
        ("PutBucketLogging", "PUT", "logging", "BucketLoggingStatus", "", False),
        ("PutBucketNotification", "PUT", "notification", "NotificationConfiguration", "", False),
        ("PutBucketReplication", "PUT", "replication", "ReplicationConfiguration", "", False),
        ("PutBucketWebsite", "PUT", "website", "WebsiteConfiguration", "", False),
        ("PutPublicAccessBlock", "PUT", "publicAccessBlock", "PublicAccessBlockConfiguration", "", False),
        ("PutObjectLockConfiguration", "PUT", "object-lock", "ObjectLockConfiguration", "", False),
        ("PutObjectAcl", "PUT", "acl", "AccessControlPolicy", "", True),
        ("PutObjectLegalHold", "PUT", "legal-hold", "LegalHold", "<Status>ON</Status>", True),
        ("PutObjectRetention", "PUT", "retention", "Retention", "<Mode>GOVERNANCE</Mode>", True),
        ("RestoreObject", "POST", "restore", "RestoreRequest", "<Days>1</Days>", True),
        ("SelectObjectContent", "POST", "select", "SelectObjectContentRequest", "", True),
        ("PutBucketPolicy", "PUT", "policy", "Policy", "", False),
    ]
]

Spoil = Callable[[Operation], bytes]

LAUGHS = '<!DOCTYPE x [<!ENTITY a "{}">{}]>'.format(
    "ha" * 10, "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
)
HUGE = 16 << 20
DEEP = 100_000
MANY = " ".join(f'a{number}="x"' for number in range(100_000))


def _sound(operation: Operation) -> str:
    return operation.document()


SPOILS: dict[str, Spoil] = {
    "nothing": lambda o: b"",
    "blank": lambda o: b" \n ",
    "text": lambda o: b"hello",
    "JSON": lambda o: b'{"Delete": {}}',
    "binary": lambda o: bytes(range(256)),
    "cut": lambda o: _sound(o).encode()[:-10],
    "cut in a tag": lambda o: _sound(o).encode()[: len(o.root) // 2],
    "unclosed": lambda o: _sound(o).replace(f"</{o.root}>", "").encode(),
    "closed by another": lambda o: _sound(o).replace(f"</{o.root}>", "</Other>").encode(),
    "two roots": lambda o: (_sound(o) * 2).encode(),
    "text after the root": lambda o: f"{_sound(o)}x".encode(),
    "another root": lambda o: _sound(o).replace(o.root, "Other").encode(),
    "root in lower case": lambda o: _sound(o).replace(o.root, o.root.lower()).encode(),
    "wrapped": lambda o: f"<Wrap>{_sound(o)}</Wrap>".encode(),
    "empty root": lambda o: f"<{o.root}/>".encode(),
    "text in the root": lambda o: f"<{o.root}>text</{o.root}>".encode(),
    "unknown element": lambda o: f"<{o.root}><Evil/>{o.inside}</{o.root}>".encode(),
    "DTD": lambda o: f"<!DOCTYPE {o.root}>{_sound(o)}".encode(),
    "entity": lambda o: f'<!DOCTYPE x [<!ENTITY e "evil">]>{_sound(o).replace("</", "&e;</", 1)}'.encode(),
    "external entity": lambda o: (
        f'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>{_sound(o).replace("</", "&e;</", 1)}'.encode()
    ),
    "billion laughs": lambda o: f"{LAUGHS}{_sound(o).replace('</', '&j;</', 1)}".encode(),
    "undeclared entity": lambda o: _sound(o).replace("</", "&evil;</", 1).encode(),
    "reference to NUL": lambda o: _sound(o).replace("</", "&#0;</", 1).encode(),
    "reference beyond Unicode": lambda o: _sound(o).replace("</", "&#x110000;</", 1).encode(),
    "deep": lambda o: b"<a>" * DEEP + b"</a>" * DEEP,
    "deep inside": lambda o: f"<{o.root}>{'<a>' * DEEP}{'</a>' * DEEP}</{o.root}>".encode(),
    "huge": lambda o: f"<{o.root}>{o.inside}<!--{'x' * HUGE}--></{o.root}>".encode(),
    "huge attribute": lambda o: f'<{o.root} a="{"x" * HUGE}">{o.inside}</{o.root}>'.encode(),
    "many attributes": lambda o: f"<{o.root} {MANY}>{o.inside}</{o.root}>".encode(),
    "bad UTF-8": lambda o: _sound(o).encode().replace(b"</", b"\xff\xfe</", 1),
    "UTF-16": lambda o: _sound(o).encode("utf-16"),
    "NUL": lambda o: _sound(o).encode().replace(b"</", b"\x00</", 1),
}
