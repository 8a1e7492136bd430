"""A worker but for its REST server: herder, group, stores, connectors and tasks, put together.

Its address comes from outside, so that several can be behind one server (`fleet`), or one have a
server of its own (`worker_process`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.adapters.kafka import clients, topic_admin
from connect_runtime.app.settings import worker as worker_settings
from connect_runtime.base import deadline
from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import events
from connect_runtime.core.state import cluster_config, config_log, status_records
from connect_runtime.core.task import worker_config
from connect_runtime.ports import fenced_writer, group, shared_log
from connect_runtime.ports import peers as peers_port
from connect_runtime.rest import app as rest_app
from connect_runtime.runtime import (
    begun,
    offset_requests,
    task_bodies,
    validation,
    worker,
    worker_metrics,
)
from connect_runtime.runtime.herding import (
    herder,
    inbox,
    loop,
    orders,
    questions,
    tickets,
)
from connect_runtime.runtime.stores import config_store, offset_store, status_store
from connect_runtime.system import clock as system_clock
from connect_runtime.system import log_levels, pool

_LOG = logging.getLogger(__name__)

CLUSTER_S = 60.0
"""How long brokers may keep silent at the start: Java's default.api.timeout.ms."""
LOGS_S = 120.0
"""What making and reading one internal topic may take."""
_STOP_S = 5.0
_CALLS_MAX = 32
_WAITING_MAX = 1000
_HERDER_S = 180.0
"""What the herder may take besides the graceful stop of its work: it ends what it does first, and
with brokers away every write of that takes its whole time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a worker is: `url` is what others of its group are told, `worker_id` what it is called
    in statuses. `peers` are the others; None: it asks nobody."""

    worker_id: str
    url: str
    peers: peers_port.Peers | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a group is made with. `url`: where others reach this worker, `worker_id` as in
    `Home`."""

    worker_id: str
    url: str
    configs: config_store.ConfigStore
    metrics: worker_metrics.WorkerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a worker knows before it begins: what it is called, and what its topics say."""

    worker_id: str
    configs: config_store.ConfigStore
    statuses: status_store.StatusStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a worker in a group and one alone do not have in common. Nothing is started.

    `among_peers`: there are other workers to ask.
    """

    settings: worker_settings.WorkerSettings
    config: worker_config.WorkerConfig
    config_log: shared_log.SharedLog
    status_log: shared_log.SharedLog
    offset_log: shared_log.SharedLog
    fenced: fenced_writer.FencedWriter | None
    admin: topic_admin.TopicAdmin
    make_group: Callable[[Around], group.Group]
    offers: protocol.Protocol
    among_peers: bool
    check: Callable[[Seen], None]
    """Asked once the stores are read; raises `FatalError` where it must not run."""


def _nothing() -> None:
    """Nobody wants to know."""


class _Listener:
    """Implements `ports.worker.Listener`."""

    def __init__(self, posts: inbox.Inbox) -> None:
        self._inbox = posts

    def on_reached(
        self, connector: str, state: cluster_config.TargetState, error: str | None
    ) -> None:
        self._inbox.post(events.ConnectorReached(connector=connector, state=state, error=error))

    def on_reconfiguration_wanted(self, connector: str) -> None:
        self._inbox.post(events.ReconfigurationWanted(connector))


MakeKind = Callable[[Callable[[str], None]], Kind]
"""Given what is to be told when something has ended that the worker cannot do without."""


class WorkerCore:
    """`reach`, `assemble`, `begin`, then `stop`, by one thread; what is shown, by any."""

    def __init__(self, make_kind: MakeKind, *, on_leading: Callable[[], None] = _nothing) -> None:
        """`on_leading`: see `orders.Hands`. Raises `FatalError` on settings that the client library
        refuses."""
        self._ended = threading.Event()
        self._broken: str | None = None
        self.kind = kind = make_kind(self.give_up)
        self._on_leading = on_leading
        self._clock = system_clock.SystemClock()
        self._calls = pool.Pool("worker-call", threads_max=_CALLS_MAX, waiting_max=_WAITING_MAX)
        self._plugin_calls = pool.Pool(
            "plugin-call", threads_max=_CALLS_MAX, waiting_max=_WAITING_MAX
        )
        self._inbox = inbox.Inbox()
        self._tickets = tickets.Tickets()
        self._configs = config_store.ConfigStore(
            kind.config_log, clock=self._clock, on_change=self._changed, fenced=kind.fenced
        )
        self._statuses = status_store.StatusStore(kind.status_log, clock=self._clock)
        self._offsets = offset_store.OffsetStore(kind.offset_log)
        self._standing = loop.Standing(speaks=kind.offers)
        self._home: Home | None = None
        self._cluster_id: str | None = None
        self._loop: loop.HerderLoop | None = None
        self._worker: worker.Worker | None = None
        self.herder: herder.Herder | None = None
        self.metrics: worker_metrics.WorkerMetrics | None = None

    @property
    def failure(self) -> str | None:
        """Why it ended by itself."""
        if self._loop is not None and self._loop.failure is not None:
            return self._loop.failure
        return self._broken

    @property
    def leads(self) -> bool:
        """Is this worker its group's leader, as of the last round?"""
        return self._standing.leads

    @property
    def leader_url(self) -> str:
        """What the leader of the last round tells its group; "" before."""
        return self._standing.leader_url

    @property
    def assigned(self) -> work.Work:
        """What it was given to run in the last round."""
        return self._standing.assigned

    @property
    def assigned_offset(self) -> int:
        """The offset of the configuration that the last round handed out; -1 before."""
        return self._standing.config_offset

    @property
    def begun(self) -> Mapping[status_records.Subject, begun.Begun]:
        """What it has begun, with which configurations, and what these have said since."""
        return {} if self._worker is None else self._worker.begun.seen()

    def reach(self) -> None:
        """Ask which cluster it is. Raises `ConnectError` where nobody answers."""
        end = deadline.Deadline.after(CLUSTER_S, now_s=self._clock.now_s())
        self._cluster_id = self.kind.admin.cluster_id(end)
        _LOG.info("the Kafka cluster is %s", self._cluster_id)

    def assemble(self, home: Home) -> rest_app.Parts:
        """What its REST API is made of; that answers from now on, and refuses what is too early."""
        settings = self.kind.settings
        self._home = home
        levels = log_levels.LogLevels(clock=self._clock)
        self.metrics = worker_metrics.WorkerMetrics(
            worker_id=home.worker_id,
            clock=self._clock,
            sampling=self.kind.config.metrics.sampling,
        )
        member = self.kind.make_group(
            Around(
                worker_id=home.worker_id,
                url=home.url,
                configs=self._configs,
                metrics=self.metrics,
            )
        )
        around = self._surroundings(home, self.metrics, member)
        self._worker = worker.Worker(around, _Listener(self._inbox))
        checks = validation.Validation(
            installed=settings.plugins, worker=self.kind.config, resolve=settings.resolve
        )
        ordered = self._make_orders(around, checks=checks, peers=home.peers, levels=levels)
        self._loop = self._make_loop(ordered, around, member)
        self.herder = self._make_herder(self._loop, ordered, checks)
        return rest_app.Parts(
            herder=self.herder,
            peers=home.peers,
            clock=self._clock,
            levels=levels,
            users=settings.users,
        )

    def begin(self) -> None:
        """Read the internal topics, look for the group. Raises `ConnectError`: stop it then."""
        assert self._loop is not None, "it is assembled first"
        assert self._home is not None
        for store in (self._offsets, self._statuses, self._configs):
            store.start(LOGS_S)
        self.kind.check(
            Seen(worker_id=self._home.worker_id, configs=self._configs, statuses=self._statuses)
        )
        self._loop.start()

    def wait(self, timeout_s: float) -> bool:
        """Has it ended by itself? `failure` then says why."""
        return self._ended.wait(timeout_s)

    def give_up(self, why: str) -> None:
        """Something of it has ended that it cannot do without: `wait` returns. From any thread."""
        _LOG.error("this worker cannot go on: %s", why)
        self._broken = self._broken or why
        self._ended.set()

    def stop(self) -> None:
        """Stop all work, leave the group, let go. Again: nothing happens."""
        with contextlib.ExitStack() as last_first:  # each whatever comes of those before
            last_first.callback(self.kind.admin.close)
            for store in (self._offsets, self._statuses, self._configs):
                last_first.callback(store.stop, _STOP_S)
            last_first.callback(self._stop_calls)
            last_first.callback(self._stop_herder)

    def _stop_herder(self) -> None:
        if self._loop is not None:
            self._loop.ask_stop()
            if not self._loop.join(self.kind.config.graceful_stop_s + _HERDER_S):
                _LOG.error("the herder did not end in time, and is left behind")
        self._inbox.close()
        self._tickets.refuse_all(tickets.CLOSED)

    def _stop_calls(self) -> None:
        for calls in (self._calls, self._plugin_calls):
            for name in calls.stop(_STOP_S):
                _LOG.warning("%s has not ended, and is left to itself", name)

    def _make_herder(
        self, driven: loop.HerderLoop, ordered: orders.Orders, checks: validation.Validation
    ) -> herder.Herder:
        return herder.Herder(
            herder.Parts(
                loop=driven,
                standing=self._standing,
                inbox=self._inbox,
                asked=self._tickets,
                orders=ordered,
                configs=self._configs,
                statuses=self._statuses,
                validation=checks,
                keys=self.kind.settings.herder.session_keys,
                calls=self._calls,
                plugin_calls=self._plugin_calls,
                cluster_id=self._cluster_id,
                is_standalone=isinstance(self.kind.config, worker_config.StandaloneConfig),
            )
        )

    def _make_orders(
        self,
        around: task_bodies.Surroundings,
        *,
        checks: validation.Validation,
        peers: peers_port.Peers | None,
        levels: log_levels.LogLevels,
    ) -> orders.Orders:
        assert self._worker is not None
        hands = orders.Hands(
            configs=self._configs,
            statuses=self._statuses,
            worker=self._worker,
            offsets=offset_requests.OffsetRequests(around),
            peers=peers,
            signs_with=self.kind.settings.herder.session_keys.signature_algorithm,
            validate=checks.validate,
            calls=self._calls,
            plugin_calls=self._plugin_calls,
            levels=levels,
            worker_id=around.worker_id,
            generation=around.generation,
            on_leading=self._on_leading,
        )
        return orders.Orders(hands, asked=self._tickets, post=self._inbox.post)

    def _surroundings(
        self, home: Home, metrics: worker_metrics.WorkerMetrics, membership: group.Group
    ) -> task_bodies.Surroundings:
        settings = self.kind.settings
        return task_bodies.Surroundings(
            config=self.kind.config,
            worker_id=home.worker_id,
            generation=lambda: self._standing.generation,
            configs=self._configs.snapshot,
            installed=settings.plugins,
            clients=clients.KafkaClients(files=settings.files, clock=self._clock),
            statuses=self._statuses,
            offsets=self._offsets,
            resolve=settings.resolve,
            membership=membership,
            metrics=metrics,
            given=self._configs.given,
            quiet=lambda: self._configs.quiet(settings.herder.session_keys.ttl_ms),
            clock=self._clock,
        )

    def _make_loop(
        self, ordered: orders.Orders, around: task_bodies.Surroundings, member: group.Group
    ) -> loop.HerderLoop:
        assert self._worker is not None
        settings = self.kind.settings
        asks = questions.Questions(
            questions.Hands(
                configs=self._configs,
                statuses=self._statuses,
                worker=self._worker,
                calls=self._plugin_calls,
                keys=settings.herder.session_keys,
                resolve=around.resolved,
            )
        )
        return loop.HerderLoop(
            loop.Surroundings(
                settings=settings.herder,
                configs=self._configs,
                statuses=self._statuses,
                group=member,
                questions=asks,
                orders=ordered,
                inbox=self._inbox,
                standing=self._standing,
                on_end=self._ended.set,
                clock=self._clock,
            )
        )

    def _changed(self, change: config_log.Change) -> None:
        self._inbox.post(events.ConfigChanged(change))
