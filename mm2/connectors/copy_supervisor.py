"""Starts, watches and restarts the copy process of one task, and stores what it streams.

The copy process moves the records. The supervisor sends its settings, answers its requests,
appends its stream to the flow ledger in order and acknowledges it, and restarts a copy that
ended unexpectedly after a backoff. The first copy starts before its settings are known, while
the clusters are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from connect_runtime.base import log_context
from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.connectors import reverse_producer_ids
from mm2.connectors.copy_progress import IncidentCounts, TaskCopyProgress
from mm2.connectors.flow_ledger import FlowLedger, RecoveredStateRequest
from mm2.connectors.reverse_producer_ids import QueryProducerIds
from mm2.connectors.stall_log import StallLog
from mm2.connectors.status_registry import TaskState
from mm2.copier import control_messages, control_server, standby_copies
from mm2.copier.control_messages import ClockShift, ConfigureCopy, CopyEndpoints, PartitionGauge
from mm2.copier.control_server import ChannelInbox, TaskChannel
from mm2.copier.data_plane import DataPlane
from mm2.copier.engine import CopyHandle, CopyState
from mm2.copier.standby_copies import StartedCopy
from mm2.kafka.client_interfaces import FlowLogFullError, OnRecorded
from mm2.replication.recovery_instructions import FlowLogItem, RecoveredState
from mm2.replication.setup import PartitionSetup


@dataclass(slots=True)
class StoredStreamPosition:
    """Items are numbered from 1. Invariant: all up to `through` are stored, the next is not."""

    through: int = 0
    told: int = 0
    _ahead: set[int] = field(default_factory=set)

    def stored(self, number: int) -> None:
        assert number > self.through, (number, self.through)
        self._ahead.add(number)
        while self.through + 1 in self._ahead:
            self.through += 1
            self._ahead.remove(self.through)

    def news(self) -> int | None:
        """`through`, if it has moved since it was last asked for."""
        if self.told == self.through:
            return None
        self.told = self.through
        return self.through


EARLY_START_TIMEOUT_S = 20.0
"""So long a copy may wait for its settings; less than after which it leaves by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStarter:
    """Where copies of a task begin, under which name; what they say arrives in `inbox`."""

    flow: str
    task: int
    plane: DataPlane
    inbox: ChannelInbox

    def start(self) -> StartedCopy:
        """One that waits already, if there is one. Raises `FatalError` where no copy can come any
        more."""
        plane = self.plane
        return plane.spares.take(
            f"{self.flow} task {self.task}", self.inbox
        ) or standby_copies.start_copy(
            plane.engine, plane.server, self.inbox, flow=self.flow, task=self.task
        )


class EarlyCopyStart:
    """The one copy that begins before it is known what it copies. `take` it, or `end` it."""

    def __init__(self, place: CopyStarter, wanted: Callable[[], CopyEndpoints]) -> None:
        """`wanted`: what it may connect to meanwhile."""
        self._place = place
        self._wanted = wanted
        self._started: StartedCopy | None = None
        self._until_s: float | None = None

    def tend(self, now_s: float) -> None:
        """It is wanted, or still is: for a while."""
        if self._until_s is None:
            self._until_s = now_s + EARLY_START_TIMEOUT_S
            started = self._started = self._place.start()
            with contextlib.suppress(RetriableError):  # it has ended: another follows
                started.channel.send(control_messages.encode_endpoints(self._wanted()))
        elif now_s >= self._until_s:
            self.end("nothing can be copied so far")

    def take(self) -> StartedCopy | None:
        """None where there is none that would do what it is told."""
        started, self._started = self._started, None
        if started is None or started.usable:
            return started
        started.end("it has ended")
        return None

    def end(self, why: str) -> None:
        """From any thread, as often as may be."""
        started, self._started = self._started, None
        if started is not None:
            started.end(why)


