"""A flow's own durable records: its offset map and incident topics, opened, read and appended.

One thread owns a ledger. It keeps the order of each copy's stream, and holds in memory only
what the task's own partitions need. `TaskLedger` opens the ledger again after a failure.
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
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from mm2 import operator_commands
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import EraKey, MapKey, NewEraRequestKey
from mm2.kafka.client_interfaces import (
    FlowLog,
    FlowLogFullError,
    FlowLogTopic,
    LogTruncatedError,
    OnRecorded,
)
from mm2.kafka.flow_log_topics import MisconfiguredTopicError
from mm2.offsets.offset_map import OffsetMap
from mm2.replication import recovery_instructions
from mm2.replication.recovery_instructions import FlowLogItem, JavaMirrorProgress, RecoveredState

LEDGER_READ_TIMEOUT_S = 4.0
"""Shorter than the silence after which copies give their worker up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredStateRequest:
    """One copy asks for one partition's facts; `target` as in `ReadRecoveredState`."""

    partition: TopicPartition
    target: int | None
    answer: Callable[[RecoveredState | None, str], None]


JavaProgressByPartition = Mapping[TopicPartition, JavaMirrorProgress]
ReadJavaProgress = Callable[[Collection[TopicPartition]], JavaProgressByPartition]
"""What Java's topics say of partitions, as of now; raises `RetriableError` and `FatalError`."""


def must_reopen_log(error: ConnectError) -> bool:
    """Must the log be opened again? Where reading only took too long, it goes on where it was."""
    truncated = isinstance(error, LogTruncatedError)
    return truncated or not isinstance(error, RetriableError)


class FlowLedger:
    """Invariant: the fold holds exactly what was read back from the log, never what was only
    sent."""

    def __init__(
        self,
        log: FlowLog,
        *,
        share: Collection[TopicPartition] | None = None,
        java: ReadJavaProgress = lambda _: {},
    ) -> None:
        """`share` None: all partitions are kept."""
        self._log = log
        self._keeps = _keep_all_records if share is None else _build_record_filter(share)
        self._java = java
        self._map = self._new_map()
        self._wanted: list[RecoveredStateRequest] = []

    def open(self, timeout_s: float) -> None:
        """Raises as `FlowLog.open`."""
        self._log.open(timeout_s)
        self._map = self._new_map()

    def _new_map(self) -> OffsetMap:
        return OffsetMap(keeps=self._keeps)

    @property
    def busy(self) -> bool:
        """Is something on its way, so that news of it come soon?"""
        return bool(self._wanted) or self._log.pending > 0

    def close(self, timeout_s: float) -> None:
        self._log.close(timeout_s)

    def append(self, item: FlowLogItem, *, on_recorded: OnRecorded) -> None:
        """Raises as `FlowLog.append`."""
        topic = FlowLogTopic.INCIDENTS if item.incident else FlowLogTopic.MAP
        self._log.append(topic, item.key, item.value, on_recorded=on_recorded)

    def want(self, wanted: RecoveredStateRequest) -> None:
        self._wanted.append(wanted)

    def work(self, timeout_s: float) -> None:
        """Run callbacks of what was stored; answer questions, all with one read to the end.

        Raises `RetriableError` or `FatalError` when the log is broken: open it again.
        """
        self._log.poll(timeout_s)
        if not self._wanted:
            return
        wanted, self._wanted = self._wanted, []
        try:
            self.catch_up()
        except RetriableError as error:
            for each in wanted:
                each.answer(None, str(error))
            if must_reopen_log(error):
                raise
            return
        try:
            java = self._java({each.partition for each in wanted})
        except ConnectError as error:
            for each in wanted:
                each.answer(None, f"reading what Java mirrored: {error}")
            return
        for each in wanted:
            each.answer(self._facts(each, java.get(each.partition)), "")

    def _facts(
        self, wanted: RecoveredStateRequest, java: JavaMirrorProgress | None
    ) -> RecoveredState:
        for each in self._map.unreadable(wanted.partition):
            return RecoveredState(unreadable=recovery_instructions.describe_unreadable(each))
        self._clear_superseded(wanted.partition)
        found = recovery_instructions.extract_recovered_state(
            self._map.partition(wanted.partition), target=wanted.target
        )
        return dataclasses.replace(found, java=java)

    def catch_up(self, timeout_s: float = LEDGER_READ_TIMEOUT_S) -> OffsetMap:
        """The map as of now; for readers on the ledger's own thread. What it says of a partition
        counts only where nothing `unreadable` may concern it.

        Raises `RetriableError` as `FlowLog.read_to_end`.
        """
        for record in self._log.read_to_end(timeout_s):
            if record.topic is FlowLogTopic.MAP:
                self._map.fold(record.key, record.value, offset=record.offset)
        return self._map

    def _clear_superseded(self, partition: TopicPartition) -> None:
        """Delete older owners' segments above where the newest anchor's Take began."""
        known = self._map.partition(partition)
        anchor = known.anchor
        if anchor is None:
            return
        for key in known.superseded(anchor.key):
            # With no room now it is deleted at the next take-over.
            with contextlib.suppress(FlowLogFullError):
                self._log.append(
                    FlowLogTopic.MAP,
                    offset_map_records.encode_key(key),
                    None,
                    on_recorded=_ignore_tombstone_error,
                )


