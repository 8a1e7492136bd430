"""Reads compacted state topics to their end.

The end offsets are determined when reading starts. The consumer does not join a group and does not
commit offsets. Partitions are assigned only during a read, so an idle reader sends no fetch
requests and buffers no records.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import confluent_kafka

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.formats.primitive_types import MalformedRecordError
from mm2.kafka.admin import KafkaAdmin
from mm2.kafka.client_interfaces import LogTruncatedError, RecordHandler, TopicRecord

_CONSUMER_CONFIG: dict[str, object] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # reports the end even if the last offsets are compacted
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
    "fetch.wait.max.ms": 2,  # the next request waits for the last fetch
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
    "socket.timeout.ms": 15_000,
    "queued.max.messages.kbytes": 16_384,  # records that are fetched but not consumed
}
_MAX_RECORDS_PER_POLL = 10_000
_STALL_TIMEOUT_S = 1.0
_NO_EPOCH = -1
_NO_MIN_END_OFFSETS: Mapping[str, int] = {}
_PartitionKey = tuple[str, int]
"""Topic and partition number."""


@dataclasses.dataclass(slots=True)
class _ReadPosition:
    """Next offset to read from a partition. Invariant: every record below `next_offset` was passed
    on or is in `_found`."""

    name: str
    partition: int = 0
    next_offset: int | None = None
    leader_epoch: int = _NO_EPOCH


class TopicReader:
    """Reads topics to their current end with one consumer, repeatedly."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        topics: Collection[str],
        clock: Clock,
        partitions: int = 1,
    ) -> None:
        """Create a reader without connecting. Each topic has `partitions` partitions."""
        self._where = access.where
        self._clock = clock
        self._reports = ConnectionReports()
        self._positions = {
            (name, number): _ReadPosition(name, number)
            for name in topics
            for number in range(partitions)
        }
        self._found: list[TopicRecord] = []
        self._metadata = AdminClient(access, client_id=client_id, clock=clock)
        self._consumer = librdkafka_clients.create_consumer(
            access,
            client_id=client_id,
            settings={**_CONSUMER_CONFIG, "group.id": client_id},
            reports=self._reports,
        )

    def read_to_end(
        self, timeout_s: float, *, at_least: Mapping[str, int] = _NO_MIN_END_OFFSETS
    ) -> list[TopicRecord]:
        """Read all records since the last call, in order per partition.

        `at_least` contains end offsets that single-partition topics are known to have reached.
        Raises `LogTruncatedError` if records that were already read no longer exist: create a new
        reader. No records are lost after other errors, because the next call returns the records
        that were read before the error.
        """
        self.read_each_to_end(timeout_s, self._found.append, at_least=at_least)
        found, self._found = self._found, []
        return found

    def read_each_to_end(
        self,
        timeout_s: float,
        take: RecordHandler,
        *,
        at_least: Mapping[str, int] = _NO_MIN_END_OFFSETS,
    ) -> None:
        """Read records like `read_to_end`, but pass each record to `take` once, as soon as it is
        read."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        ends = {
            place: self._find_end_offset(position, end, at_least=at_least.get(position.name, 0))
            for place, position in self._positions.items()
        }
        if self._is_behind(ends):
            self._assign_partitions()
            try:
                self._consume_to_end_offsets(ends, end, take)
            finally:
                self._consumer.unassign()

    def run_callbacks(self) -> None:
        """Run librdkafka callbacks. No records are fetched between reads."""
        self._consumer.poll(0)

    def close(self) -> None:
        self._consumer.close()
        self._metadata.close()

    @property
    def _format_partition_names(self) -> str:
        return " and ".join(dict.fromkeys(name for name, _ in self._positions))

    def _is_behind(self, ends: Mapping[_PartitionKey, int]) -> bool:
        return any(
            (self._positions[place].next_offset or 0) < offset for place, offset in ends.items()
        )

    def _find_end_offset(self, position: _ReadPosition, end: Deadline, *, at_least: int) -> int:
        """Return the leader's current log end offset, and set the initial position. Stale responses
        are retried.

        A new leader returns a retriable error until its own view is complete (KIP-207).
        """
        doing = f"reading the log end of {position.name}"
        at_least = max(at_least, position.next_offset or 0)
        partition = confluent_kafka.TopicPartition(position.name, position.partition)
        while True:
            left_s = end.remaining_s(self._clock.now_s())
            try:
                low, high = self._consumer.get_watermark_offsets(
                    partition, timeout=max(0.01, min(left_s, 2.0))
                )
            except confluent_kafka.KafkaException as error:
                self._raise_unless_retriable(error.args[0], end, doing=doing)
            else:
                self._reports.clear()
                if high >= at_least:  # lower: a deposed leader that does not know it yet
                    self._check_position_range(position, low, high)
                    return high
                if end.is_expired(self._clock.now_s()):
                    raise self._create_truncated_error(
                        position, f"the log ends at offset {high}, below the known end {at_least}"
                    )
            self._consumer.poll(0.05)  # nothing is assigned: waits and runs callbacks
            self._refresh_leader(position.name, end)

    def _check_position_range(self, position: _ReadPosition, low: int, high: int) -> None:
        if position.next_offset is None:
            position.next_offset = low
        elif position.next_offset < low:
            following = position.next_offset
            detail = (
                f"the log has offsets {low} to {high}, but the next offset to read is {following}"
            )
            raise self._create_truncated_error(position, detail)

    def _assign_partitions(self) -> None:
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(
                    position.name,
                    position.partition,
                    position.next_offset or 0,
                    leader_epoch=position.leader_epoch,
                )
                for position in self._positions.values()
            ]
        )

    def _consume_to_end_offsets(
        self, ends: Mapping[_PartitionKey, int], end: Deadline, take: RecordHandler
    ) -> None:
        moved_s = self._clock.now_s()
        while self._is_behind(ends):
            first = self._consumer.poll(0.1)
            if first is not None:
                for message in [first, *self._consumer.consume(_MAX_RECORDS_PER_POLL, 0)]:
                    self._handle_message(message, end, take)
                moved_s = self._clock.now_s()
                continue
            stalled = self._clock.now_s() - moved_s >= _STALL_TIMEOUT_S
            if stalled or end.is_expired(self._clock.now_s()):
                doing = f"reading {self._format_partition_names}"
                self._raise_unless_retriable(client_errors.create_timeout_error(), end, doing=doing)
                for name in {name for name, _ in self._positions}:
                    self._refresh_leader(name, end)
                moved_s = self._clock.now_s()

    def _handle_message(
        self, message: confluent_kafka.Message, end: Deadline, take: RecordHandler
    ) -> None:
        error = message.error()
        position = self._positions.get((message.topic() or "", message.partition() or 0))
        offset = message.offset()
        if error is not None:
            if error.code() == client_errors.PARTITION_EOF and position and offset is not None:
                position.next_offset = max(position.next_offset or 0, offset)
            else:
                self._handle_consumer_error(error, position, end)
            return
        assert position is not None, message.topic()
        assert offset is not None
        take(
            TopicRecord(
                topic=position.name,
                offset=offset,
                key=message.key(),
                value=message.value(),
                time_ms=message.timestamp()[1],
            )
        )
        position.next_offset = offset + 1
        position.leader_epoch = _convert_epoch(message.leader_epoch())

    def _handle_consumer_error(
        self,
        error: confluent_kafka.KafkaError,
        position: _ReadPosition | None,
        end: Deadline,
    ) -> None:
        if error.code() in client_errors.GROUP_ERRORS:
            return  # no group is used, so no ACL for one is needed
        if error.code() in client_errors.OUT_OF_RANGE_ERRORS and position is not None:
            raise self._create_truncated_error(
                position, f"the broker returned: {client_errors.get_text(error)}"
            )
        name = self._format_partition_names if position is None else position.name
        self._raise_unless_retriable(error, end, doing=f"reading {name}")

    def _raise_unless_retriable(
        self, error: confluent_kafka.KafkaError, end: Deadline, *, doing: str
    ) -> None:
        """Do nothing if a retry may succeed. Raise permanent errors, and any error after the
        timeout."""
        error = self._reports.get_refusal() or error
        may_retry = client_errors.is_retriable(error) or client_errors.is_missing_topic(error)
        if not may_retry or end.is_expired(self._clock.now_s()):
            raise client_errors.translate_error(
                error, doing, where=self._where, reports=self._reports
            )

    def _refresh_leader(self, name: str, end: Deadline) -> None:
        """Make librdkafka look up the leader immediately instead of when its cached metadata
        expires."""
        left_s = max(0.01, min(end.remaining_s(self._clock.now_s()), 1.0))
        try:
            # Malformed metadata, which would end the process inside the library, is rejected here.
            self._metadata.describe_topics([name], left_s)
            self._consumer.list_topics(name, timeout=left_s)
        except confluent_kafka.KafkaException as error:
            self._raise_unless_retriable(error.args[0], end, doing=f"finding the leader of {name}")
        except RetriableError:
            if end.is_expired(self._clock.now_s()):
                raise

    def _create_truncated_error(self, position: _ReadPosition, detail: str) -> LogTruncatedError:
        return LogTruncatedError(
            f"reading {position.name} on {self._where}: {detail}; the topic was truncated "
            "(unclean leader election) or recreated, and will be read again from the beginning"
        )


def _convert_epoch(epoch: int | None) -> int:
    return _NO_EPOCH if epoch is None else epoch


class KafkaStateTopics:
    """Implementation of `StateTopics` that connects on first use."""

    def __init__(
        self,
        *,
        listing: KafkaClusterAccess,
        reading: KafkaClusterAccess,
        client_id: str,
        clock: Clock,
    ) -> None:
        """Create the client. `listing` and `reading` are logins to the same cluster: one for
        listing topics, the other for reading records."""
        self._listing = listing
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._admin: KafkaAdmin | None = None

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """List all topics. `StateTopics` documents this method and the methods below."""
        if self._admin is None:
            self._admin = KafkaAdmin(self._listing, client_id=self._client_id, clock=self._clock)
        return self._admin.list_topics(timeout_s)

    def read_topic(self, topic: str, timeout_s: float, *, partitions: int = 1) -> list[TopicRecord]:
        reader = TopicReader(
            self._reading,
            client_id=self._client_id,
            topics=[topic],
            clock=self._clock,
            partitions=partitions,
        )
        try:
            return reader.read_to_end(timeout_s)
        finally:
            reader.close()

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


_LOG = logging.getLogger(__name__)

ApplyRecord: TypeAlias = Callable[[bytes, bytes | None], object]
"""Function that applies one record. If it raises `MalformedRecordError`, it has changed nothing."""


def apply_records(found: Iterable[TopicRecord], apply: ApplyRecord) -> None:
    """Apply all records in order. Records without a key and unreadable records are logged and
    skipped."""
    for each in found:
        where = f"{each.topic}: the record at offset {each.offset}"
        if each.key is None:
            _LOG.warning("%s has no key; skipped", where)
            continue
        try:
            apply(each.key, each.value)
        except MalformedRecordError as error:
            _LOG.warning("%s cannot be read (%s); skipped", where, error)
