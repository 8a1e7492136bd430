"""MirrorHeartbeatConnector in a group of a Java worker and ours: each goes on with the other's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop import java_mirror
from tests.support import eventually, heartbeats, kafka
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Record

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(900)]

JAVA, OURS = Kind.JAVA, Kind.OURS
WAIT_S = 120.0
SOURCE = "distant"
NAME = "beats"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class Beats:
    """The connector of a group, wherever it runs."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def owner(self, at: Worker) -> str | None:
        """Who runs the one task, as `at` has it; None unless all run."""
        if not at.runs(NAME):
            return None
        (task,) = at.get(f"/connectors/{NAME}/status")["tasks"]
        return str(task["worker_id"])

    def run_by(self, worker: Worker) -> None:
        eventually.eventually(
            lambda: self.owner(worker) == worker.address,
            WAIT_S,
            self.group.log_texts,
            interval_s=0.3,
        )

    def tasks(self, at: Worker) -> object:
        return at.get(f"/connectors/{NAME}/tasks")

    def written(self) -> list[Record]:
        return heartbeats.more_come(self.group.client, SOURCE, 3)


def test_its_task_moves_between_java_and_us(
    connect_group: Callable[..., Group], tmp_path: Path
) -> None:
    group = connect_group(
        settings={
            "scheduled.rebalance.max.delay.ms": "0",
            "key.converter": BYTES,
            "value.converter": BYTES,
        }
    )
    beats = Beats(group)
    java = group.start("java", JAVA)
    java.configure(NAME, heartbeats.config(group.client, SOURCE))
    beats.run_by(java)
    of_java = beats.written()
    tasks = beats.tasks(java)
    offsets = java.get(f"/connectors/{NAME}/offsets")

    ours = group.start("ours", OURS)
    assert java.stop() in (0, 143)
    beats.run_by(ours)
    with_ours = beats.written()
    assert with_ours[: len(of_java)] == of_java
    assert beats.tasks(ours) == tasks, "what ours leads it with is what Java did"
    assert ours.get(f"/connectors/{NAME}/offsets") == offsets

    java.start()
    assert ours.stop() in (0, 143)
    beats.run_by(java)
    every = beats.written()
    assert beats.tasks(java) == tasks
    assert java.get(f"/connectors/{NAME}/offsets") == offsets

    agree_with_java(tmp_path, every)
    assert heartbeats.TOPIC in seen_by_javas_client(tmp_path, group)


def agree_with_java(folder: Path, every: list[Record]) -> None:
    """Each is what Java makes of its time, and what Java's clients read."""
    questions: list[dict[str, Any]] = []
    for each in every:
        assert each.key is not None
        assert each.value is not None
        values = [SOURCE, heartbeats.TARGET, each.timestamp]
        questions += [
            {"kind": "write", "type": "heartbeat", "values": values},
            {"kind": "read", "type": "heartbeat", "key": each.key.hex(), "value": each.value.hex()},
        ]
    told = java_mirror.ask(folder, questions)
    for each, made, found in zip(every, told[::2], told[1::2], strict=True):
        assert [each.key.hex(), each.value.hex()] == made
        assert found == [SOURCE, heartbeats.TARGET, each.timestamp]


def seen_by_javas_client(folder: Path, group: Group) -> list[str]:
    """The heartbeats topics that MirrorClient finds there."""
    kafka.create_topic(group.client, f"{SOURCE}.checkpoints.internal")
    (seen,) = java_mirror.ask(
        folder,
        [
            {
                "kind": "live",
                "properties": dict(group.client),
                "alias": SOURCE,
                "farther": "nobody",
                "group": "g",
                "pattern": "g",
            }
        ],
    )
    return list(seen["heartbeats"])
