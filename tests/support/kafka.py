"""An ordinary client for tests, and the judge that reads a log record by record.

Made of confluent-kafka alone: nothing of the product lies between the log and what a test sees.
Every function takes a cluster's Java client properties (`Cluster.client_properties()`).

A test's own client must not fail for what Kafka calls retriable, such as a group coordinator that
still loads on a slow machine: every request goes through `retried`, or through a function here
that does so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, admin, cimpl

from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock

Properties = Mapping[str, str]
Headers = tuple[tuple[str, bytes | None], ...]

CREATE_TIME = confluent_kafka.TIMESTAMP_CREATE_TIME
LOG_APPEND_TIME = confluent_kafka.TIMESTAMP_LOG_APPEND_TIME

# However slow the machine, what one call sends lies in as few batches as it may: a flush does not
# wait for this.
_LINGER_MS = 1_000
_ANSWER_S = 30.0
RETRY_S = 120.0
"""How long a request is repeated: longer than a coordinator loads on a slow machine."""
_RETRY_EVERY_S = 0.2
_RETRIABLE = frozenset(
    {
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # as a broker says of a topic that is new
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
    }
)
T = TypeVar("T")


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


def is_retriable(error: KafkaError) -> bool:
    """Whether Kafka's clients in Java would repeat the request (`RetriableException`)."""
    return error.retriable() or error.code() in _RETRIABLE


def retried(ask: Callable[[], T], *, deadline_s: float = RETRY_S) -> T:
    """Return what `ask` returns; repeat it as long as it fails with a retriable error.

    Other errors are raised at once, and the last retriable one after `deadline_s`. A request whose
    answer was lost may have been carried out: `ask` has to bear that.
    """
    answers: list[T] = []
    last: list[Exception] = []

    def answered() -> bool:
        try:
            answers.append(ask())
        except confluent_kafka.KafkaException as error:
            if not is_retriable(error.args[0]):
                raise
            last[:] = [error]
        except futures.TimeoutError as error:  # the future of a request, not answered in time
            last[:] = [error]
        return bool(answers)

    if not system_clock.wait_until(answered, timeout_s=deadline_s, interval_s=_RETRY_EVERY_S):
        raise last[0]
    return answers[0]


def admin_client(properties: Properties) -> admin.AdminClient:
    return admin.AdminClient(client_config(properties))


def create_topic(
    properties: Properties,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = -1,
    replicas: Sequence[Sequence[int]] | None = None,
    config: Mapping[str, str] | None = None,
) -> str:
    """Create a topic, wait until its partitions have leaders and return its name.

    `replicas` are the brokers of each partition, instead of counts.
    """
    if replicas is None:
        placed: dict[str, Any] = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
        }
    else:
        placed = {"num_partitions": len(replicas), "replica_assignment": list(map(list, replicas))}
    new = cimpl.NewTopic(name, config=dict(config or {}), **placed)
    client = admin_client(properties)  # its futures fail when it is collected
    asked: list[bool] = []

    def create() -> None:
        asked.append(True)
        try:
            client.create_topics([new])[name].result(_ANSWER_S)
        except confluent_kafka.KafkaException as error:
            lost_answer = len(asked) > 1
            if not (lost_answer and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS):
                raise

    retried(create)
    retried(lambda: _insist_on_leaders(client, name))
    return name


def _insist_on_leaders(client: admin.AdminClient, name: str) -> None:
    """A user who may not describe the topic is not told, and not kept."""
    found = client.list_topics(name, timeout=_ANSWER_S).topics[name]
    if found.error is not None and not is_retriable(found.error):
        return
    if not found.partitions or any(each.leader < 0 for each in found.partitions.values()):
        raise confluent_kafka.KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, name))


def delete_topic(properties: Properties, name: str) -> None:
    """Have a topic deleted; brokers may list it for a while."""
    client = admin_client(properties)
    asked: list[bool] = []

    def delete() -> None:
        asked.append(True)
        try:
            client.delete_topics([name])[name].result(_ANSWER_S)
        except confluent_kafka.KafkaException as error:
            missing = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if missing and len(asked) == 1:
                raise AssertionError(f"there is no topic {name} to delete") from error
            if not missing:
                raise

    retried(delete)


