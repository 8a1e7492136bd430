"""Reads a sink task's records: one consumer of confluent-kafka, a member of the group.

Rebalances are told of while the task polls, on its thread, as in Java; what the task raises then
comes out of `poll` once the library has been answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka

from connect_runtime.adapters.kafka import matching_topics
from connect_runtime.api import records
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids, user_pattern
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from connect_runtime.ports import clients
from connect_runtime.system import polling

COOPERATIVE = "cooperative-sticky"
"""A `partition.assignment.strategy` with which a rebalance takes away only what goes elsewhere."""
RESET_REFUSED = "error"
"""An `auto.offset.reset` with which a group that has no offset goes nowhere."""
_LOG = logging.getLogger(__name__)
_POSITIONS_S = 60.0
"""Java's default.api.timeout.ms: a coordinator that was elected anew reads its offsets first."""
_ASK_S = 10.0
_AGAIN_S = 0.1
_Partition = ids.TopicPartition
_PASSING = frozenset(
    {
        translate_errors.PARTITION_EOF,
        confluent_kafka.KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - its name in the library
    }
)
_Told = Callable[[Collection[ids.TopicPartition]], None]


class KafkaRecordConsumer:
    """Implements `clients.RecordConsumer`."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        client_id: str,
        settings: Mapping[str, object],
        records_max: int,
        topics_refresh_s: float,
        clock: base_clock.Clock,
    ) -> None:
        self._where = access.where
        self._clock = clock
        self._records_max = records_max
        self._cooperative = settings.get("partition.assignment.strategy") == COOPERATIVE
        self._reset = settings.get("auto.offset.reset")
        self._reports = translate_errors.ConnectionReports()
        self._commits: dict[frozenset[tuple[_Partition, int]], clients.OnCommitted] = {}
        self._raised: BaseException | None = None
        self._was_let_in = False  # by the group, ever
        self._beginning: dict[_Partition, int] | None = None  # while an assignment is told of
        self._begin_paused: set[_Partition] = set()
        self._refresh_s = topics_refresh_s
        self._matching: matching_topics.MatchingTopics | None = None
        self._choose: Callable[[Sequence[str]], None] = lambda _: None
        self._gone: set[_Partition] = set()  # taken away since the last poll began
        self._consumer = kafka_clients.consumer(
            access,
            client_id=client_id,
            settings={**settings, "on_commit": self._on_commit},
            reports=self._reports,
        )

    def subscribe(
        self, topics: Sequence[str] | user_pattern.Pattern, listener: clients.RebalanceListener
    ) -> None:
        """See `clients.RecordConsumer`; so for all below."""

        def assigned(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            self._assign(partitions, listener.on_assigned)

        def revoked(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            self._gone.update(_ours(partitions))
            self._tell(listener.on_revoked, partitions)

        def lost(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            self._gone.update(_ours(partitions))
            self._tell(listener.on_lost, partitions)

        def choose(names: Sequence[str]) -> None:
            self._consumer.subscribe(
                list(names), on_assign=assigned, on_revoke=revoked, on_lost=lost
            )

        if isinstance(topics, user_pattern.Pattern):
            self._choose = choose
            self._matching = matching_topics.MatchingTopics(topics, refresh_s=self._refresh_s)
        else:
            choose(topics)

    def _look_for_topics(self) -> None:
        now_s = self._clock.now_s()
        if self._matching is None or not self._matching.is_due(now_s):
            return
        try:
            known = self._consumer.list_topics(timeout=_ASK_S).topics
        except confluent_kafka.KafkaException as error:
            self._matching.failed(self._clock.now_s())
            _LOG.warning("topics at %s cannot be looked up: %s", self._where, error.args[0].str())
            return
        if self._matching.found(known, self._clock.now_s()):
            _LOG.info("the topics of the pattern are now %s", ", ".join(self._matching.topics))
            self._choose(self._matching.topics)

    def poll(self, timeout_s: float) -> Sequence[clients.ConsumedRecord]:
        self._look_for_topics()
        try:
            messages = self._consume(timeout_s)
        except confluent_kafka.KafkaException as error:
            raise self._translated(error.args[0], "consuming") from error
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        found = []
        for message in messages:
            wrong = message.error()
            if wrong is None:
                found.append(_record(message))
            elif not translate_errors.is_retriable(wrong) and not _waits(wrong):
                raise self._translated(wrong, f"consuming {message.topic()}")
        if found:
            self._reports.forget()
        elif not self._was_let_in:
            self._raise_refusal()
        return found

    def positions(self, partitions: Collection[_Partition]) -> Mapping[_Partition, int]:
        beginning = self._beginning or {}
        if all(each in beginning for each in partitions):
            return {each: beginning[each] for each in partitions}
        end = base_deadline.Deadline.after(_POSITIONS_S, now_s=self._clock.now_s())
        found: Mapping[_Partition, int] = {}

        def answered() -> bool:
            nonlocal found
            try:
                found = self._ask_positions(partitions, end)
            except confluent_kafka.KafkaException as error:
                if end.passed(self._clock.now_s()) or not _passes(error.args[0]):
                    raise self._translated(error.args[0], "asking for offsets") from error
                return False
            return True

        left_s = end.left_s(self._clock.now_s())
        if not polling.until(answered, timeout_s=left_s, interval_s=_AGAIN_S):
            raise self._translated(translate_errors.timed_out(), "asking for offsets")
        return found

    def seek(self, offsets: Mapping[_Partition, int]) -> None:
        if self._beginning is not None:
            self._beginning.update(offsets)
            return
        try:
            for each, offset in offsets.items():
                self._consumer.seek(
                    confluent_kafka.TopicPartition(each.topic, each.partition, offset)
                )
        except confluent_kafka.KafkaException as error:
            raise self._translated(error.args[0], "going back") from error

    def pause(self, partitions: Collection[_Partition]) -> None:
        if self._beginning is not None:
            self._begin_paused.update(partitions)
        elif partitions:
            self._consumer.pause(_theirs(partitions))

    def resume(self, partitions: Collection[_Partition]) -> None:
        if self._beginning is not None:
            self._begin_paused.difference_update(partitions)
        elif partitions:
            self._consumer.resume(_theirs(partitions))

    def commit(
        self, offsets: Mapping[_Partition, int], *, on_committed: clients.OnCommitted
    ) -> None:
        self._commits[frozenset(offsets.items())] = on_committed
        try:
            self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=True)
        except confluent_kafka.KafkaException as error:
            del self._commits[frozenset(offsets.items())]
            raise self._translated(error.args[0], "committing offsets") from error

    def commit_now(self, offsets: Mapping[_Partition, int], timeout_s: float) -> None:
        """The library has a deadline of its own, `socket.timeout.ms`."""
        del timeout_s
        try:
            answers = self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=False)
        except confluent_kafka.KafkaException as error:
            raise self._translated(error.args[0], "committing offsets") from error
        for each in answers or ():
            if each.error is not None:
                raise self._translated(each.error, f"committing offsets of {each.topic}")

    def close(self, timeout_s: float) -> None:
        """The library leaves the group within `session.timeout.ms` at the latest."""
        del timeout_s
        self._consumer.close()

    def _consume(self, timeout_s: float) -> list[confluent_kafka.Message]:
        """Wait for the first alone: asked for many, the library waits until there are as many.

        A rebalance may come between the two, and take away what the first was read from.
        """
        first = self._consumer.consume(1, timeout_s)
        if not first or self._records_max == 1:
            return first
        self._gone.clear()
        more = self._consumer.consume(self._records_max - 1, 0)
        return [each for each in first if _place(each) not in self._gone] + more

    def _raise_refusal(self) -> None:
        """Wrong credentials or certificates are wrong from the beginning. Refusals that come later
        (a token's issuer is away, a password is just being changed) may pass: they are logged."""
        refused = self._reports.refused()
        if refused is not None:
            raise self._translated(refused, "joining the group")

    def _assign(self, partitions: list[confluent_kafka.TopicPartition], told: _Told) -> None:
        """What the listener seeks and pauses meanwhile is what the assignment begins with."""
        self._was_let_in = True
        try:
            self._beginning = dict(self.positions(_ours(partitions)))
            self._begin_paused = set()
            self._tell(told, partitions)
            if self._cooperative:
                self._consumer.incremental_assign(_with_offsets(self._beginning))
            else:
                self._consumer.assign(_with_offsets(self._beginning))
            if self._begin_paused:
                self._consumer.pause(_theirs(self._begin_paused))
        except (confluent_kafka.KafkaException, errors.ConnectError) as error:
            self._raised = self._raised or error
        finally:
            self._beginning = None

    def _tell(self, told: _Told, partitions: list[confluent_kafka.TopicPartition]) -> None:
        """Nothing may be raised into the library."""
        try:
            told(_ours(partitions))
        except BaseException as error:  # noqa: BLE001 - raised by `poll`
            self._raised = self._raised or error

    def _ask_positions(
        self, partitions: Collection[_Partition], end: base_deadline.Deadline
    ) -> Mapping[_Partition, int]:
        """Raises `KafkaException`, also for one partition of which the coordinator cannot say."""
        left_s = end.left_s(self._clock.now_s())
        committed = self._consumer.committed(_theirs(partitions), timeout=min(_ASK_S, left_s))
        for each in committed:
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)
        return {
            ids.TopicPartition(each.topic, each.partition): (
                each.offset if each.offset >= 0 else self._first(each, end)
            )
            for each in committed
        }

    def _first(self, of: confluent_kafka.TopicPartition, end: base_deadline.Deadline) -> int:
        """Where a group without an offset begins. Raises `FatalError` where it may not."""
        if self._reset == RESET_REFUSED:
            raise errors.FatalError(
                f"consuming {of.topic}-{of.partition} on {self._where}: the group has no offset, "
                "and auto.offset.reset=none allows no other beginning; commit one, or set earliest"
                " or latest"
            )
        low, high = self._consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(of.topic, of.partition),
            timeout=max(0.1, min(_ASK_S, end.left_s(self._clock.now_s()))),
        )
        return int(high if self._reset == "latest" else low)

    def _on_commit(
        self,
        error: confluent_kafka.KafkaError | None,
        partitions: list[confluent_kafka.TopicPartition] | None,
    ) -> None:
        partitions = partitions or []
        key = frozenset(
            (ids.TopicPartition(each.topic, each.partition), each.offset) for each in partitions
        )
        told = self._commits.pop(key, None)
        failed = error or next((each.error for each in partitions if each.error), None)
        if told is not None:
            told(None if failed is None else self._translated(failed, "committing offsets"))

    def _translated(self, error: confluent_kafka.KafkaError, doing: str) -> errors.ConnectError:
        return translate_errors.translate(error, doing, where=self._where, reports=self._reports)


