"""Reads a flow's durable state (offset map and incidents, one topic each) and appends to it.

A store is used by one thread only. Records are appended in the order in which a copy process sends
them. Only the offset map of the task's partitions is kept in memory. `TaskStateStore` reopens the
store after a failure.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import EraKey, MapKey, NewEraRequestKey
from mm2.kafka.flow_state_topics import MisconfiguredTopicError
from mm2.kafka.kafka_client_interfaces import (
    FlowStateLog,
    FlowStateLogFullError,
    FlowStateTopic,
    LogTruncatedError,
    OnRecorded,
    StoredLogRecord,
)
from mm2.offsets.offset_map import OffsetMap
from mm2.replication import recovery_instructions
from mm2.replication.recovery_instructions import (
    FlowStateRecord,
    JavaMirrorProgress,
    RecoveredState,
)

LEDGER_READ_TIMEOUT_S = 4.0
"""Time limit for reading a flow's offset map and incident topics to their end. Shorter than
`control_channel_messages.PEER_TIMEOUT_S`, because no heartbeats are sent during a read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredStateRequest:
    """A copy process's request for the recovered state of a partition (`ReadRecoveredState`).
    `target` is a target offset to translate to a source offset; None if none is needed."""

    partition: TopicPartition
    target: int | None
    answer: Callable[[RecoveredState | None, str], None]
    """Called with the recovered state, or with None and the error."""


JavaProgressByPartition = Mapping[TopicPartition, JavaMirrorProgress]
ReadJavaProgress = Callable[[Collection[TopicPartition]], JavaProgressByPartition]
"""Reads the current progress of partitions from Java's topics. Raises `RetriableError` if a later
attempt may succeed, otherwise `FatalError`."""


def must_reopen_log(error: ConnectError) -> bool:
    """Return True if the flow's log (its offset map and incident topics) must be reopened after
    `error`. After a timeout, reading continues at the current position instead."""
    truncated = isinstance(error, LogTruncatedError)
    return truncated or not isinstance(error, RetriableError)


class FlowStateStore:
    """Reads a flow's offset map and incident topics, and appends records to them.

    Invariant: the map in memory contains only records that were read back from the log, never
    records that were only sent.
    """

    def __init__(
        self,
        log: FlowStateLog,
        *,
        partitions: Collection[TopicPartition] | None = None,
        read_java_progress: ReadJavaProgress = lambda _: {},
    ) -> None:
        """Create a store that keeps the offset map of `partitions` in memory; None keeps all
        partitions."""
        self._log = log
        self._record_filter = (
            _keep_all_records if partitions is None else _build_record_filter(partitions)
        )
        self._java = read_java_progress
        self._map = self._create_offset_map()
        self._state_requests: list[RecoveredStateRequest] = []

    def open(self, timeout_s: float) -> None:
        """Open the flow's log and start with an empty map. Raises the same errors as
        `FlowStateLog.open`."""
        self._log.open(timeout_s)
        self._map = self._create_offset_map()

    def _create_offset_map(self) -> OffsetMap:
        return OffsetMap(key_filter=self._record_filter)

    @property
    def is_busy(self) -> bool:
        """True if requests or appends are pending and `run_once` should be called without delay."""
        return bool(self._state_requests) or self._log.pending_record_count > 0

    def close(self, timeout_s: float) -> None:
        self._log.close(timeout_s)

    def append(self, item: FlowStateRecord, *, on_recorded: OnRecorded) -> None:
        """Append an item to the flow's log (offset map or incident topic). Raises the same errors
        as `FlowStateLog.append`."""
        topic = FlowStateTopic.INCIDENTS if item.incident else FlowStateTopic.MAP
        self._log.append(topic, item.key, item.value, on_recorded=on_recorded)

    def request_recovered_state(self, request: RecoveredStateRequest) -> None:
        """Queue a copy process's request for recovered state. `run_once` responds to it."""
        self._state_requests.append(request)

    def run_once(self, timeout_s: float) -> None:
        """Run the callbacks of stored items. If requests are queued, read the log to its end once
        and respond to all of them.

        Raises `RetriableError` or `FatalError` if the log is broken and must be reopened.
        """
        self._log.poll(timeout_s)
        if not self._state_requests:
            return
        requests, self._state_requests = self._state_requests, []
        try:
            self.read_offset_map_to_end()
        except RetriableError as error:
            for each in requests:
                each.answer(None, str(error))
            if must_reopen_log(error):
                raise
            return
        try:
            java = self._java({each.partition for each in requests})
        except ConnectError as error:
            for each in requests:
                each.answer(None, f"reading the progress of Java's MirrorMaker: {error}")
            return
        for each in requests:
            each.answer(self._build_recovered_state(each, java.get(each.partition)), "")

    def _build_recovered_state(
        self, request: RecoveredStateRequest, java: JavaMirrorProgress | None
    ) -> RecoveredState:
        for each in self._map.list_unreadable_records(request.partition):
            return RecoveredState(unreadable=recovery_instructions.convert_unreadable_record(each))
        self._clear_superseded_segments(request.partition)
        state = recovery_instructions.extract_recovered_state(
            self._map.get_partition(request.partition), target=request.target
        )
        return dataclasses.replace(state, java=java)

    def read_offset_map_to_end(self, timeout_s: float = LEDGER_READ_TIMEOUT_S) -> OffsetMap:
        """Read to the end of the flow's log and return the offset map. Call on the owner's thread
        only.

        The map of a partition is valid only if none of the map's unreadable records can belong to
        the partition (`OffsetMap.list_unreadable_records`). Raises `RetriableError` in the same
        cases as `FlowStateLog.read_to_end`.
        """
        self._log.read_to_end(timeout_s, self._apply_record)
        return self._map

    def _apply_record(self, record: StoredLogRecord) -> None:
        if record.topic is FlowStateTopic.MAP:
            self._map.apply_record_or_keep_unreadable(
                record.key, record.value, offset=record.offset
            )

    def _clear_superseded_segments(self, partition: TopicPartition) -> None:
        """Delete the segments that the newest owner's resume point supersedes from the offset map
        topic. Earlier owners of the partition wrote them."""
        progress = self._map.get_partition(partition)
        anchor = progress.resume_point
        if anchor is None:
            return
        for key in progress.list_superseded_keys(anchor.key):
            # If the log is full, the next acquisition writes the tombstone.
            with contextlib.suppress(FlowStateLogFullError):
                self._log.append(
                    FlowStateTopic.MAP,
                    offset_map_records.encode_map_key(key),
                    None,
                    on_recorded=_ignore_tombstone_error,
                )