class CopyStream:
    """One task's; `begin` for each copy of it. `on_incident` hears of incidents that are stored.

    Invariants: what the copy streams is appended in order, and what waits for room in the log is no
    more than a copy may have unstored (`worker_link.STREAM_LIMIT`, and a few items of each
    partition that is being taken).
    """

    def __init__(
        self,
        ledger: FlowLedger,
        *,
        log_broken: Callable[[ConnectError], None],
        on_incident: Callable[[bytes, bytes], None],
    ) -> None:
        self._ledger = ledger
        self._log_broken = log_broken
        self._on_incident = on_incident
        self._stored = StoredStreamPosition()
        self._unappended: deque[tuple[int, FlowLogItem]] = deque()

    @property
    def waits(self) -> bool:
        """Is there something that the log had no room for?"""
        return bool(self._unappended)

    def begin(self) -> None:
        """Another copy: it numbers from the start."""
        self.drop()
        self._stored = StoredStreamPosition()

    def drop(self) -> None:
        """The copy has ended: what was not appended is its follower's to find out."""
        self._unappended.clear()

    def receive(self, message: Mapping[str, Any]) -> list[FlowLogItem]:
        """Returns the items of a `record` message, which are on their way now."""
        items = control_messages.decode_log_items(dict(message))
        self._unappended.extend(enumerate(items, message["first"]))
        self.append()
        return items

    def append(self) -> None:
        """What the log has no room for waits for the next turn."""
        while self._unappended:
            number, item = self._unappended[0]
            try:
                self._ledger.append(item, on_recorded=self._recorder(number, item))
            except FlowLogFullError:
                return
            except ConnectError as error:
                self._log_broken(error)
                return
            self._unappended.popleft()

    def news(self) -> int | None:
        """How far the stream is stored, if that is news to its copy."""
        return self._stored.news()

    def _recorder(self, number: int, item: FlowLogItem) -> OnRecorded:
        mine = self._stored

        def recorded(error: ConnectError | None) -> None:
            if error is not None:
                self._log_broken(error)
                return
            mine.stored(number)
            if item.incident and item.value is not None:
                self._on_incident(item.key, item.value)

        return recorded


