"""Scenarios of MirrorMaker 2's own integration tests that are shown nowhere else, on our worker:
testReplicateFromLatest, testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import httpx
import pytest

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import EraKey
from tests.support import checkpoints, eventually, kafka
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Outgoing

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 120.0
NAME = "mirror"
_UNIQUE = itertools.count(1)


class Mirrored:
    """A flow of its own on a worker of its own; values are numbers, each written once."""

    def __init__(self, source: SandboxCluster, target: SandboxCluster, worker: Worker) -> None:
        self.source, self.target = (
            dict(source.client_properties()),
            target.client_properties(),
        )
        self.worker = worker
        number = next(_UNIQUE)
        self.aliases = (f"peer{number}", f"mine{number}")
        self.config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "topics": f"peer{number}-.*",
            "source.cluster.alias": self.aliases[0],
            "target.cluster.alias": self.aliases[1],
            **{f"source.cluster.{name}": value for name, value in self.source.items()},
            **{f"target.cluster.{name}": value for name, value in self.target.items()},
            "replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
            "mm2.engine": "inline",
        }

    def topic(self, name: str) -> str:
        full = f"{self.aliases[0]}-{name}"
        kafka.create_topic(self.source, full)
        return full

    def write(self, topic: str, *numbers: int) -> None:
        kafka.produce(self.source, topic, [Outgoing(value=b"%d" % each) for each in numbers])

    def configure(self, **more: str) -> None:
        """`more`: `_` for `.`; returns once its one task runs."""
        named = {name.replace("_", "."): value for name, value in more.items()}
        factor = {"offset-syncs.topic.replication.factor": "1"}
        self.worker.configure(NAME, {**self.config, **factor, **named})
        eventually.eventually(
            lambda: self.worker.runs(NAME), WAIT_S, self.worker.log_text, interval_s=0.3
        )

    def arrives(self, topic: str, *numbers: int) -> None:
        """These and no others, in this order."""
        mirror = f"{self.aliases[0]}.{topic}"

        def found() -> list[int]:
            return [int(each.value or b"-1") for each in kafka.read_partition(self.target, mirror)]

        def arrived() -> bool:
            assert found() == list(numbers)
            return True

        eventually.eventually(arrived, WAIT_S, self.worker.log_text, interval_s=0.5)

    def begins(self) -> None:
        """Returns once its copy knows from where on it copies."""
        topic = f"mm2-offset-map.{self.aliases[0]}.internal"
        eventually.eventually(
            lambda: any(
                isinstance(offset_map_records.decode_map_key(each.key or b""), EraKey)
                for each in kafka.read_partition(self.target, topic)
            ),
            WAIT_S,
            self.worker.log_text,
            interval_s=0.3,
        )


@pytest.fixture
def mirrored(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> Mirrored:
    return Mirrored(west, east, connect_group().start("one", Kind.OURS))


def test_from_latest_on_only_what_comes_later_is_mirrored(mirrored: Mirrored) -> None:
    topic = mirrored.topic("before")
    mirrored.write(topic, 1, 2, 3)
    mirrored.configure(consumer_auto_offset_reset="latest")
    mirrored.begins()
    mirrored.write(topic, 4, 5)
    mirrored.arrives(topic, 4, 5)
    later = mirrored.topic("after")
    mirrored.write(later, 6, 7)
    mirrored.arrives(later, 6, 7)  # Java would lose what came before it had seen the topic


def test_without_offset_syncs_there_is_no_topic_and_no_checkpoint(mirrored: Mirrored) -> None:
    topic = mirrored.topic("plain")
    mirrored.write(topic, 1, 2)
    mirrored.worker.configure(NAME, {**mirrored.config, "emit.offset-syncs.enabled": "false"})
    mirrored.arrives(topic, 1, 2)
    for client in (mirrored.source, mirrored.target):
        assert not [each for each in kafka.topics(client) if syncs_of(each, mirrored.aliases)]
    points: Mapping[str, str] = checkpoints.config(
        mirrored.source, dict(mirrored.target), aliases=mirrored.aliases
    )
    answer = mirrored.worker.ask(
        "PUT", "/connectors/points/config", {**points, "emit.offset-syncs.enabled": "false"}
    )
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert "without offset syncs" in answer.text


def syncs_of(topic: str, aliases: tuple[str, str]) -> bool:
    return topic in {f"mm2-offset-syncs.{each}.internal" for each in aliases}
