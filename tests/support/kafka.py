"""An ordinary client for tests, and the judge that reads a log record by record.

Made of confluent-kafka alone: nothing of the product lies between the log and what a test sees.
Every function takes a cluster's Java client properties (`Cluster.client_properties()`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import admin, cimpl

from connect_runtime.system import clock
from tests.support import eventually

Properties = Mapping[str, str]
Headers = tuple[tuple[str, bytes | None], ...]

CREATE_TIME = confluent_kafka.TIMESTAMP_CREATE_TIME
LOG_APPEND_TIME = confluent_kafka.TIMESTAMP_LOG_APPEND_TIME

# However slow the machine, what one call sends lies in as few batches as it may: a flush does not
# wait for this.
_LINGER_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as a consumer sees it. `timestamp` in ms, `timestamp_type` as librdkafka's."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_type: int
    timestamp: int

    @property
    def content(self) -> tuple[object, ...]:
        """All of it but the offset: what a mirror must keep."""
        return (self.key, self.value, self.headers, self.timestamp_type, self.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to produce. Without `timestamp` (ms) it gets the time of sending."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int = 0
    timestamp: int | None = None


def client_config(properties: Properties, **more: object) -> dict[str, Any]:
    """librdkafka's spelling of Java client properties; `more` with `_` for `.` wins."""
    config: dict[str, Any] = {}
    for key, value in properties.items():
        if key == "sasl.jaas.config":
            config["sasl.username"] = _jaas_option(value, "username")
            config["sasl.password"] = _jaas_option(value, "password")
        elif key == "ssl.truststore.location":
            config["ssl.ca.location"] = value
        elif key != "ssl.truststore.type":
            config[key] = value
    # A killed broker is the test's business, not a line on stderr.
    config |= {"log_level": 0, "error_cb": lambda _: None}
    return config | {key.replace("_", "."): value for key, value in more.items()}


def admin_client(properties: Properties) -> admin.AdminClient:
    return admin.AdminClient(client_config(properties))


def create_topic(
    properties: Properties,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = -1,
    config: Mapping[str, str] | None = None,
) -> str:
    """Create a topic, wait for it and return its name."""
    new = cimpl.NewTopic(
        name, partitions, replication_factor=replication_factor, config=dict(config or {})
    )
    client = admin_client(properties)  # its futures fail when it is collected
    client.create_topics([new])[name].result(30)
    return name


def produce(
    properties: Properties, topic: str, records: Iterable[Outgoing], **settings: object
) -> None:
    """Send and wait until all are acknowledged; `settings` are librdkafka's, `_` for `.`."""
    together: dict[str, object] = {"linger_ms": _LINGER_MS}
    producer = confluent_kafka.Producer(client_config(properties, **together | settings))
    send(producer, topic, records)
    flush(producer)


def produce_transaction(
    properties: Properties,
    topic: str,
    records: Iterable[Outgoing],
    *,
    transactional_id: str,
    commit: bool = True,
) -> None:
    """Send in one transaction and end it with a commit or an abort."""
    producer = confluent_kafka.Producer(
        client_config(properties, transactional_id=transactional_id, linger_ms=_LINGER_MS)
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, topic, records)
    flush(producer)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def send(producer: confluent_kafka.Producer, topic: str, records: Iterable[Outgoing]) -> None:
    """Hand records to a producer; a record that is refused later raises from its callback."""
    for record in records:
        optional: dict[str, Any] = {}
        if record.timestamp is not None:
            optional["timestamp"] = record.timestamp
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=record.partition,
            on_delivery=_raise_if_refused,
            **optional,
        )
        producer.poll(0)


def flush(producer: confluent_kafka.Producer, timeout_s: float = 60.0) -> None:
    left = producer.flush(timeout_s)
    assert left == 0, f"{left} records were not acknowledged within {timeout_s} s"


