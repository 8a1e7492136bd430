"""Executes the herder's background actions: none of them blocks the herder's thread.

`PendingReplies` holds the futures of callers until the herder replies to them.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol, cast

from connect_runtime.api.config_infos import ConfigInfos
from connect_runtime.base import plurals
from connect_runtime.herder import herder_requests, peer_requests
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    BackgroundAction,
    DeleteStatuses,
    FenceZombieProducers,
    ForwardTaskConfigs,
    HandleOffsetsRequest,
    LeadershipAcquired,
    PublishRestarting,
    ResetActiveTopics,
    SendReply,
    SetLoggerLevel,
    ValidateAndPutConnector,
    WriteLogLine,
)
from connect_runtime.herder.herder_api import (
    ConnectorOffsets,
    ConnectorOffsetsModified,
    WorkerReply,
)
from connect_runtime.herder.herder_events import HerderEvent, RequestSubmitted, TaskConfigsForwarded
from connect_runtime.herder.herder_requests import (
    HerderQueueFullError,
    ModifyConnectorOffsets,
    PutConnector,
    ReadConnectorOffsets,
    RequestedOffsets,
    RequestRefused,
)
from connect_runtime.herder.peer_requests import PeerClient, PeerRefusedError
from connect_runtime.herder.worker_interface import WorkerInterface
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.status_records import RunState, RunStatus, StatusSubject
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system import log_levels
from connect_runtime.system.log_levels import LogLevels
from connect_runtime.system.threads import ThreadPool, ThreadPoolFull

SHUTTING_DOWN_REPLY = RequestRefused(500, "Worker is shutting down")


class PendingReplies:
    """Any thread. Every future is answered once; a second answer is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, futures.Future[WorkerReply]] = {}

    def issue(self) -> tuple[int, futures.Future[WorkerReply]]:
        future: futures.Future[WorkerReply] = futures.Future()
        future.set_running_or_notify_cancel()  # who gives up on it must not get in the way
        with self._lock:
            ticket = next(self._numbers)
            self._waiting[ticket] = future
        return ticket, future

    def answer(self, ticket: int, reply: WorkerReply) -> None:
        future = self._take(ticket)
        if future is not None:
            future.set_result(reply)

    def fail(self, ticket: int, error: BaseException) -> None:
        future = self._take(ticket)
        if future is not None:
            future.set_exception(error)

    def settle(self, ticket: int, outcome: futures.Future[object]) -> None:
        """Answer with what comes of this, a reply."""

        def done(future: futures.Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self.fail(ticket, error)
            else:
                self.answer(ticket, cast("WorkerReply", future.result()))

        outcome.add_done_callback(done)

    def fail_with(self, ticket: int, outcome: futures.Future[object]) -> None:
        """Should this fail, then so does the ticket."""

        def done(future: futures.Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self.fail(ticket, error)

        outcome.add_done_callback(done)

    def refuse_all(self, reply: RequestRefused) -> None:
        """Nobody will look any more."""
        with self._lock:
            waiting: Iterable[int] = list(self._waiting)
        for ticket in waiting:
            self.answer(ticket, reply)

    def _take(self, ticket: int) -> futures.Future[WorkerReply] | None:
        with self._lock:
            return self._waiting.pop(ticket, None)


_LOG = logging.getLogger(__name__)
_FENCING_UNSUPPORTED_STATUS = 501
_LEADER_UNREACHABLE_REASON = (
    "only the group's leader publishes them, and without internal REST this worker cannot reach it "
    "(MirrorMaker's nodes: dedicated.mode.enable.internal.rest=true in the files of all)"
)


class OffsetRequestHandler(Protocol):
    """What `PUT`, `PATCH`, `DELETE` and `GET …/offsets` come to (KIP-875). Any thread; waits."""

    def read(self, connector: str, config: RawConfig) -> ConnectorOffsets: ...

    def modify(
        self,
        connector: str,
        config: RawConfig,
        offsets: RequestedOffsets | None,
    ) -> ConnectorOffsetsModified: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundActionDeps:
    """What orders are carried out with. `signs_with`: `inter.worker.signature.algorithm`.
    `plugin_calls`: for what is asked of plugins, which may never answer. `on_leading`: called, on a
    thread of its own, when this worker has become the leader (Java: `rebalanceSuccess`)."""

    configs: ConfigBackingStore
    statuses: StatusBackingStore
    worker: WorkerInterface
    offsets: OffsetRequestHandler
    peers: PeerClient | None
    signs_with: str
    validate: Callable[[RawConfig], ConfigInfos]
    calls: ThreadPool
    plugin_calls: ThreadPool
    levels: LogLevels
    worker_id: str
    generation: Callable[[], int]
    on_leading: Callable[[], None]


class BackgroundActionRunner:
    """`obey` is for the herder's thread; what it starts posts events, or answers tickets."""

    def __init__(
        self,
        hands: BackgroundActionDeps,
        *,
        asked: PendingReplies,
        post: Callable[[HerderEvent], object],
    ) -> None:
        self._hands = hands
        self._tickets = asked
        self._post = post

    def obey(self, order: BackgroundAction) -> None:
        """Orders for the group are not for here, and nothing happens."""
        hands = self._hands
        match order:
            case SendReply(ticket, reply):
                self._tickets.answer(ticket, reply)
            case WriteLogLine(text, warns):
                _LOG.log(logging.WARNING if warns else logging.INFO, "%s", text)
            case ApplyTargetState(connector=name, state=state):
                hands.worker.set_target_state(name, state)
            case PublishRestarting(what):
                for item in what.items:
                    self._say(item, RunState.RESTARTING)
            case DeleteStatuses(subjects):
                for subject in subjects:
                    self._say(subject, RunState.DESTROYED)
            case ResetActiveTopics(name):
                hands.statuses.forget_topics(name)
            case SetLoggerLevel(namespace, level):
                self._set_level(namespace, level)
            case _:
                self._obey_elsewhere(order)

    def _obey_elsewhere(self, order: BackgroundAction) -> None:
        match order:
            case LeadershipAcquired():
                self._call(self._hands.on_leading, self._hands.calls).add_done_callback(
                    _log_callback_failure
                )
            case ForwardTaskConfigs():
                self._forward(order)
            case ValidateAndPutConnector():
                self.validate_and_put(
                    order.ticket,
                    PutConnector(connector=order.connector, config=order.config),
                )
            case HandleOffsetsRequest(ticket=ticket, request=request):
                self._answer_by_worker(ticket, request)
            case FenceZombieProducers(ticket=ticket):
                self._tickets.answer(
                    ticket,
                    RequestRefused(
                        _FENCING_UNSUPPORTED_STATUS,
                        "This worker cannot fence producers: exactly-once sources are not offered"
                        " by this version; let a worker lead that offers them",
                    ),
                )

    def refuse_all(self) -> None:
        """The herder has ended: nobody is left without an answer."""
        self._tickets.refuse_all(SHUTTING_DOWN_REPLY)

    def _set_level(self, namespace: str, level: str) -> None:
        if level.upper() not in log_levels.LEVELS:
            _LOG.warning("there is no log level %s: %s stays as it is", level, namespace)
            return
        changed = self._hands.levels.set(namespace, level)
        loggers = plurals.format_count(len(changed), "logger")
        _LOG.info("log level %s for %s: %s", level, namespace, loggers)

    def validate_and_put(self, ticket: int, request: PutConnector) -> None:
        """Validate, on a thread of its own, then submit it with what was found."""

        def run() -> None:
            infos = self._hands.validate(request.config)
            judged = PutConnector(
                connector=request.connector,
                config=request.config,
                target_state=request.target_state,
                replace=request.replace,
                invalid=herder_requests.describe_config_errors(infos),
            )
            if not self._post(RequestSubmitted(ticket=ticket, request=judged)):
                self._tickets.answer(ticket, SHUTTING_DOWN_REPLY)

        self._tickets.fail_with(ticket, self._call(run, self._hands.plugin_calls))

    def _say(self, subject: StatusSubject, state: RunState) -> None:
        status = RunStatus(
            state=state, worker_id=self._hands.worker_id, generation=self._hands.generation()
        )
        self._hands.statuses.put(subject, status)

    def _forward(self, order: ForwardTaskConfigs) -> None:
        peers = self._hands.peers
        if peers is None:
            self._post(TaskConfigsForwarded(token=order.token, error=_LEADER_UNREACHABLE_REASON))
            return
        call = peer_requests.build_task_configs_request(
            order.leader_url,
            order.connector,
            order.configs,
            key=self._hands.configs.snapshot().session_key,
            algorithm=self._hands.signs_with,
        )

        def told(error: BaseException | None) -> TaskConfigsForwarded:
            if error is None:
                return TaskConfigsForwarded(token=order.token)
            status = error.status if isinstance(error, PeerRefusedError) else None
            return TaskConfigsForwarded(token=order.token, error=str(error), status=status)

        future = self._call(lambda: peers.send_and_wait(call), self._hands.calls)
        future.add_done_callback(lambda done: self._post(told(done.exception())))

    def _answer_by_worker(
        self, ticket: int, request: ReadConnectorOffsets | ModifyConnectorOffsets
    ) -> None:
        config = self._hands.configs.snapshot().config(request.connector)
        if config is None:
            self._tickets.answer(
                ticket, RequestRefused(404, f"Connector {request.connector} not found")
            )
            return
        known = config

        def run() -> ConnectorOffsets | ConnectorOffsetsModified:
            offsets = self._hands.offsets
            if isinstance(request, ReadConnectorOffsets):
                return offsets.read(request.connector, known)
            return offsets.modify(request.connector, known, request.offsets)

        self._tickets.settle(ticket, self._call(run, self._hands.plugin_calls))

    def _call(self, run: Callable[[], object], calls: ThreadPool) -> futures.Future[object]:
        """On a thread that nobody waits for; fails with `QueueFull` if there is none left."""
        try:
            return calls.submit(run)
        except ThreadPoolFull as error:
            failed: futures.Future[object] = futures.Future()
            failed.set_exception(HerderQueueFullError(str(error)))
            return failed


def _log_callback_failure(done: futures.Future[object]) -> None:
    error = done.exception()
    if error is not None:
        _LOG.error("what the new leader had to do failed: %s", error, exc_info=error)
