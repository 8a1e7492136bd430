"""MirrorSourceConnector: selects the source topics to replicate and assigns partitions to tasks.

A thread refreshes topics, mirror topics, configs and ACLs at their intervals, as in Java's
connector. Task configurations have Java's format, so that a Connect group can contain both Java and
mm2 workers, with a leader of either kind.

Unlike in Java's connector, partitions remain with their tasks unless a task is overloaded for a
long time. Partitions that must not be replicated are assigned to no task and reported. Topics that
appear later are replicated from their earliest record, regardless of the flow's start position.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.connector import ExactlyOnceSupport, SourceConnector
from connect_runtime.api.plugin_context import SourceConnectorContext
from connect_runtime.api.records import SourceOffset
from connect_runtime.api.task import Task
from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2.config import connector_checks, java_class_placeholders, mirror_connector_config
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors import (
    connect_offsets,
    partition_restart_requests,
    status_registry,
    task_status_builder,
    topic_refresh,
)
from mm2.connectors.connector_kafka_clients import (
    KafkaSourceConnectorClients,
    SourceConnectorClientsFactory,
)
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.connectors.source_task import MirrorSourceTask
from mm2.connectors.source_task_assignments import SourceTaskAssignments, TaskByteRates
from mm2.connectors.status_registry import ConnectorSnapshot
from mm2.connectors.topic_refresh import (
    PeriodicAction,
    RefreshSchedule,
    TopicRefresher,
    TopicRefreshResult,
)
from mm2.replication import record_transforms

WATCH_CLOSE_TIMEOUT_S = 5.0
REFRESHING_TOPICS, SYNCING_CONFIGS, SYNCING_ACLS = (
    "refreshing topics",
    "syncing topic configs",
    "syncing topic ACLs",
)
BALANCING_LOAD = "balancing the load of tasks"
_LOG = logging.getLogger(__name__)
_LOGGED_TOPIC_COUNTS: dict[str, str] = {}
"""Last logged line with the partition and topic counts of each flow, by flow name. A connector that
is restarted in the same process does not log an unchanged line again."""


class SourceTopicRefreshThread:
    """Refreshes the flow's topics on a separate thread. Can be started and stopped only once."""

    def __init__(
        self,
        config: MirrorSourceConfig,
        context: SourceConnectorContext,
        create_clients: SourceConnectorClientsFactory,
    ) -> None:
        self._config = config
        self._context = context
        self._make_clients = create_clients
        self._stop_requested = threading.Event()
        self._starting = True
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)
        self._refresher: TopicRefresher | None = None
        self._last_result: TopicRefreshResult | None = None
        self._warnings = RateLimitedWarnings(_LOG, clock=context.clock)
        self._publisher = status_registry.REGISTRY.create_connector_publisher(config.flow.name)
        self._publisher.publish(ConnectorSnapshot(is_planned=False, reason="reading both clusters"))
        self._assignments = SourceTaskAssignments(
            config,
            published=context.task_configs,
            byte_rates=TaskByteRates(config.flow.name),
        )

    def start(self) -> None:
        """Create the flow's internal topics and run the first refresh.

        Raises `FatalError` if a cluster denies access or rejects a topic.
        """
        config, clock = self._config, self._context.clock
        clients = self._make_clients(config, clock=clock, gone=self._is_stopping)
        self._refresher = TopicRefresher(
            config,
            clients,
            clock=clock,
            wait=self._wait_for_stop_request,
            is_stopping=self._is_stopping,
        )
        self._refresher.create_internal_topics(lambda why: self._publish_status(reason=why))
        rounds = topic_refresh.build_refresh_schedule(config, now_s=clock.now_s())
        self._run_periodic_action(rounds.topics, REFRESHING_TOPICS, self._run_first_refresh)
        self._starting = False
        self._threads.start(
            f"topics-{config.common.name}", lambda stop: self._run_refreshes(rounds, stop)
        )

    def stop(self) -> None:
        self._stop_requested.set()
        self._publisher.remove()
        for name in self._threads.stop_all(WATCH_CLOSE_TIMEOUT_S):
            _LOG.error("thread %s did not stop in time", name)
            return
        if self._refresher is not None:
            self._refresher.close()
            self._refresher = None

    def task_configs(self, props: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
        """Build the task configurations. Raises `RetriableError` before the first refresh has
        finished.
        """
        return self._assignments.build_task_configs(props, tasks_max)

    # Runs on the refresh thread

    def _run_refreshes(self, rounds: RefreshSchedule, stop: threading.Event) -> None:
        looks, clock = self._refresher, self._context.clock
        assert looks is not None
        while not stop.wait(rounds.compute_delay_s(clock.now_s())):
            now_s = clock.now_s()
            if rounds.topics.is_due(now_s):
                self._run_periodic_action(
                    rounds.topics, REFRESHING_TOPICS, self._refresh_topics_and_tasks
                )
            if rounds.configs.is_due(now_s):
                self._run_periodic_action(rounds.configs, SYNCING_CONFIGS, looks.sync_configs)
            if rounds.acls.is_due(now_s):
                if self._last_result is None:  # which topics are mirrored is not known yet
                    rounds.acls.record_failure(now_s)
                else:
                    self._run_periodic_action(rounds.acls, SYNCING_ACLS, looks.sync_acls)
            if rounds.loads.is_due(now_s):
                self._run_periodic_action(rounds.loads, BALANCING_LOAD, self._balance_task_load)

    def _run_periodic_action(
        self, action: PeriodicAction, activity: str, run_action: Callable[[], None]
    ) -> None:
        """Run a periodic action. If it fails, log the error and schedule a retry.

        At startup, errors that a retry cannot resolve are raised. While the connector is stopping,
        errors are not logged.
        """
        try:
            run_action()
        except ConnectError as error:
            if self._starting and not isinstance(error, RetriableError):
                raise
            action.record_failure(self._context.clock.now_s())
            if not self._is_stopping():
                self._warnings.warn(activity, f"{error}; retrying")
                self._publish_status(reason=str(error))
        else:
            action.record_success(self._context.clock.now_s())
            self._warnings.reset(activity)

    def _run_first_refresh(self) -> None:
        self._refresh_topics(sync_configs=True)

    def _refresh_topics_and_tasks(self) -> None:
        """Refresh the topics, and request new task configurations if they have changed."""
        first = not self._assignments.has_topics
        self._refresh_topics(sync_configs=first)
        if (first or self._assignments.have_assignments_changed()) and not self._is_stopping():
            self._context.request_task_reconfiguration()

    def _refresh_topics(self, *, sync_configs: bool) -> None:
        assert self._refresher is not None
        syncs = sync_configs and self._config.flow.syncs_topic_configs
        result = self._refresher.refresh_topics(
            self._assignments.list_assigned_topics(), sync_configs=syncs
        )
        self._assignments.set_topics(result.topics)
        beyond_capacity = self._assignments.exclude_partitions_beyond_capacity()
        self._log_refresh_changes(
            replace(
                result,
                topics=replace(
                    result.topics, assignable=result.topics.assignable - beyond_capacity
                ),
                findings=(
                    *result.findings,
                    *self._refresher.build_capacity_findings(beyond_capacity),
                ),
            )
        )

    def _balance_task_load(self) -> None:
        if (
            self._assignments.move_overloaded_partitions(self._context.clock.now_s())
            and not self._is_stopping()
        ):
            _LOG.info("a task is overloaded: moving some of its partitions to other tasks")
            self._context.request_task_reconfiguration()

    # Log and status

    def _log_refresh_changes(self, result: TopicRefreshResult) -> None:
        """Log the changes since the last refresh."""
        previous, self._last_result = self._last_result, result
        logged = (
            set()
            if previous is None
            else {*previous.warnings, *(e.message for e in previous.findings)}
        )
        for line in dict.fromkeys((*result.warnings, *(each.message for each in result.findings))):
            if line not in logged:
                _LOG.warning("%s", line)
        if previous is None:
            copyable = result.topics.assignable
            self._log_partition_count(
                f"{plurals.format_count(len(copyable), 'partition')} of "
                f"{plurals.format_count(len({each.topic for each in copyable}), 'topic')} "
                f"{plurals.conjugate_verb(len(copyable), 'are')} mirrored"
            )
        else:
            for line in topic_refresh.describe_new_partitions(
                previous.topics.assignable, result.topics.assignable
            ):
                _LOG.info("%s", line)
            for line in topic_refresh.describe_missing_topics(
                previous.topics.topics, result.topics.topics
            ):
                _LOG.warning("%s", line)
        self._publish_status()

    def _log_partition_count(self, line: str) -> None:
        """Log the partition count unless a previous start of the connector logged the same
        count."""
        flow = self._config.flow.name
        if _LOGGED_TOPIC_COUNTS.get(flow) != line:
            _LOGGED_TOPIC_COUNTS[flow] = line
            _LOG.info("%s: %s", flow, line)

    def _publish_status(self, *, reason: str = "") -> None:
        """Publish the connector status. `reason` is shown until the first refresh has finished."""
        result = self._last_result
        if result is None:
            self._publisher.publish(ConnectorSnapshot(is_planned=False, reason=reason))
            return
        findings = tuple(
            task_status_builder.build_finding_status(each, task=-1) for each in result.findings
        )
        self._publisher.publish(
            ConnectorSnapshot(
                is_planned=True,
                findings=findings,
                warnings=result.warnings,
                copyable=len(result.topics.assignable),
                props=self._config.common.props,
            )
        )

    # End of the thread

    def _is_stopping(self) -> bool:
        return self._stop_requested.is_set() or (self._starting and self._context.wait(0.0))

    def _wait_for_stop_request(self, timeout_s: float) -> bool:
        """Wait for up to `timeout_s`. Returns True if the connector must stop. During startup, the
        worker requests this through the context; after startup, by calling `stop`."""
        return (
            self._context.wait(timeout_s)
            if self._starting
            else self._stop_requested.wait(timeout_s)
        )

    def _handle_thread_death(self, end: UnexpectedThreadEnd) -> None:
        """Fail the connector if its refresh thread dies, because new topics would not be
        replicated."""
        error = end.error
        self._context.raise_error(
            error if isinstance(error, Exception) else FatalError(f"thread {end.name} ended")
        )


_CLOSE_TIMEOUT_S = 5.0
_REQUEST_ID_BYTES = 8


class MirrorSourceConnector(SourceConnector):
    """MirrorMaker 2's source connector. Can be started again after `stop`."""

    default_converter = connector_checks.BYTE_ARRAY_CONVERTER
    self_applied_keys = frozenset(record_transforms.LIST_KEYS)

    def __init__(
        self, create_clients: SourceConnectorClientsFactory = KafkaSourceConnectorClients
    ) -> None:
        self._make_clients = create_clients
        self._refresh_thread: SourceTopicRefreshThread | None = None

    def version(self) -> str:
        return java_class_placeholders.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return mirror_connector_config.SOURCE_CONFIG_DEF

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return mirror_connector_config.validate_source_config(props)

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport:
        return connector_checks.get_exactly_once_support(props)

    def task_class(self) -> type[Task]:
        return MirrorSourceTask

    def start(self, props: Mapping[str, str]) -> None:
        """Start the refresh thread.

        Raises `ConfigError` if the configuration is invalid, and `FatalError` if a cluster denies
        access or rejects a topic.
        """
        super().start(props)
        config = mirror_connector_config.parse_source_config(props)
        if not config.common.enabled:
            return
        for key, words in connector_checks.find_ignored_keys(props):
            _LOG.warning("%s %s", key, words)
        self._refresh_thread = SourceTopicRefreshThread(config, self.context, self._make_clients)
        self._refresh_thread.start()

    def stop(self) -> None:
        refresh_thread, self._refresh_thread = self._refresh_thread, None
        if refresh_thread is not None:
            refresh_thread.stop()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Build the task configurations. Raises `RetriableError` before the first refresh has
        finished.
        """
        if self._refresh_thread is None:
            return []
        return self._refresh_thread.task_configs(self.props, max_tasks)

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Apply altered Connect offsets as start positions of partitions. Raises `ConnectError` if
        they are invalid or cannot be recorded.

        Partitions that mm2 has replicated begin a new era (generation of the mirror), because their
        progress is stored in the flow's offset map. For other partitions, the Connect offsets are
        the progress, as in Java.
        """
        connect_offsets.check_source_offsets(offsets)
        config = mirror_connector_config.parse_source_config(props)
        positions = connect_offsets.find_start_positions(
            offsets, cluster=config.common.source, start=config.flow.start.config_text
        )
        if positions:
            self._request_new_eras(config, positions)
        return True

    def _request_new_eras(
        self, config: MirrorSourceConfig, positions: Mapping[TopicPartition, str]
    ) -> None:
        clock, timeout_s = SystemClock(), config.common.admin_timeout_s
        clients = self._make_clients(config, clock=clock, gone=lambda: False)
        store = clients.create_flow_state_store(list(positions))
        try:
            store.open(timeout_s)
            offset_map = store.read_offset_map_to_end(timeout_s)
            for each in itertools.chain.from_iterable(
                map(offset_map.list_unreadable_records, positions)
            ):
                raise FatalError(
                    each.format_error(topic="the flow's offset map", flow=config.flow.name)
                )
            copied_positions = {
                name: position
                for name, position in positions.items()
                if offset_map.get_partition(name).newest_era > 0
            }
            partition_restart_requests.record_era_requests(
                copied_positions, store, now=clock, new_id=_generate_request_id
            )
        finally:
            store.close(_CLOSE_TIMEOUT_S)


def _generate_request_id() -> str:
    return secrets.token_hex(_REQUEST_ID_BYTES)
