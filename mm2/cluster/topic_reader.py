"""Reads topics to their ends as they are when asked: topics that are state.

A consumer without a group (the library wants a group id; nothing is ever committed). It is
assigned its partitions for the length of one read only: in between it costs no fetches and holds
no records, and every read starts from the position noted here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import confluent_kafka

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from mm2.cluster import errors as cluster_errors
from mm2.cluster import state_topics

_CONSUMER: dict[str, object] = {
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
_BATCH = 10_000
_STALLED_S = 1.0
_NO_EPOCH = -1
_NOTHING: Mapping[str, int] = {}
_Place = tuple[str, int]
"""A topic and the number of a partition of it."""


@dataclasses.dataclass(slots=True)
class _Position:
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
        access: kafka_access.Access,
        *,
        client_id: str,
        topics: Collection[str],
        clock: base_clock.Clock,
        partitions: int = 1,
    ) -> None:
        """Each of the topics has so many partitions. Nothing is asked of the cluster yet."""
        self._where = access.where
        self._clock = clock
        self._reports = translate_errors.ConnectionReports()
        self._positions = {
            (name, number): _Position(name, number)
            for name in topics
            for number in range(partitions)
        }
        self._found: list[state_topics.TopicRecord] = []
        self._consumer = kafka_clients.consumer(
            access,
            client_id=client_id,
            settings={**_CONSUMER, "group.id": client_id},
            reports=self._reports,
        )

    def read_to_end(
        self, timeout_s: float, *, at_least: Mapping[str, int] = _NOTHING
    ) -> list[state_topics.TopicRecord]:
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
        take: state_topics.Take,
        *,
        at_least: Mapping[str, int] = _NOTHING,
    ) -> None:
        """The same, with `take` given each record as it is read, and none again."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
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

    def _behind(self, ends: Mapping[_Place, int]) -> bool:
        return any(
            (self._positions[place].next_offset or 0) < offset for place, offset in ends.items()
        )

    def _end_offset(
        self, position: _Position, end: base_deadline.Deadline, *, at_least: int
    ) -> int:
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

    def _check_range(self, position: _Position, low: int, high: int) -> None:
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
        self, ends: Mapping[_Place, int], end: base_deadline.Deadline, take: state_topics.Take
    ) -> None:
        moved_s = self._clock.now_s()
        while self._behind(ends):
            first = self._consumer.poll(0.1)
            if first is not None:
                for message in [first, *self._consumer.consume(_BATCH, 0)]:
                    self._take(message, end, take)
                moved_s = self._clock.now_s()
                continue
            stalled = self._clock.now_s() - moved_s >= _STALLED_S
            if stalled or end.passed(self._clock.now_s()):
                doing = f"reading {self._names}"
                self._check_patience(translate_errors.timed_out(), end, doing=doing)
                for name in {name for name, _ in self._positions}:
                    self._refresh_leader(name, end)
                moved_s = self._clock.now_s()

    def _take(
        self, message: confluent_kafka.Message, end: base_deadline.Deadline, take: state_topics.Take
    ) -> None:
        error = message.error()
        position = self._positions.get((message.topic() or "", message.partition() or 0))
        offset = message.offset()
        if error is not None:
            if error.code() == translate_errors.PARTITION_EOF and position and offset is not None:
                position.next_offset = max(position.next_offset or 0, offset)
            else:
                self._failed(error, position, end)
            return
        assert position is not None, message.topic()
        assert offset is not None
        take(
            state_topics.TopicRecord(
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
        position: _Position | None,
        end: base_deadline.Deadline,
    ) -> None:
        if error.code() in translate_errors.GROUP_TROUBLE:
            return  # no group is used: the right to one is not needed
        if error.code() in translate_errors.OUT_OF_RANGE and position is not None:
            raise self._truncated(position, f"answers: {error.str()}")
        name = self._names if position is None else position.name
        self._check_patience(error, end, doing=f"reading {name}")

    def _check_patience(
        self, error: confluent_kafka.KafkaError, end: base_deadline.Deadline, *, doing: str
    ) -> None:
        """Return to try again; raise what waiting does not heal, or when time is up."""
        error = self._reports.refused() or error
        passes = translate_errors.is_retriable(error) or translate_errors.is_missing_topic(error)
        if not passes or end.passed(self._clock.now_s()):
            raise translate_errors.translate(error, doing, where=self._where, reports=self._reports)

    def _refresh_leader(self, name: str, end: base_deadline.Deadline) -> None:
        """Make the library look for the leader now instead of when its cache expires."""
        left_s = max(0.01, min(end.left_s(self._clock.now_s()), 1.0))
        try:
            self._consumer.list_topics(name, timeout=left_s)
        except confluent_kafka.KafkaException as error:
            self._check_patience(error.args[0], end, doing=f"looking for the leader of {name}")

    def _truncated(self, position: _Position, detail: str) -> cluster_errors.LogTruncatedError:
        return cluster_errors.LogTruncatedError(
            f"reading {position.name} on {self._where}: it {detail}; it was truncated (unclean "
            "leader election), or deleted and made again, and is read from the beginning"
        )


def _known_epoch(epoch: int | None) -> int:
    return _NO_EPOCH if epoch is None else epoch
