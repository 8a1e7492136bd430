"""MirrorCheckpointConnector: finds the consumer groups of a flow and assigns them to tasks.

As in Java, the connector creates the checkpoints topic on the cluster of `target.cluster.*`, but
the worker's producer writes the checkpoints. If that producer writes to another cluster by default,
redirect it with `producer.override.*`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.connector import SourceConnector
from connect_runtime.api.errors import RetriableError
from connect_runtime.api.records import SourceOffset
from connect_runtime.api.task import Task
from connect_runtime.base import errors, plurals
from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2.config import (
    connector_checks,
    java_class_placeholders,
    mirror_connector_config,
    mirror_connector_config_keys,
)
from mm2.config.mirror_connector_config import MirrorCheckpointConfig
from mm2.connectors import connect_offsets, mirrormaker2_internal_topics
from mm2.connectors.checkpoint_task import MirrorCheckpointTask
from mm2.connectors.connector_kafka_clients import (
    CheckpointClients,
    CheckpointClientsFactory,
    KafkaCheckpointClients,
)
from mm2.connectors.mirrormaker2_internal_topics import Mm2InternalTopic
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.kafka import consumer_groups
from mm2.kafka.kafka_client_interfaces import ConsumerGroups, ReportedPositions
from mm2.offsets import group_selection
from mm2.offsets.group_selection import GroupSelectionChange, SelectedGroups
from mm2.topics import task_assignment

GROUP_SCAN_RETRY_DELAY_S = 10.0
"""Delay in seconds after a failed scan of the groups, unless the refresh interval is shorter."""
CLOSE_TIMEOUT_S = 5.0
MAX_GROUPS_PER_SCAN = 250
FINDING_GROUPS = "listing consumer groups"
_LOG = logging.getLogger(__name__)


class MirrorCheckpointConnector(SourceConnector):
    """MirrorMaker 2's checkpoint connector. A thread scans for new and deleted groups."""

    default_converter = connector_checks.BYTE_ARRAY_CONVERTER

    def __init__(self, create_clients: CheckpointClientsFactory = KafkaCheckpointClients) -> None:
        self._make_clients = create_clients
        self._config: MirrorCheckpointConfig | None = None
        self._reset_state()
        self._assignments: list[list[str]] | None = None
        self._logged_exclusions: frozenset[str] = frozenset()
        self._groups_beyond_capacity: frozenset[str] = frozenset()
        self._groups_beyond_limit: frozenset[str] = frozenset()

    def _reset_state(self) -> None:
        """Reset the connector's state, because a worker restarts the same instance when the
        connector is resumed."""
        self._source: ConsumerGroups | None = None
        self._stop_requested = threading.Event()
        self._starting = True
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)
        self._groups: frozenset[str] | None = None
        self._last_positions: ReportedPositions = {}
        self._topics_by_group: dict[str, frozenset[str]] = {}

    def version(self) -> str:
        return java_class_placeholders.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return mirror_connector_config.CHECKPOINT_CONFIG_DEF

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return mirror_connector_config.validate_checkpoint_config(props)

    def start(self, props: Mapping[str, str]) -> None:
        """Create the checkpoints topic, scan the groups and start the scan thread.

        Raises `ConfigError` if the configuration is invalid, and `FatalError` if a cluster rejects
        the topic or denies access.
        """
        super().start(props)
        config = mirror_connector_config.parse_checkpoint_config(props)
        self._config = config
        if not _is_checkpoint_emission_enabled(config):
            return
        self._reset_state()
        context, leaving = self.context, self._stop_requested
        clients = self._make_clients(
            config,
            clock=context.clock,
            gone=lambda: leaving.is_set() or (self._starting and context.wait(0.0)),
        )
        self._warnings = RateLimitedWarnings(_LOG, clock=context.clock)
        self._create_topic(config, clients)
        self._source = clients.create_source_groups_client()
        try:
            self._scan_groups(config, self._source)
        except errors.RetriableError as error:
            self._warnings.warn(FINDING_GROUPS, f"{error}; retrying")
        self._starting = False
        self._threads.start(f"groups-{config.common.name}", self._run_scans)

    def stop(self) -> None:
        self._stop_requested.set()
        for name in self._threads.stop_all(CLOSE_TIMEOUT_S):
            _LOG.error("thread %s did not stop in time", name)
            return
        if self._source is not None:
            self._source.close()
            self._source = None

    def task_class(self) -> type[Task]:
        return MirrorCheckpointTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Assign groups to tasks, keeping existing assignments where possible.

        Raises `RetriableError` before the first scan of the source's groups has finished.
        """
        assert self._config is not None, "call start first"
        if not _is_checkpoint_emission_enabled(self._config):
            return []
        known = self._groups
        if known is None:
            raise RetriableError(
                f"connector {self._config.common.name}: the consumer groups of "
                f"{self._config.common.source} have not been listed yet"
            )
        before = self._assignments
        self._assignments, left_out = group_selection.limit_group_assignments(
            group_selection.assign_groups(known, max_tasks)
            if before is None
            else group_selection.reassign_groups(known, before, max_tasks),
            before or (),
            task_assignment.compute_assignment_bytes_max(self.props),
        )
        self._log_groups_beyond_capacity(left_out)
        return task_assignment.build_group_task_configs(self.props, self._assignments)

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Validate altered Connect source offsets. The checkpoint task never reads them."""
        connect_offsets.check_checkpoint_offsets(offsets)
        return True

    def _create_topic(self, config: MirrorCheckpointConfig, clients: CheckpointClients) -> None:
        topic = Mm2InternalTopic(
            name=config.checkpoints_topic,
            replication_factor=config.checkpoints_topic_factor,
            factor_key=mirror_connector_config_keys.CHECKPOINTS_FACTOR,
        )
        admin = clients.create_target_admin()
        try:
            mirrormaker2_internal_topics.create_topic(
                topic, admin, timeout_s=config.common.admin_timeout_s, wait=self.context.wait
            )
        finally:
            admin.close()

    def _run_scans(self, stop: threading.Event) -> None:
        """Scan the source's consumer groups every `refresh.groups.interval.seconds`. Runs on the
        scan thread."""
        config, source = self._config, self._source
        assert config is not None
        assert source is not None
        while not stop.wait(self._compute_scan_delay_s(config)):
            try:
                changed = self._scan_groups(config, source)
            except ConnectError as error:
                if not stop.is_set():
                    self._warnings.warn(FINDING_GROUPS, f"{error}; keeping the known groups")
                continue
            self._warnings.reset(FINDING_GROUPS)
            if changed and not stop.is_set():
                self.context.request_task_reconfiguration()

    def _compute_scan_delay_s(self, config: MirrorCheckpointConfig) -> float | None:
        """Compute the seconds until the next scan. Returns None if no further scan is needed."""
        interval_s = config.refresh_groups_interval_s
        if self._groups is not None:
            return interval_s
        return (
            GROUP_SCAN_RETRY_DELAY_S
            if interval_s is None
            else min(GROUP_SCAN_RETRY_DELAY_S, interval_s)
        )

    def _scan_groups(self, config: MirrorCheckpointConfig, source: ConsumerGroups) -> bool:
        """Scan the source's consumer groups. Returns True if tasks must be reconfigured. Raises
        `ConnectError` if a request fails."""
        clock = self.context.clock
        end = Deadline.after(config.common.admin_timeout_s, now_s=clock.now_s())
        listed = source.list_groups(config.common.admin_timeout_s)
        filtered = group_selection.filter_listed_groups(config.flow, listed)
        names = filtered.accepted
        failed: dict[str, ConnectError] = {}
        for chunk in consumer_groups.split_into_chunks(names, MAX_GROUPS_PER_SCAN):
            read = source.fetch_changed_committed_offsets(
                chunk, end.remaining_s(clock.now_s()), seen=self._last_positions
            )
            failed |= read.failed
            for group, positions in read.succeeded.items():
                self._topics_by_group[group] = frozenset(
                    place.topic for place, at in positions.items() if at is not None
                )
        for group in self._topics_by_group.keys() - set(names):
            del self._topics_by_group[group]
            self._last_positions.pop(group, None)
        topics = {
            group: None if group in failed else self._topics_by_group[group] for group in names
        }
        known = self._groups
        selected = group_selection.select_groups(
            config.flow, topics, followed=known or (), groups_max=group_selection.GROUPS_MAX
        )
        change = group_selection.compute_selection_change(known or (), selected)
        self._log_group_changes(selected, change, failed, filtered.unmatched)
        self._groups = selected.groups
        return known is None or bool(change)

    def _log_group_changes(
        self,
        selected: SelectedGroups,
        change: GroupSelectionChange,
        failed: Mapping[str, ConnectError],
        unmatched: Mapping[str, str],
    ) -> None:
        left_out = selected.unread | selected.unwritable | unmatched.keys()
        for group in sorted(left_out - self._logged_exclusions):
            if group in unmatched:
                _LOG.warning("group %.80s is not replicated: %s", group, unmatched[group])
            elif group in failed:
                _LOG.warning("group %.80s cannot be replicated: %s", group, failed[group])
            else:
                _LOG.warning(
                    "group %.80s is not replicated: a task configuration cannot contain its id",
                    group,
                )
        self._logged_exclusions = left_out
        beyond_limit = selected.beyond_limit
        if beyond_limit and beyond_limit != self._groups_beyond_limit:
            _LOG.warning(
                "%s not replicated, because a flow replicates at most %d groups: exclude groups "
                "with groups.exclude; among them %.80s",
                plurals.format_count(len(beyond_limit), "group", "are"),
                group_selection.GROUPS_MAX,
                min(beyond_limit),
            )
        self._groups_beyond_limit = beyond_limit
        if change:
            _LOG.info(
                "%s selected for offset translation: %d new, %d removed",
                plurals.format_count(len(selected.groups), "group", "are"),
                len(change.new),
                len(change.gone),
            )

    def _log_groups_beyond_capacity(self, groups: frozenset[str]) -> None:
        """Log a warning if other groups than before are left out of the task configurations."""
        if groups and groups != self._groups_beyond_capacity:
            _LOG.warning(
                "%s not replicated, because the task configurations have no room for their ids: "
                "increase tasks.max, or exclude groups with groups.exclude; among them %.80s",
                plurals.format_count(len(groups), "group", "are"),
                min(groups),
            )
        self._groups_beyond_capacity = groups

    def _handle_thread_death(self, end: UnexpectedThreadEnd) -> None:
        """Fail the connector if its scan thread dies, because new groups would not be
        replicated."""
        error = end.error
        self.context.raise_error(
            error if isinstance(error, Exception) else FatalError(f"thread {end.name} ended")
        )


def _is_checkpoint_emission_enabled(config: MirrorCheckpointConfig) -> bool:
    return config.common.enabled and config.emit_interval_s is not None
