"""Adapter of `ports.clients`: clients of connectors and tasks, producers and consumers of
confluent-kafka.

Settings come in Java's words; what librdkafka has no counterpart for is not passed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping

from connect_runtime.adapters.kafka import group_offsets, record_consumer, record_producer
from connect_runtime.base import clock as base_clock
from connect_runtime.core.task import client_settings as plans
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import client_settings
from connect_runtime.ports import clients
from connect_runtime.wire.codec import tls_settings

_LOG = logging.getLogger(__name__)
_INT_MAX = 2_147_483_647
_Number = client_settings.Number

_PRODUCER_NUMBERS: Mapping[str, client_settings.Number] = {
    "batch.size": _Number("batch.size", 1, _INT_MAX),
    "delivery.timeout.ms": _Number("message.timeout.ms", 1, _INT_MAX),
    "linger.ms": _Number("linger.ms", 0, 900_000),
    "max.in.flight.requests.per.connection": _Number(
        "max.in.flight.requests.per.connection", 1, 1_000_000
    ),
    "max.request.size": _Number("message.max.bytes", 1_000, 1_000_000_000),
    "retries": _Number("retries", 0, _INT_MAX),
}
_CONSUMER_NUMBERS: Mapping[str, client_settings.Number] = {
    "fetch.max.bytes": _Number("fetch.max.bytes", 1_000_000, _INT_MAX - 512),
    "fetch.max.wait.ms": _Number("fetch.wait.max.ms", 0, 300_000),
    "fetch.min.bytes": _Number("fetch.min.bytes", 1, 100_000_000),
    "heartbeat.interval.ms": _Number("heartbeat.interval.ms", 1, 3_600_000),
    "max.partition.fetch.bytes": _Number("max.partition.fetch.bytes", 1, 1_000_000_000),
    "max.poll.interval.ms": _Number("max.poll.interval.ms", 1, 86_400_000),
    "session.timeout.ms": _Number("session.timeout.ms", 1, 3_600_000),
}
_PRODUCER_NAMED = ("acks", "compression.type", "enable.idempotence")
_CONSUMER_NAMED = (
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
_RESET = "auto.offset.reset"
_STRATEGY = "partition.assignment.strategy"
_OF_JAVA = frozenset(
    {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
)
_ELSEWHERE = (
    "bootstrap.servers",
    "client.id",
    "buffer.memory",
    "max.block.ms",
    "max.poll.records",
    _RESET,
    _STRATEGY,
)
_SECURITY = ("sasl.", "ssl.", "security.")
_PRODUCER_DEFAULTS: Mapping[str, object] = {
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "message.max.bytes": 1_048_576,
    "queue.buffering.max.kbytes": 32_768,  # Java's buffer.memory
}


class KafkaClients:
    """Implements `clients.Clients`. `files` is what relative paths of certificates start at."""

    def __init__(self, *, files: tls_settings.Files, clock: base_clock.Clock) -> None:
        self._files = files
        self._clock = clock

    def producer(self, plan: plans.ClientPlan) -> clients.RecordProducer:
        """See `clients.Clients`; so for all."""
        settings = {
            **_PRODUCER_DEFAULTS,
            **_translated(plan.properties, _PRODUCER_NUMBERS, _PRODUCER_NAMED),
        }
        if "buffer.memory" in plan.properties:
            memory = _Number("kbytes", 1_024, _INT_MAX)
            given = memory.convert("buffer.memory", plan.properties["buffer.memory"])
            settings["queue.buffering.max.kbytes"] = max(1, given // 1_024)
        return record_producer.KafkaRecordProducer(
            kafka_access.parse(plan.properties, files=self._files),
            client_id=plan.client_id,
            settings=settings,
        )

    def consumer(self, plan: plans.ClientPlan) -> clients.RecordConsumer:
        poll_max = _Number("records", 1, 1_000_000)
        max_age = _Number("ms", 1, 86_400_000)
        return record_consumer.KafkaRecordConsumer(
            kafka_access.parse(plan.properties, files=self._files),
            client_id=plan.client_id,
            settings={
                **_translated(plan.properties, _CONSUMER_NUMBERS, _CONSUMER_NAMED),
                **_strategy(plan.properties),
                **_reset(plan.properties),
            },
            records_max=poll_max.convert(
                "max.poll.records", plan.properties.get("max.poll.records", "500")
            ),
            topics_refresh_s=max_age.convert(
                "metadata.max.age.ms", plan.properties.get("metadata.max.age.ms", "300000")
            )
            / 1000,
            clock=self._clock,
        )

    def group_offsets(self, plan: plans.ClientPlan) -> clients.GroupOffsets:
        access = kafka_access.parse(plan.properties, files=self._files)
        return group_offsets.KafkaGroupOffsets(
            access.connection(plan.client_id),
            clock=self._clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
        )


def _strategy(properties: Mapping[str, str]) -> dict[str, object]:
    """Java's assignors by name; as in Java, all take all away where only some can do otherwise."""
    given = [each.strip().rpartition(".")[2] for each in properties.get(_STRATEGY, "").split(",")]
    found = [_ASSIGNORS[each] for each in given if each in _ASSIGNORS]
    unknown = [each for each in given if each and each not in _ASSIGNORS]
    if unknown:
        _LOG.warning(
            "client setting %s: %s is left out; librdkafka has %s",
            _STRATEGY,
            ", ".join(unknown),
            ", ".join(_ASSIGNORS),
        )
    eager = [each for each in found if each != record_consumer.COOPERATIVE]
    return {_STRATEGY: ",".join(eager or found)} if found else {}


def _reset(properties: Mapping[str, str]) -> dict[str, object]:
    """Java's `none` is an `error` to the library."""
    given = properties.get(_RESET)
    if given is None:
        return {}
    return {_RESET: record_consumer.RESET_REFUSED if given == "none" else given}


def _translated(
    properties: Mapping[str, str],
    numbers: Mapping[str, client_settings.Number],
    named: tuple[str, ...],
) -> dict[str, object]:
    settings: dict[str, object] = {
        rule.name: rule.convert(name, properties[name])
        for name, rule in numbers.items()
        if name in properties
    }
    settings |= {name: properties[name] for name in named if name in properties}
    known = {*numbers, *named, *client_settings.SHARED, *client_settings.NAMED, *_ELSEWHERE}
    for name in sorted(properties.keys() - known - _OF_JAVA):
        if not name.startswith(_SECURITY):
            _LOG.warning("client setting %s is left out: librdkafka has nothing like it", name)
    return settings
