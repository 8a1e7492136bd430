"""Starts, monitors and restarts the copy process of one task, and stores the offset map records and
incidents that the process sends.

The copy process replicates the records of the task's partitions. The supervisor sends settings to
the process and responds to its requests. Offset map records and incidents arrive as a numbered
stream of items. The supervisor appends the items in order to the flow's internal topics, and
acknowledges each item to the copy process once it is stored. If a copy process ends unexpectedly,
the supervisor starts another one after a backoff. The first copy process is started early, while
the settings that it needs are still being read from the clusters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from connect_runtime.base import log_context
from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError, RetriableError
from mm2.connectors import reverse_flow_producer_ids
from mm2.connectors.flow_state_store import FlowStateStore, RecoveredStateRequest
from mm2.connectors.rate_limited_error_logging import StallLog, StoppedPartitionLog
from mm2.connectors.reverse_flow_producer_ids import QueryProducerIds
from mm2.connectors.status_registry import TaskState
from mm2.connectors.task_copy_progress import IncidentCounts, TaskCopyProgress
from mm2.copier import (
    control_channel_messages,
    control_channel_server,
    progress_reports,
    standby_copy_processes,
)
from mm2.copier.control_channel_messages import (
    CopyConfiguration,
    CopyEndpoints,
    MalformedMessageError,
)
from mm2.copier.control_channel_server import ChannelInbox, TaskChannel
from mm2.copier.copy_engine import CopyHandle, CopyState
from mm2.copier.progress_reports import ClockShift, PartitionProgressReport
from mm2.copier.shared_copy_engine import DataPlane
from mm2.copier.standby_copy_processes import StartedCopyProcess
from mm2.kafka.kafka_client_interfaces import FlowStateLogFullError, OnRecorded
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import FlowStateRecord, RecoveredState


@dataclass(slots=True)
class StoredStreamPosition:
    """Tracks how much of a copy process's stream has been stored. The items of the stream are
    records for the flow's internal topics, numbered from 1.

    Invariant: all items up to number `through` are stored; item `through` + 1 is not.
    """

    through: int = 0
    last_reported: int = 0
    _stored_ahead: set[int] = field(default_factory=set)

    def mark_item_stored(self, number: int) -> None:
        assert number > self.through, (number, self.through)
        self._stored_ahead.add(number)
        while self.through + 1 in self._stored_ahead:
            self.through += 1
            self._stored_ahead.remove(self.through)

    def take_new_position(self) -> int | None:
        """Return `through`, the number up to which all items are stored. Returns None if the number
        has not changed since the last call."""
        if self.last_reported == self.through:
            return None
        self.last_reported = self.through
        return self.through


EARLY_START_TIMEOUT_S = 20.0
"""Time in seconds for which a copy process may wait for its settings. Shorter than the time after
which a waiting process exits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStarter:
    """Starts the copy processes of one task. Messages from the processes are delivered to
    `inbox`."""

    flow: str
    task: int
    plane: DataPlane
    inbox: ChannelInbox

    def start(self) -> StartedCopyProcess:
        """Use a standby process (already started, without a task) if one is available, otherwise
        start a new process.

        Raises `FatalError` if copy processes can no longer connect.
        """
        plane = self.plane
        return plane.standby_copies.take_standby_process(
            f"{self.flow} task {self.task}", self.inbox
        ) or standby_copy_processes.start_copy_process(
            plane.engine, plane.server, self.inbox, flow=self.flow, task=self.task
        )


