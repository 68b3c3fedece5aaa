"""Keys that stores and clients are known to confuse, and what a listing of keys must be."""

from collections.abc import Iterable

BASE = "model@8@0@-3f2a"

# Every one is a legal S3 key, and all are different objects.
NASTY = [
    "a",
    "/a",
    "//a",
    "a/",
    "a//",
    "a/b",
    "a//b",
    "a///b",
    "/a/b",
    "a/b/c",
    "a/./b",
    "a/../b",
    "./a",
    "../a",
    ".",
    "..",
    "/",
    "//",
    "/.",
    "/..",
    "../../../../etc/passwd",
    "a\\b",
    "a\\..\\b",
    "a%2Fb",
    "a%2fb",
    "a%252Fb",
    "%2e%2e/a",
    "%",
    "%%",
    "a:b",
    "a b",
    "a+b",
    " a",
    "a ",
    "a?b=c#d",
    "a&b;c,d=e",
    "<a>'\"&amp;",
    "~!@$^*(){}[]|`",
    "ключ/鍵/🔑",
    "e\u0301",
    "\u00e9",
    "\ufffd\uffee\U0010ffff",
    "a\tb\rc\nd",
    "\x01\x1f\x7f",
    BASE,
    f"{BASE}/under",
    f"{BASE}@bfloat16@tag%value",
    f"/models/llama@8@0@{'0' * 64}",
    "s" * 256 + "/" + "t" * 300,
    "k" * 1024,
    "k" * 1023,
    "ü" * 512,
    "/" * 1024,
    ".blockgate",
    "blockgate/x",
    "a.tmp",
    "__x",
]


def ordered(keys: Iterable[str]) -> list[str]:
    """In the order of listings: by bytes."""
    return sorted(keys, key=str.encode)


def listing(keys: Iterable[str], prefix: str = "", delimiter: str = "", after: str = "") -> list[tuple[str, bool]]:
    """What a listing holds: each key, or common prefix (`True`), once and in order."""
    entries = set()
    for key in keys:
        if not key.startswith(prefix):
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        folded = key[: cut + len(delimiter)] if cut >= 0 else key
        # A listing that goes on after a common prefix leaves out all that is folded into it.
        if key.encode() > after.encode() and folded != after:
            entries.add((folded, cut >= 0))
    return sorted(entries, key=lambda entry: entry[0].encode())
