"""Runs the engines' own clients, each in its own Python environment and its own process."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lib.gateway import ROOT

DRIVERS = Path(__file__).parent / "drivers"
DRIVER_SECONDS_MAX = 300
ENVIRONMENTS = {"nixl_obj": "engines-nixl", "vllm_keys": "engines-vllm"}

Drive = Callable[[str, str, dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="session")
def drive() -> Drive:
    """Runs a phase of a driver: `drive("lmcache_mp", "store", settings)` returns what it printed."""

    def run(driver: str, phase: str, settings: dict[str, Any]) -> dict[str, Any]:
        environment = ENVIRONMENTS.get(driver, "engines-lmcache")
        done = subprocess.run(
            [ROOT / ".cache" / environment / "bin/python", DRIVERS / f"{driver}.py", phase, json.dumps(settings)],
            capture_output=True,
            text=True,
            timeout=DRIVER_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    return run
