"""Implements `Admin` with confluent-kafka's AdminClient: topics, partitions and configs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.timing import Clock
from connect_runtime.kafka.client_errors import (
    ErrorAdvice,
    NotAuthorizedError,
    UnreachableError,
    UnsupportedByBrokersError,
)
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.kafka.batched_admin_requests import BatchedAdminClient
from mm2.kafka.client_interfaces import (
    ConfigChange,
    NewTopic,
    PerTopicResult,
    TopicConfigs,
    TopicDescription,
)
from mm2.topics.mirror_plan import ConfigEntry, ConfigEntrySource

T = TypeVar("T")

_TOPICS_PER_REQUEST = 250
_NO_TOPIC_ID = uuid.UUID(int=0)
_BROKER_DEFAULT = -1

_Futures = Mapping[str, "futures.Future[Any]"]
_ADVICE: Mapping[int, ErrorAdvice] = {
    confluent_kafka.KafkaError.INVALID_REPLICATION_FACTOR: (
        FatalError,  # concerns one topic only: reported, others continue
        "set a replication.factor of at most the number of brokers",
    ),
    confluent_kafka.KafkaError.INVALID_CONFIG: (
        FatalError,
        "correct the property, or exclude it with config.properties.exclude",
    ),
}


class KafkaAdmin:
    """Implementation of `Admin` with confluent-kafka's AdminClient."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        topics_per_request: int = _TOPICS_PER_REQUEST,
        is_shutting_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the client. After `is_shutting_down` returns True, calls promptly raise
        `RetriableError`."""
        self._clock = clock
        self._chunk = topics_per_request
        self._calls = BatchedAdminClient(
            access,
            client_id=client_id,
            clock=clock,
            is_shutting_down=is_shutting_down,
            advice=_ADVICE,
        )

    def cluster_id(self, timeout_s: float) -> str:
        """Return the cluster id. `Admin` documents this method and the methods below."""
        return self._calls.metadata.read_cluster_id(timeout_s)

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        return self._calls.metadata.list_topics(timeout_s)

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        found = self._calls.metadata.describe_topics(sorted(set(names)), timeout_s)
        return self._convert_entities(found, doing="describing topic", read=_to_description)

    def topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicConfigs]:
        found = self._calls.metadata.describe_topic_configs(sorted(set(names)), timeout_s)
        return self._convert_entities(found, doing="reading configs of", read=_to_topic_configs)

    def broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        end = self._calls.create_deadline(timeout_s)
        brokers = self._calls.metadata.list_brokers(timeout_s)
        for tried, broker in enumerate(brokers, start=1):
            left_s = end.remaining_s(self._clock.now_s())
            last = tried == len(brokers)
            try:
                return self._read_broker_configs(broker, names, left_s if last else left_s / 2)
            except UnreachableError:  # a dead broker may still be listed
                if last:
                    raise
        raise UnreachableError(
            f"{self._calls.where} lists no brokers; check that its brokers are running"
        )

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> PerTopicResult[None]:
        specs = {topic.name: topic for topic in topics}

        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            return self._calls.client.create_topics(
                [_to_library_topic(specs[name]) for name in chunk],
                request_timeout=left_s,
                operation_timeout=left_s,
                validate_only=validate_only,
            )

        created = self._send_batched(
            specs, request, timeout_s, doing="creating topic", read=_discard_result
        )
        failed = {
            name: _explain_missing_default(error)
            if specs[name].replication_factor is None
            else error
            for name, error in created.failed.items()
        }
        return PerTopicResult(succeeded=created.succeeded, failed=failed)

    def add_partitions(
        self, partitions: Mapping[str, int], timeout_s: float
    ) -> PerTopicResult[None]:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            return self._calls.client.create_partitions(
                [library.NewPartitions(name, partitions[name]) for name in chunk],
                request_timeout=left_s,
                operation_timeout=left_s,
            )

        end = self._calls.create_deadline(timeout_s)
        grown = self._send_batched(
            partitions, request, timeout_s, doing="adding partitions to", read=_discard_result
        )
        if not grown.failed:
            return grown
        # Kafka refuses to increase to the present count; another process may have been faster.
        described = self.describe_topics(list(grown.failed), end.remaining_s(self._clock.now_s()))
        enough = {
            name: None
            for name, topic in described.succeeded.items()
            if topic.partitions >= partitions[name]
        }
        failed = {name: error for name, error in grown.failed.items() if name not in enough}
        return PerTopicResult(succeeded={**grown.succeeded, **enough}, failed=failed)

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopicResult[None]:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            resources = [_to_alter_request(name, changes[name]) for name in chunk]
            return _key_by_name(
                self._calls.client.incremental_alter_configs(resources, request_timeout=left_s)
            )

        return self._send_batched(
            changes, request, timeout_s, doing="changing configs of", read=_discard_result
        )

    def close(self) -> None:
        self._calls.close()

    def _read_broker_configs(
        self, broker: int, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        metadata = self._calls.metadata
        found = metadata.describe_broker_configs(broker, timeout_s)
        if found.error_code:
            doing = f"reading configs of broker {broker}"
            failure = metadata.translate_error(int(found.error_code), doing, _ADVICE)
            if isinstance(failure, NotAuthorizedError):
                return None
            raise failure
        entries = _to_topic_configs(found)
        return {name: entries[name].value if name in entries else None for name in names}

    def _convert_entities(
        self, found: Mapping[str, Any], *, doing: str, read: Callable[[Any], T]
    ) -> PerTopicResult[T]:
        """Convert the topic entities of a response to results; entities may have error codes."""
        translate = self._calls.metadata.translate_error
        return PerTopicResult(
            succeeded={name: read(each) for name, each in found.items() if not each.error_code},
            failed={
                name: translate(int(each.error_code), f"{doing} {name}", _ADVICE)
                for name, each in found.items()
                if each.error_code
            },
        )

    def _send_batched(
        self,
        names: Iterable[str],
        request: Callable[[Sequence[str], float], _Futures],
        timeout_s: float,
        *,
        doing: str,
        read: Callable[[Any], T],
    ) -> PerTopicResult[T]:
        done, failed = self._calls.send_batched_requests(
            names, request, timeout_s, operation=doing, read=read, batch_size=self._chunk
        )
        return PerTopicResult(succeeded=done, failed=failed)


def _key_by_name(waiting: Mapping[library.ConfigResource, futures.Future[Any]]) -> _Futures:
    return {resource.name: future for resource, future in waiting.items()}


def _discard_result(_: object) -> None:
    return None


def _to_description(topic: Any) -> TopicDescription:
    """Convert the topic entity of a metadata response, which has no topic id before version 10."""
    topic_id: uuid.UUID | None = getattr(topic, "topic_id", None)
    leaders = (
        int(each.leader_id)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    )
    return TopicDescription(
        name=str(topic.name),
        topic_id=None if topic_id == _NO_TOPIC_ID else topic_id,
        leaders=tuple(None if each < 0 else each for each in leaders),
    )


def _to_topic_configs(found: Any) -> TopicConfigs:
    return {
        str(entry.name): ConfigEntry(
            value=entry.value,
            source=_to_config_source(int(entry.config_source)),
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
        )
        for entry in found.configs
    }


def _to_config_source(number: int) -> ConfigEntrySource:
    try:
        return ConfigEntrySource(number)
    except ValueError:
        return ConfigEntrySource.UNKNOWN


def _to_library_topic(topic: NewTopic) -> library.NewTopic:
    factor = topic.replication_factor
    return library.NewTopic(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=_BROKER_DEFAULT if factor is None else factor,
        config=dict(topic.configs),
    )


def _explain_missing_default(error: ConnectError) -> ConnectError:
    """Explain that brokers before Kafka 2.4 (KIP-464) need an explicit replication factor."""
    if not isinstance(error, UnsupportedByBrokersError):
        return error
    return UnsupportedByBrokersError(
        f"{error}: brokers before Kafka 2.4 do not support -1 (broker default); set "
        "replication.factor to a number"
    )


def _to_alter_request(name: str, change: ConfigChange) -> library.ConfigResource:
    operations = [
        library.ConfigEntry(key, value, incremental_operation=library.AlterConfigOpType.SET)
        for key, value in sorted(change.set.items())
    ]
    operations += [
        library.ConfigEntry(key, None, incremental_operation=library.AlterConfigOpType.DELETE)
        for key in sorted(change.delete)
    ]
    return library.ConfigResource(library.ResourceType.TOPIC, name, incremental_configs=operations)
