"""Creates the producers, consumers and group clients of connectors and tasks.

Settings use Java's names. Settings without a librdkafka counterpart are not passed. Group offsets
are altered over connections of `connect_runtime.network`, because librdkafka cannot delete
individual offsets of a group.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config.connector_client_settings import ClientConfig
from connect_runtime.kafka import librdkafka_connection_settings, sink_task_consumer
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.kafka.librdkafka_connection_settings import LibrdkafkaIntegerSetting
from connect_runtime.kafka.sink_task_consumer import KafkaRecordConsumer
from connect_runtime.kafka.source_task_producer import KafkaRecordProducer
from connect_runtime.network.cluster_connections import ConnectionSettings
from connect_runtime.protocol import consumer_group_requests, request_builders
from connect_runtime.protocol.consumer_group_requests import CommittedOffset
from connect_runtime.protocol.request_builders import CoordinatorKey, RequestBuilder
from connect_runtime.protocol.tls_settings import KeyStoreFileReader
from connect_runtime.worker.task_client_interfaces import (
    ConsumerGroupInUseError,
    GroupOffsetsClient,
    RecordConsumer,
    RecordProducer,
)

_ERROR_ADVICE: Mapping[int, ErrorAdvice] = {
    **dict.fromkeys(
        (
            KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
            KafkaError.NON_EMPTY_GROUP,
            KafkaError.UNKNOWN_MEMBER_ID,
        ),
        (ConsumerGroupInUseError, "stop the group's consumers first"),
    ),
    KafkaError.GROUP_ID_NOT_FOUND: (FatalError, "the group has no offsets to delete"),
}


class KafkaGroupOffsets:
    """Reads and changes a consumer group's offsets. Implements `GroupOffsetsClient`, which
    documents the methods. Connects on first use."""

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._calls = AdminRequestClient(settings, clock=clock, rng=rng, advice=_ERROR_ADVICE)

    def fetch_offsets(self, group: str, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Return the group's committed offsets."""
        doing = f"reading the offsets of group {group}"
        body = self._send_request(
            group,
            consumer_group_requests.build_fetch_offsets_request(group),
            timeout_s,
            doing=doing,
        )
        found = consumer_group_requests.decode_committed_offsets(body)
        return {place: each.offset for place, each in found.items() if each.offset >= 0}

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> None:
        doing = f"changing offsets of group {group}"
        given = {place: CommittedOffset(offset) for place, offset in offsets.items()}
        self._send_request(
            group,
            consumer_group_requests.build_commit_offsets_request(group, given),
            timeout_s,
            doing=doing,
        )

    def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> None:
        doing = f"removing offsets of group {group}"
        self._send_request(
            group,
            consumer_group_requests.build_delete_offsets_request(group, partitions),
            timeout_s,
            doing=doing,
        )

    def delete_group(self, group: str, timeout_s: float) -> None:
        self._send_request(
            group,
            consumer_group_requests.build_delete_group_request(group),
            timeout_s,
            doing=f"deleting group {group}",
            fine=frozenset({consumer_group_requests.GROUP_ID_NOT_FOUND}),
        )

    def close(self) -> None:
        self._calls.close()

    def _send_request(
        self,
        group: str,
        message: RequestBuilder,
        timeout_s: float,
        *,
        doing: str,
        fine: frozenset[int] = frozenset(),
    ) -> Any:
        """Send an idempotent request to the group's coordinator."""
        question = AdminRequest(
            to=CoordinatorKey(request_builders.GROUP_COORDINATOR, group),
            message=message,
            doing=doing,
            accepted_errors=fine,
        )
        return self._calls.send_request(question, timeout_s)


_LOG = logging.getLogger(__name__)
_INT_MAX = 2_147_483_647
_NumberSetting = LibrdkafkaIntegerSetting