def _keep_all_records(_: MapKey) -> bool:
    return True


def _build_record_filter(share: Collection[TopicPartition]) -> Callable[[MapKey], bool]:
    """Of a share's partitions everything; of the others of its topics what tells whether the topic
    is in progress."""
    kept = frozenset(share)
    topics = {each.topic for each in kept}

    def keeps(key: MapKey) -> bool:
        if TopicPartition(key.topic, key.partition) in kept:
            return True
        tells = isinstance(key, EraKey | NewEraRequestKey)
        return tells and key.topic in topics

    return keeps


def _ignore_tombstone_error(_error: ConnectError | None) -> None:
    """A lost tombstone is written again at the next take-over."""


LEDGER_ATTEMPT_TIMEOUT_S = 4.0
"""To open or read: who stops the task waits no longer than that."""
LEDGER_UNAVAILABLE = "the flow's own topics on the target cannot be used"
_LOG = logging.getLogger(__name__)


class _OpenStage(enum.Enum):
    CLOSED = "closed"
    READING = "reading"
    READY = "ready"


class TaskLedger:
    """One thread's. `trouble` says why it is not ready; "" while it is."""

    def __init__(self, ledger: FlowLedger, *, clock: Clock, random: Random) -> None:
        self.ledger = ledger
        self.trouble = "reading the flow's own topics on the target"
        self._clock = clock
        self._random = random
        self._stage = _OpenStage.CLOSED
        self._backoff = Backoff(initial_s=0.5, max_s=15.0)
        self._due_s = 0.0
        self._complaints = RateLimitedWarnings(_LOG, clock=clock)
        self._closing = False

    @property
    def ready(self) -> bool:
        return self._stage is _OpenStage.READY

    def tend(self) -> None:
        """Open it, or go on reading, if that is due. Raises `FatalError` where it is refused."""
        if self.ready or self._clock.now_s() < self._due_s:
            return
        try:
            if self._stage is _OpenStage.CLOSED:
                self.ledger.open(LEDGER_ATTEMPT_TIMEOUT_S)
                self._stage = _OpenStage.READING
            self.ledger.catch_up(LEDGER_ATTEMPT_TIMEOUT_S)
        except (RetriableError, MisconfiguredTopicError) as error:
            if must_reopen_log(error):
                self._stage = _OpenStage.CLOSED
            self._wait(error)
            return
        self._stage = _OpenStage.READY
        self.trouble = ""
        self._backoff.reset()
        self._complaints.over(LEDGER_UNAVAILABLE)

    def work(self) -> None:
        """Answer questions, run callbacks."""
        try:
            self.ledger.work(0.0)
        except ConnectError as error:
            self.broken(error)

    def known(self, timeout_s: float = LEDGER_ATTEMPT_TIMEOUT_S) -> OffsetMap | None:
        """The map as of now; None when it cannot be read now."""
        try:
            return self.ledger.catch_up(timeout_s)
        except ConnectError as error:
            if must_reopen_log(error):
                self.broken(error)
            return None

    def broken(self, error: ConnectError) -> None:
        """It must be opened again."""
        self._stage = _OpenStage.CLOSED
        self._wait(error)

    def _wait(self, error: ConnectError) -> None:
        before, self.trouble = self.trouble, f"{LEDGER_UNAVAILABLE}: {error}"
        self._due_s = self._clock.now_s() + self._backoff.next_delay_s(self._random)
        if not self._closing:
            self._complaints.say(
                LEDGER_UNAVAILABLE, operator_commands.insert_note(str(error), "Retrying.")
            )
        elif self.trouble != before:  # each record says so
            _LOG.info("who goes on finds out what was copied last: %s", error)

    def close(self, timeout_s: float) -> None:
        self._closing = True
        self.ledger.close(timeout_s)