def _keep_all_records(_: MapKey) -> bool:
    return True


def _build_record_filter(share: Collection[TopicPartition]) -> Callable[[MapKey], bool]:
    """Build a filter that keeps all map records of the assigned partitions. For the other
    partitions of the same topics, it keeps only eras (mirror generations) and era requests, which
    show whether the topic was replicated before."""
    kept = frozenset(share)
    topics = {each.topic for each in kept}

    def is_record_kept(key: MapKey) -> bool:
        if TopicPartition(key.topic, key.partition) in kept:
            return True
        is_era_record = isinstance(key, EraKey | NewEraRequestKey)
        return is_era_record and key.topic in topics

    return is_record_kept


def _ignore_tombstone_error(_error: ConnectError | None) -> None:
    """Ignore a failed tombstone write. The next acquisition of the partition writes the tombstone
    again."""


LEDGER_ATTEMPT_TIMEOUT_S = 4.0
"""Time limit of one attempt to open or read a flow's offset map and incident topics. An attempt
delays stopping the task."""
LEDGER_UNAVAILABLE = "the flow's internal topics on the target cannot be used"
_LOG = logging.getLogger(__name__)


class _OpeningStage(enum.Enum):
    """State of a flow's state store: closed, being read to its end, or ready."""

    CLOSED = "closed"
    READING = "reading"
    READY = "ready"


class TaskStateStore:
    """Opens a flow's state store and reopens it after failures. Not thread-safe.

    `unavailable_reason` states why the store is not ready; "" while it is ready.
    """

    def __init__(self, store: FlowStateStore, *, clock: Clock, random: Random) -> None:
        self.store = store
        self.unavailable_reason = "reading the flow's internal topics on the target"
        self._clock = clock
        self._random = random
        self._stage = _OpeningStage.CLOSED
        self._backoff = Backoff(initial_s=0.5, max_s=15.0)
        self._due_s = 0.0
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)
        self._closing = False

    @property
    def is_ready(self) -> bool:
        return self._stage is _OpeningStage.READY

    def open_or_read_store(self) -> None:
        """Open the flow's store or continue reading it, if the next attempt is due. Raises
        `FatalError` if access is denied."""
        if self.is_ready or self._clock.now_s() < self._due_s:
            return
        try:
            if self._stage is _OpeningStage.CLOSED:
                self.store.open(LEDGER_ATTEMPT_TIMEOUT_S)
                self._stage = _OpeningStage.READING
            self.store.read_offset_map_to_end(LEDGER_ATTEMPT_TIMEOUT_S)
        except (RetriableError, MisconfiguredTopicError) as error:
            if must_reopen_log(error):
                self._stage = _OpeningStage.CLOSED
            self._schedule_retry(error)
            return
        self._stage = _OpeningStage.READY
        self.unavailable_reason = ""
        self._backoff.reset()
        self._warnings.reset(LEDGER_UNAVAILABLE)

    def run_once(self) -> None:
        """Respond to the store's queued requests and run its callbacks."""
        try:
            self.store.run_once(0.0)
        except ConnectError as error:
            self.mark_broken(error)

    def read_offset_map(self, timeout_s: float = LEDGER_ATTEMPT_TIMEOUT_S) -> OffsetMap | None:
        """Return the current offset map. Returns None if the map cannot be read now."""
        try:
            return self.store.read_offset_map_to_end(timeout_s)
        except ConnectError as error:
            if must_reopen_log(error):
                self.mark_broken(error)
            return None

    def mark_broken(self, error: ConnectError) -> None:
        """Mark the flow's store as unusable after an error, so that `open_or_read_store` reopens
        it."""
        self._stage = _OpeningStage.CLOSED
        self._schedule_retry(error)

    def _schedule_retry(self, error: ConnectError) -> None:
        before, self.unavailable_reason = self.unavailable_reason, f"{LEDGER_UNAVAILABLE}: {error}"
        self._due_s = self._clock.now_s() + self._backoff.next_delay_s(self._random)
        if not self._closing:
            self._warnings.warn(
                LEDGER_UNAVAILABLE,
                suggested_commands.insert_sentence_before_remedy(str(error), "Retrying."),
            )
        elif self.unavailable_reason != before:  # every lost record reports the same error
            _LOG.info(
                "progress not saved (%s); the task that acquires the partitions next will recover "
                "the progress from the target log",
                error,
            )

    def close(self, timeout_s: float) -> None:
        self._closing = True
        self.store.close(timeout_s)
