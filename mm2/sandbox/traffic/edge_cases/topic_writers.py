"""Writers of the edge-case topics' contents: current format, compacted topics, old formats.

Compacted topics are written in several rounds. The timestamps of each round are so much later than
those of the previous round that the broker rolls the segment: only closed segments are cleaned.
Each round has a separate producer, whose last batch the cleaner keeps even if the batch is empty.

Formats before v2: brokers before 3.0 convert the clients' records according to
`message.format.version`: 0.9.0 writes v0 (no timestamps), 0.10.2 writes v1, 2.8 writes v2.
Compressed records become wrappers that contain absolute offsets (v0) or relative offsets (v1). lz4
frames of v0 have the wrong header checksum that Kafka wrote before 0.10.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import system_clock
from mm2.sandbox import sandbox_clients
from mm2.sandbox.sandbox_clients import SandboxClients
from mm2.sandbox.traffic import payloads
from mm2.sandbox.traffic.edge_cases import batch_encoder, record_features
from mm2.sandbox.traffic.edge_cases.batch_encoder import TimestampedRecord
from mm2.sandbox.traffic.edge_cases.raw_batch_writer import RawLog
from mm2.sandbox.traffic.payloads import BatchSpec, Headers, OutgoingRecord
from mm2.sandbox.traffic.producers import (
    AcknowledgedProducer,
    InterleavedTransactions,
    TransactionalProducer,
)

_CONFIG_CHANGE_TIMEOUT_S = 30.0
EAGER_CLEANER_CONFIG = {"log.cleaner.backoff.ms": "100"}
"""Broker setting that makes the cleaner check for work ten times a second instead of every 15 s."""


class ConfigAlterer:
    """Alters topic and broker settings of a cluster. A value of None resets a setting to its
    default."""

    def __init__(self, clients: SandboxClients) -> None:
        self._clients = clients
        self._admin = clients.create_admin_client("odd-settings")

    def alter_topic_settings(self, name: str, changes: Mapping[str, str | None]) -> None:
        self._alter_settings(library.ResourceType.TOPIC, name, changes=changes)

    def alter_broker_settings(self, changes: Mapping[str, str | None]) -> None:
        """Alter the dynamic default settings of all brokers. The changes survive restarts."""
        for node_id in sorted(self._admin.list_topics(timeout=_CONFIG_CHANGE_TIMEOUT_S).brokers):
            self._alter_settings(library.ResourceType.BROKER, str(node_id), changes=changes)

    def _alter_settings(
        self, kind: library.ResourceType, name: str, *, changes: Mapping[str, str | None]
    ) -> None:
        entries = [
            library.ConfigEntry(
                key,
                "" if value is None else value,
                incremental_operation=(
                    library.AlterConfigOpType.DELETE
                    if value is None
                    else library.AlterConfigOpType.SET
                ),
            )
            for key, value in changes.items()
        ]
        resource = library.ConfigResource(kind, name, incremental_configs=entries)

        def alter_configs() -> None:
            waiting = self._admin.incremental_alter_configs(
                [resource], request_timeout=_CONFIG_CHANGE_TIMEOUT_S
            )
            doing = f"changing settings of {name}"
            try:
                waiting[resource].result(_CONFIG_CHANGE_TIMEOUT_S)
            except TimeoutError:
                raise self._clients.create_timeout_error(doing) from None
            except confluent_kafka.KafkaException as error:
                raise self._clients.create_error(error.args[0], doing) from None

        sandbox_clients.retry_transient_errors(alter_configs)


class TrafficSize(enum.Enum):
    """Amount of data: `QUICK` covers every feature in seconds, `FULL` writes enough data for a load
    test."""

    QUICK = "quick"
    FULL = "full"


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicWriter:
    """Writes records to an existing topic.

    `written` counts the records that read_committed consumers will see. `now_ms` is the time from
    which record timestamps are computed; it is the same for all topics.
    """

    clients: SandboxClients
    changes: ConfigAlterer
    raw: RawLog
    name: str
    partitions: int
    rng: Random
    now_ms: int
    clock: Clock
    size: TrafficSize
    written: int = 0
    _numbers: int = 0

    def choose_amount_for_traffic_size(self, *, quick: int, full: int) -> int:
        """Return `full` if the traffic size is `FULL`, otherwise `quick`."""
        return full if self.size is TrafficSize.FULL else quick

    def send_records(
        self, records: Iterable[OutgoingRecord], *, codec: str = "none", **settings: object
    ) -> None:
        """Send records with a new producer and wait until they are acknowledged. `settings` are
        librdkafka settings."""
        ours = {"compression_type": codec, "linger_ms": 20, **settings}
        client = AcknowledgedProducer(
            self.clients, f"odd-{self.name}", now=self.clock, settings=ours
        )
        try:
            client.send(self.name, records)
            client.flush()
        finally:
            client.close()
        self.written += client.acknowledged

    def send_transactions(
        self,
        each: Iterable[tuple[Iterable[OutgoingRecord], bool]],
        *,
        transactional_id: str,
    ) -> None:
        """Write consecutive transactions with one producer.

        `each` contains the records of each transaction, and True to commit or False to abort.
        """
        producer = TransactionalProducer(
            self.clients, transactional_id, codec="none", now=self.clock
        )
        try:
            for records, commit in each:
                producer.send(self.name, list(records))
                ended = producer.end_transaction(commit=commit)
                self.written += ended if commit else 0
        finally:
            producer.close()

    def append_batch(
        self,
        records: Sequence[TimestampedRecord],
        *,
        compressed: bool = False,
        attributes: int = 0,
        base_timestamp_ms: int | None = None,
    ) -> None:
        """Append a hand-made batch to partition 0 of the topic."""
        made = batch_encoder.encode_batch(
            records,
            compressed=compressed,
            attributes=attributes,
            base_timestamp_ms=base_timestamp_ms,
        )
        self.raw.append_batch(TopicPartition(self.name, 0), made)
        self.written += len(records)

    def change_topic_settings(self, changes: Mapping[str, str | None]) -> None:
        """Alter settings of this topic. A value of None resets a setting to its default."""
        self.changes.alter_topic_settings(self.name, changes)

    def make_next_documents(
        self, count: int, *, partition: int | None = None
    ) -> Iterator[OutgoingRecord]:
        """Yield `count` further JSON documents with timestamps one millisecond apart, for all
        partitions or for a single partition."""
        batch = BatchSpec(
            rng=self.rng,
            count=count,
            partitions=self.partitions,
            wall_ms=self.now_ms,
            first=self._numbers,
        )
        self._numbers += count
        for number, each in zip(batch.numbers(), payloads.make_documents(batch), strict=True):
            yield dataclasses.replace(
                each,
                partition=each.partition if partition is None else partition,
                timestamp_ms=self.now_ms + number,
            )


WRITER_CODECS = record_features.ALL_CODECS
LARGE_RECORD_BYTES = 10_000_000
LARGE_MESSAGE_BYTES = 10_600_000
BIG_BATCH_BYTES = 4_000_000
BIG_BATCH_LIMIT_BYTES = 8_000_000

_DAY_MS = 86_400_000
_YEAR_MS = 365 * _DAY_MS
_YEAR_2001_MS = 978_307_200_000
_YEAR_9999_MS = 253_402_300_799_000
_DELETE_HORIZON = 0x40


def write_compressed_batches(writer: TopicWriter) -> None:
    """Write batches of all codecs to one partition."""
    for _ in range(writer.choose_amount_for_traffic_size(quick=3, full=100)):
        for codec in WRITER_CODECS:
            writer.send_records(
                writer.make_next_documents(writer.rng.randrange(2, 60)), codec=codec
            )


def write_varied_records(writer: TopicWriter) -> None:
    """Write tombstones, null and empty keys, headers without values, and headers with the same
    name."""
    for codec, count in (("none", 432), ("zstd", 432)):
        batch = BatchSpec(
            rng=writer.rng,
            count=writer.choose_amount_for_traffic_size(quick=count, full=20 * count),
            partitions=writer.partitions,
            wall_ms=writer.now_ms,
        )
        writer.send_records(payloads.make_varied_shape_records(batch), codec=codec)


def write_transactions(writer: TopicWriter) -> None:
    """Write interleaved transactions, some of them aborted."""
    run = InterleavedTransactions(
        writer.clients, topic=writer.name, prefix=writer.name, now=writer.clock
    )
    try:
        run.run(
            BatchSpec(
                rng=writer.rng,
                count=writer.choose_amount_for_traffic_size(quick=500, full=20_000),
                partitions=writer.partitions,
                wall_ms=writer.now_ms,
            )
        )
    finally:
        run.close()
    writer.written += run.totals.committed


def write_large_records(writer: TopicWriter) -> None:
    """Write records of 10 MB between small records. One large record is highly compressible."""

    def make_large_records(count: int) -> Iterator[OutgoingRecord]:
        for number in range(count):
            yield from writer.make_next_documents(5)
            yield OutgoingRecord(
                key=b"large-%d" % number,
                value=writer.rng.randbytes(LARGE_RECORD_BYTES),
                timestamp_ms=writer.now_ms,
            )

    count = writer.choose_amount_for_traffic_size(quick=2, full=10)
    writer.send_records(make_large_records(count), message_max_bytes=LARGE_MESSAGE_BYTES)
    shrinking = OutgoingRecord(
        key=b"shrinks", value=b"ten million bytes" * 588_235, timestamp_ms=writer.now_ms
    )
    writer.send_records([shrinking], codec="gzip", message_max_bytes=LARGE_MESSAGE_BYTES)


def write_append_time_records(writer: TopicWriter) -> None:
    """Write single-record and multi-record batches whose timestamps the broker assigns."""
    for codec in WRITER_CODECS:
        writer.send_records(
            writer.make_next_documents(writer.choose_amount_for_traffic_size(quick=40, full=2_000)),
            codec=codec,
        )
        writer.send_records(writer.make_next_documents(5), codec=codec, batch_num_messages=1)


def write_past_timestamps(writer: TopicWriter) -> None:
    """Write records with timestamps from 1970, 2001, three years ago and last week, and without
    timestamps. In some batches all timestamps are of the same kind, in others the kinds are
    mixed."""
    ages = (-1, 1, _YEAR_2001_MS, writer.now_ms - 3 * _YEAR_MS, writer.now_ms - 7 * _DAY_MS)
    _write_records_with_timestamps(writer, ages)


def write_future_timestamps(writer: TopicWriter) -> None:
    """Write records with timestamps an hour and a year in the future, and in the year 9999."""
    ages = (writer.now_ms + 2 * 3_600_000, writer.now_ms + _YEAR_MS, _YEAR_9999_MS)
    _write_records_with_timestamps(writer, ages)


def _write_records_with_timestamps(writer: TopicWriter, stamps: tuple[int, ...]) -> None:
    count = writer.choose_amount_for_traffic_size(quick=30, full=2_000)
    for codec in WRITER_CODECS:
        mixed = [
            dataclasses.replace(each, timestamp_ms=stamps[number % len(stamps)])
            for number, each in enumerate(writer.make_next_documents(count))
        ]
        writer.send_records(mixed, codec=codec)
        for stamp in stamps:
            alike = [
                dataclasses.replace(each, timestamp_ms=stamp)
                for each in writer.make_next_documents(count)
            ]
            writer.send_records(alike, codec=codec)


def write_single_record_batches(writer: TopicWriter) -> None:
    """Write batches of one record, uncompressed and compressed."""
    for codec in WRITER_CODECS:
        count = writer.choose_amount_for_traffic_size(quick=40, full=4_000)
        writer.send_records(
            _make_compressible_records(writer, count),
            codec=codec,
            batch_num_messages=1,
            linger_ms=0,
        )


def _make_compressible_records(writer: TopicWriter, count: int) -> Iterator[OutgoingRecord]:
    """Yield compressible records, because clients send incompressible records uncompressed."""
    for each in writer.make_next_documents(count):
        yield dataclasses.replace(each, value=(each.key or b"") * writer.rng.randrange(30, 60))


def write_tiny_batches(writer: TopicWriter) -> None:
    """Write a large number of batches of one to three records."""
    for most in (1, 2, 3):
        records = (
            dataclasses.replace(each, value=(each.value or b"")[:40])
            for each in writer.make_next_documents(
                writer.choose_amount_for_traffic_size(quick=1_000, full=40_000)
            )
        )
        writer.send_records(records, batch_num_messages=most, linger_ms=0)


def write_big_batches(writer: TopicWriter) -> None:
    """Write 4 MB batches of many records. Compression does not reduce a batch to less than half its
    size."""
    for codec in ("none", "lz4", "zstd"):
        for _ in range(writer.choose_amount_for_traffic_size(quick=1, full=8)):
            writer.send_records(
                _make_half_random_bytes(writer, 1_000),
                codec=codec,
                message_max_bytes=BIG_BATCH_LIMIT_BYTES,
                batch_size=BIG_BATCH_BYTES,
                batch_num_messages=100_000,
                linger_ms=3_000,
            )


def _make_half_random_bytes(writer: TopicWriter, count: int) -> Iterator[OutgoingRecord]:
    for each in writer.make_next_documents(count):
        yield dataclasses.replace(each, value=writer.rng.randbytes(2_000) + b"." * 2_000)


def write_handmade_batches(writer: TopicWriter) -> None:
    """Write valid batches that no client writes: timestamp 0, decreasing timestamps, unusual base
    timestamps."""
    now = writer.now_ms
    for _ in range(writer.choose_amount_for_traffic_size(quick=3, full=300)):
        for compressed in (False, True):
            writer.append_batch(_make_timestamped_records(writer, [0, 0, 0]), compressed=compressed)
            writer.append_batch(_make_timestamped_records(writer, [now]), compressed=compressed)
            writer.append_batch(
                _make_timestamped_records(writer, [now, 0, now - 5, -1, now]), compressed=compressed
            )
            writer.append_batch(
                _make_timestamped_records(writer, [now + 1, now]),
                compressed=compressed,
                base_timestamp_ms=now + 9_000,
            )
            writer.append_batch(
                _make_timestamped_records(writer, [now] * 40),
                compressed=compressed,
                base_timestamp_ms=0,
            )
            grave = OutgoingRecord(key=b"gone", value=None)
            writer.append_batch(
                [TimestampedRecord(record=grave, timestamp_ms=now)],
                compressed=compressed,
                attributes=_DELETE_HORIZON,
            )


_EDGE_CASE_HEADERS: Headers = (("", b""), ("twice", None), ("twice", b"2"), ("twice", None))


def _make_timestamped_records(writer: TopicWriter, stamps: list[int]) -> list[TimestampedRecord]:
    records = writer.make_next_documents(len(stamps))
    return [
        TimestampedRecord(
            record=dataclasses.replace(each, headers=_EDGE_CASE_HEADERS if number % 2 else ()),
            timestamp_ms=stamp,
        )
        for number, (each, stamp) in enumerate(zip(records, stamps, strict=True))
    ]


COMPACTED_SEGMENT_MS = 100
COMPACTED_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": str(COMPACTED_SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.01",
}

_ROUND_STEP_MS = 1_000
_TOMBSTONE_CHANCE = 0.1
_CLOSING_ROUNDS = 3
_COMPACTED_BATCH_RECORDS = 20


def write_compacted_records(writer: TopicWriter) -> None:
    """Write batches in every codec and tombstones to a compacted topic. Each round of writes uses a
    new idempotent producer."""
    for number in range(writer.choose_amount_for_traffic_size(quick=6, full=40)):
        writer.send_records(
            _make_compaction_round_records(writer, number),
            codec=WRITER_CODECS[number % len(WRITER_CODECS)],
            enable_idempotence=True,
            batch_num_messages=_COMPACTED_BATCH_RECORDS,
        )
    _roll_segments_before_cleaning(writer)


def write_compacted_transactions(writer: TopicWriter) -> None:
    """Write transactions of one producer to a compacted topic. Every third transaction is
    aborted."""
    rounds = (
        (_make_compaction_round_records(writer, number), number % 3 != 2)
        for number in range(writer.choose_amount_for_traffic_size(quick=6, full=30))
    )
    writer.send_transactions(rounds, transactional_id=writer.name)
    _roll_segments_before_cleaning(writer)


def write_compacted_old_format_records(writer: TopicWriter) -> None:
    """Write records in an old format to a compacted topic. Old formats have no idempotence, headers
    or zstd."""
    codecs = ("none", "gzip", "snappy", "lz4")
    for number in range(writer.choose_amount_for_traffic_size(quick=6, full=32)):
        writer.send_records(
            _make_compaction_round_records(writer, number), codec=codecs[number % len(codecs)]
        )
    # v0 has no timestamps, so the broker uses the modification time of the segment files.
    system_clock.wait_until(lambda: False, timeout_s=2 * COMPACTED_SEGMENT_MS / 1_000)
    _roll_segments_before_cleaning(writer)


def _make_compaction_round_records(writer: TopicWriter, number: int) -> Iterator[OutgoingRecord]:
    """Yield the records of one write round for a compacted topic.

    Each round contains a random subset of the keys. Keys with higher numbers are more likely, and
    keys recur in later rounds, so that earlier batches have gaps or become empty after cleaning.
    """
    keys = writer.choose_amount_for_traffic_size(quick=120, full=5_000)
    at_ms = _compute_write_round_timestamp_ms(writer, number)
    for key in range(keys):
        for partition in range(writer.partitions):
            if writer.rng.random() < 0.4 + 0.3 * key / keys:
                gone = writer.rng.random() < _TOMBSTONE_CHANCE
                value = b"round %d %x" % (number, writer.rng.getrandbits(200))
                yield OutgoingRecord(
                    key=b"key-%d" % key,
                    value=None if gone else value,
                    partition=partition,
                    timestamp_ms=at_ms + key % COMPACTED_SEGMENT_MS,
                )


def _compute_write_round_timestamp_ms(writer: TopicWriter, number: int) -> int:
    """Return the base timestamp of a write round for a compacted topic."""
    return writer.now_ms - 60 * _ROUND_STEP_MS + number * _ROUND_STEP_MS


def _roll_segments_before_cleaning(writer: TopicWriter) -> None:
    """Write records with unique keys to new segments, so that all earlier segments can be cleaned
    while these records remain.

    The timestamps of these records are later than all other timestamps in the log, including those
    that the broker assigns to transaction markers.
    """
    after_ms = writer.clock.wall_ms() + _ROUND_STEP_MS
    for number in range(_CLOSING_ROUNDS):
        writer.send_records(
            OutgoingRecord(
                key=b"closing-%d" % number,
                value=b"closing",
                partition=partition,
                timestamp_ms=after_ms + number * _ROUND_STEP_MS,
            )
            for partition in range(writer.partitions)
        )


FORMAT_VERSION_CONFIG = "message.format.version"
V0_VERSION, V1_VERSION, V2_VERSION = "0.9.0", "0.10.2", "2.8"

_OLD_FORMAT_CODECS = ("none", "gzip", "snappy", "lz4")


def write_old_format_records(writer: TopicWriter) -> None:
    """Write records in the topic's old message format with every codec, in record sets of many
    records and of one record."""
    for _ in range(writer.choose_amount_for_traffic_size(quick=2, full=60)):
        for codec in _OLD_FORMAT_CODECS:
            writer.send_records(
                writer.make_next_documents(writer.rng.randrange(2, 60)), codec=codec
            )
            writer.send_records(
                writer.make_next_documents(3), codec=codec, batch_num_messages=1, linger_ms=0
            )


def write_changing_format_records(writer: TopicWriter) -> None:
    """Write records in formats v0, v1 and v2 to one topic, and then in v1, v0 and v2 again, as in
    the log of a very old topic."""
    for version in (V0_VERSION, V1_VERSION, V2_VERSION, V1_VERSION, V0_VERSION, V2_VERSION):
        writer.change_topic_settings({FORMAT_VERSION_CONFIG: version})
        write_old_format_records(writer)