FIRST_RESTART_DELAY_S = 0.5
MAX_RESTART_DELAY_S = 30.0
STARTUP_TIMEOUT_S = 120.0
"""How long a copy that has a slot may take until its first report."""
STOP_TIMEOUT_S = 1.6
GROUP_CONTACT_LOST = "nothing was heard of the worker's group for too long"
LAST_MESSAGE_TIMEOUT_S = 0.5
"""An engine says why a copy ended a little after its connection broke."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySupervisorDeps:
    """What a copy and its supervisor need.

    `whose` answers a copy whose producer ids of the source are. `may_take`: may be taken what a
    copy asked for at that time (monotonic seconds)? Asked again until it may. `may_live`: is it
    certain enough that no other worker has the task? Else the copy ends. `streamed` and `gauged`
    hear what it reports, in order.
    """

    place: CopyStarter
    ledger: FlowLedger
    random: Random
    log_broken: Callable[[ConnectError], None]
    whose: QueryProducerIds
    may_take: Callable[[float], bool]
    may_live: Callable[[float], bool]
    streamed: Callable[[Sequence[FlowLogItem]], None]
    gauged: Callable[[PartitionSetup, PartitionGauge], None]


class CopySupervisor:
    """Its task's thread owns it; `cut` alone may be called from others.

    `taken_over` says why a partition is another owner's for good, "" while none is: only without
    a group of workers, which else says whose it is. Invariant: at most one copy is meant to run.
    """

    def __init__(
        self,
        settings: ConfigureCopy,
        around: CopySupervisorDeps,
        *,
        before: CopySupervisor | None = None,
        ahead: StartedCopy | None = None,
        given_s: float | None = None,
    ) -> None:
        """`before`: the one that this follows; all that it counted is counted on. `ahead` has begun
        already, and waits for these settings. What the group has confirmed later than `given_s`
        answers the copy's first questions, too."""
        self.settings = settings
        self.state = TaskState.STARTING
        self.reason = ""
        self.taken_over = ""
        self.incidents: IncidentCounts = (
            before.incidents if before is not None else IncidentCounts()
        )
        self.restarts: int = before.restarts if before is not None else 0
        self.figures: TaskCopyProgress = TaskCopyProgress(
            settings.partitions, before=before.figures if before is not None else None
        )
        self._around = around
        self._ahead = ahead
        self._given_s = given_s
        self._backoff = Backoff(initial_s=FIRST_RESTART_DELAY_S, max_s=MAX_RESTART_DELAY_S)
        self._channel: TaskChannel | None = None
        self._shift = ClockShift()
        self._handle: CopyHandle | None = None
        self._start_at_s = 0.0
        self._reported_at_s = 0.0
        self._beat_at_s = 0.0
        self._stream = CopyStream(
            around.ledger, log_broken=around.log_broken, on_incident=self._note_incident
        )
        self._fatal = ""
        self._gone: tuple[str, float] | None = None
        self._paused = False
        self._questions: deque[tuple[int, float]] = deque()
        self._names = [each.name for each in settings.partitions]
        self._holdups = StallLog()

    @property
    def name(self) -> str:
        return f"{self.settings.flow} task {self.settings.task}"

    @property
    def channel(self) -> TaskChannel | None:
        return self._channel

    @property
    def ended(self) -> bool:
        return self.state is TaskState.STOPPED

    @property
    def busy(self) -> bool:
        """Is something about to happen, so that its owner looks again soon?"""
        return self.state is not TaskState.RUNNING or bool(self._questions) or self._stream.waits

    # Time

    def tick(self, now_s: float) -> None:
        """Start the copy when that is due, end it when it is silent, answer what it asked."""
        if self.ended:
            return
        around = self._around
        if self.state is not TaskState.STOPPING and not around.may_live(now_s):
            self.restart(GROUP_CONTACT_LOST, now_s)
            return
        if self._channel is None:
            if self.state is TaskState.STOPPING:
                self.state = TaskState.STOPPED
            elif now_s >= self._start_at_s:
                self._start(now_s)
            return
        self._watch(now_s)
        self._stream.append()
        for line in self._holdups.news(self._names, now_s):
            self._tell(logging.WARNING, "%s", line)
        while self._questions and around.may_take(self._questions[0][1]):
            self._send({"type": "may_take", "id": self._questions.popleft()[0]})
        if now_s >= self._beat_at_s and self._gone is None:
            self._beat_at_s = now_s + control_messages.HEARTBEAT_INTERVAL_S
            self._send({"type": "beat"})

    def _start(self, now_s: float) -> None:
        if self._ahead is not None and not self._ahead.usable:
            self._end_ahead()
        ahead, self._ahead = self._ahead, None
        started = ahead or self._around.place.start()
        self._channel, self._handle = started.channel, started.handle
        self._shift = ClockShift()
        self._fatal = ""
        self._gone = None
        self._stream.begin()
        self._questions.clear()
        self._reported_at_s = now_s
        self.state = TaskState.STARTING
        since_s, self._given_s = self._given_s, None
        granted = since_s is not None and self._around.may_take(since_s)
        self._send(
            control_messages.encode_configure(dataclasses.replace(self.settings, granted=granted))
        )
        if self._paused:
            self._send({"type": "pause"})

    def _watch(self, now_s: float) -> None:
        """Has the copy a slot, is it alive, has it ended?"""
        assert self._handle is not None
        if self._gone is not None:
            self._await_last_words(*self._gone, now_s)
            return
        if self._handle.state is CopyState.ENDED:
            self._copy_ended(self._handle.error or self._fatal or "the copy ended", now_s)
            return
        if self.state in (TaskState.STARTING, TaskState.WAITING_FOR_SLOT):
            waits = self._handle.state is CopyState.WAITING_FOR_SLOT
            self.state = TaskState.WAITING_FOR_SLOT if waits else TaskState.STARTING
            if waits:
                self._reported_at_s = now_s
        starts = self.state is TaskState.STARTING
        limit_s = STARTUP_TIMEOUT_S if starts else control_messages.PEER_TIMEOUT_S
        if now_s - self._reported_at_s > limit_s and self.state is not TaskState.WAITING_FOR_SLOT:
            self._handle.cancel()
            self._copy_ended(f"nothing was heard from the copy for {limit_s:.0f} s", now_s)

    def _copy_ended(self, why: str, now_s: float) -> None:
        if self._channel is not None:
            self._channel.close(why)
        self._channel = self._handle = None
        self._stream.drop()
        self.figures.copy_ended(why)
        self._holdups = StallLog()
        if self.state is TaskState.STOPPING:
            self.state = TaskState.STOPPED
        if self.ended:
            return
        self.restarts += 1
        self.state = TaskState.RESTARTING
        self.reason = why
        delay_s = self._backoff.next_delay_s(self._around.random)
        self._start_at_s = now_s + delay_s
        self._tell(logging.WARNING, "%s; it is started again in %.1f s", why, delay_s)

    # The copy's words

    def received(self, message: dict[str, Any], now_s: float) -> None:
        """One message of its copy (`mm2.copier.control_messages`), or that its connection is
        closed."""
        self._reported_at_s = now_s
        match message["type"]:
            case "gauges":
                self._take_gauges(message, now_s)
            case "record":
                self._around.streamed(self._stream.receive(message))
            case "read":
                self._read(message)
            case "opposite?" if self._channel is not None:
                tell = reverse_producer_ids.create_response_sender(self._channel, message["id"])
                self._around.whose(message["producers"], tell)
            case "may_take?":
                self._questions.append((message["id"], now_s))
            case "ended":
                self._fatal = message["fatal"] or message["reason"]
            case control_server.CLOSED_MESSAGE_TYPE:
                self._closed(message["reason"], now_s)

    def _closed(self, reason: str, now_s: float) -> None:
        """Its engine may say why; many copies may have ended at once, so that nothing waits."""
        if self._handle is None:
            return
        self._gone = (reason, now_s + LAST_MESSAGE_TIMEOUT_S)
        self._await_last_words(*self._gone, now_s)

    def _await_last_words(self, reason: str, until_s: float, now_s: float) -> None:
        assert self._handle is not None
        if self._handle.state is not CopyState.ENDED and now_s < until_s:
            return
        error = self._handle.error
        self._handle.cancel()
        self._copy_ended(self._fatal or error or f"the copy is gone ({reason})", now_s)

    def _take_gauges(self, message: dict[str, Any], now_s: float) -> None:
        if self.state in (TaskState.STARTING, TaskState.WAITING_FOR_SLOT):
            self.state = TaskState.RUNNING
            self.reason = ""
            self._tell(logging.INFO, "running")
        self._holdups.note_troubles(message["troubles"], now_s)
        shift_s = self._shift.note(message, now_s)
        self.figures.note_pulse(control_messages.decode_latency_snapshot(message, shift_s), now_s)
        for gauge in control_messages.decode_gauges(message, shift_s):
            self._holdups.note(gauge, now_s)
            changed = self.figures.note(gauge)
            self._around.gauged(self.settings.partitions[gauge.index], gauge)
            if changed:
                self._note_change(gauge)
            if gauge.records:
                self._backoff.reset()

    def _note_change(self, gauge: PartitionGauge) -> None:
        where = self.settings.partitions[gauge.index]
        if gauge.phase == "stopped":
            self._tell(logging.ERROR, "%s is halted: %s", where.name, gauge.reason)
        elif gauge.phase == "fenced":
            self.taken_over = gauge.reason
            self._tell(logging.ERROR, "%s", gauge.reason)

    def _note_incident(self, key: bytes, value: bytes) -> None:
        line = self.incidents.stored(key, value)
        if line is not None:
            self._tell(logging.WARNING, "%s", line)

    def tell_stored(self) -> None:
        """Tell the copy how far its stream is stored, if that is news."""
        through = self._stream.news()
        if through is not None:
            self._send({"type": "recorded", "through": through})

    def _read(self, message: dict[str, Any]) -> None:
        channel, number = self._channel, message["id"]

        def answer(found: RecoveredState | None, failure: str) -> None:
            if channel is self._channel:
                self._send(control_messages.encode_recovered_state(number, found, failure=failure))

        partition = TopicPartition(message["topic"], message["partition"])
        wanted = RecoveredStateRequest(partition=partition, target=message["target"], answer=answer)
        self._around.ledger.want(wanted)

    def _send(self, message: dict[str, Any]) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(message)
        except ConnectError as error:
            self._channel.close(str(error))

    def _tell(self, level: int, message: str, *values: object) -> None:
        with log_context.bind_fields(task=self.settings.task):
            _log.log(level, message, *values)

    # The operator's hand

    def pause(self, *, paused: bool) -> None:
        self._paused = paused
        self._send({"type": "pause" if paused else "resume"})

    def pause_topics(self, topics: frozenset[str]) -> None:
        """Of this copy and of those that follow it: these are paused, and no others."""
        if topics != self.settings.paused_topics:
            self.settings = dataclasses.replace(self.settings, paused_topics=topics)
            self._send({"type": "pause_topics", "topics": sorted(topics)})

    def throttle(self, bytes_per_s: int, topics: Mapping[str, int]) -> None:
        """Of this copy and of those that follow it, as in `ConfigureCopy`."""
        self.settings = dataclasses.replace(
            self.settings, throttle_bytes_s=bytes_per_s, topic_throttles=topics
        )
        self._send({"type": "throttle", "bytes_per_s": bytes_per_s, "topics": dict(topics)})

    def stop(self, deadline_s: float = STOP_TIMEOUT_S) -> None:
        """Ask the copy to settle what is in flight and to leave."""
        if self.ended:
            return
        self.state = TaskState.STOPPING
        if self._channel is None:
            self._end_ahead()
            self.state = TaskState.STOPPED
        elif not self._channel.connected:
            self.abandon()
        else:
            self._send({"type": "stop", "deadline_s": deadline_s})

    def restart(self, why: str, now_s: float) -> None:
        """End the copy without a word: what it reports can no longer be stored."""
        self._end_ahead()
        if self._channel is not None and self._handle is not None:
            self._handle.cancel()
            self._copy_ended(why, now_s)

    def _end_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.end("it is not needed")

    def cut(self) -> None:
        """From any thread: end the copy at once; nothing more is known of it here."""
        self._end_ahead()
        handle, channel = self._handle, self._channel
        if handle is not None:
            handle.cancel()
        if channel is not None:
            channel.close("abandoned")

    def abandon(self) -> None:
        """It did not stop in time."""
        self._end_ahead()
        if self._handle is not None:
            self._handle.cancel()
        if self._channel is not None:
            self._channel.close("abandoned")
        self._channel = self._handle = None
        self._stream.drop()
        if self.state is TaskState.STOPPING:
            self.state = TaskState.STOPPED
