"""A worker's membership in its Connect group, over connections of `connect_runtime.network`.

One thread, the connection thread, drives the connections, so that heartbeats are sent in time even
if the herder is busy. Another thread computes assignments while this worker is the leader. Any
thread may advance the group session under a lock that is never held while waiting. The connection
thread sends the resulting requests.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import random
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.group import connect_protocol, connectors_and_tasks, leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.coordinator_metrics import CoordinatorMetrics
from connect_runtime.group.leader_assignment import ConfiguredWorkSnapshots, LeaderAssignments
from connect_runtime.group.member_events import (
    GroupRequestFailed,
    GroupResponseReceived,
    HeartbeatRequested,
    MemberEvent,
    MemberLogLine,
    MemberTick,
    PollTimeoutExpired,
    SendGroupRequest,
    WorkerLoopTicked,
)
from connect_runtime.herder.group_session import (
    AssignmentRequested,
    GroupSession,
    GroupSessionAction,
    GroupSessionSettings,
)
from connect_runtime.herder.worker_group_interface import (
    GetConfiguredWork,
    GroupEvent,
    OnGroupEvent,
)
from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.cluster_connections import (
    ClientResponse,
    ClusterConnections,
    ConnectionSettings,
)
from connect_runtime.network.tcp_and_tls_transport import BufferPool, Poller
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from connect_runtime.worker import connect_metrics_registry
from connect_runtime.worker.connect_metrics_registry import MetricReading

_LOG = logging.getLogger(__name__)

_MAX_POLL_INTERVAL_S = 1.0
_MAX_SHOWN_CONNECTORS = 10
"""Maximum number of connectors that one log message lists."""
_BUFFER_POOL_BYTES = 4 << 20
_STOP_TIMEOUT_S = 5.0
"""Time limit for stopping the threads. A thread stops only after its current poll or assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroupSettings:
    """Settings of the worker's group membership.

    The member id starts with the client id of `connections`. As in Java, set it to the worker's
    `client.id`, or if that is not configured, to `connect-` and the worker's host:port.
    """

    session: GroupSessionSettings
    connections: ConnectionSettings
    sampling: SampleWindows = field(default_factory=SampleWindows)