class EarlyCopyStart:
    """Starts a copy process before its settings are known. Call `take_started_process` to use the
    process, or `end_process` to end it."""

    def __init__(self, starter: CopyStarter, get_endpoints: Callable[[], CopyEndpoints]) -> None:
        """Prepare to start a copy process. `get_endpoints` returns the clusters and topics to which
        the process connects."""
        self._starter = starter
        self._endpoints = get_endpoints
        self._started: StartedCopyProcess | None = None
        self._until_s: float | None = None

    def tick(self, now_s: float) -> None:
        """Start the copy process on the first call, or end it after `EARLY_START_TIMEOUT_S`. Call
        repeatedly until the settings of the copy process are known."""
        if self._until_s is None:
            self._until_s = now_s + EARLY_START_TIMEOUT_S
            started = self._started = self._starter.start()
            # If the process has already ended, the supervisor starts another one.
            with contextlib.suppress(RetriableError):
                started.channel.send(control_channel_messages.encode_endpoints(self._endpoints()))
        elif now_s >= self._until_s:
            self.end_process("the settings of the copy process were not known in time")

    def take_started_process(self) -> StartedCopyProcess | None:
        """Return the started copy process; the caller becomes its owner. Returns None if no process
        was started or it has ended."""
        started, self._started = self._started, None
        if started is None or started.is_usable:
            return started
        started.kill_process("the process has ended")
        return None

    def end_process(self, reason: str) -> None:
        """End the copy process that was started early, if any. Thread-safe and idempotent."""
        started, self._started = self._started, None
        if started is not None:
            started.kill_process(reason)


class CopyStream:
    """Stores the items that a task's copy processes stream to the driver: offset map records and
    incidents. The items are appended to the flow's internal topics.

    Call `begin_process_stream` for each new process. `on_incident` is called for each stored
    incident. Invariants: items are appended in order, and at most
    `driver_client.MAX_UNSTORED_ITEMS` items, plus a few per partition that is being acquired, wait
    for space in the store's log.
    """

    def __init__(
        self,
        store: FlowStateStore,
        *,
        on_log_broken: Callable[[ConnectError], None],
        on_incident: Callable[[bytes, bytes], None],
    ) -> None:
        self._store = store
        self._log_broken = on_log_broken
        self._on_incident = on_incident
        self._stored = StoredStreamPosition()
        self._next_number = 1
        self._unappended: deque[tuple[int, FlowStateRecord]] = deque()

    @property
    def has_waiting_items(self) -> bool:
        """True if stream items are waiting for space in the store's log."""
        return bool(self._unappended)

    def begin_process_stream(self) -> None:
        """Reset the stream for a new copy process, whose items are numbered from 1."""
        self.discard_waiting_items()
        self._stored = StoredStreamPosition()
        self._next_number = 1

    def discard_waiting_items(self) -> None:
        """Discard stream items that have not been appended to the store. The next copy process
        recovers from the stored state."""
        self._unappended.clear()

    def queue_received_items(self, message: Mapping[str, Any]) -> list[FlowStateRecord]:
        """Queue the stream items of a control message of type `record` for `append_waiting_items`,
        and return them."""
        items = control_channel_messages.decode_flow_state_records(dict(message))
        control_channel_messages.check_incident_records(items)
        if message["first"] != self._next_number:
            raise ValueError(f"expected items starting at {self._next_number}")
        self._next_number += len(items)
        self._unappended.extend(enumerate(items, message["first"]))
        return items

    def append_waiting_items(self) -> None:
        """Append waiting stream items to the store while its log has space."""
        while self._unappended:
            number, item = self._unappended[0]
            try:
                self._store.append(item, on_recorded=self._build_item_stored_callback(number, item))
            except FlowStateLogFullError:
                return
            except ConnectError as error:
                self._log_broken(error)
                return
            self._unappended.popleft()

    def take_new_stored_position(self) -> int | None:
        """Return the number up to which all stream items are stored. Returns None if the number has
        not changed since the last call."""
        return self._stored.take_new_position()

    def _build_item_stored_callback(self, number: int, item: FlowStateRecord) -> OnRecorded:
        position = self._stored

        def on_recorded(error: ConnectError | None) -> None:
            if error is not None:
                self._log_broken(error)
                return
            position.mark_item_stored(number)
            if item.incident and item.value is not None:
                self._on_incident(item.key, item.value)

        return on_recorded


