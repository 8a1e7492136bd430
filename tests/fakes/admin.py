"""A cluster's topics in memory, and an `admin.Admin` over them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.kafka.client_errors import (
    TopicExistsError,
    TopicMissingError,
    UnreachableError,
)
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from mm2.kafka.kafka_client_interfaces import PerTopicResult, TopicConfigs, TopicDescription
from mm2.topics.mirror_topic_plan import ConfigEntry, ConfigEntrySource

T = TypeVar("T")

DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000", "compression.type": "producer"}
BROKER = {"producer.id.expiration.ms": "86400000", "transactional.id.expiration.ms": "604800000"}


@dataclass(slots=True, kw_only=True)
class FakeTopic:
    topic_id: uuid.UUID
    partitions: int
    overrides: dict[str, str]
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    leaders: tuple[int | None, ...] = ()


@dataclass(slots=True, kw_only=True)
class FakeCluster:
    """What clients of one cluster share.

    `away`: nobody answers. `failures[operation, topic]`: what this operation answers for the
    topic, with the method's name as operation. `brokers` bounds replication factors.
    """

    topics: dict[str, FakeTopic] = field(default_factory=dict)
    away: bool = False
    brokers: int = 1
    failures: dict[tuple[str, str], ConnectError] = field(default_factory=dict)
    may_describe_brokers: bool = True
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))

    def create(self, name: str, *, partitions: int = 1, **overrides: str) -> FakeTopic:
        configs = {key.replace("_", "."): value for key, value in overrides.items()}
        topic = FakeTopic(topic_id=uuid.uuid4(), partitions=partitions, overrides=configs)
        self.topics[name] = topic
        return topic


class FakeAdmin:
    """Implements `Admin`; nothing takes time."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.calls: list[str] = []

    def read_cluster_id(self, timeout_s: float) -> str:
        self._answer("cluster_id")
        return self._cluster.identity

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        self._answer("list_topics")
        return frozenset(self._cluster.topics)

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        def describe(name: str) -> TopicDescription:
            topic = self._topic(name)
            leaders = topic.leaders or (1,) * topic.partitions
            return TopicDescription(name=name, topic_id=topic.topic_id, leaders=leaders)

        return self._each("describe_topics", names, describe)

    def read_topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicConfigs]:
        def configs(name: str) -> TopicConfigs:
            overrides = self._topic(name).overrides
            found = {
                key: ConfigEntry(value=value, source=ConfigEntrySource.DEFAULT)
                for key, value in DEFAULTS.items()
            }
            for key, value in overrides.items():
                found[key] = ConfigEntry(value=value, source=ConfigEntrySource.TOPIC)
            return found

        return self._each("topic_configs", names, configs)

    def read_broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        self._answer("broker_configs")
        if not self._cluster.may_describe_brokers:
            return None
        return {name: BROKER.get(name) for name in names}

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> PerTopicResult[None]:
        specs = {topic.name: topic for topic in topics}

        def create(name: str) -> None:
            spec = specs[name]
            if name in self._cluster.topics:
                raise TopicExistsError(f"creating topic {name}: it exists")
            if (spec.replication_factor or 1) > self._cluster.brokers:
                raise FatalError(f"creating topic {name}: INVALID_REPLICATION_FACTOR")
            if any(key not in DEFAULTS and "." not in key for key in spec.configs):
                raise FatalError(f"creating topic {name}: INVALID_CONFIG")
            if validate_only:
                return
            self._cluster.topics[name] = FakeTopic(
                topic_id=uuid.uuid4(), partitions=spec.partitions, overrides=dict(spec.configs)
            )

        return self._each("create_topics", specs, create)

    def add_partitions(
        self, partitions: Mapping[str, int], timeout_s: float
    ) -> PerTopicResult[None]:
        def grow(name: str) -> None:
            topic = self._topic(name)
            topic.partitions = max(topic.partitions, partitions[name])

        return self._each("grow_topics", partitions, grow)

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopicResult[None]:
        def alter(name: str) -> None:
            overrides = self._topic(name).overrides
            if "number" in changes[name].set.get("retention.ms", ""):
                raise FatalError(f"changing configs of {name}: INVALID_CONFIG")
            overrides.update(changes[name].set)
            for key in changes[name].delete:
                overrides.pop(key, None)

        return self._each("alter_configs", changes, alter)

    def close(self) -> None:
        self.calls.append("close")

    def _answer(self, operation: str) -> None:
        self.calls.append(operation)
        if self._cluster.away:
            raise UnreachableError(f"{operation}: nobody answers")

    def _topic(self, name: str) -> FakeTopic:
        if name not in self._cluster.topics:
            raise TopicMissingError(f"topic {name} does not exist")
        return self._cluster.topics[name]

    def _each(
        self, operation: str, names: Iterable[str], do: Callable[[str], T]
    ) -> PerTopicResult[T]:
        self._answer(operation)
        done: dict[str, T] = {}
        failed: dict[str, ConnectError] = {}
        for name in sorted(set(names)):
            try:
                if (operation, name) in self._cluster.failures:
                    raise self._cluster.failures[operation, name]
                done[name] = do(name)
            except ConnectError as error:
                failed[name] = error
        return PerTopicResult(succeeded=done, failed=failed)
