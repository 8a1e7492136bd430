r"""Consumer of a sink task: a confluent-kafka consumer that is a member of the connector's group.

Rebalance callbacks run on the task's thread while it polls, as in Java. If the task raises
an exception in a callback, `poll` completes the rebalance in librdkafka and then raises it.

`topics.regex` is matched in this module and not by librdkafka. librdkafka uses the C library's
syntax, in which `\d` matches nothing: a pattern that is valid in Java could match no topic, without
an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import confluent_kafka

from connect_runtime.api.records import TimestampType
from connect_runtime.base.bounded_regex import BoundedPattern
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.system import system_clock
from connect_runtime.worker.task_client_interfaces import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    OnCommitted,
)

TOPIC_LOOKUP_RETRY_DELAY_S = 10.0
"""Delay before the next lookup of topics after a failure."""
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Internal topics, which Java consumers also exclude (`exclude.internal.topics`)."""


class TopicPatternMatcher:
    """Matches topic names against a consumer's pattern. `topics` contains the matching topics,
    sorted."""

    def __init__(self, pattern: BoundedPattern, *, refresh_s: float) -> None:
        """Create the matcher. `refresh_s` is the interval between topic lookups
        (metadata.max.age.ms)."""
        self._pattern = pattern
        self._refresh_s = refresh_s
        self._due_s = float("-inf")
        self.topics: tuple[str, ...] = ()

    def is_lookup_due(self, now_s: float) -> bool:
        """Return whether a lookup of the cluster's topics is due."""
        return now_s >= self._due_s

    def on_lookup_failed(self, now_s: float) -> None:
        """Schedule the next lookup of the cluster's topics after a failed lookup."""
        self._due_s = now_s + min(TOPIC_LOOKUP_RETRY_DELAY_S, self._refresh_s)

    def update_matching_topics(self, names: Iterable[str], now_s: float) -> bool:
        """Match all topic names against the pattern; return whether the matching topics have
        changed.

        Raises `MatchLimitError`.
        """
        self._due_s = now_s + self._refresh_s
        matching = tuple(
            sorted(
                each
                for each in names
                if each not in _INTERNAL_TOPICS and self._matches_topic_name(each)
            )
        )
        changed, self.topics = matching != self.topics, matching
        return changed

    def _matches_topic_name(self, name: str) -> bool:
        return self._pattern.fullmatch(name, key="topics.regex")


COOPERATIVE_STRATEGY = "cooperative-sticky"
"""Value of `partition.assignment.strategy` for incremental rebalances."""
RESET_TO_ERROR = "error"
"""Value of librdkafka's `auto.offset.reset` with which the consumer reports an error if the group
has no committed offset."""
_LOG = logging.getLogger(__name__)
_POSITIONS_TIMEOUT_S = 60.0
"""Same as Java's default.api.timeout.ms, because a newly elected coordinator must load its offsets
first."""
_REQUEST_TIMEOUT_S = 10.0
_RETRY_DELAY_S = 0.1
_Partition = TopicPartition
_TRANSIENT_ERROR_CODES = frozenset(
    {
        client_errors.PARTITION_EOF,
        confluent_kafka.KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - its name in the library
    }
)
_RebalanceCallback = Callable[[Collection[TopicPartition]], None]


