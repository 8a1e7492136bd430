"""Adapter of `admin.Admin` over confluent-kafka's AdminClient."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.kafka_client import translate_errors
from mm2.cluster import admin, admin_calls
from mm2.core.topics import snapshot

T = TypeVar("T")

_TOPICS_PER_REQUEST = 250
_NO_TOPIC_ID = uuid.UUID(int=0)
_BROKER_DEFAULT = -1

_Futures = Mapping[str, "futures.Future[Any]"]
_ADVICE: Mapping[int, translate_errors.Advice] = {
    confluent_kafka.KafkaError.INVALID_REPLICATION_FACTOR: (
        errors.FatalError,  # of one topic of many: it is told, others go on
        "set a replication.factor of at most the number of brokers",
    ),
    confluent_kafka.KafkaError.INVALID_CONFIG: (
        errors.FatalError,
        "correct the property, or leave it out with config.properties.exclude",
    ),
}


class KafkaAdmin:
    """Implements `admin.Admin`."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
        topics_per_request: int = _TOPICS_PER_REQUEST,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once `gone`, nobody waits for answers any more: calls end soon, with `RetriableError`."""
        self._clock = clock
        self._chunk = topics_per_request
        self._calls = admin_calls.AdminCalls(
            access, client_id=client_id, clock=clock, gone=gone, advice=_ADVICE
        )

    def cluster_id(self, timeout_s: float) -> str:
        """See `admin.Admin`; so for all below."""
        return str(self._calls.metadata(timeout_s, doing="asking for the cluster id").cluster_id)

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        return frozenset(self._calls.metadata(timeout_s, doing="listing topics").topics)

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> admin.PerTopic[admin.TopicDescription]:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            topics = confluent_kafka.TopicCollection(list(chunk))
            return self._calls.client.describe_topics(topics, request_timeout=left_s)

        return self._each(names, request, timeout_s, doing="describing topic", read=_description)

    def topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> admin.PerTopic[admin.Configs]:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            resources = [_topic_resource(name) for name in chunk]
            return _by_name(self._calls.client.describe_configs(resources, request_timeout=left_s))

        return self._each(names, request, timeout_s, doing="reading settings of", read=_configs)

    def broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        end = self._calls.deadline(timeout_s)
        brokers = sorted(self._calls.metadata(timeout_s, doing="looking for a broker").brokers)
        for tried, broker in enumerate(brokers, start=1):
            left_s = end.left_s(self._clock.now_s())
            last = tried == len(brokers)
            try:
                return self._configs_of_broker(broker, names, left_s if last else left_s / 2)
            except kafka_errors.UnreachableError:  # it may be dead, and still be listed
                if last:
                    raise
        raise kafka_errors.UnreachableError(f"{self._calls.where} lists no brokers; look at them")

    def create_topics(
        self, topics: Collection[admin.NewTopic], timeout_s: float, *, only_try: bool = False
    ) -> admin.PerTopic[None]:
        specs = {topic.name: topic for topic in topics}

        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            return self._calls.client.create_topics(
                [_new_topic(specs[name]) for name in chunk],
                request_timeout=left_s,
                operation_timeout=left_s,
                validate_only=only_try,
            )

        created = self._each(specs, request, timeout_s, doing="creating topic", read=_nothing)
        failed = {
            name: _without_default(error) if specs[name].replication_factor is None else error
            for name, error in created.failed.items()
        }
        return admin.PerTopic(done=created.done, failed=failed)

    def grow_topics(self, partitions: Mapping[str, int], timeout_s: float) -> admin.PerTopic[None]:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            return self._calls.client.create_partitions(
                [library.NewPartitions(name, partitions[name]) for name in chunk],
                request_timeout=left_s,
                operation_timeout=left_s,
            )

        end = self._calls.deadline(timeout_s)
        grown = self._each(
            partitions, request, timeout_s, doing="adding partitions to", read=_nothing
        )
        if not grown.failed:
            return grown
        # Kafka refuses to "grow" to the present number; somebody may have been faster.
        described = self.describe_topics(list(grown.failed), end.left_s(self._clock.now_s()))
        enough = {
            name: None
            for name, topic in described.done.items()
            if topic.partitions >= partitions[name]
        }
        failed = {name: error for name, error in grown.failed.items() if name not in enough}
        return admin.PerTopic(done={**grown.done, **enough}, failed=failed)

    def alter_configs(
        self, changes: Mapping[str, admin.ConfigChange], timeout_s: float
    ) -> admin.PerTopic[None]:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            resources = [_changed_resource(name, changes[name]) for name in chunk]
            return _by_name(
                self._calls.client.incremental_alter_configs(resources, request_timeout=left_s)
            )

        return self._each(changes, request, timeout_s, doing="changing settings of", read=_nothing)

    def close(self) -> None:
        self._calls.close()

    def _configs_of_broker(
        self, broker: int, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        def request(chunk: Sequence[str], left_s: float) -> _Futures:
            resources = [library.ConfigResource(library.ResourceType.BROKER, chunk[0])]
            return _by_name(self._calls.client.describe_configs(resources, request_timeout=left_s))

        doing = "reading settings of broker"
        found = self._each([str(broker)], request, timeout_s, doing=doing, read=_configs)
        failure = found.first_failure()
        if isinstance(failure, kafka_errors.NotAuthorizedError):
            return None
        if failure is not None:
            raise failure
        entries = found.done[str(broker)]
        return {name: entries[name].value if name in entries else None for name in names}

    def _each(
        self,
        names: Iterable[str],
        request: Callable[[Sequence[str], float], _Futures],
        timeout_s: float,
        *,
        doing: str,
        read: Callable[[Any], T],
    ) -> admin.PerTopic[T]:
        done, failed = self._calls.each(
            names, request, timeout_s, doing=doing, read=read, at_once=self._chunk
        )
        return admin.PerTopic(done=done, failed=failed)


def _by_name(waiting: Mapping[library.ConfigResource, futures.Future[Any]]) -> _Futures:
    return {resource.name: future for resource, future in waiting.items()}


def _nothing(_: object) -> None:
    return None


def _description(topic: library.TopicDescription) -> admin.TopicDescription:
    raw = base64.urlsafe_b64decode(f"{topic.topic_id}==")
    topic_id = uuid.UUID(bytes=raw)
    leaders: list[int | None] = []
    for partition in sorted(topic.partitions, key=lambda partition: partition.id):
        leader: confluent_kafka.Node | None = partition.leader  # the stub forgets None
        leaders.append(None if leader is None else leader.id)
    return admin.TopicDescription(
        name=topic.name,
        topic_id=None if topic_id == _NO_TOPIC_ID else topic_id,
        leaders=tuple(leaders),
    )


def _configs(entries: Mapping[str, library.ConfigEntry]) -> admin.Configs:
    return {
        name: snapshot.ConfigEntry(
            value=entry.value,
            source=_source(entry.source),
            read_only=entry.is_read_only,
            sensitive=entry.is_sensitive,
        )
        for name, entry in entries.items()
    }


def _source(source: library.ConfigSource | int) -> snapshot.ConfigSource:
    number = source.value if isinstance(source, library.ConfigSource) else source
    try:
        return snapshot.ConfigSource(number)
    except ValueError:
        return snapshot.ConfigSource.UNKNOWN


def _topic_resource(name: str) -> library.ConfigResource:
    return library.ConfigResource(library.ResourceType.TOPIC, name)


def _new_topic(topic: admin.NewTopic) -> library.NewTopic:
    factor = topic.replication_factor
    return library.NewTopic(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=_BROKER_DEFAULT if factor is None else factor,
        config=dict(topic.configs),
    )


def _without_default(error: errors.ConnectError) -> errors.ConnectError:
    """Brokers before Kafka 2.4 (KIP-464) are to be told a number."""
    if not isinstance(error, kafka_errors.UnsupportedError):
        return error
    return kafka_errors.UnsupportedError(
        f"{error}: before Kafka 2.4 brokers take no -1 for their own default; set "
        "replication.factor to a number"
    )


def _changed_resource(name: str, change: admin.ConfigChange) -> library.ConfigResource:
    operations = [
        library.ConfigEntry(key, value, incremental_operation=library.AlterConfigOpType.SET)
        for key, value in sorted(change.set.items())
    ]
    operations += [
        library.ConfigEntry(key, None, incremental_operation=library.AlterConfigOpType.DELETE)
        for key in sorted(change.delete)
    ]
    return library.ConfigResource(library.ResourceType.TOPIC, name, incremental_configs=operations)