def read_partition(
    properties: Properties,
    topic: str,
    partition: int = 0,
    *,
    isolation: str = "read_uncommitted",
    start: int | None = None,
    end: int | None = None,
    deadline_s: float = 60.0,
) -> list[Record]:
    """Every record from the log start (or `start`) to the end that this isolation level sees, or
    before `end`: where others write, the log's own end may never be caught up with."""
    consumer = _consumer(properties, isolation)
    try:
        offset = confluent_kafka.OFFSET_BEGINNING if start is None else start
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        return _read_to_end(consumer, f"{topic}-{partition}", end=end, deadline_s=deadline_s)
    finally:
        consumer.close()


def read_topic(
    properties: Properties,
    topic: str,
    *,
    isolation: str = "read_uncommitted",
    deadline_s: float = 60.0,
) -> dict[int, list[Record]]:
    """`read_partition` for every partition of a topic."""
    return {
        partition: read_partition(
            properties, topic, partition, isolation=isolation, deadline_s=deadline_s
        )
        for partition in range(partition_count(properties, topic))
    }


def partition_count(properties: Properties, topic: str) -> int:
    metadata = admin_client(properties).list_topics(topic, timeout=30)
    return len(metadata.topics[topic].partitions)


def topics(properties: Properties) -> set[str]:
    """All topics that this user may see, internal ones too."""
    return set(admin_client(properties).list_topics(timeout=30).topics)


def offsets(
    properties: Properties, topic: str, partition: int = 0, *, isolation: str = "read_uncommitted"
) -> tuple[int, int]:
    """Log start and end offset; with `read_committed` the end is the last stable offset."""
    consumer = _consumer(properties, isolation)
    try:
        place = confluent_kafka.TopicPartition(topic, partition)

        def ask() -> tuple[int, int] | None:
            try:
                start, end = consumer.get_watermark_offsets(place, timeout=30)
            except confluent_kafka.KafkaException as error:
                if error.args[0].code() == confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION:
                    return None  # it is new
                raise
            return int(start), int(end)

        found = eventually.eventually(ask, 30.0, f"{topic}-{partition} has a leader")
        assert found is not None
        return found
    finally:
        consumer.close()


def differences(source: Sequence[Record], target: Sequence[Record], *, limit: int = 5) -> list[str]:
    """What a mirror got wrong, in words; empty when contents and order are equal."""
    found: list[str] = []
    for place, (left, right) in enumerate(zip(source, target, strict=False)):
        if left.content != right.content and len(found) < limit:
            found.append(
                f"record {place}: source offset {left.offset} has {_short(left)}, "
                f"target offset {right.offset} has {_short(right)}"
            )
    if len(source) != len(target):
        found.append(f"the source has {len(source)} records, the target {len(target)}")
    return found


def _consumer(properties: Properties, isolation: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        client_config(
            properties,
            group_id="test-reader",
            enable_auto_commit=False,
            auto_offset_reset="error",
            enable_partition_eof=True,
            isolation_level=isolation,
            check_crcs=True,
            fetch_wait_max_ms=50,
        )
    )


def _read_to_end(
    consumer: confluent_kafka.Consumer, where: str, *, end: int | None = None, deadline_s: float
) -> list[Record]:
    now_s = clock.SystemClock().now_s
    end_s = now_s() + deadline_s
    records: list[Record] = []
    while now_s() < end_s:
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return records
            elif not error.retriable():
                raise confluent_kafka.KafkaException(error)
        if end is not None and records and records[-1].offset >= end - 1:
            return [each for each in records if each.offset < end]
    raise AssertionError(
        f"{where}: end not reached in {deadline_s} s, after {len(records)} records"
    )


def _record(message: Any) -> Record:
    timestamp_type, timestamp = message.timestamp()
    return Record(
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value) for name, value in message.headers() or ()),
        timestamp_type=timestamp_type,
        timestamp=timestamp,
    )


def _short(record: Record) -> str:
    words = [f"{name}={getattr(record, name)!r:.60}" for name in ("key", "value", "headers")]
    return " ".join([*words, f"timestamp={record.timestamp} (type {record.timestamp_type})"])


def _raise_if_refused(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
    if error is not None:
        raise confluent_kafka.KafkaException(error)


def _jaas_option(config: str, name: str) -> str:
    match = re.search(rf'\b{name}="([^"]*)"', config)
    assert match is not None, f"no {name} in the JAAS configuration"
    return match[1]
