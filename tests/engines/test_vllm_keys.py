"""Block keys of `blockgate-api` are vLLM's: the vectors that its Rust tests read are what the released package computes."""

import json
import os

from lib.gateway import ROOT

from .conftest import Drive

VECTORS = ROOT / "openapi/tests/vectors/vllm.json"
MEND = "UPDATE=1 tests/engines/run -k vllm"


def test_vectors_are_the_released_packages(drive: Drive) -> None:
    """What is committed is what vLLM says; with UPDATE set it is written anew."""
    computed = drive("vllm_keys", "vectors", {})
    text = "[\n" + ",\n".join(json.dumps(case) for case in computed["cases"]) + "\n]"
    text = f'{{"vllm": "{computed["vllm"]}", "cases": {text}}}\n'
    if "UPDATE" in os.environ:
        VECTORS.write_text(text)
    assert VECTORS.read_text() == text, f"mend with: {MEND}"
