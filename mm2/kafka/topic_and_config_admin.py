"""Implements `Admin` (topics, partitions and configs) without librdkafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import (
    ErrorAdvice,
    NotAuthorizedError,
    UnreachableError,
)
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from mm2.kafka.kafka_client_interfaces import PerTopicResult, TopicConfigs, TopicDescription
from mm2.topics.mirror_topic_plan import ConfigEntry, ConfigEntrySource

T = TypeVar("T")

_TOPICS_PER_REQUEST = 250
_NO_TOPIC_ID = uuid.UUID(int=0)

_ADVICE: Mapping[int, ErrorAdvice] = {
    int(ErrorCode.invalid_replication_factor): (
        FatalError,  # concerns one topic only: reported, others continue
        "set a replication.factor of at most the number of brokers",
    ),
    int(ErrorCode.invalid_config): (
        FatalError,
        "correct the property, or exclude it with config.properties.exclude",
    ),
}


class KafkaAdmin:
    """Implements `Admin`, where the methods are documented. Connects on first use. Not
    thread-safe."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        topics_per_request: int = _TOPICS_PER_REQUEST,
        is_shutting_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the client without connecting. Once `is_shutting_down` returns True, calls
        promptly raise `RetriableError`."""
        self._clock = clock
        self._chunk = topics_per_request
        self._where = access.name_and_addresses
        self._client = AdminClient(
            access, client_id=client_id, clock=clock, is_cancelled=is_shutting_down
        )

    def read_cluster_id(self, timeout_s: float) -> str:
        """Return the Kafka cluster id."""
        return self._client.read_cluster_id(timeout_s)

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        return self._client.list_topics(timeout_s)

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        found = self._client.describe_topics(sorted(set(names)), timeout_s)
        return self._convert_to_per_topic_result(
            found, doing="describing topic", read=_convert_to_topic_description
        )

    def read_topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicConfigs]:
        found = self._client.describe_topic_configs(sorted(set(names)), timeout_s)
        return self._convert_to_per_topic_result(
            found, doing="reading configs of", read=_convert_to_topic_configs
        )

    def read_broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        end = self._create_deadline(timeout_s)
        brokers = self._client.list_brokers(timeout_s)
        for tried, broker in enumerate(brokers, start=1):
            left_s = end.remaining_s(self._clock.now_s())
            last = tried == len(brokers)
            try:
                return self._read_broker_configs(broker, names, left_s if last else left_s / 2)
            except UnreachableError:  # a dead broker may still be listed
                if last:
                    raise
        raise UnreachableError(
            f"{self._where} lists no brokers; check that its brokers are running"
        )

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> PerTopicResult[None]:
        by_name = {topic.name: topic for topic in topics}

        def request_creation(chunk: Sequence[str], left_s: float) -> Mapping[str, Any]:
            return self._client.create_topics(
                [by_name[name] for name in chunk], left_s, validate_only=validate_only
            )

        return self._send_topic_changes(
            by_name, request_creation, timeout_s, doing="creating topic"
        )

    def add_partitions(
        self, partitions: Mapping[str, int], timeout_s: float
    ) -> PerTopicResult[None]:
        def request_new_partitions(chunk: Sequence[str], left_s: float) -> Mapping[str, Any]:
            return self._client.create_partitions(
                {name: partitions[name] for name in chunk}, left_s
            )

        end = self._create_deadline(timeout_s)
        grown = self._send_topic_changes(
            partitions, request_new_partitions, timeout_s, doing="adding partitions to"
        )
        if not grown.failed:
            return grown
        # Kafka refuses to increase to the present count; another process may have been faster.
        described = self.describe_topics(list(grown.failed), end.remaining_s(self._clock.now_s()))
        enough = {
            name: None
            for name, topic in described.succeeded.items()
            if topic.partition_count >= partitions[name]
        }
        failed = {name: error for name, error in grown.failed.items() if name not in enough}
        return PerTopicResult(succeeded={**grown.succeeded, **enough}, failed=failed)

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopicResult[None]:
        def request_config_changes(chunk: Sequence[str], left_s: float) -> Mapping[str, Any]:
            return self._client.alter_topic_configs({name: changes[name] for name in chunk}, left_s)

        return self._send_topic_changes(
            changes, request_config_changes, timeout_s, doing="changing configs of"
        )

    def close(self) -> None:
        self._client.close()

    def _read_broker_configs(
        self, broker: int, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        found = self._client.describe_broker_configs(broker, timeout_s)
        if found.error_code:
            doing = f"reading configs of broker {broker}"
            failure = self._client.translate_response_error(found, doing, _ADVICE)
            if isinstance(failure, NotAuthorizedError):
                return None
            raise failure
        entries = _convert_to_topic_configs(found)
        return {name: entries[name].value if name in entries else None for name in names}

    def _convert_to_per_topic_result(
        self, found: Mapping[str, Any], *, doing: str, read: Callable[[Any], T]
    ) -> PerTopicResult[T]:
        """Convert the topic entities of a response to results per topic. Entities with an error
        code become errors."""
        return PerTopicResult(
            succeeded={name: read(each) for name, each in found.items() if not each.error_code},
            failed={
                name: self._client.translate_response_error(each, f"{doing} {name}", _ADVICE)
                for name, each in found.items()
                if each.error_code
            },
        )

    def _send_topic_changes(
        self,
        names: Iterable[str],
        request: Callable[[Sequence[str], float], Mapping[str, Any]],
        timeout_s: float,
        *,
        doing: str,
    ) -> PerTopicResult[None]:
        """Send requests that change topics, each for a limited number of topics. A request that is
        rejected as a whole is split to find the topic that caused the error."""
        end = self._create_deadline(timeout_s)
        found: dict[str, Any] = {}
        chunks = _split_into_chunks(sorted(set(names)), self._chunk)
        while chunks:
            chunk = chunks.pop()
            entities = request(chunk, max(0.01, end.remaining_s(self._clock.now_s())))
            if len(chunk) > 1 and _is_whole_request_rejected(entities.values()):
                chunks += _split_into_chunks(chunk, (len(chunk) + 1) // 2)
            else:
                found.update(entities)
        return self._convert_to_per_topic_result(found, doing=doing, read=_discard_result)

    def _create_deadline(self, timeout_s: float) -> Deadline:
        return Deadline.after(timeout_s, now_s=self._clock.now_s())


def _split_into_chunks(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _is_whole_request_rejected(entities: Iterable[Any]) -> bool:
    return all(client_errors.is_whole_request_error_code(int(each.error_code)) for each in entities)


def _discard_result(_: object) -> None:
    return None


def _convert_to_topic_description(topic: Any) -> TopicDescription:
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


def _convert_to_topic_configs(found: Any) -> TopicConfigs:
    return {
        str(entry.name): ConfigEntry(
            value=entry.value,
            source=_convert_to_config_source(int(entry.config_source)),
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
        )
        for entry in found.configs
    }


def _convert_to_config_source(number: int) -> ConfigEntrySource:
    try:
        return ConfigEntrySource(number)
    except ValueError:
        return ConfigEntrySource.UNKNOWN