_PRODUCER_NUMBERS: Mapping[str, LibrdkafkaIntegerSetting] = {
    "batch.size": _NumberSetting("batch.size", 1, _INT_MAX),
    "delivery.timeout.ms": _NumberSetting("message.timeout.ms", 1, _INT_MAX),
    "linger.ms": _NumberSetting("linger.ms", 0, 900_000),
    "max.in.flight.requests.per.connection": _NumberSetting(
        "max.in.flight.requests.per.connection", 1, 1_000_000
    ),
    "max.request.size": _NumberSetting("message.max.bytes", 1_000, 1_000_000_000),
    "retries": _NumberSetting("retries", 0, _INT_MAX),
}
_CONSUMER_NUMBERS: Mapping[str, LibrdkafkaIntegerSetting] = {
    "fetch.max.bytes": _NumberSetting("fetch.max.bytes", 1_000_000, _INT_MAX - 512),
    "fetch.max.wait.ms": _NumberSetting("fetch.wait.max.ms", 0, 300_000),
    "fetch.min.bytes": _NumberSetting("fetch.min.bytes", 1, 100_000_000),
    "heartbeat.interval.ms": _NumberSetting("heartbeat.interval.ms", 1, 3_600_000),
    "max.partition.fetch.bytes": _NumberSetting("max.partition.fetch.bytes", 1, 1_000_000_000),
    "max.poll.interval.ms": _NumberSetting("max.poll.interval.ms", 1, 86_400_000),
    "session.timeout.ms": _NumberSetting("session.timeout.ms", 1, 3_600_000),
}
_PRODUCER_PASSED_KEYS = ("acks", "compression.type", "enable.idempotence")
_CONSUMER_PASSED_KEYS = (
    "client.rack",
    "enable.auto.commit",
    "group.id",
    "group.instance.id",
    "isolation.level",
)
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_AUTO_OFFSET_RESET = "auto.offset.reset"
_ASSIGNMENT_STRATEGY = "partition.assignment.strategy"
_JAVA_ONLY_KEYS = frozenset(
    {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
)
_KEYS_HANDLED_ELSEWHERE = (
    "bootstrap.servers",
    "client.id",
    "buffer.memory",
    "max.block.ms",
    "max.poll.records",
    _AUTO_OFFSET_RESET,
    _ASSIGNMENT_STRATEGY,
)
_SECURITY_PREFIXES = ("sasl.", "ssl.", "security.")
_PRODUCER_DEFAULTS: Mapping[str, object] = {
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "message.max.bytes": 1_048_576,
    "queue.buffering.max.kbytes": 32_768,  # Java's buffer.memory
}


class KafkaTaskClients:
    """Creates the Kafka clients of tasks. Implements `TaskClientFactory`, which documents the
    methods.

    Certificate files are read with `files`, which resolves relative paths.
    """

    def __init__(self, *, files: KeyStoreFileReader, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    def create_producer(self, plan: ClientConfig) -> RecordProducer:
        """Create the producer of a source task."""
        settings = {
            **_PRODUCER_DEFAULTS,
            **_translate_properties(plan.properties, _PRODUCER_NUMBERS, _PRODUCER_PASSED_KEYS),
        }
        if "buffer.memory" in plan.properties:
            memory = _NumberSetting("kbytes", 1_024, _INT_MAX)
            given = memory.convert_value("buffer.memory", plan.properties["buffer.memory"])
            settings["queue.buffering.max.kbytes"] = max(1, given // 1_024)
        return KafkaRecordProducer(
            librdkafka_connection_settings.parse_cluster_access(plan.properties, files=self._files),
            client_id=plan.client_id,
            settings=settings,
        )

    def create_consumer(self, plan: ClientConfig) -> RecordConsumer:
        poll_max = _NumberSetting("records", 1, 1_000_000)
        max_age = _NumberSetting("ms", 1, 86_400_000)
        return KafkaRecordConsumer(
            librdkafka_connection_settings.parse_cluster_access(plan.properties, files=self._files),
            client_id=plan.client_id,
            settings={
                **_translate_properties(plan.properties, _CONSUMER_NUMBERS, _CONSUMER_PASSED_KEYS),
                **_translate_assignment_strategy(plan.properties),
                **_translate_offset_reset(plan.properties),
            },
            records_max=poll_max.convert_value(
                "max.poll.records", plan.properties.get("max.poll.records", "500")
            ),
            topics_refresh_s=max_age.convert_value(
                "metadata.max.age.ms", plan.properties.get("metadata.max.age.ms", "300000")
            )
            / 1000,
            clock=self._clock,
        )

    def create_group_offsets_client(self, plan: ClientConfig) -> GroupOffsetsClient:
        access = librdkafka_connection_settings.parse_cluster_access(
            plan.properties, files=self._files
        )
        return KafkaGroupOffsets(
            access.to_connection_settings(plan.client_id),
            clock=self._clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
        )


def _translate_assignment_strategy(properties: Mapping[str, str]) -> dict[str, object]:
    """Translate Java's assignor classes to librdkafka strategies.

    Eager assignors take precedence, as in Java.
    """
    given = [
        each.strip().rpartition(".")[2]
        for each in properties.get(_ASSIGNMENT_STRATEGY, "").split(",")
    ]
    found = [_ASSIGNORS[each] for each in given if each in _ASSIGNORS]
    unknown = [each for each in given if each and each not in _ASSIGNORS]
    if unknown:
        _LOG.warning(
            "client setting %s: ignoring %s; librdkafka supports %s",
            _ASSIGNMENT_STRATEGY,
            ", ".join(unknown),
            ", ".join(_ASSIGNORS),
        )
    eager = [each for each in found if each != sink_task_consumer.COOPERATIVE_STRATEGY]
    return {_ASSIGNMENT_STRATEGY: ",".join(eager or found)} if found else {}


def _translate_offset_reset(properties: Mapping[str, str]) -> dict[str, object]:
    """Translate Java's `auto.offset.reset` value `none` to librdkafka's `error`."""
    given = properties.get(_AUTO_OFFSET_RESET)
    if given is None:
        return {}
    return {_AUTO_OFFSET_RESET: sink_task_consumer.RESET_TO_ERROR if given == "none" else given}


def _translate_properties(
    properties: Mapping[str, str],
    numbers: Mapping[str, LibrdkafkaIntegerSetting],
    named: tuple[str, ...],
) -> dict[str, object]:
    settings: dict[str, object] = {
        rule.name: rule.convert_value(name, properties[name])
        for name, rule in numbers.items()
        if name in properties
    }
    settings |= {name: properties[name] for name in named if name in properties}
    known = {
        *numbers,
        *named,
        *librdkafka_connection_settings.NUMBER_SETTINGS,
        *librdkafka_connection_settings.TEXT_SETTINGS,
        *_KEYS_HANDLED_ELSEWHERE,
    }
    for name in sorted(properties.keys() - known - _JAVA_ONLY_KEYS):
        if not name.startswith(_SECURITY_PREFIXES):
            _LOG.warning("ignoring client setting %s: librdkafka has no equivalent", name)
    return settings