class KafkaRecordConsumer:
    """Consumer of a sink task. Implements `RecordConsumer` with confluent-kafka. `RecordConsumer`
    documents the methods."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        settings: Mapping[str, object],
        records_max: int,
        topics_refresh_s: float,
        clock: Clock,
    ) -> None:
        self._where = access.name_and_addresses
        self._clock = clock
        self._records_max = records_max
        self._cooperative = settings.get("partition.assignment.strategy") == COOPERATIVE_STRATEGY
        self._reset = settings.get("auto.offset.reset")
        self._reports = RecentConnectionErrors()
        self._commits: dict[frozenset[tuple[_Partition, int]], OnCommitted] = {}
        self._raised: BaseException | None = None
        self._has_joined = False  # whether the group has ever assigned partitions
        self._start_offsets: dict[_Partition, int] | None = (
            None  # set during an assignment callback
        )
        self._start_paused: set[_Partition] = set()
        self._refresh_s = topics_refresh_s
        self._matching: TopicPatternMatcher | None = None
        self._choose: Callable[[Sequence[str]], None] = lambda _: None
        self._revoked: set[_Partition] = set()  # revoked or lost since the last poll began
        self._metadata = AdminClient(access, client_id=client_id, clock=clock)
        self._consumer = librdkafka_clients.create_consumer(
            access,
            client_id=client_id,
            settings={**settings, "on_commit": self._on_commit},
            reports=self._reports,
        )

    def subscribe(
        self, topics: Sequence[str] | BoundedPattern, listener: ConsumerRebalanceListener
    ) -> None:
        """Subscribe to topics by name or by pattern."""

        def on_assigned(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            self._assign_partitions(partitions, listener.on_partitions_assigned)

        def on_revoked(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            self._revoked.update(_convert_from_library_partitions(partitions))
            self._call_rebalance_listener(listener.on_partitions_revoked, partitions)

        def on_lost(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            self._revoked.update(_convert_from_library_partitions(partitions))
            self._call_rebalance_listener(listener.on_partitions_lost, partitions)

        def select_matching_topics(names: Sequence[str]) -> None:
            self._consumer.subscribe(
                list(names), on_assign=on_assigned, on_revoke=on_revoked, on_lost=on_lost
            )

        if isinstance(topics, BoundedPattern):
            self._choose = select_matching_topics
            self._matching = TopicPatternMatcher(topics, refresh_s=self._refresh_s)
        else:
            select_matching_topics(topics)

    def _refresh_topics(self) -> None:
        now_s = self._clock.now_s()
        if self._matching is None or not self._matching.is_lookup_due(now_s):
            return
        try:
            known = self._metadata.list_topics(_REQUEST_TIMEOUT_S)
        except ConnectError as error:
            self._matching.on_lookup_failed(self._clock.now_s())
            _LOG.warning("%s", error)
            return
        if self._matching.update_matching_topics(known, self._clock.now_s()):
            _LOG.info("topics that match topics.regex: %s", ", ".join(self._matching.topics))
            self._choose(self._matching.topics)

    def poll(self, timeout_s: float) -> Sequence[ConsumerRecord]:
        self._refresh_topics()
        try:
            messages = self._consume_messages(timeout_s)
        except confluent_kafka.KafkaException as error:
            raise self._translate_error(error.args[0], "consuming") from error
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        found = []
        for message in messages:
            wrong = message.error()
            if wrong is None:
                found.append(_convert_to_consumer_record(message))
            elif not client_errors.is_retriable_error(wrong) and not _is_transient_poll_error(
                wrong
            ):
                raise self._translate_error(wrong, f"consuming {message.topic()}")
        if found:
            self._reports.clear_errors()
        elif not self._has_joined:
            self._raise_recorded_security_error()
        return found

    def positions(self, partitions: Collection[_Partition]) -> Mapping[_Partition, int]:
        beginning = self._start_offsets or {}
        if all(each in beginning for each in partitions):
            return {each: beginning[each] for each in partitions}
        end = Deadline.after(_POSITIONS_TIMEOUT_S, now_s=self._clock.now_s())
        found: Mapping[_Partition, int] = {}

        def fetch_all_positions() -> bool:
            nonlocal found
            try:
                found = self._fetch_positions(partitions, end)
            except confluent_kafka.KafkaException as error:
                if end.is_expired(self._clock.now_s()) or not _is_transient_offset_error(
                    error.args[0]
                ):
                    raise self._translate_error(error.args[0], "fetching offsets") from error
                return False
            return True

        left_s = end.remaining_s(self._clock.now_s())
        if not system_clock.wait_until(
            fetch_all_positions, timeout_s=left_s, interval_s=_RETRY_DELAY_S
        ):
            raise self._translate_error(client_errors.create_timeout_error(), "fetching offsets")
        return found

    def seek(self, offsets: Mapping[_Partition, int]) -> None:
        if self._start_offsets is not None:
            self._start_offsets.update(offsets)
            return
        try:
            for each, offset in offsets.items():
                self._consumer.seek(
                    confluent_kafka.TopicPartition(each.topic, each.partition, offset)
                )
        except confluent_kafka.KafkaException as error:
            raise self._translate_error(error.args[0], "seeking") from error

    def pause(self, partitions: Collection[_Partition]) -> None:
        if self._start_offsets is not None:
            self._start_paused.update(partitions)
        elif partitions:
            self._consumer.pause(_convert_to_library_partitions(partitions))

    def resume(self, partitions: Collection[_Partition]) -> None:
        if self._start_offsets is not None:
            self._start_paused.difference_update(partitions)
        elif partitions:
            self._consumer.resume(_convert_to_library_partitions(partitions))

    def commit_async(self, offsets: Mapping[_Partition, int], *, on_committed: OnCommitted) -> None:
        self._commits[frozenset(offsets.items())] = on_committed
        try:
            self._consumer.commit(offsets=_convert_to_library_offsets(offsets), asynchronous=True)
        except confluent_kafka.KafkaException as error:
            del self._commits[frozenset(offsets.items())]
            raise self._translate_error(error.args[0], "committing offsets") from error

    def commit_sync(self, offsets: Mapping[_Partition, int], timeout_s: float) -> None:
        """Commit offsets synchronously. librdkafka applies `socket.timeout.ms` instead of
        `timeout_s`."""
        del timeout_s
        try:
            answers = self._consumer.commit(
                offsets=_convert_to_library_offsets(offsets), asynchronous=False
            )
        except confluent_kafka.KafkaException as error:
            raise self._translate_error(error.args[0], "committing offsets") from error
        for each in answers or ():
            if each.error is not None:
                raise self._translate_error(each.error, f"committing offsets of {each.topic}")

    def close(self, timeout_s: float) -> None:
        """Close the consumer. librdkafka leaves the group within `session.timeout.ms`, not
        `timeout_s`."""
        del timeout_s
        self._consumer.close()
        self._metadata.close()

    def _consume_messages(self, timeout_s: float) -> list[confluent_kafka.Message]:
        """Consume a batch of messages, but wait only for the first message.

        The first message is requested with one library call, and the messages that are already
        available with another, because librdkafka would wait for a complete batch. If a rebalance
        between these calls revokes the partition of the first message, the message is dropped.
        """
        first = self._consumer.consume(1, timeout_s)
        if not first or self._records_max == 1:
            return first
        self._revoked.clear()
        more = self._consumer.consume(self._records_max - 1, 0)
        return [each for each in first if _get_message_partition(each) not in self._revoked] + more

    def _raise_recorded_security_error(self) -> None:
        """Raise an error if the credentials or certificates have been rejected.

        Call only before the consumer has first joined the group. Later rejections (issuer
        unavailable, password being changed) may be transient and are only logged.
        """
        refused = self._reports.get_security_error()
        if refused is not None:
            raise self._translate_error(refused, "joining the group")

    def _assign_partitions(
        self, partitions: list[confluent_kafka.TopicPartition], callback: _RebalanceCallback
    ) -> None:
        """Assign partitions. In its callback, the rebalance listener may set start offsets and
        pause partitions."""
        self._has_joined = True
        try:
            self._start_offsets = dict(self.positions(_convert_from_library_partitions(partitions)))
            self._start_paused = set()
            self._call_rebalance_listener(callback, partitions)
            if self._cooperative:
                self._consumer.incremental_assign(_convert_to_library_offsets(self._start_offsets))
            else:
                self._consumer.assign(_convert_to_library_offsets(self._start_offsets))
            if self._start_paused:
                self._consumer.pause(_convert_to_library_partitions(self._start_paused))
        except (confluent_kafka.KafkaException, ConnectError) as error:
            self._raised = self._raised or error
        finally:
            self._start_offsets = None

    def _call_rebalance_listener(
        self, callback: _RebalanceCallback, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        """Call the rebalance listener. An exception that it raises is stored for `poll`, because it
        must not propagate into librdkafka."""
        try:
            callback(_convert_from_library_partitions(partitions))
        except BaseException as error:  # noqa: BLE001 - raised by `poll`
            self._raised = self._raised or error

    def _fetch_positions(
        self, partitions: Collection[_Partition], end: Deadline
    ) -> Mapping[_Partition, int]:
        """Return the offset to start from for each partition: its committed offset, or a start
        offset if none is committed.

        Raises `KafkaException`.
        """
        left_s = end.remaining_s(self._clock.now_s())
        committed = self._consumer.committed(
            _convert_to_library_partitions(partitions), timeout=min(_REQUEST_TIMEOUT_S, left_s)
        )
        for each in committed:
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)
        return {
            TopicPartition(each.topic, each.partition): (
                each.offset if each.offset >= 0 else self._find_start_offset(each, end)
            )
            for each in committed
        }

    def _find_start_offset(self, of: confluent_kafka.TopicPartition, end: Deadline) -> int:
        """Return the start offset of a partition without a committed offset.

        Raises `FatalError` if `auto.offset.reset` is none.
        """
        if self._reset == RESET_TO_ERROR:
            raise FatalError(
                f"consuming {of.topic}-{of.partition} on {self._where}: the group has no "
                "committed offset, and auto.offset.reset=none allows no default; commit an "
                "offset, or set auto.offset.reset to earliest or latest"
            )
        low, high = self._consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(of.topic, of.partition),
            timeout=max(0.1, min(_REQUEST_TIMEOUT_S, end.remaining_s(self._clock.now_s()))),
        )
        return int(high if self._reset == "latest" else low)

    def _on_commit(
        self,
        error: confluent_kafka.KafkaError | None,
        partitions: list[confluent_kafka.TopicPartition] | None,
    ) -> None:
        partitions = partitions or []
        key = frozenset(
            (TopicPartition(each.topic, each.partition), each.offset) for each in partitions
        )
        callback = self._commits.pop(key, None)
        failed = error or next((each.error for each in partitions if each.error), None)
        if callback is not None:
            callback(
                None if failed is None else self._translate_error(failed, "committing offsets")
            )

    def _translate_error(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)


def _is_transient_offset_error(error: confluent_kafka.KafkaError) -> bool:
    """Return whether reading offsets can be retried after this error, for example because a
    transaction's offsets are pending."""
    unstable = error.code() == confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT
    return unstable or client_errors.is_retriable_error(error)


