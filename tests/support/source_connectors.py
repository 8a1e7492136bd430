"""MirrorSourceConnector on real clusters without a worker: what it answers is what is published."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.topic_requests import ConfigChange
from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.connectors.source_connector import MirrorSourceConnector
from mm2.topics import mirror_topic_plan
from mm2.topics.mirror_topic_plan import ConfigEntrySource
from tests.fakes.plugin_contexts import Context
from tests.support import cluster_access, eventually

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
WAIT_S = 60.0
OURS = frozenset(mirror_topic_plan.TIMESTAMP_BOUND_CONFIGS)
"""Settings that only our mirrors have: bounds of record timestamps are set wide."""
_Client = Mapping[str, str]


def config(
    source: _Client, target: _Client, *, aliases: tuple[str, str], **more: str
) -> dict[str, str]:
    """A connector's; everything once a second. `more`: `_` for `.`."""
    return {
        "name": "copies",
        "connector.class": CLASS,
        "tasks.max": "3",
        "source.cluster.alias": aliases[0],
        "target.cluster.alias": aliases[1],
        **{f"source.cluster.{name}": value for name, value in source.items()},
        **{f"target.cluster.{name}": value for name, value in target.items()},
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.interval.seconds": "1",
        "heartbeats.replication.enabled": "false",  # others may have left some on a shared cluster
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@dataclass
class _Context(Context):
    """Waits take their time."""

    stopped: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout_s: float) -> bool:
        return self.stopped.wait(timeout_s)


class Running:
    """One instance; as a context manager it is stopped at the end."""

    def __init__(self, props: Mapping[str, str], *, published: Any = ()) -> None:
        self.props = dict(props)
        time: Any = SystemClock()
        self.context = _Context(clock=time, published=list(published))
        self.connector = MirrorSourceConnector()
        self.connector.initialize(self.context)

    def __enter__(self) -> Self:
        try:
            self.connector.start(self.props)
        except BaseException:
            self.connector.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.connector.stop()
        assert self.context.errors == []

    def publish(self) -> list[Mapping[str, str]]:
        """As a herder does that was asked to."""
        self.context.published = list(self.connector.task_configs(int(self.props["tasks.max"])))
        return self.context.published

    def shares(self) -> list[str]:
        return [each["task.assigned.partitions"] for each in self.publish()]

    def asks(self, times: int) -> None:
        """It has asked so often that its tasks be told anew."""
        eventually.eventually(
            lambda: self.context.reconfigurations >= times,
            WAIT_S,
            f"reconfiguration {times} is asked for",
        )

    def stays_quiet(self, duration_s: float) -> bool:
        """It asks for nothing for so long."""
        before = self.context.reconfigurations
        return not system_clock.wait_until(
            lambda: self.context.reconfigurations > before, timeout_s=duration_s
        )


class Topics:
    """What topics of a cluster are like, and changes to them."""

    def __init__(self, access: KafkaClusterAccess) -> None:
        self._admin = cluster_access.admin(access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def names(self) -> frozenset[str]:
        return self._admin.list_topics(WAIT_S)

    def partitions(self, name: str) -> int:
        """0: it is not there."""
        found = self._admin.describe_topics([name], WAIT_S).succeeded.get(name)
        return 0 if found is None else found.partition_count

    def overrides(self, name: str) -> dict[str, str | None]:
        """Settings of the topic itself, but for `OURS`."""
        entries = self._admin.read_topic_configs([name], WAIT_S).succeeded.get(name, {})
        return {
            key: each.value
            for key, each in entries.items()
            if each.source is ConfigEntrySource.TOPIC and key not in OURS
        }

    def grow(self, name: str, partitions: int) -> None:
        assert self._admin.add_partitions({name: partitions}, WAIT_S).failed == {}

    def alter(self, name: str, *delete: str, **settings: str) -> None:
        change = ConfigChange(
            set={key.replace("_", "."): value for key, value in settings.items()}, delete=delete
        )
        assert self._admin.alter_configs({name: change}, WAIT_S).failed == {}
