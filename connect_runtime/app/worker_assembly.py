"""Assembles a worker without its REST servers: herder, group, stores, connectors and tasks.

The caller provides the worker's address, so that several workers can share one server
(`multi_worker_process`), or one worker can have its own (`worker_process`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.app.worker_settings import WorkerSettings
from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.config.worker_config import StandaloneConfig, WorkerConfig
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import background_actions
from connect_runtime.herder.background_actions import (
    BackgroundActionDeps,
    BackgroundActionRunner,
    PendingReplies,
)
from connect_runtime.herder.blocking_actions import BlockingActionDeps, BlockingActionRunner
from connect_runtime.herder.herder_events import (
    ConfigRecordRead,
    ConnectorStateReached,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_loop import (
    HerderInbox,
    HerderLoop,
    HerderLoopDeps,
    WorkerGroupState,
)
from connect_runtime.herder.requests_to_other_workers import PeerClient
from connect_runtime.herder.worker_group_interface import WorkerGroup
from connect_runtime.herder.worker_herder import WorkerHerder, WorkerHerderDependencies
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.rest.rest_app import RestDependencies
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.config_topic import ConfigChange
from connect_runtime.storage.internal_topic_log import FencedWriter, SharedLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.storage.status_records import StatusSubject
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.log_levels import LogLevels
from connect_runtime.system.supervised_threads import ThreadPool
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.connector_offsets import ConnectorOffsetRequests
from connect_runtime.worker.connector_validation import ConnectorValidator
from connect_runtime.worker.task_factory import WorkerDeps
from connect_runtime.worker.worker import StartedConnectorOrTask, Worker
from connect_runtime.worker.worker_metrics import WorkerMetrics

_LOG = logging.getLogger(__name__)

CLUSTER_ID_TIMEOUT_S = 60.0
"""Maximum time to wait for brokers during the start; the default of Java's
`default.api.timeout.ms`."""
TOPIC_READ_TIMEOUT_S = 120.0
"""Timeout for creating and reading one internal topic."""
_STOP_TIMEOUT_S = 5.0
_MAX_CALL_THREADS = 32
_MAX_WAITING_CALLS = 1000
_HERDER_STOP_MARGIN_S = 180.0
"""Time for the herder to stop, in addition to `task.shutdown.graceful.timeout.ms`. The herder
completes its current action first. If no broker responds, each write of this action times out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAddress:
    """A worker's address, and its REST client for other workers."""

    worker_id: str
    """Worker id used in statuses."""
    url: str
    """URL that the worker advertises to its group."""
    peers: PeerClient | None
    """Client for requests to other workers; None if no requests are forwarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroupDeps:
    """Dependencies of a worker group: the worker's address, config store and metrics."""

    worker_id: str
    url: str
    configs: ConfigBackingStore
    metrics: WorkerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStateBeforeJoining:
    """A worker's id, and the configurations and statuses that the worker has read before it joins
    its group."""

    worker_id: str
    configs: ConfigBackingStore
    statuses: StatusBackingStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMode:
    """Components that differ between distributed and standalone workers, before they are
    started."""

    settings: WorkerSettings
    config: WorkerConfig
    config_log: SharedLog
    status_log: SharedLog
    offset_log: SharedLog
    fenced_writer: FencedWriter | None
    admin: TopicAdmin
    make_group: Callable[[WorkerGroupDeps], WorkerGroup]
    connect_protocol: ConnectProtocol
    has_peers: bool
    """True if requests may be forwarded to other workers."""
    check_startup: Callable[[WorkerStateBeforeJoining], None]
    """Called after the config and status topics were read and before the worker joins its group.
    Raises `FatalError` if the worker must not run."""


def _do_nothing() -> None:
    """Default callback, which does nothing."""


class _HerderEventPoster:
    """Posts worker events to the herder's inbox (`WorkerListener`)."""

    def __init__(self, posts: HerderInbox) -> None:
        self._inbox = posts

    def on_target_state_reached(
        self, connector: str, state: TargetState, error: str | None
    ) -> None:
        self._inbox.post_event(ConnectorStateReached(connector=connector, state=state, error=error))

    def on_reconfiguration_requested(self, connector: str) -> None:
        self._inbox.post_event(TaskReconfigurationRequested(connector))


BuildWorkerMode = Callable[[Callable[[str], None]], WorkerMode]
"""Builds a worker mode. The argument is a callback that the worker's components call with the
reason when they fail and the worker can no longer run."""