def create_acls(properties: Properties, bindings: Sequence[admin.AclBinding]) -> None:
    client = admin_client(properties)

    def create() -> None:
        for future in client.create_acls(list(bindings)).values():
            future.result(_ANSWER_S)

    retried(create)


def delete_acls(properties: Properties, filters: Sequence[admin.AclBindingFilter]) -> None:
    client = admin_client(properties)

    def delete() -> None:
        for future in client.delete_acls(list(filters)).values():
            future.result(_ANSWER_S)

    retried(delete)


def commit_offsets(
    properties: Properties, group: str, offsets: Mapping[tuple[str, int], int], **settings: object
) -> None:
    """Commit offsets by topic and partition, as an application of the group does that then ends.

    `settings` are librdkafka's, `_` for `.`.
    """
    places = [
        confluent_kafka.TopicPartition(topic, partition, offset)
        for (topic, partition), offset in offsets.items()
    ]
    ours: dict[str, object] = {"group_id": group, "enable_auto_commit": False}
    consumer = confluent_kafka.Consumer(client_config(properties, **ours | settings))

    def commit() -> None:
        insist(consumer.commit(offsets=places, asynchronous=False) or ())

    try:
        retried(commit)
    finally:
        consumer.close()


def committed_offset(properties: Properties, group: str, topic: str, partition: int = 0) -> int:
    """The group's committed offset; negative where it has none."""
    consumer = confluent_kafka.Consumer(client_config(properties, group_id=group))

    def ask() -> int:
        found = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], _ANSWER_S)
        insist(found)
        return int(found[0].offset)

    try:
        return retried(ask)
    finally:
        consumer.close()


def insist(places: Iterable[confluent_kafka.TopicPartition]) -> None:
    """Raise the first error that one of the partitions had."""
    for each in places:
        if each.error is not None:
            raise confluent_kafka.KafkaException(each.error)


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
    producer = transactional_producer(properties, transactional_id, linger_ms=_LINGER_MS)
    producer.begin_transaction()
    send(producer, topic, records)
    flush(producer)
    end_transaction(producer, commit=commit)


def transactional_producer(
    properties: Properties, transactional_id: str, **settings: object
) -> confluent_kafka.Producer:
    """A producer that may begin a transaction; `settings` are librdkafka's, `_` for `.`."""
    ours: dict[str, object] = {"transactional_id": transactional_id}
    producer = confluent_kafka.Producer(client_config(properties, **ours | settings))
    init_transactions(producer)
    return producer


def init_transactions(producer: confluent_kafka.Producer) -> None:
    retried(lambda: producer.init_transactions(_ANSWER_S))


def end_transaction(producer: confluent_kafka.Producer, *, commit: bool) -> None:
    end = producer.commit_transaction if commit else producer.abort_transaction
    retried(lambda: end(_ANSWER_S))


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


def partitions(properties: Properties, topic: str) -> Mapping[int, admin.PartitionMetadata]:
    """Leaders, replicas and in-sync replicas by partition; empty where there is no such topic."""
    client = admin_client(properties)
    found = retried(lambda: client.list_topics(topic, timeout=_ANSWER_S)).topics[topic].partitions
    return dict(found)


def partition_count(properties: Properties, topic: str) -> int:
    return len(partitions(properties, topic))


def topics(properties: Properties) -> set[str]:
    """All topics that this user may see, internal ones too."""
    client = admin_client(properties)
    return set(retried(lambda: client.list_topics(timeout=_ANSWER_S)).topics)


def offsets(
    properties: Properties, topic: str, partition: int = 0, *, isolation: str = "read_uncommitted"
) -> tuple[int, int]:
    """Log start and end offset; with `read_committed` the end is the last stable offset."""
    consumer = _consumer(properties, isolation)
    try:
        place = confluent_kafka.TopicPartition(topic, partition)
        start, end = retried(lambda: consumer.get_watermark_offsets(place, timeout=_ANSWER_S))
        return int(start), int(end)
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
    now_s = SystemClock().now_s
    end_s = now_s() + deadline_s
    records: list[Record] = []
    while now_s() < end_s:
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return records
            elif not is_retriable(error):
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
