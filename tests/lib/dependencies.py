"""Checks the workspace's dependencies against deny.toml: licences, banned crates, sources.

Runs `cargo deny` where it is installed. Elsewhere reads the same file itself, since building cargo-deny takes longer than
everything else that `make lint` does; what that leaves unchecked is said aloud.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def licence_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression (`/` is the old way to write OR) can be satisfied by allowed licences alone."""
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)

    def either() -> bool:
        value = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            value = both() or value
        return value

    def both() -> bool:
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one() -> bool:
        token = tokens.pop(0)
        if token == "(":
            value = either()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token = f"{token} WITH {tokens.pop(0)}"
        return token in allowed

    return either()


def version(text: str) -> tuple[int, ...]:
    """The numbers of a version, for comparing."""
    return tuple(int(part) for part in re.findall(r"\d+", text.split("-")[0].split("+")[0]))


def banned(package: dict[str, Any], rules: list[dict[str, str]]) -> bool:
    """Whether a rule `name` or `name:<version` of deny.toml forbids the package."""
    for rule in rules:
        name, _, below = rule["crate"].partition(":<")
        if package["name"] == name and (not below or version(package["version"]) < version(below)):
            return True
    return False


def complaints(metadata: dict[str, Any], rules: dict[str, Any]) -> list[str]:
    """What is wrong, a line for each."""
    allowed = set(rules["licenses"]["allow"])
    sources = {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
    found = []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        ours = package["source"] is None
        if not ours and not licence_allowed(package["license"] or "none", allowed):
            found.append(f"{name}: the licence {package['license']!r} is not allowed")
        if not ours and package["source"] not in sources:
            found.append(f"{name}: comes from {package['source']}")
        if banned(package, rules["bans"]["deny"]):
            found.append(f"{name}: is banned")
        if ours:
            wild = [d["name"] for d in package["dependencies"] if d["req"] == "*" and "path" not in d]
            found.extend(f"{name}: any version of {dependency} would do" for dependency in wild)
    return found


def main() -> int:
    """Exit status: 0 when nothing is wrong."""
    if shutil.which("cargo-deny"):
        return subprocess.call(["cargo", "deny", "check", "licenses", "bans", "sources"], cwd=ROOT)
    print(
        "*** SKIPPED: cargo deny is not installed: its advisories are not checked; licences, bans and sources are ***"
    )
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    found = complaints(metadata, tomllib.loads((ROOT / "deny.toml").read_text()))
    print("\n".join(found) or f"{len(metadata['packages'])} packages: licences, bans and sources are as deny.toml says")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
