"""Reads compacted state topics to their end.

The end is determined when reading starts. The consumer has no group membership and commits
nothing; partitions are assigned only during a read, so an idle reader costs no fetches and
holds no records.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import confluent_kafka

from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.formats.primitive_types import MalformedRecordError
from mm2.kafka.admin import KafkaAdmin
from mm2.kafka.client_interfaces import LogTruncatedError, RecordHandler, TopicRecord

_CONSUMER_CONFIG: dict[str, object] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # tells when the end is reached behind compacted offsets
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
    "fetch.wait.max.ms": 2,  # the next question waits behind the last fetch
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
    "socket.timeout.ms": 15_000,
    "queued.max.messages.kbytes": 16_384,  # what is read and not taken yet
}
_MAX_RECORDS_PER_POLL = 10_000
_STALL_TIMEOUT_S = 1.0
_NO_EPOCH = -1
_NO_MIN_END_OFFSETS: Mapping[str, int] = {}
_PartitionKey = tuple[str, int]
"""A topic and the number of a partition of it."""


@dataclasses.dataclass(slots=True)
class _ReadPosition:
    """Where reading goes on. Invariant: every record below `next_offset` was taken, or is in
    `_found`."""

    name: str
    partition: int = 0
    next_offset: int | None = None
    leader_epoch: int = _NO_EPOCH


class TopicReader:
    """One consumer's life; makes no callback but the library's error and log callbacks."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        topics: Collection[str],
        clock: Clock,
        partitions: int = 1,
    ) -> None:
        """Each of the topics has so many partitions. Nothing is asked of the cluster yet."""
        self._where = access.where
        self._clock = clock
        self._reports = ConnectionReports()
        self._positions = {
            (name, number): _ReadPosition(name, number)
            for name in topics
            for number in range(partitions)
        }
        self._found: list[TopicRecord] = []
        self._consumer = librdkafka_clients.create_consumer(
            access,
            client_id=client_id,
            settings={**_CONSUMER_CONFIG, "group.id": client_id},
            reports=self._reports,
        )

    def read_to_end(
        self, timeout_s: float, *, at_least: Mapping[str, int] = _NO_MIN_END_OFFSETS
    ) -> list[TopicRecord]:
        """Everything that was not read yet, in order per partition.

        `at_least`: ends that topics of one partition are known to have reached. Raises
        `LogTruncatedError` when records that were read are gone: begin anew with another reader.
        What else is raised leaves nothing out: the next call gives what was read so far, too.
        """
        self.feed_to_end(timeout_s, self._found.append, at_least=at_least)
        found, self._found = self._found, []
        return found

    def feed_to_end(
        self,
        timeout_s: float,
        take: RecordHandler,
        *,
        at_least: Mapping[str, int] = _NO_MIN_END_OFFSETS,
    ) -> None:
        """The same, with `take` given each record as it is read, and none again."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        ends = {
            place: self._end_offset(position, end, at_least=at_least.get(position.name, 0))
            for place, position in self._positions.items()
        }
        if self._behind(ends):
            self._assign()
            try:
                self._consume_to(ends, end, take)
            finally:
                self._consumer.unassign()

    def serve(self) -> None:
        """Let the library say what it has to say; between reads it has no records to give."""
        self._consumer.poll(0)

    def close(self) -> None:
        self._consumer.close()

    @property
    def _names(self) -> str:
        return " and ".join(dict.fromkeys(name for name, _ in self._positions))

    def _behind(self, ends: Mapping[_PartitionKey, int]) -> bool:
        return any(
            (self._positions[place].next_offset or 0) < offset for place, offset in ends.items()
        )

    def _end_offset(self, position: _ReadPosition, end: Deadline, *, at_least: int) -> int:
        """The leader's log end now; sets the first position. A stale answer is asked again.

        After a change of leader the new one may answer only once its own view is complete
        (KIP-207); until then it gives a retriable error.
        """
        doing = f"asking for the end of {position.name}"
        at_least = max(at_least, position.next_offset or 0)
        partition = confluent_kafka.TopicPartition(position.name, position.partition)
        while True:
            left_s = end.left_s(self._clock.now_s())
            try:
                low, high = self._consumer.get_watermark_offsets(
                    partition, timeout=max(0.01, min(left_s, 2.0))
                )
            except confluent_kafka.KafkaException as error:
                self._check_patience(error.args[0], end, doing=doing)
            else:
                self._reports.forget()
                if high >= at_least:  # less: a leader that was deposed and does not know it yet
                    self._check_range(position, low, high)
                    return high
                if end.passed(self._clock.now_s()):
                    raise self._truncated(position, f"ends at {high}, not at {at_least} or later")
            self._consumer.poll(0.05)  # nothing is assigned: a pause that hears the library out
            self._refresh_leader(position.name, end)

    def _check_range(self, position: _ReadPosition, low: int, high: int) -> None:
        if position.next_offset is None:
            position.next_offset = low
        elif position.next_offset < low:
            detail = f"has offsets {low} to {high}, and {position.next_offset} comes next"
            raise self._truncated(position, detail)

    def _assign(self) -> None:
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

    def _consume_to(
        self, ends: Mapping[_PartitionKey, int], end: Deadline, take: RecordHandler
    ) -> None:
        moved_s = self._clock.now_s()
        while self._behind(ends):
            first = self._consumer.poll(0.1)
            if first is not None:
                for message in [first, *self._consumer.consume(_MAX_RECORDS_PER_POLL, 0)]:
                    self._take(message, end, take)
                moved_s = self._clock.now_s()
                continue
            stalled = self._clock.now_s() - moved_s >= _STALL_TIMEOUT_S
            if stalled or end.passed(self._clock.now_s()):
                doing = f"reading {self._names}"
                self._check_patience(client_errors.create_timeout_error(), end, doing=doing)
                for name in {name for name, _ in self._positions}:
                    self._refresh_leader(name, end)
                moved_s = self._clock.now_s()

    def _take(self, message: confluent_kafka.Message, end: Deadline, take: RecordHandler) -> None:
        error = message.error()
        position = self._positions.get((message.topic() or "", message.partition() or 0))
        offset = message.offset()
        if error is not None:
            if error.code() == client_errors.PARTITION_EOF and position and offset is not None:
                position.next_offset = max(position.next_offset or 0, offset)
            else:
                self._failed(error, position, end)
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
        position.leader_epoch = _known_epoch(message.leader_epoch())

    def _failed(
        self,
        error: confluent_kafka.KafkaError,
        position: _ReadPosition | None,
        end: Deadline,
    ) -> None:
        if error.code() in client_errors.GROUP_ERRORS:
            return  # no group is used: the right to one is not needed
        if error.code() in client_errors.OUT_OF_RANGE_ERRORS and position is not None:
            raise self._truncated(position, f"answers: {error.str()}")
        name = self._names if position is None else position.name
        self._check_patience(error, end, doing=f"reading {name}")

    def _check_patience(
        self, error: confluent_kafka.KafkaError, end: Deadline, *, doing: str
    ) -> None:
        """Return to try again; raise what waiting does not heal, or when time is up."""
        error = self._reports.refused() or error
        passes = client_errors.is_retriable(error) or client_errors.is_missing_topic(error)
        if not passes or end.passed(self._clock.now_s()):
            raise client_errors.translate_error(
                error, doing, where=self._where, reports=self._reports
            )

    def _refresh_leader(self, name: str, end: Deadline) -> None:
        """Make the library look for the leader now instead of when its cache expires."""
        left_s = max(0.01, min(end.left_s(self._clock.now_s()), 1.0))
        try:
            self._consumer.list_topics(name, timeout=left_s)
        except confluent_kafka.KafkaException as error:
            self._check_patience(error.args[0], end, doing=f"looking for the leader of {name}")

    def _truncated(self, position: _ReadPosition, detail: str) -> LogTruncatedError:
        return LogTruncatedError(
            f"reading {position.name} on {self._where}: it {detail}; it was truncated (unclean "
            "leader election), or deleted and made again, and is read from the beginning"
        )


def _known_epoch(epoch: int | None) -> int:
    return _NO_EPOCH if epoch is None else epoch


class KafkaStateTopics:
    """Implements `StateTopics`. Connects when it is first asked something."""

    def __init__(
        self,
        *,
        listing: KafkaClusterAccess,
        reading: KafkaClusterAccess,
        client_id: str,
        clock: Clock,
    ) -> None:
        """The same cluster twice: users may have rights of their own for either."""
        self._listing = listing
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._admin: KafkaAdmin | None = None

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """See `StateTopics`; so for all below."""
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
"""Folds one in. Raises `MalformedRecordError`, and holds what it held then."""


def apply_records(found: Iterable[TopicRecord], apply: ApplyRecord) -> None:
    """All of them, in order. What has no key, or cannot be read, is told in the log."""
    for each in found:
        where = f"{each.topic}: the record at offset {each.offset}"
        if each.key is None:
            _LOG.warning("%s has no key; it is passed over", where)
            continue
        try:
            apply(each.key, each.value)
        except MalformedRecordError as error:
            _LOG.warning("%s cannot be read (%s); it is passed over", where, error)