class KafkaWorkerGroup:
    """Implements `WorkerGroup` with a connection to the group coordinator.

    Invariant: the session and the metrics are accessed only under the lock, and the connections
    only by their own thread.
    """

    def __init__(
        self,
        settings: WorkerGroupSettings,
        *,
        clock: Clock,
        rng: random.Random,
        on_taken: Callable[[GroupEvent], None] = lambda _: None,
    ) -> None:
        """Create the group member. `on_taken` is called on the herder's thread with each event that
        `pop_events` returns, so that the caller can record metrics."""
        self._settings = settings
        self._on_taken = on_taken
        self._clock = clock
        self._rng = rng
        self._lock = threading.Lock()
        self._metrics = CoordinatorMetrics(settings.sampling)
        self._session: GroupSession | None = None
        self._configured: GetConfiguredWork | None = None
        self._on_events: OnGroupEvent = _ignore_event_notification
        self._is_notified = False
        self._requests: list[SendGroupRequest] = []
        self._assignment_requests: queue.Queue[AssignmentRequested | None] = queue.Queue(maxsize=1)
        self._threads = ThreadGroup(on_unexpected_end=self._on_thread_ended)
        self._assignment_thread: StoppableThread | None = None
        self._has_left = threading.Event()
        self._closing = False
        self._wakeup_sender: socket.socket | None = None

    @property
    def member_id(self) -> str:
        with self._lock:
            return "" if self._session is None else self._session.member_id

    def start(self, on_event: OnGroupEvent, read_configured_work: GetConfiguredWork) -> None:
        assert self._session is None, "the group membership has already been started"
        loop = _ConnectionLoop(self._settings, clock=self._clock, rng=self._rng)
        self._wakeup_sender = loop.wakeup_sender
        self._on_events, self._configured = on_event, read_configured_work
        with self._lock:
            self._session = GroupSession(
                self._settings.session, rng=self._rng, read_configured_work=read_configured_work
            )
        name = self._settings.session.membership.group_id
        self._threads.start(f"group-{name}", lambda stop: self._run_connection_loop(loop, stop))
        self._assignment_thread = self._threads.start(
            f"group-plans-{name}", self._compute_assignments
        )

    # the herder's thread

    def pop_events(self) -> list[GroupEvent]:
        with self._lock:
            self._is_notified = False
            taken = [] if self._session is None else self._session.pop_events()
        for each in taken:
            self._on_taken(each)
        return taken

    def report_herder_loop_alive(self) -> None:
        self._call_session_and_execute_actions(
            lambda part, now_s: part.handle_event(WorkerLoopTicked(), now_s)
        )

    def confirm_join_prepared(self) -> None:
        self._call_session_and_execute_actions(
            lambda part, now_s: part.confirm_join_prepared(now_s)
        )

    def rejoin_group(self, reason: str) -> None:
        self._call_session_and_execute_actions(lambda part, now_s: part.rejoin_group(reason, now_s))

    def leave_group(self, reason: str) -> None:
        self._call_session_and_execute_actions(lambda part, now_s: part.leave_group(reason, now_s))

    def revoke_all_work(self) -> None:
        self._call_session_and_execute_actions(lambda part, _: part.revoke_all_work())

    def close(self, timeout_s: float) -> None:
        if self._session is None or self._closing:
            self._closing = True
            return
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        self._closing = True
        self._call_session_and_execute_actions(
            lambda part, now_s: part.close("the worker is shutting down", now_s)
        )
        if not self._has_left.wait(end.remaining_s(self._clock.now_s())):
            _LOG.warning(
                "group %s: no response to LeaveGroup within %g s; members rebalance after the "
                "session timeout",
                self._settings.session.membership.group_id,
                timeout_s,
            )
        if self._assignment_thread is not None:
            self._assignment_thread.stop.set()
        with contextlib.suppress(queue.Full):  # the thread is busy and checks `stop` afterwards
            self._assignment_requests.put_nowait(None)
        for name in self._threads.stop_all(_STOP_TIMEOUT_S):
            _LOG.error("thread %s did not end within %g s", name, _STOP_TIMEOUT_S)

    # any thread

    @property
    def session_timeout_s(self) -> float:
        return self._settings.session.membership.session_timeout_s

    def get_last_heartbeat_s(self) -> float:
        with self._lock:
            return -math.inf if self._session is None else self._session.last_heartbeat_s

    def request_heartbeat(self) -> None:
        self._call_session_and_execute_actions(
            lambda part, now_s: part.handle_event(HeartbeatRequested(), now_s)
        )

    def get_metric_readings(self) -> list[MetricReading]:
        """Return the current metrics of this group member."""
        with self._lock:
            assigned = (
                connectors_and_tasks.NO_WORK
                if self._session is None
                else self._session.assigned_work
            )
            numbers = self._metrics.collect_metrics(self._clock.now_s())
        numbers["assigned-connectors"] = float(len(assigned.connectors))
        numbers["assigned-tasks"] = float(len(assigned.tasks))
        client_id = self._settings.connections.client_id
        return [
            MetricReading(
                group=connect_metrics_registry.COORDINATOR, tags=(client_id,), numbers=numbers
            )
        ]

    def _call_session_and_execute_actions(self, act: Callable[[GroupSession, float], None]) -> None:
        """Call `act`, which advances the group session, and execute the actions that the session
        then requests."""
        with self._lock:
            part = self._session
            if part is None:
                return
            act(part, self._clock.now_s())
            for each in part.pop_actions():
                self._execute_session_action(each)
            news = part.has_events and not self._is_notified
            self._is_notified = self._is_notified or news
            if part.is_closed:
                self._has_left.set()
        self._wake_loop()
        if news:
            self._on_events()

    def _execute_session_action(self, action: GroupSessionAction) -> None:
        match action:
            case SendGroupRequest():
                self._requests.append(action)
            case AssignmentRequested():
                with contextlib.suppress(queue.Empty):
                    self._assignment_requests.get_nowait()  # request of an earlier rebalance
                self._assignment_requests.put_nowait(action)
            case PollTimeoutExpired(reason):
                _LOG.warning("leaving the group: %s", reason)
            case MemberLogLine(text, is_error=is_error):
                _LOG.log(logging.ERROR if is_error else logging.INFO, "%s", text)

    def _wake_loop(self) -> None:
        if self._wakeup_sender is not None:
            with contextlib.suppress(
                OSError
            ):  # full: a wake-up is pending; closed: not needed any more
                self._wakeup_sender.send(b"\0")

    def _fail_session(self, error: FatalError) -> None:
        _LOG.error("%s", error)
        self._call_session_and_execute_actions(
            lambda part, now_s: part.leave_after_fatal_error(error, now_s)
        )

    def _on_thread_ended(self, end: UnexpectedThreadEnd) -> None:
        self._fail_session(
            FatalError(f"thread {end.name} ended: {end.error!r}; restart the worker")
        )
        self._has_left.set()

    # the connections' thread

    def _run_connection_loop(self, loop: _ConnectionLoop, stop: threading.Event) -> None:
        with loop:
            while not stop.is_set():
                with self._lock:
                    sends, self._requests = self._requests, []
                for each in sends:
                    self._send_request(loop, each)
                with self._lock:
                    due_s = math.inf if self._session is None else self._session.get_next_tick_s()
                loop.poll_connections_once(due_s)
                if due_s <= self._clock.now_s():
                    self._call_session_and_execute_actions(
                        lambda part, now_s: part.handle_event(MemberTick(), now_s)
                    )

    def _send_request(self, loop: _ConnectionLoop, send: SendGroupRequest) -> None:
        begun_s = self._clock.now_s()

        def on_response(reply: ClientResponse) -> None:
            self._record_response(send.message.api, reply, begun_s=begun_s)
            event: MemberEvent
            if reply.failure is None:
                event = GroupResponseReceived(token=send.token, body=reply.body)
            else:
                event = GroupRequestFailed(token=send.token, failure=reply.failure)
            self._call_session_and_execute_actions(
                lambda part, now_s: part.handle_event(event, now_s)
            )

        with self._lock:
            self._metrics.record_request(send.message.api, begun_s)
        loop.connections.call(
            send.to, send.message, done=on_response, timeout_s=send.timeout_s, lane=send.lane
        )

    def _record_response(self, api: str, reply: ClientResponse, *, begun_s: float) -> None:
        code = None if reply.failure else int(getattr(reply.body, "error_code", 0))
        now_s = self._clock.now_s()
        with self._lock:
            self._metrics.record_response(api, code=code, took_s=now_s - begun_s, now_s=now_s)

    # the planning thread

    def _compute_assignments(self, stop: threading.Event) -> None:
        """Compute requested assignments in order. Only this thread uses the assignor's state."""
        remembered = AssignorState()
        while not stop.is_set():
            try:
                asked = self._assignment_requests.get(timeout=_MAX_POLL_INTERVAL_S)
            except queue.Empty:
                asked = None
            if asked is None:
                continue
            try:
                lead = self._compute_assignment(asked, remembered)
            except ValueError as error:
                self._fail_session(FatalError(f"computing the group's assignment: {error}"))
                continue
            remembered = lead.state
            for name, reason in lead.malformed.items():
                _LOG.warning("group member %s is not assigned any work: %s", name, reason)
            if lead.left_out:
                _log_left_out_connectors(lead.left_out)
            self._submit_assignment(asked.election.generation, lead)

    def _compute_assignment(
        self, asked: AssignmentRequested, remembered: AssignorState
    ) -> LeaderAssignments:
        assert self._configured is not None
        snapshots = ConfiguredWorkSnapshots(at_join=asked.joined_with, newest=self._configured())
        times = RebalanceTimes(
            now_ms=round(self._clock.now_s() * 1000),
            delay_max_ms=self._settings.session.max_rebalance_delay_ms,
        )
        return leader_assignment.perform_assignment(
            asked.election, snapshots, remembered, times=times
        )

    def _submit_assignment(self, generation: int, lead: LeaderAssignments) -> None:
        self._call_session_and_execute_actions(
            lambda part, now_s: part.submit_assignments(generation, lead, now_s)
        )


