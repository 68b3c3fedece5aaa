"""Clients of a gateway that do a bit of everything, and judge every answer."""

import json
import math
import random
import threading
from typing import Any

from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)

from lib.gateway import Gateway
from lib.history import LENGTH_MIN, History, Step, Wrong, content
from lib.kv import Kv, encode, put_frames
from lib.raw import Closed

UNREACHABLE = (EndpointConnectionError, HTTPClientError, IncompleteReadError, ResponseStreamingError, Closed, OSError)
"""The gateway is gone."""
REFUSALS = (503, 507)
"""How a write is refused that can't be made now. It may yet have happened."""


def some_length(generator: random.Random, largest: int) -> int:
    """Any magnitude alike; often just beside a whole page."""
    if generator.random() < 0.2:
        return max(LENGTH_MIN, (generator.randrange(1, 17) << 12) + generator.choice([-1, 0, 1]))
    return int(math.exp(generator.uniform(math.log(LENGTH_MIN), math.log(largest))))


def reason(error: ClientError) -> str:
    """Why a read missed; raises what is not a miss."""
    headers = error.response["ResponseMetadata"]["HTTPHeaders"]
    if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
        raise Wrong(f"a read is answered with an error: {error}") from error
    return str(headers.get("x-kv-miss"))


class Client:
    """One thread's way to the bucket."""

    def __init__(self, gateway: Gateway, bucket: str, history: History) -> None:
        self.s3 = gateway.s3(read_timeout=60)
        self.kv = Kv(gateway, bucket)
        self.bucket = bucket
        self.history = history
        self.refused = 0

    def close(self) -> None:
        """Hangs up."""
        self.s3.close()

    def put(self, key: str, length: int) -> None:
        """Stores a block."""
        step = self.history.begin(key, length)
        body = content(key, step.number, length)
        self._acknowledged([step], self.s3.put_object, Key=key, Body=body)

    def delete(self, key: str) -> None:
        """Removes it."""
        self._acknowledged([self.history.begin(key, None)], self.s3.delete_object, Key=key)

    def _acknowledged(self, steps: list[Step], call: Any, **arguments: Any) -> None:
        try:
            call(Bucket=self.bucket, **arguments)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in REFUSALS:
                raise Wrong(f"{call.__name__} of {arguments.get('Key')}: {error}") from error
            self.refused += 1
        else:
            self.history.acknowledge(steps)

    def put_many(self, lengths: dict[str, int]) -> None:
        """Stores blocks by one request."""
        steps = {key: self.history.begin(key, length) for key, length in lengths.items()}
        bodies = {key: content(key, step.number, step.length or 0) for key, step in steps.items()}
        answer = self.kv.ask("put", encode(put_frames(bodies)))
        if answer.status in REFUSALS:
            self.refused += 1
            return
        results = json.loads(answer.body)["results"]
        self.history.acknowledge(
            step for step, result in zip(steps.values(), results, strict=True) if result["status"] == 200
        )

    def get(self, key: str) -> str:
        """Reads a block, and judges what comes; its tier, or why there is none."""
        floor = self.history.floor(key)
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            miss = reason(error)
            self.history.judge_miss(key, floor, miss)
            return miss
        tier = str(answer["ResponseMetadata"]["HTTPHeaders"].get("x-kv-tier"))
        try:
            self.history.judge_block(key, floor, answer["Body"].read())
        except Wrong as wrong:
            raise Wrong(f"{wrong} (from {tier})") from wrong
        return tier

    def list(self, prefix: str) -> None:
        """Lists what this thread alone changes, and judges it. Without the store there is no listing."""
        listed: dict[str, int] = {}
        try:
            for page in self.s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, PaginationConfig={"PageSize": 5}
            ):
                listed |= {entry["Key"]: entry["Size"] for entry in page.get("Contents", [])}
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                raise Wrong(f"a listing is answered with an error: {error}") from error
            return
        self.history.judge_list(prefix, listed)


class Load:
    """Writers, each with keys of its own, and readers of everything; they end with the gateway or by `stop`."""

    def __init__(
        self,
        gateway: Gateway,
        bucket: str,
        history: History,
        seed: str,
        *,
        writers: int = 4,
        readers: int = 2,
        keys: int = 8,
        largest: int = 4 << 20,
        may_vanish: bool = False,
    ) -> None:
        self.history = history
        self.keys = keys
        self.largest = largest
        self.may_vanish = may_vanish
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.clients = [Client(gateway, bucket, history) for _ in range(writers + readers)]
        self.threads = [
            threading.Thread(target=self._run, args=(index, index < writers, f"{seed} {index}"))
            for index in range(writers + readers)
        ]

    def start(self) -> "Load":
        """Begins."""
        for thread in self.threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Ends, and fails if any answer was wrong."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for client in self.clients:
            client.close()
        for failure in self.failures:
            raise failure

    def _run(self, index: int, writes: bool, seed: str) -> None:
        generator = random.Random(seed)
        client = self.clients[index]
        try:
            while not self.stopping.is_set():
                if writes:
                    self._write(client, f"w{index}", generator)
                elif keys := self.history.all_keys():
                    client.get(generator.choice(keys))
        except UNREACHABLE as error:
            if not self.may_vanish:
                self.failures.append(error)
        except BaseException as error:
            self.failures.append(error)
            self.stopping.set()

    def _write(self, client: Client, prefix: str, generator: random.Random) -> None:
        key = f"{prefix}/{generator.randrange(self.keys)}"
        dice = generator.random()
        if dice < 0.6:
            client.put(key, some_length(generator, self.largest))
        elif dice < 0.7:
            names = [f"{prefix}/{number}" for number in generator.sample(range(self.keys), 3)]
            client.put_many({name: some_length(generator, self.largest // 16) for name in names})
        elif dice < 0.8:
            client.delete(key)
        elif dice < 0.95:
            if key in self.history.lives:
                client.get(key)
        else:
            client.list(f"{prefix}/")


def judge_all(client: Client, history: History) -> dict[str, int]:
    """Reads every key and judges it; how many came from which tier, or missed why."""
    tiers: dict[str, int] = {}
    for key in history.all_keys():
        tier = client.get(key)
        tiers[tier] = tiers.get(tier, 0) + 1
    return tiers