def _passes(error: confluent_kafka.KafkaError) -> bool:
    """The coordinator will say, only not yet: also when a transaction's offsets are pending."""
    unstable = error.code() == confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT
    return unstable or translate_errors.is_retriable(error)


def _waits(error: confluent_kafka.KafkaError) -> bool:
    """A topic that does not exist yet may come; who polled too late is let in again."""
    return error.code() in _PASSING or translate_errors.is_missing_topic(error)


def _ours(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[_Partition]:
    return [ids.TopicPartition(each.topic, each.partition) for each in partitions]


def _place(message: confluent_kafka.Message) -> _Partition | None:
    """None for what is no record of any."""
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        return None
    return ids.TopicPartition(topic, partition)


def _theirs(partitions: Collection[_Partition]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(each.topic, each.partition) for each in partitions]


def _with_offsets(offsets: Mapping[_Partition, int]) -> list[confluent_kafka.TopicPartition]:
    return [
        confluent_kafka.TopicPartition(each.topic, each.partition, offset)
        for each, offset in offsets.items()
    ]


def _record(message: confluent_kafka.Message) -> clients.ConsumedRecord:
    kind, timestamp = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "what is consumed has a topic"
    assert partition is not None, "and a partition"
    assert offset is not None, "and an offset"
    types = {
        confluent_kafka.TIMESTAMP_CREATE_TIME: records.TimestampType.CREATE_TIME,
        confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: records.TimestampType.LOG_APPEND_TIME,
    }
    known = types.get(kind, records.TimestampType.NO_TIMESTAMP_TYPE)
    return clients.ConsumedRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        timestamp=None if known is records.TimestampType.NO_TIMESTAMP_TYPE else timestamp,
        timestamp_type=known,
        headers=tuple((each[0], _bytes(each[1])) for each in _headers(message)),
    )


def _headers(message: confluent_kafka.Message) -> Sequence[tuple[str, str | bytes | None]]:
    found: Any = message.headers()
    return found or ()


def _bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