class WorkerAssembly:
    """Builds and runs a worker without REST servers. Call `read_kafka_cluster_id`,
    `build_rest_dependencies`, `join_group` and `stop` from one thread; properties may be read from
    any thread."""

    def __init__(
        self, build_mode: BuildWorkerMode, *, on_leading: Callable[[], None] = _do_nothing
    ) -> None:
        """Create the worker's components. `on_leading` is called when this worker becomes the
        leader.

        Raises `FatalError` if the Kafka client library rejects the settings.
        """
        self._ended = threading.Event()
        self._broken: str | None = None
        self.mode = kind = build_mode(self.report_failure)
        self._on_leading = on_leading
        self._clock = SystemClock()
        self._calls = ThreadPool(
            "worker-call", threads_max=_MAX_CALL_THREADS, waiting_max=_MAX_WAITING_CALLS
        )
        self._plugin_calls = ThreadPool(
            "plugin-call", threads_max=_MAX_CALL_THREADS, waiting_max=_MAX_WAITING_CALLS
        )
        self._inbox = HerderInbox()
        self._tickets = PendingReplies()
        self._configs = ConfigBackingStore(
            kind.config_log,
            clock=self._clock,
            on_change=self._on_config_change,
            fenced=kind.fenced_writer,
            allowed_connectors=kind.settings.allowed_connectors,
        )
        self._statuses = StatusBackingStore(kind.status_log, clock=self._clock)
        self._offsets = LogOffsetBackingStore(kind.offset_log)
        self._standing = WorkerGroupState(protocol=kind.connect_protocol)
        self._home: WorkerAddress | None = None
        self._cluster_id: str | None = None
        self._loop: HerderLoop | None = None
        self._worker: Worker | None = None
        self.herder: WorkerHerder | None = None
        self.metrics: WorkerMetrics | None = None

    @property
    def failure(self) -> str | None:
        """Reason why the worker failed; None if it has not failed."""
        if self._loop is not None and self._loop.failure is not None:
            return self._loop.failure
        return self._broken

    @property
    def is_leader(self) -> bool:
        """True if this worker is its group's leader, as of the last rebalance."""
        return self._standing.is_leader

    @property
    def leader_url(self) -> str:
        """URL that the group's leader advertised in the last rebalance; "" before the first
        rebalance."""
        return self._standing.leader_url

    @property
    def assignment(self) -> ConnectorsAndTasks:
        """Connectors and tasks assigned to this worker in the last rebalance."""
        return self._standing.assigned

    @property
    def assignment_offset(self) -> int:
        """Config topic offset on which the last assignment is based; -1 before the first
        assignment."""
        return self._standing.config_offset

    @property
    def started_connectors_and_tasks(self) -> Mapping[StatusSubject, StartedConnectorOrTask]:
        """Connectors and tasks that this worker has started, with their configurations and
        statuses."""
        return {} if self._worker is None else self._worker.started_items.snapshot()

    def read_kafka_cluster_id(self) -> None:
        """Read the Kafka cluster id. Raises `ConnectError` if no broker responds."""
        end = Deadline.after(CLUSTER_ID_TIMEOUT_S, now_s=self._clock.now_s())
        self._cluster_id = self.mode.admin.get_cluster_id(end)
        _LOG.info("connected to Kafka cluster %s", self._cluster_id)

    def build_rest_dependencies(self, home: WorkerAddress) -> RestDependencies:
        """Build the herder and return the dependencies of the REST API.

        Afterwards, requests can be submitted, but they are rejected until the worker is ready.
        """
        settings = self.mode.settings
        self._home = home
        levels = LogLevels(clock=self._clock)
        self.metrics = WorkerMetrics(
            worker_id=home.worker_id,
            clock=self._clock,
            sampling=self.mode.config.metrics.sampling,
        )
        member = self.mode.make_group(
            WorkerGroupDeps(
                worker_id=home.worker_id,
                url=home.url,
                configs=self._configs,
                metrics=self.metrics,
            )
        )
        around = self._build_worker_deps(home, self.metrics, member)
        self._worker = Worker(around, _HerderEventPoster(self._inbox))
        checks = ConnectorValidator(
            installed=settings.plugins,
            worker=self.mode.config,
            resolve=settings.resolve_connector_config,
        )
        ordered = self._build_background_action_runner(
            around, checks=checks, peers=home.peers, levels=levels
        )
        self._loop = self._build_herder_loop(ordered, around, member)
        self.herder = self._build_herder(self._loop, ordered, checks)
        return RestDependencies(
            herder=self.herder,
            peers=home.peers,
            clock=self._clock,
            levels=levels,
            users=settings.users,
        )

    def join_group(self) -> None:
        """Read the internal topics and join the group. Call `stop` if this raises
        `ConnectError`."""
        assert self._loop is not None, "call assemble first"
        assert self._home is not None
        for store in (self._offsets, self._statuses, self._configs):
            store.start(TOPIC_READ_TIMEOUT_S)
        self.mode.check_startup(
            WorkerStateBeforeJoining(
                worker_id=self._home.worker_id, configs=self._configs, statuses=self._statuses
            )
        )
        self._loop.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for up to `timeout_s` for the worker to fail; return True if it has failed (see
        `failure`)."""
        return self._ended.wait(timeout_s)

    def report_failure(self, reason: str) -> None:
        """Record that a vital component failed; this ends `wait`. Thread-safe."""
        _LOG.error("this worker cannot continue: %s", reason)
        self._broken = self._broken or reason
        self._ended.set()

    def stop(self) -> None:
        """Stop all connectors and tasks, leave the group and release resources. Idempotent."""
        with contextlib.ExitStack() as last_first:  # run each step even if an earlier one fails
            last_first.callback(self.mode.admin.close)
            for store in (self._offsets, self._statuses, self._configs):
                last_first.callback(store.stop, _STOP_TIMEOUT_S)
            last_first.callback(self._stop_thread_pools)
            last_first.callback(self._stop_herder)

    def _stop_herder(self) -> None:
        if self._loop is not None:
            self._loop.request_stop()
            if not self._loop.join(self.mode.config.graceful_stop_s + _HERDER_STOP_MARGIN_S):
                _LOG.error("the herder did not stop in time and was abandoned")
        self._inbox.close()
        self._tickets.refuse_all_requests(background_actions.SHUTTING_DOWN_REPLY)

    def _stop_thread_pools(self) -> None:
        for calls in (self._calls, self._plugin_calls):
            for name in calls.stop(_STOP_TIMEOUT_S):
                _LOG.warning("%s did not stop in time and was abandoned", name)

    def _build_herder(
        self, driven: HerderLoop, ordered: BackgroundActionRunner, checks: ConnectorValidator
    ) -> WorkerHerder:
        return WorkerHerder(
            WorkerHerderDependencies(
                loop=driven,
                group_state=self._standing,
                inbox=self._inbox,
                pending_replies=self._tickets,
                background_actions=ordered,
                configs=self._configs,
                statuses=self._statuses,
                plugin_validator=checks,
                session_key_settings=self.mode.settings.herder.session_keys,
                thread_pool=self._calls,
                plugin_thread_pool=self._plugin_calls,
                cluster_id=self._cluster_id,
                is_standalone=isinstance(self.mode.config, StandaloneConfig),
            )
        )

    def _build_background_action_runner(
        self,
        around: WorkerDeps,
        *,
        checks: ConnectorValidator,
        peers: PeerClient | None,
        levels: LogLevels,
    ) -> BackgroundActionRunner:
        assert self._worker is not None
        hands = BackgroundActionDeps(
            configs=self._configs,
            statuses=self._statuses,
            worker=self._worker,
            offsets=ConnectorOffsetRequests(around),
            peer_client=peers,
            signature_algorithm=self.mode.settings.herder.session_keys.signature_algorithm,
            validate=checks.validate_connector_config,
            thread_pool=self._calls,
            plugin_thread_pool=self._plugin_calls,
            log_levels=levels,
            worker_id=around.worker_id,
            generation=around.generation,
            on_leadership_acquired=self._on_leading,
        )
        return BackgroundActionRunner(
            hands, pending_replies=self._tickets, post=self._inbox.post_event
        )

    def _build_worker_deps(
        self, home: WorkerAddress, metrics: WorkerMetrics, membership: WorkerGroup
    ) -> WorkerDeps:
        settings = self.mode.settings
        return WorkerDeps(
            config=self.mode.config,
            worker_id=home.worker_id,
            generation=lambda: self._standing.generation,
            configs=self._configs.snapshot,
            installed=settings.plugins,
            clients=KafkaTaskClients(files=settings.files, clock=self._clock),
            statuses=self._statuses,
            offsets=self._offsets,
            resolve=settings.resolve_connector_config,
            membership=membership,
            metrics=metrics,
            published_task_configs=self._configs.get_task_config_history,
            leaderless_period=lambda: self._configs.find_leaderless_period_before_start(
                settings.herder.session_keys.ttl_ms
            ),
            clock=self._clock,
        )

    def _build_herder_loop(
        self, ordered: BackgroundActionRunner, around: WorkerDeps, member: WorkerGroup
    ) -> HerderLoop:
        assert self._worker is not None
        settings = self.mode.settings
        asks = BlockingActionRunner(
            BlockingActionDeps(
                configs=self._configs,
                statuses=self._statuses,
                worker=self._worker,
                thread_pool=self._plugin_calls,
                session_key_settings=settings.herder.session_keys,
                resolve=around.resolve_plugin_config,
            )
        )
        return HerderLoop(
            HerderLoopDeps(
                settings=settings.herder,
                configs=self._configs,
                statuses=self._statuses,
                group=member,
                blocking_actions=asks,
                background_actions=ordered,
                inbox=self._inbox,
                group_state=self._standing,
                on_end=self._ended.set,
                clock=self._clock,
            )
        )

    def _on_config_change(self, change: ConfigChange) -> None:
        self._inbox.post_event(ConfigRecordRead(change))