FIRST_RESTART_DELAY_S = 0.5
MAX_RESTART_DELAY_S = 30.0
STARTUP_TIMEOUT_S = 120.0
"""Time in seconds within which a copy process that has a slot (a place in the engine in which to
run) must send its first report."""
STOP_TIMEOUT_S = 1.6
GROUP_CONTACT_LOST = (
    "no contact with the Connect group for too long, so another worker may own the task"
)
LAST_MESSAGE_TIMEOUT_S = 0.5
"""Time in seconds to wait for the engine's error after the connection to a copy process was
closed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySupervisorDeps:
    """Dependencies of a `CopySupervisor`."""

    starter: CopyStarter
    store: FlowStateStore
    random: Random
    on_log_broken: Callable[[ConnectError], None]
    query_producer_ids: QueryProducerIds
    """Finds out which of the source's producer ids belong to the reverse flow."""
    may_acquire: Callable[[float], bool]
    """Returns True if a partition may be acquired. The argument is the time in monotonic seconds at
    which the copy process requested the acquisition. Called repeatedly until it returns True."""
    may_keep_running: Callable[[float], bool]
    """Returns False if another worker may own the task by now. The supervisor then ends the copy
    process."""
    on_streamed: Callable[[Sequence[FlowStateRecord]], None]
    """Called with the offset map records and incidents that the copy process streams, in order.
    Raises `MalformedMessageError` if a record cannot be decoded."""
    on_progress_report: Callable[[PartitionSetup, PartitionProgressReport], None]
    """Called with each progress report of a partition, in order."""