def _is_transient_poll_error(error: confluent_kafka.KafkaError) -> bool:
    """Return whether polling can continue after an error, such as a topic that does not exist
    yet."""
    return error.code() in _TRANSIENT_ERROR_CODES or client_errors.is_missing_topic_error(error)


def _convert_from_library_partitions(
    partitions: Iterable[confluent_kafka.TopicPartition],
) -> list[_Partition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def _get_message_partition(message: confluent_kafka.Message) -> _Partition | None:
    """Return the partition of a message; None if the message is not a record."""
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        return None
    return TopicPartition(topic, partition)


def _convert_to_library_partitions(
    partitions: Collection[_Partition],
) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(each.topic, each.partition) for each in partitions]


def _convert_to_library_offsets(
    offsets: Mapping[_Partition, int],
) -> list[confluent_kafka.TopicPartition]:
    return [
        confluent_kafka.TopicPartition(each.topic, each.partition, offset)
        for each, offset in offsets.items()
    ]


def _convert_to_consumer_record(message: confluent_kafka.Message) -> ConsumerRecord:
    kind, timestamp = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "librdkafka returned a record without a topic"
    assert partition is not None, "librdkafka returned a record without a partition"
    assert offset is not None, "librdkafka returned a record without an offset"
    types = {
        confluent_kafka.TIMESTAMP_CREATE_TIME: TimestampType.CREATE_TIME,
        confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: TimestampType.LOG_APPEND_TIME,
    }
    headers = librdkafka_clients.read_headers(message)
    known = types.get(kind, TimestampType.NO_TIMESTAMP_TYPE)
    return ConsumerRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        key=_convert_to_bytes(message.key()),
        value=_convert_to_bytes(message.value()),
        timestamp=None if known is TimestampType.NO_TIMESTAMP_TYPE else timestamp,
        timestamp_type=known,
        headers=None
        if headers is None
        else tuple((each[0], _convert_to_bytes(each[1])) for each in headers),
    )


def _convert_to_bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
