"""MirrorSourceConnector: which topics of the source are replicated, and by which task.

A thread refreshes topics, mirror topics, configs and ACLs at their intervals, as Java's
connector does. Task configurations have Java's format, so tasks of either product can be led by
either.

Unlike Java's: partitions stay with their tasks unless a task is overloaded for long; partitions
that must not be copied are assigned to no task and reported; topics that appear later are
replicated from their earliest record, whatever the flow's start position is.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence

from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.connector import ExactlyOnceSupport, SourceConnector
from connect_runtime.api.plugin_context import SourceConnectorContext
from connect_runtime.api.records import SourceOffset
from connect_runtime.api.task import Task
from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.clock import SystemClock
from connect_runtime.system.threads import ThreadDied, ThreadGroup
from mm2.config import connector_checks, java_classes, mirror_connector_config
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors import (
    connect_offsets,
    era_requests,
    status_registry,
    task_status,
    topic_refresh,
)
from mm2.connectors.connector_clients import (
    KafkaSourceConnectorClients,
    SourceConnectorClientsFactory,
)
from mm2.connectors.source_task import MirrorSourceTask
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.connectors.status_registry import ConnectorSnapshot
from mm2.connectors.task_assignments import SourceTaskAssignments, TaskByteRates
from mm2.connectors.topic_refresh import (
    PeriodicAction,
    RefreshSchedule,
    TopicRefresher,
    TopicRefreshResult,
)
from mm2.replication import record_transforms

WATCH_CLOSE_TIMEOUT_S = 5.0
REFRESHING_TOPICS, SYNCING_CONFIGS, SYNCING_ACLS = (
    "looking for topics",
    "settings of mirrors",
    "ACLs of mirrors",
)
BALANCING_LOAD = "loads of tasks"
_LOG = logging.getLogger(__name__)
_LOGGED_TOPIC_COUNTS: dict[str, str] = {}
"""By flow: how many partitions its connector found last when it started in this process."""


class SourceTopicWatcher:
    """Started and stopped once. A thread that does not end in time keeps to itself."""

    def __init__(
        self,
        config: MirrorSourceConfig,
        context: SourceConnectorContext,
        make_clients: SourceConnectorClientsFactory,
    ) -> None:
        self._config = config
        self._context = context
        self._make_clients = make_clients
        self._leaving = threading.Event()
        self._starting = True
        self._threads = ThreadGroup(on_unasked_end=self._ended)
        self._looks: TopicRefresher | None = None
        self._told: TopicRefreshResult | None = None
        self._complaints = RateLimitedWarnings(_LOG, clock=context.clock)
        self._place = status_registry.REGISTRY.connector(config.flow.name)
        self._place.put(ConnectorSnapshot(planned=False, reason="both clusters are asked"))
        self._shares = SourceTaskAssignments(
            config,
            published=context.task_configs,
            loads=TaskByteRates(config.flow.name),
        )

    def start(self) -> None:
        """Make what the flow needs, and look. Raises `FatalError` where a cluster refuses us, or a
        topic."""
        config, clock = self._config, self._context.clock
        clients = self._make_clients(config, clock=clock, gone=self._is_gone)
        self._looks = TopicRefresher(
            config, clients, clock=clock, wait=self._wait, gone=self._is_gone
        )
        self._looks.create_topics(lambda why: self._show(reason=why))
        rounds = topic_refresh.build_refresh_schedule(config, now_s=clock.now_s())
        self._run(rounds.looks, REFRESHING_TOPICS, self._look_first)
        self._starting = False
        self._threads.start(f"topics-{config.common.name}", lambda stop: self._watch(rounds, stop))

    def stop(self) -> None:
        self._leaving.set()
        self._place.leave()
        for name in self._threads.stop_all(WATCH_CLOSE_TIMEOUT_S):
            _LOG.error("thread %s did not stop in time and is left to itself", name)
            return
        if self._looks is not None:
            self._looks.close()
            self._looks = None

    def task_configs(self, props: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
        """Raises `RetriableError` before the topics of the source are known."""
        return self._shares.task_configs(props, tasks_max)

    # Its thread

    def _watch(self, rounds: RefreshSchedule, stop: threading.Event) -> None:
        looks, clock = self._looks, self._context.clock
        assert looks is not None
        while not stop.wait(rounds.pause_s(clock.now_s())):
            now_s = clock.now_s()
            if rounds.looks.is_due(now_s):
                self._run(rounds.looks, REFRESHING_TOPICS, self._look_again)
            if rounds.settings.is_due(now_s):
                self._run(rounds.settings, SYNCING_CONFIGS, looks.follow_settings)
            if rounds.acls.is_due(now_s):
                self._run(rounds.acls, SYNCING_ACLS, looks.follow_acls)
            if rounds.loads.is_due(now_s):
                self._run(rounds.loads, BALANCING_LOAD, self._even_out)

    def _run(self, every: PeriodicAction, about: str, do: Callable[[], None]) -> None:
        """As soon as somebody waits for its end, nothing is told. At the start what does not pass
        by itself is raised."""
        try:
            do()
        except ConnectError as error:
            if self._starting and not isinstance(error, RetriableError):
                raise
            every.failed(self._context.clock.now_s())
            if not self._is_gone():
                self._complaints.say(about, f"{error}; it is tried again")
                self._show(reason=str(error))
        else:
            every.done(self._context.clock.now_s())
            self._complaints.over(about)

    def _look_first(self) -> None:
        self._look(settings=True)

    def _look_again(self) -> None:
        """Tasks are told only of what concerns them."""
        first = not self._shares.known
        self._look(settings=first)
        if (first or self._shares.are_news()) and not self._is_gone():
            self._context.request_task_reconfiguration()

    def _look(self, *, settings: bool) -> None:
        assert self._looks is not None
        syncs = settings and self._config.flow.syncs_topic_configs
        found = self._looks.look(self._shares.topics(), settings=syncs)
        self._shares.found(found.looked)
        self._tell(found)

    def _even_out(self) -> None:
        if self._shares.are_moved(self._context.clock.now_s()) and not self._is_gone():
            _LOG.info("a task carries too much: partitions are moved")
            self._context.request_task_reconfiguration()

    # What people are told

    def _tell(self, found: TopicRefreshResult) -> None:
        """What is new since the last look."""
        told, self._told = self._told, found
        known = set() if told is None else {*told.warnings, *(e.message for e in told.findings)}
        for line in dict.fromkeys((*found.warnings, *(each.message for each in found.findings))):
            if line not in known:
                _LOG.warning("%s", line)
        if told is None:
            copyable = found.looked.copyable
            self._log_first(
                f"{plurals.format_count(len(copyable), 'partition')} of "
                f"{plurals.format_count(len({each.topic for each in copyable}), 'topic')} "
                f"{plurals.conjugate(len(copyable), 'are')} mirrored"
            )
        else:
            for line in topic_refresh.describe_new_partitions(
                told.looked.copyable, found.looked.copyable
            ):
                _LOG.info("%s", line)
            for line in topic_refresh.describe_missing_topics(
                told.looked.topics, found.looked.topics
            ):
                _LOG.warning("%s", line)
        self._show()

    def _log_first(self, line: str) -> None:
        """Not again after the connector was restarted, or given another throttle, say."""
        flow = self._config.flow.name
        if _LOGGED_TOPIC_COUNTS.get(flow) != line:
            _LOGGED_TOPIC_COUNTS[flow] = line
            _LOG.info("%s: %s", flow, line)

    def _show(self, *, reason: str = "") -> None:
        """On the board; `reason` is for those who wait for the first look."""
        found = self._told
        if found is None:
            self._place.put(ConnectorSnapshot(planned=False, reason=reason))
            return
        findings = tuple(task_status.build_finding_status(each, task=-1) for each in found.findings)
        self._place.put(
            ConnectorSnapshot(
                planned=True,
                findings=findings,
                warnings=found.warnings,
                copyable=len(found.looked.copyable),
                props=self._config.common.props,
            )
        )

    # Its end

    def _is_gone(self) -> bool:
        return self._leaving.is_set() or (self._starting and self._context.wait(0.0))

    def _wait(self, timeout_s: float) -> bool:
        """At the start the worker says when to stop waiting, later `stop` does."""
        return self._context.wait(timeout_s) if self._starting else self._leaving.wait(timeout_s)

    def _ended(self, end: ThreadDied) -> None:
        """The thread broke down: topics that come would not be mirrored."""
        error = end.error
        self._context.raise_error(
            error if isinstance(error, Exception) else FatalError(f"{end.name} has ended")
        )


_CLOSE_TIMEOUT_S = 5.0
_REQUEST_ID_BYTES = 8


class MirrorSourceConnector(SourceConnector):
    """Java's of the same name. It may be started again after it was stopped."""

    default_converter = connector_checks.BYTE_ARRAY_CONVERTER
    carries_out = frozenset(record_transforms.LIST_KEYS)

    def __init__(
        self, make_clients: SourceConnectorClientsFactory = KafkaSourceConnectorClients
    ) -> None:
        self._make_clients = make_clients
        self._watch: SourceTopicWatcher | None = None

    def version(self) -> str:
        return java_classes.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return mirror_connector_config.SOURCE_CONFIG_DEF

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return mirror_connector_config.validate_source(props)

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport:
        return connector_checks.get_exactly_once_support(props)

    def task_class(self) -> type[Task]:
        return MirrorSourceTask

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where a cluster refuses us, or a topic."""
        super().start(props)
        config = mirror_connector_config.parse_source(props)
        if not config.common.enabled:
            return
        for key, words in connector_checks.find_ignored_keys(props):
            _LOG.warning("%s %s", key, words)
        self._watch = SourceTopicWatcher(config, self.context, self._make_clients)
        self._watch.start()

    def stop(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Raises `RetriableError` before the topics of the source are known."""
        watch = self._watch
        return [] if watch is None else watch.task_configs(self.props, max_tasks)

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Partitions that we have copied begin anew there: their progress is in the flow's map. Of
        all others these offsets are the progress, as in Java. Raises `ConnectError`."""
        connect_offsets.check_source_offsets(offsets)
        config = mirror_connector_config.parse_source(props)
        positions = connect_offsets.find_start_positions(
            offsets, cluster=config.common.source, start=config.flow.start.text
        )
        if positions:
            self._begin_anew(config, positions)
        return True

    def _begin_anew(
        self, config: MirrorSourceConfig, positions: Mapping[TopicPartition, str]
    ) -> None:
        clock, timeout_s = SystemClock(), config.common.admin_timeout_s
        clients = self._make_clients(config, clock=clock, gone=lambda: False)
        ledger = clients.ledger(list(positions))
        try:
            ledger.open(timeout_s)
            known = ledger.catch_up(timeout_s)
            for each in itertools.chain.from_iterable(map(known.unreadable, positions)):
                raise FatalError(
                    each.describe(topic="the flow's offset map", flow=config.flow.name)
                )
            begun = {
                name: position
                for name, position in positions.items()
                if known.partition(name).newest_era > 0
            }
            era_requests.record_era_requests(begun, ledger, now=clock, new_id=_new_request_id)
        finally:
            ledger.close(_CLOSE_TIMEOUT_S)


def _new_request_id() -> str:
    return secrets.token_hex(_REQUEST_ID_BYTES)
