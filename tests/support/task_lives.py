"""Who ran a connector or task after whom, as the status topic tells it: nobody beside another.

A fold of its own over the raw records, so that what it says depends on no store of the product.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import confluent_kafka

_PREFIXES = ("status-connector-", "status-task-")
_RUNS = ("RUNNING", "PAUSED")
"""It is there, and would do its work twice if it were there twice."""
_SAYS_NOTHING = ("RESTARTING",)
_READ_S = 3.0


@dataclass(frozen=True, slots=True)
class Said:
    """One record; `state` None took the status away."""

    item: str
    state: str | None
    worker_id: str | None


@dataclass(slots=True)
class Lives:
    """`owners`: by item, who runs it; `doubles`: each time that one began beside another."""

    owners: dict[str, str] = field(default_factory=dict)
    doubles: list[str] = field(default_factory=list)
    changes: dict[str, int] = field(default_factory=dict)

    def hear(self, said: Said) -> None:
        """`killed` workers are to be taken out by `gone` when that happens."""
        owner = self.owners.get(said.item)
        if said.state in _SAYS_NOTHING:
            return
        if said.state in _RUNS:
            assert said.worker_id is not None
            if owner not in (None, said.worker_id):
                self.doubles.append(f"{said.item}: {said.worker_id} beside {owner}")
            if owner != said.worker_id:
                self.changes[said.item] = self.changes.get(said.item, 0) + 1
            self.owners[said.item] = said.worker_id
        elif said.state is None or owner == said.worker_id:
            self.owners.pop(said.item, None)

    def gone(self, worker_id: str) -> None:
        self.owners = {item: each for item, each in self.owners.items() if each != worker_id}


def of(records: Iterable[Said]) -> Lives:
    lives = Lives()
    for each in records:
        lives.hear(each)
    return lives


def read(client: Mapping[str, str], topic: str) -> list[Said]:
    """All that the topic holds, of each item in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": client["bootstrap.servers"],
            "group.id": "task-lives",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=10.0).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
        found: list[Said] = []
        waiting = set(partitions)
        while waiting:
            message = consumer.poll(_READ_S)
            assert message is not None, f"{topic} was not read to its end"
            error = message.error()
            if error is None:
                found += _said(message.key(), message.value())
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise AssertionError(error)
        return found
    finally:
        consumer.close()


def _said(key: bytes | None, value: bytes | None) -> list[Said]:
    name = (key or b"").decode()
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            told = {} if value is None else json.loads(value)
            item = name.removeprefix("status-")
            return [Said(item, told.get("state"), told.get("worker_id"))]
    return []
