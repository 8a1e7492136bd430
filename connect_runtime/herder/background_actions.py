"""Executes the herder's background actions without blocking the herder's thread.

`PendingReplies` contains the callers' futures until the herder replies.
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
from connect_runtime.herder import herder_requests, requests_to_other_workers
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    BackgroundAction,
    DeleteStatuses,
    FenceZombieProducers,
    ForwardTaskConfigs,
    HandleOffsetsRequest,
    PublishRestartingStatuses,
    ResetActiveTopics,
    RunLeadershipCallback,
    SendReply,
    SetLoggerLevel,
    ValidateAndPutConnector,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import HerderEvent, RequestSubmitted, TaskConfigsForwarded
from connect_runtime.herder.herder_interface import (
    ConnectorOffsets,
    ConnectorOffsetsModified,
    WorkerReply,
)
from connect_runtime.herder.herder_requests import (
    HerderQueueFullError,
    ModifyConnectorOffsets,
    PutConnector,
    ReadConnectorOffsets,
    RequestedOffsets,
    RequestRefused,
)
from connect_runtime.herder.requests_to_other_workers import (
    PeerClient,
    PeerRefusedError,
    PeerUnavailableError,
)
from connect_runtime.herder.worker_interface import WorkerInterface
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.status_records import RunState, RunStatus, StatusSubject
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system import log_levels
from connect_runtime.system.log_levels import LogLevels
from connect_runtime.system.supervised_threads import ThreadPool, ThreadPoolFull

SHUTTING_DOWN_REPLY = RequestRefused(500, "Worker is shutting down")


class PendingReplies:
    """Futures of submitted requests that wait for the herder's reply, by ticket (the number that
    identifies a request).

    Thread-safe. A second reply to the same ticket is dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ticket_numbers = itertools.count(1)
        self._waiting: dict[int, futures.Future[WorkerReply]] = {}

    def create_reply_future(self) -> tuple[int, futures.Future[WorkerReply]]:
        """Create the future for a request's reply. Return it together with the request's ticket."""
        future: futures.Future[WorkerReply] = futures.Future()
        future.set_running_or_notify_cancel()  # a caller that gives up must not cancel it
        with self._lock:
            ticket = next(self._ticket_numbers)
            self._waiting[ticket] = future
        return ticket, future

    def complete_reply(self, ticket: int, reply: WorkerReply) -> None:
        """Complete the future of the request with this ticket with the reply."""
        future = self._pop_future(ticket)
        if future is not None:
            future.set_result(reply)

    def fail_reply(self, ticket: int, error: BaseException) -> None:
        """Complete the future of the request with this ticket with the error."""
        future = self._pop_future(ticket)
        if future is not None:
            future.set_exception(error)

    def complete_reply_from_future(self, ticket: int, outcome: futures.Future[object]) -> None:
        """When `outcome` completes, complete the future of the request with this ticket: with the
        reply, or with the error of `outcome`."""

        def on_done(future: futures.Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self.fail_reply(ticket, error)
            else:
                self.complete_reply(ticket, cast("WorkerReply", future.result()))

        outcome.add_done_callback(on_done)

    def propagate_failure(self, ticket: int, outcome: futures.Future[object]) -> None:
        """If `outcome` fails, fail the future of the request with this ticket with the same error.
        If `outcome` succeeds, the request's future stays pending."""

        def on_done(future: futures.Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self.fail_reply(ticket, error)

        outcome.add_done_callback(on_done)

    def refuse_all_requests(self, reply: RequestRefused) -> None:
        """Complete the futures of all pending requests with `reply`, because the herder is shutting
        down."""
        with self._lock:
            waiting: Iterable[int] = list(self._waiting)
        for ticket in waiting:
            self.complete_reply(ticket, reply)

    def _pop_future(self, ticket: int) -> futures.Future[WorkerReply] | None:
        with self._lock:
            return self._waiting.pop(ticket, None)


_LOG = logging.getLogger(__name__)
_FENCING_UNSUPPORTED_STATUS = 501
_LEADER_UNREACHABLE_REASON = (
    "only the group's leader can write task configs, and this worker cannot reach it without"
    " internal REST (MirrorMaker nodes: set dedicated.mode.enable.internal.rest=true on every node)"
)


class OffsetRequestHandler(Protocol):
    """Handles requests to `…/offsets` (KIP-875). The methods block and may be called from any
    thread."""

    def read_offsets(self, connector: str, config: RawConfig) -> ConnectorOffsets: ...

    def modify_offsets(
        self,
        connector: str,
        config: RawConfig,
        offsets: RequestedOffsets | None,
    ) -> ConnectorOffsetsModified: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundActionDeps:
    """Dependencies of `BackgroundActionRunner`."""

    configs: ConfigBackingStore
    statuses: StatusBackingStore
    worker: WorkerInterface
    offsets: OffsetRequestHandler
    peer_client: PeerClient | None
    signature_algorithm: str
    """Setting `inter.worker.signature.algorithm`."""
    validate: Callable[[RawConfig], ConfigInfos]
    thread_pool: ThreadPool
    plugin_thread_pool: ThreadPool
    """Threads for plugin calls, which may never return."""
    log_levels: LogLevels
    worker_id: str
    generation: Callable[[], int]
    on_leadership_acquired: Callable[[], None]
    """Callback for this worker becoming the leader. Runs in the thread pool. Java:
    `rebalanceSuccess`."""


class BackgroundActionRunner:
    """Executes background actions. Long actions run in thread pools and then post events or
    complete replies."""

    def __init__(
        self,
        deps: BackgroundActionDeps,
        *,
        pending_replies: PendingReplies,
        post: Callable[[HerderEvent], object],
    ) -> None:
        self._deps = deps
        self._replies = pending_replies
        self._post = post

    def execute_action(self, action: BackgroundAction) -> None:
        """Execute an action on the herder's thread. Actions for the worker group are ignored."""
        deps = self._deps
        match action:
            case SendReply(ticket, reply):
                self._replies.complete_reply(ticket, reply)
            case WriteLogLine(text, warns):
                _LOG.log(logging.WARNING if warns else logging.INFO, "%s", text)
            case ApplyTargetState(connector=name, state=state):
                deps.worker.set_target_state(name, state)
            case PublishRestartingStatuses(what):
                for item in what.items:
                    self._write_status(item, RunState.RESTARTING)
            case DeleteStatuses(subjects):
                for subject in subjects:
                    self._write_status(subject, RunState.DESTROYED)
            case ResetActiveTopics(name):
                deps.statuses.delete_active_topics(name)
            case SetLoggerLevel(namespace, level):
                self._set_logger_level(namespace, level)
            case _:
                self._execute_long_running_action(action)

    def _execute_long_running_action(self, action: BackgroundAction) -> None:
        match action:
            case RunLeadershipCallback():
                self._submit_to_thread_pool(
                    self._deps.on_leadership_acquired, self._deps.thread_pool
                ).add_done_callback(_log_leadership_callback_failure)
            case ForwardTaskConfigs():
                self._forward_task_configs(action)
            case ValidateAndPutConnector():
                self.validate_and_put_connector(
                    action.ticket,
                    PutConnector(connector=action.connector, config=action.config),
                )
            case HandleOffsetsRequest(ticket=ticket, request=request):
                self._handle_offsets_request(ticket, request)
            case FenceZombieProducers(ticket=ticket):
                self._replies.complete_reply(
                    ticket,
                    RequestRefused(
                        _FENCING_UNSUPPORTED_STATUS,
                        "This worker cannot fence producers, because this version does not support"
                        " exactly-once source connectors: a worker that supports them must be the"
                        " leader",
                    ),
                )

    def refuse_all_requests(self) -> None:
        """Refuse all pending requests, because the herder has stopped."""
        self._replies.refuse_all_requests(SHUTTING_DOWN_REPLY)

    def _set_logger_level(self, namespace: str, level: str) -> None:
        if level.upper() not in log_levels.LEVELS:
            _LOG.warning("unknown log level %s: level of %s is unchanged", level, namespace)
            return
        problem = log_levels.explain_invalid_namespace(namespace)
        if problem is not None:
            _LOG.warning("ignored a request to set a log level: %s", problem)
            return
        changed = self._deps.log_levels.set_level(namespace, level)
        loggers = plurals.format_count(len(changed), "logger")
        _LOG.info("set log level %s for %s (%s)", level, namespace, loggers)

    def validate_and_put_connector(self, ticket: int, request: PutConnector) -> None:
        """Validate a connector's configuration in the thread pool, then submit the request to
        the herder, with the validation result."""

        def validate_and_submit_request() -> None:
            infos = self._deps.validate(request.config)
            validated = PutConnector(
                connector=request.connector,
                config=request.config,
                target_state=request.target_state,
                replace=request.replace,
                invalid=herder_requests.describe_config_errors(infos),
            )
            if not self._post(RequestSubmitted(ticket=ticket, request=validated)):
                self._replies.complete_reply(ticket, SHUTTING_DOWN_REPLY)

        self._replies.propagate_failure(
            ticket,
            self._submit_to_thread_pool(validate_and_submit_request, self._deps.plugin_thread_pool),
        )

    def _write_status(self, subject: StatusSubject, state: RunState) -> None:
        status = RunStatus(
            state=state, worker_id=self._deps.worker_id, generation=self._deps.generation()
        )
        self._deps.statuses.put(subject, status)

    def _forward_task_configs(self, action: ForwardTaskConfigs) -> None:
        peers = self._deps.peer_client
        if peers is None:
            self._post(TaskConfigsForwarded(token=action.token, error=_LEADER_UNREACHABLE_REASON))
            return
        call = requests_to_other_workers.build_task_configs_request(
            action.leader_url,
            action.connector,
            action.configs,
            key=self._deps.configs.snapshot().session_key,
            algorithm=self._deps.signature_algorithm,
        )

        def build_forwarded_event(error: BaseException | None) -> TaskConfigsForwarded:
            if error is None:
                return TaskConfigsForwarded(token=action.token)
            status = None
            if isinstance(error, PeerRefusedError):
                status = error.status
            elif isinstance(error, PeerUnavailableError):  # a worker with another session key
                status = error.unsigned_status
            return TaskConfigsForwarded(token=action.token, error=str(error), status=status)

        future = self._submit_to_thread_pool(
            lambda: peers.send_and_wait(call), self._deps.thread_pool
        )
        future.add_done_callback(lambda done: self._post(build_forwarded_event(done.exception())))

    def _handle_offsets_request(
        self, ticket: int, request: ReadConnectorOffsets | ModifyConnectorOffsets
    ) -> None:
        config = self._deps.configs.snapshot().config(request.connector)
        if config is None:
            self._replies.complete_reply(
                ticket, RequestRefused(404, f"Connector {request.connector} not found")
            )
            return
        known = config

        def read_or_modify_offsets() -> ConnectorOffsets | ConnectorOffsetsModified:
            offsets = self._deps.offsets
            if isinstance(request, ReadConnectorOffsets):
                return offsets.read_offsets(request.connector, known)
            return offsets.modify_offsets(request.connector, known, request.offsets)

        self._replies.complete_reply_from_future(
            ticket,
            self._submit_to_thread_pool(read_or_modify_offsets, self._deps.plugin_thread_pool),
        )

    def _submit_to_thread_pool(
        self, run: Callable[[], object], calls: ThreadPool
    ) -> futures.Future[object]:
        """Run a call in the thread pool. The returned future fails with `HerderQueueFullError`
        if the pool is full."""
        try:
            return calls.submit(run)
        except ThreadPoolFull as error:
            failed: futures.Future[object] = futures.Future()
            failed.set_exception(HerderQueueFullError(str(error)))
            return failed


def _log_leadership_callback_failure(done: futures.Future[object]) -> None:
    error = done.exception()
    if error is not None:
        _LOG.error(
            "the callback that runs when this worker becomes the leader failed: %s",
            error,
            exc_info=error,
        )
