"""Killed at any moment, under any load, whatever the store does: what was acknowledged is served, and reaches the store.

BLOCKGATE_CRASH_ROUNDS is how many kills; BLOCKGATE_CRASH_SEED repeats a run's load, moments and weather.
"""

import os
import random
import secrets
import time
from pathlib import Path

import pytest
from conftest import MakeGateway, open_store

from lib.buckets import remove_bucket
from lib.gateway import Gateway, s3_client
from lib.history import History
from lib.line import SLOW_PAUSE_S, Line
from lib.load import Client, Load, judge_all
from lib.sigv4 import Credentials
from lib.staging import assert_no_crash, staging, wait_until_uploaded

ROUNDS = int(os.environ.get("BLOCKGATE_CRASH_ROUNDS", "6"))
SEED = os.environ.get("BLOCKGATE_CRASH_SEED") or secrets.token_hex(4)
STORES = ["fs", "seaweedfs"]
BUCKET = f"kv-crash-{secrets.token_hex(4)}"
WEATHER = ["up", "up", "down", "slow"]
PATIENT = {"timeout": "30s", "attempt_timeout": "10s", "connect_timeout": "500ms"}
"""A call that was given up may still reach the store, after a later one: a slow store must not be taken for one that is away."""
SETTINGS = {"capacity": "96MiB", "segment": "8MiB"}

pytestmark = pytest.mark.timeout(120 + 20 * ROUNDS)


class Sky:
    """The weather between a gateway and its store."""

    def __init__(self, line: Line, history: History) -> None:
        self.line = line
        self.history = history
        self.now = "up"

    def turn(self, weather: str) -> None:
        """Changes it. A folder is always up."""
        if self.line.proxy is None or weather == self.now:
            return
        if weather == "down":
            self.line.cut()
            self.history.store_is_gone()
        elif self.now == "down":
            self.history.store_is_back(surely=False)
            self.line.mend()
        if weather == "slow":
            self.history.store_is_slow()
        self.line.proxy.pause_s = SLOW_PAUSE_S if weather == "slow" else 0.0
        self.now = weather

    def forget(self) -> None:
        """What a dead gateway still had on its way is lost."""
        if self.line.proxy and self.now != "down":
            self.line.cut()
            self.line.mend()


def survive(gateway: Gateway, sky: Sky, client: Client, generator: random.Random, turn: int) -> dict[str, int]:
    """One round: load, a change of weather, a kill, perhaps one more while it recovers, and everything is read."""
    load = Load(gateway, BUCKET, sky.history, f"{SEED} {turn}", may_vanish=True).start()
    time.sleep(generator.uniform(0.05, 0.5))
    sky.turn(generator.choice(WEATHER))
    time.sleep(generator.uniform(0.05, 0.7))
    gateway.kill()
    sky.forget()
    load.stop()
    sky.turn(generator.choice(WEATHER))
    if generator.random() < 0.3:
        gateway.start(wait=False)
        time.sleep(generator.uniform(0.0, 0.1))
        gateway.kill()
        sky.forget()
    gateway.start(ready=sky.now != "down")
    if sky.now == "up":
        sky.history.store_is_back()
    return judge_all(client, sky.history)


@pytest.mark.parametrize("name", STORES)
def test_killed_under_load(name: str, make_gateway: MakeGateway, tmp_path: Path) -> None:
    print(f"BLOCKGATE_CRASH_SEED={SEED}")
    generator = random.Random(f"{SEED} {name}")
    line = Line(open_store(name, tmp_path), PATIENT)
    gateway = make_gateway(line.store, staging(tmp_path / "staging", **SETTINGS))
    history = History()
    client = Client(gateway, BUCKET, history)
    client.s3.create_bucket(Bucket=BUCKET)
    sky = Sky(line, history)
    tiers: dict[str, int] = {}
    for turn in range(ROUNDS):
        for tier, count in survive(gateway, sky, client, generator, turn).items():
            tiers[tier] = tiers.get(tier, 0) + count
    sky.turn("up")
    gateway.wait_for("/readyz")
    wait_until_uploaded(gateway)
    gateway.restart()
    history.store_is_back()
    judge_all(client, history)
    assert gateway.stop() == 0
    print(f"{history.acknowledged} operations acknowledged, {history.judged} answers judged, {tiers}")
    assert_no_crash(gateway)
    assert history.acknowledged >= 10 * ROUNDS, "hardly anything was written before the kills"
    assert tiers.get("staging", 0) >= ROUNDS, f"hardly anything came from staging: {tiers}"
    judge_at_the_store(line, make_gateway, history)
    if line.proxy:
        line.proxy.close()


def judge_at_the_store(line: Line, make_gateway: MakeGateway, history: History) -> None:
    """The store has what the gateway had: as another gateway sees it that has no log, and as it is."""
    plain = make_gateway(line.store)
    judge_all(Client(plain, BUCKET, history), history)
    if line.proxy:
        direct = Client(plain, BUCKET, history)
        settings = line.store.settings
        direct.s3 = s3_client(settings["endpoint"], Credentials(settings["access_key"], settings["secret_key"]))
        for key in history.all_keys():
            try:
                found = direct.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            except direct.s3.exceptions.NoSuchKey:
                history.judge_miss(key, history.floor(key), "absent")
            else:
                history.judge_block(key, history.floor(key), found)
    remove_bucket(plain.s3(), BUCKET)
    plain.close()
