"""Reads compacted state topics to their end.

The end offsets are determined when reading starts. No consumer group is used and no offsets are
committed. An idle reader sends no requests and buffers no records.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.formats import record_codec
from mm2.formats.primitive_types import MalformedRecordError
from mm2.formats.record_codec import MalformedRecordsError
from mm2.kafka import partition_leader_requests, partition_log_client
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord
from mm2.kafka.partition_log_client import FetchedBatches, LogClient, LogPosition
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.replication.read_committed_batch_filter import SourceBatch

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Maximum decompressed size of a batch of a state topic. Writers of state topics send batches of at
most a few MB."""
_NO_MIN_END_OFFSETS: Mapping[str, int] = {}


class TopicReader:
    """Reads topics to their current end, repeatedly. Not thread-safe.

    Records of open and aborted transactions are read too (read_uncommitted). Transaction markers
    are skipped.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        topics: Collection[str],
        clock: Clock,
        partitions: int = 1,
    ) -> None:
        """Create a reader without connecting. `partitions` is the number of partitions of each
        topic."""
        self._where = access.name_and_addresses
        self._clock = clock
        self._partitions = [
            TopicPartition(name, number) for name in topics for number in range(partitions)
        ]
        self._positions: dict[TopicPartition, LogPosition] = {}
        """Next offset to read of each partition. Invariant: every record before this offset was
        passed to the caller."""
        self._client = LogClient(access, client_id=client_id, clock=clock)

    def read_to_end(
        self,
        timeout_s: float,
        take: RecordHandler,
        *,
        at_least: Mapping[str, int] = _NO_MIN_END_OFFSETS,
    ) -> None:
        """Read all records since the last call. Pass each record to `take` once, as soon as it is
        read, in order per partition.

        `at_least` contains end offsets that single-partition topics are known to have reached.
        Raises `LogTruncatedError` if records that were already read no longer exist: discard them
        and create a new reader. Also raises `RetriableError`, and `FatalError` if a record is
        malformed. No records are lost or repeated after these errors, because the next call
        continues after the last record that was passed to `take`. If `take` raised the error, the
        next call passes the same record again.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        ends = self._find_end_offsets(end, at_least)

        def accept_batches(partition: TopicPartition, fetched: FetchedBatches) -> bool:
            for batch in fetched.batches:
                self._pass_records_to_caller(partition, batch, take, end)
            return fetched.next_offset >= ends[partition]

        self._client.fetch_batches(
            {
                each: position
                for each, position in self._positions.items()
                if position.offset < ends[each]
            },
            end,
            accept=accept_batches,
            doing="reading",
            all_required=True,
        )

    def close(self) -> None:
        self._client.close()

    def _find_end_offsets(
        self, end: Deadline, at_least: Mapping[str, int]
    ) -> dict[TopicPartition, int]:
        """Look up the current end offsets, and set the initial positions. Lookups with outdated
        responses are retried. A new leader returns a retriable error until it knows the high
        watermark (KIP-207)."""
        found = self._client.list_offsets(
            dict.fromkeys(
                self._partitions,
                (partition_log_client.LOG_START, partition_log_client.HIGH_WATERMARK),
            ),
            end,
            doing="reading the log end of",
            reached={
                each: self._get_position_with_min_offset(each, at_least.get(each.topic, 0))
                for each in self._partitions
            },
            all_required=True,
        )
        for partition, (start, high) in found.succeeded.items():
            position = self._positions.setdefault(
                partition, LogPosition(start, topic_id=self._client.get_topic_id(partition.topic))
            )
            if position.offset < start:
                raise partition_leader_requests.create_log_truncated_error(
                    f"reading {partition} on {self._where}",
                    f"the log has offsets {start} to {high}, but the next offset to read is "
                    f"{position.offset}",
                )
        return {each: high for each, (_, high) in found.succeeded.items()}

    def _get_position_with_min_offset(
        self, partition: TopicPartition, at_least: int
    ) -> LogPosition:
        position = self._positions.get(partition, LogPosition(0))
        return dataclasses.replace(position, offset=max(at_least, position.offset))

    def _pass_records_to_caller(
        self, partition: TopicPartition, batch: SourceBatch, take: RecordHandler, end: Deadline
    ) -> None:
        """Pass the records of a batch to `take`, and advance the partition's position after each
        record. At least one record is passed, even if the deadline has expired."""
        position, topic = self._positions[partition], partition.topic
        doing = f"reading {partition} on {self._where}"
        for offset, time_ms, body in partition_log_client.iter_records(
            batch, doing=doing, max_bytes=BATCH_BYTES_MAX
        ):
            try:
                key, value, _ = record_codec.decode_record_body(body)
            except MalformedRecordsError as error:
                raise FatalError(
                    f"{doing}: the record at offset {offset} is malformed: {error}; find the "
                    "program that wrote it"
                ) from error
            take(TopicRecord(topic=topic, offset=offset, key=key, value=value, time_ms=time_ms))
            position.offset = offset + 1
            if end.is_expired(self._clock.now_s()):
                raise RetriableError(
                    f"{doing}: the timeout expired before the end was read; the next attempt "
                    f"continues at offset {position.offset}"
                )


class KafkaStateTopicReader:
    """Implements `StateTopics`, where the methods are documented. Connects on first use."""

    def __init__(
        self,
        *,
        listing: KafkaClusterAccess,
        reading: KafkaClusterAccess,
        client_id: str,
        clock: Clock,
    ) -> None:
        """Create the reader without connecting. `listing` and `reading` contain addresses and
        credentials of the same cluster: one for listing topics, the other for reading records."""
        self._listing = listing
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._admin: KafkaAdmin | None = None

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Return the names of all topics for which DESCRIBE is authorized."""
        if self._admin is None:
            self._admin = KafkaAdmin(self._listing, client_id=self._client_id, clock=self._clock)
        return self._admin.list_topics(timeout_s)

    def read_topic(
        self, topic: str, timeout_s: float, take: RecordHandler, *, partitions: int = 1
    ) -> None:
        reader = TopicReader(
            self._reading,
            client_id=self._client_id,
            topics=[topic],
            clock=self._clock,
            partitions=partitions,
        )
        try:
            reader.read_to_end(timeout_s, take)
        finally:
            reader.close()

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


_LOG = logging.getLogger(__name__)

ApplyRecord: TypeAlias = Callable[[bytes, bytes | None], object]
"""Function that applies the key and value of one record. If it raises `MalformedRecordError`, it
has changed nothing, and the record is skipped. `UnknownRecordVersionError` also skips the record,
unless the function handles this error itself."""


class RecordApplier:
    """Passes records to a function. Records without a key and unreadable records are skipped.

    Logs the first skipped record, and another one whenever the number of skipped records has
    doubled, so that no writer of the topic can fill the log. Not thread-safe.
    """

    def __init__(self, apply: ApplyRecord) -> None:
        self._apply = apply
        self._skipped = 0

    def apply_record(self, record: TopicRecord) -> None:
        """Apply one record, or skip it."""
        if record.key is None:
            self._log_skipped_record(record, "it has no key")
            return
        try:
            self._apply(record.key, record.value)
        except MalformedRecordError as error:
            self._log_skipped_record(record, str(error))

    def _log_skipped_record(self, record: TopicRecord, reason: str) -> None:
        self._skipped += 1
        if self._skipped & (self._skipped - 1) == 0:  # a power of two
            _LOG.warning(
                "%s: the record at offset %d cannot be read (%s); skipped (records skipped so far: "
                "%d)",
                record.topic,
                record.offset,
                reason,
                self._skipped,
            )