class CopySupervisor:
    """Supervises the copy processes of one task. At most one process should be running at any time.

    Owned by the task's thread; only `kill` may be called from other threads. `fenced_reason` is set
    if another owner has permanently fenced a partition. This cannot happen if a Connect group
    assigns the partitions.
    """

    def __init__(
        self,
        settings: CopyConfiguration,
        deps: CopySupervisorDeps,
        *,
        previous: CopySupervisor | None = None,
        early_copy: StartedCopyProcess | None = None,
        confirmed_after_s: float | None = None,
    ) -> None:
        """Create a supervisor that continues the counters of the `previous` supervisor.
        `early_copy` is a copy process that was started before `settings` were known. The first copy
        process may acquire its partitions without a further check if the Connect group has
        confirmed the worker's membership after `confirmed_after_s` (monotonic seconds)."""
        self.settings = settings
        self.state = TaskState.STARTING
        self.reason = ""
        self.fenced_reason = ""
        self.incidents: IncidentCounts = (
            previous.incidents if previous is not None else IncidentCounts()
        )
        self.restarts: int = previous.restarts if previous is not None else 0
        self.progress: TaskCopyProgress = TaskCopyProgress(
            settings.partitions, previous=previous.progress if previous is not None else None
        )
        self._deps = deps
        self._early_copy = early_copy
        self._confirmed_after_s = confirmed_after_s
        self._backoff = Backoff(initial_s=FIRST_RESTART_DELAY_S, max_s=MAX_RESTART_DELAY_S)
        self._channel: TaskChannel | None = None
        self._clock_shift = ClockShift()
        self._handle: CopyHandle | None = None
        self._start_at_s = 0.0
        self._reported_at_s = 0.0
        self._next_heartbeat_s = 0.0
        self._stream = CopyStream(
            deps.store, on_log_broken=deps.on_log_broken, on_incident=self._log_incident
        )
        self._fatal = ""
        self._connection_lost: tuple[str, float] | None = None
        self._paused = False
        self._acquisition_requests: deque[tuple[int, float]] = deque()
        self._names = [each.source_name for each in settings.partitions]
        self._stall_log = StallLog()
        self._stopped_log = StoppedPartitionLog()

    @property
    def name(self) -> str:
        return f"{self.settings.flow} task {self.settings.task}"

    @property
    def channel(self) -> TaskChannel | None:
        return self._channel

    @property
    def has_ended(self) -> bool:
        return self.state is TaskState.STOPPED

    @property
    def is_busy(self) -> bool:
        """True if `tick` should be called again without delay."""
        return (
            self.state is not TaskState.RUNNING
            or bool(self._acquisition_requests)
            or self._stream.has_waiting_items
        )

    # Timers

    def tick(self, now_s: float) -> None:
        """Start the copy process when due, end it if it is unresponsive, and respond to its
        requests."""
        if self.has_ended:
            return
        around = self._deps
        if self.state is not TaskState.STOPPING and not around.may_keep_running(now_s):
            self.restart(GROUP_CONTACT_LOST, now_s)
            return
        if self._channel is None:
            if self.state is TaskState.STOPPING:
                self.state = TaskState.STOPPED
            elif now_s >= self._start_at_s:
                self._start_copy_process(now_s)
            return
        self._check_copy_process(now_s)
        self._stream.append_waiting_items()
        for line in self._stall_log.take_due_lines(self._names, now_s):
            self._log_with_task_number(logging.WARNING, "%s", line)
        self._log_stopped_partitions(now_s)
        while self._acquisition_requests and around.may_acquire(self._acquisition_requests[0][1]):
            self._send_message(
                {"type": "acquisition_granted", "id": self._acquisition_requests.popleft()[0]}
            )
        if now_s >= self._next_heartbeat_s and self._connection_lost is None:
            self._next_heartbeat_s = now_s + control_channel_messages.HEARTBEAT_INTERVAL_S
            self._send_message({"type": "heartbeat"})

    def _start_copy_process(self, now_s: float) -> None:
        if self._early_copy is not None and not self._early_copy.is_usable:
            self._end_early_copy()
        early_copy, self._early_copy = self._early_copy, None
        started = early_copy or self._deps.starter.start()
        self._channel, self._handle = started.channel, started.handle
        self._clock_shift = ClockShift()
        self._fatal = ""
        self._connection_lost = None
        self._stream.begin_process_stream()
        self._acquisition_requests.clear()
        self._reported_at_s = now_s
        self.state = TaskState.STARTING
        since_s, self._confirmed_after_s = self._confirmed_after_s, None
        granted = since_s is not None and self._deps.may_acquire(since_s)
        self._send_message(
            control_channel_messages.encode_copy_configuration(
                dataclasses.replace(self.settings, granted=granted)
            )
        )
        if self._paused:
            self._send_message({"type": "pause"})

    def _check_copy_process(self, now_s: float) -> None:
        """Update the state from the copy process: waiting for a slot in the engine, running, or
        ended. End the process if it does not report in time."""
        assert self._handle is not None
        if self._connection_lost is not None:
            self._await_final_error(*self._connection_lost, now_s)
            return
        if self._handle.state is CopyState.ENDED:
            self._handle_copy_end(
                self._handle.error or self._fatal or "the copy process ended", now_s
            )
            return
        if self.state in (TaskState.STARTING, TaskState.WAITING_FOR_SLOT):
            is_waiting = self._handle.state is CopyState.WAITING_FOR_SLOT
            self.state = TaskState.WAITING_FOR_SLOT if is_waiting else TaskState.STARTING
            if is_waiting:
                self._reported_at_s = now_s
        is_starting = self.state is TaskState.STARTING
        limit_s = STARTUP_TIMEOUT_S if is_starting else control_channel_messages.PEER_TIMEOUT_S
        if now_s - self._reported_at_s > limit_s and self.state is not TaskState.WAITING_FOR_SLOT:
            self._handle.cancel()
            self._handle_copy_end(f"no report from the copy process for {limit_s:.0f} s", now_s)

    def _handle_copy_end(self, reason: str, now_s: float) -> None:
        reason = reason[: control_channel_messages.MAX_TEXT_CHARS]
        if self._channel is not None:
            self._channel.close(reason)
        self._channel = self._handle = None
        self._stream.discard_waiting_items()
        self._log_stopped_partitions(math.inf)
        self._stopped_log = StoppedPartitionLog()
        self.progress.record_copy_end(reason)
        self._stall_log = StallLog()
        if self.state is TaskState.STOPPING:
            self.state = TaskState.STOPPED
        if self.has_ended:
            return
        self.restarts += 1
        self.state = TaskState.RESTARTING
        self.reason = reason
        delay_s = self._backoff.next_delay_s(self._deps.random)
        self._start_at_s = now_s + delay_s
        self._log_with_task_number(
            logging.WARNING, "%s; restarting the copy process in %.1f s", reason, delay_s
        )

    # Messages of the copy process

    def handle_message(self, message: dict[str, Any], now_s: float) -> None:
        """Handle a message from the copy process (`control_channel_messages`) or the end of its
        connection. A malformed message ends the copy process, and a new one is started."""
        self._reported_at_s = now_s
        try:
            self._dispatch_message(message, now_s)
        except MalformedMessageError as error:
            if self._handle is not None:
                self._handle.cancel()
            self._handle_copy_end(str(error), now_s)

    def _dispatch_message(self, message: dict[str, Any], now_s: float) -> None:
        well_formed = control_channel_messages.reject_malformed_message(message)
        match message["type"]:
            case "progress":
                self._handle_progress_reports(message, now_s)
            case "record":
                self._handle_stream_message(message)
            case "recovered_state_request":
                self._request_recovered_state(message)
            case "reverse_producers_request" if self._channel is not None:
                with well_formed:
                    number, producers = (
                        control_channel_messages.decode_reverse_flow_producers_request(message)
                    )
                tell = reverse_flow_producer_ids.create_response_sender(self._channel, number)
                self._deps.query_producer_ids(producers, tell)
            case "acquisition_request":
                with well_formed:
                    number = control_channel_messages.decode_integer(message["id"])
                self._acquisition_requests.append((number, now_s))
            case "ended":
                with well_formed:
                    self._fatal = control_channel_messages.decode_text(
                        message["fatal"] or message["reason"]
                    )
            case control_channel_server.CLOSED_MESSAGE_TYPE:
                self._handle_channel_closed(str(message.get("reason")), now_s)
            case _:
                with well_formed:
                    raise ValueError("an unknown type")

    def _handle_stream_message(self, message: dict[str, Any]) -> None:
        with control_channel_messages.reject_malformed_message(message):
            items = self._stream.queue_received_items(message)
        self._stream.append_waiting_items()
        self._deps.on_streamed(items)

    def _handle_channel_closed(self, reason: str, now_s: float) -> None:
        """Handle a closed connection without blocking, because many copy processes may end
        together. The engine may report the cause slightly later."""
        if self._handle is None:
            return
        self._connection_lost = (reason, now_s + LAST_MESSAGE_TIMEOUT_S)
        self._await_final_error(*self._connection_lost, now_s)

    def _await_final_error(self, reason: str, until_s: float, now_s: float) -> None:
        assert self._handle is not None
        if self._handle.state is not CopyState.ENDED and now_s < until_s:
            return
        error = self._handle.error
        self._handle.cancel()
        self._handle_copy_end(self._fatal or error or f"lost the copy process ({reason})", now_s)

    def _handle_progress_reports(self, message: dict[str, Any], now_s: float) -> None:
        with control_channel_messages.reject_malformed_message(message):
            shift_s = self._clock_shift.record_send_time(message, now_s)
            latency = progress_reports.decode_latency_snapshot(message, shift_s)
            errors = progress_reports.decode_connection_errors(message)
            reports = progress_reports.decode_progress_reports(message, shift_s)
            progress_reports.check_reported_partitions(
                reports, partition_count=len(self.settings.partitions)
            )
        if self.state in (TaskState.STARTING, TaskState.WAITING_FOR_SLOT):
            self.state = TaskState.RUNNING
            self.reason = ""
            self._log_with_task_number(logging.INFO, "running")
        self._stall_log.record_connection_errors(errors, now_s)
        self.progress.record_latency(latency, now_s)
        for report in reports:
            self._stall_log.record_progress_report(report, now_s)
            changed = self.progress.record_progress_report(report)
            self._deps.on_progress_report(self.settings.partitions[report.index], report)
            if changed:
                self._stopped_log.record_phase_change(report)
                if report.phase == "fenced":
                    self.fenced_reason = report.reason
            if report.records:
                self._backoff.reset()
        self._log_stopped_partitions(now_s)

    def _log_stopped_partitions(self, now_s: float) -> None:
        for report in self._stopped_log.take_due_reports(now_s):
            if report.phase == "halted":
                name = self._names[report.index]
                self._log_with_task_number(logging.ERROR, "%s is halted: %s", name, report.reason)
            else:
                self._log_with_task_number(logging.ERROR, "%s", report.reason)

    def _log_incident(self, key: bytes, value: bytes) -> None:
        line = self.incidents.record_stored_incident(key, value)
        if line is not None:
            self._log_with_task_number(
                logging.WARNING, "%s", line[: control_channel_messages.MAX_TEXT_CHARS]
            )

    def acknowledge_stored_items(self) -> None:
        """Acknowledge newly stored stream items to the copy process."""
        through = self._stream.take_new_stored_position()
        if through is not None:
            self._send_message({"type": "recorded", "through": through})

    def _request_recovered_state(self, message: dict[str, Any]) -> None:
        with control_channel_messages.reject_malformed_message(message):
            number, partition, target = control_channel_messages.decode_recovered_state_request(
                message, self.settings.partitions
            )
        channel = self._channel

        def send_recovered_state(found: RecoveredState | None, failure: str) -> None:
            if channel is self._channel:
                self._send_message(
                    control_channel_messages.encode_recovered_state(number, found, failure=failure)
                )

        request = RecoveredStateRequest(
            partition=partition, target=target, answer=send_recovered_state
        )
        self._deps.store.request_recovered_state(request)

    def _send_message(self, message: dict[str, Any]) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(message)
        except ConnectError as error:
            self._channel.close(str(error))

    def _log_with_task_number(self, level: int, message: str, *values: object) -> None:
        with log_context.bind_log_fields(task=self.settings.task):
            _log.log(level, message, *values)

    # Commands

    def set_paused(self, *, paused: bool) -> None:
        self._paused = paused
        self._send_message({"type": "pause" if paused else "resume"})

    def pause_topics(self, topics: frozenset[str]) -> None:
        """Set the paused topics of the current copy process and all later ones. All other topics
        are resumed."""
        if topics != self.settings.paused_topics:
            self.settings = dataclasses.replace(self.settings, paused_topics=topics)
            self._send_message({"type": "pause_topics", "topics": sorted(topics)})

    def set_throttles(self, bytes_per_s: int, topics: Mapping[str, int]) -> None:
        """Replace the throttles of the current copy process and all later ones. The values are in
        the format of the control message `CopyConfiguration`."""
        self.settings = dataclasses.replace(
            self.settings, throttle_bytes_s=bytes_per_s, topic_throttles=topics
        )
        self._send_message({"type": "throttle", "bytes_per_s": bytes_per_s, "topics": dict(topics)})

    def stop(self, deadline_s: float = STOP_TIMEOUT_S) -> None:
        """Ask the copy process to finish its in-flight batches and exit."""
        if self.has_ended:
            return
        self.state = TaskState.STOPPING
        if self._channel is None:
            self._end_early_copy()
            self.state = TaskState.STOPPED
        elif not self._channel.is_connected:
            self.kill_and_mark_stopped()
        else:
            self._send_message({"type": "stop", "deadline_s": deadline_s})

    def restart(self, reason: str, now_s: float) -> None:
        """Kill the copy process and schedule the start of a new one."""
        self._end_early_copy()
        if self._channel is not None and self._handle is not None:
            self._handle.cancel()
            self._handle_copy_end(reason, now_s)

    def _end_early_copy(self) -> None:
        ahead, self._early_copy = self._early_copy, None
        if ahead is not None:
            ahead.kill_process("not needed any more")

    def kill(self) -> None:
        """Kill the copy process without updating `state`. Thread-safe."""
        self._end_early_copy()
        handle, channel = self._handle, self._channel
        if handle is not None:
            handle.cancel()
        if channel is not None:
            channel.close("abandoned")

    def kill_and_mark_stopped(self) -> None:
        """Kill a copy process that did not stop in time."""
        self._end_early_copy()
        if self._handle is not None:
            self._handle.cancel()
        if self._channel is not None:
            self._channel.close("abandoned")
        self._channel = self._handle = None
        self._stream.discard_waiting_items()
        if self.state is TaskState.STOPPING:
            self.state = TaskState.STOPPED