def _log_left_out_connectors(names: frozenset[str]) -> None:
    _LOG.error(
        "%d connector(s) are not assigned to any worker, because the assignments of all connectors "
        "together exceed %s bytes or %s connectors and tasks: %s; delete connectors, reduce "
        "tasks.max, or use a second Connect group",
        len(names),
        f"{connect_protocol.MAX_WORK_BYTES:,}",
        f"{connect_protocol.MAX_WORK_ITEMS:,}",
        ", ".join(sorted(names)[:_MAX_SHOWN_CONNECTORS]),
    )


def _ignore_event_notification() -> None:
    """Do nothing when events arrive; used until a listener is set."""


class _ConnectionLoop:
    """The group's broker connections, with a socket through which other threads interrupt a poll.
    Used by only one thread after its creation."""

    def __init__(self, settings: WorkerGroupSettings, *, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._poller = Poller()
        try:
            self.connections = ClusterConnections(
                settings.connections,
                poller=self._poller,
                clock=clock,
                random=rng,
                pool=BufferPool(_BUFFER_POOL_BYTES),
            )
        except ValueError as error:
            self._poller.close()
            raise FatalError(f"connecting to the group's cluster: {error}") from error
        self.wakeup_sender, self._wakeup_receiver = socket.socketpair()
        self.wakeup_sender.setblocking(False)
        self._wakeup_receiver.setblocking(False)
        self._poller.register(
            self._wakeup_receiver, tcp_and_tls_transport.READABLE, handler=self._on_wakeup
        )

    def poll_connections_once(self, due_s: float) -> None:
        """Process the connections' due work, then wait for network events until `due_s` at the
        latest."""
        wait_s = self.connections.tick(self._clock.now_s())
        self._poller.poll(min(wait_s, due_s - self._clock.now_s(), _MAX_POLL_INTERVAL_S))

    def _on_wakeup(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wakeup_receiver.recv(4096):
                pass

    def __enter__(self) -> _ConnectionLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self.connections.close()
        self._poller.close()
        self._wakeup_receiver.close()
        self.wakeup_sender.close()
