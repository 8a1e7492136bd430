"""MirrorCheckpointConnector: finds the consumer groups of a flow and assigns them to tasks.

The checkpoints topic is created on `target.cluster.*`. Records are written by the worker's
producer, which must write to that cluster (`producer.override.*` can redirect it), as in Java.
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
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.timing import Deadline
from connect_runtime.system.threads import ThreadDied, ThreadGroup
from mm2.config import connector_checks, java_classes, keys, mirror_connector_config
from mm2.config.mirror_connector_config import MirrorCheckpointConfig
from mm2.connectors import connect_offsets, internal_topics
from mm2.connectors.checkpoint_task import MirrorCheckpointTask
from mm2.connectors.connector_clients import (
    CheckpointClients,
    CheckpointClientsFactory,
    KafkaCheckpointClients,
)
from mm2.connectors.internal_topics import Mm2InternalTopic
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.kafka import consumer_groups
from mm2.kafka.client_interfaces import ConsumerGroups, ReportedPositions
from mm2.offsets import group_selection
from mm2.offsets.group_selection import GroupSelectionChange, SelectedGroups
from mm2.topics import assignment

GROUP_SCAN_RETRY_DELAY_S = 10.0
"""What failed is tried again after this time, or sooner if the interval is shorter."""
CLOSE_TIMEOUT_S = 5.0
MAX_GROUPS_PER_SCAN = 250
FINDING_GROUPS = "looking for groups"
_LOG = logging.getLogger(__name__)


class MirrorCheckpointConnector(SourceConnector):
    """Java's of the same name. A thread of its own looks for groups that come and go."""

    default_converter = connector_checks.BYTE_ARRAY_CONVERTER

    def __init__(self, make_clients: CheckpointClientsFactory = KafkaCheckpointClients) -> None:
        self._make_clients = make_clients
        self._config: MirrorCheckpointConfig | None = None
        self._begin_anew()
        self._shares: list[list[str]] | None = None
        self._told: frozenset[str] = frozenset()

    def _begin_anew(self) -> None:
        """Workers start the same instance again when it is resumed."""
        self._source: ConsumerGroups | None = None
        self._leaving = threading.Event()
        self._starting = True
        self._threads = ThreadGroup(on_unasked_end=self._ended)
        self._known: frozenset[str] | None = None
        self._seen: ReportedPositions = {}
        self._topics: dict[str, frozenset[str]] = {}

    def version(self) -> str:
        return java_classes.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return mirror_connector_config.CHECKPOINT_CONFIG_DEF

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return mirror_connector_config.validate_checkpoint(props)

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where a cluster refuses the topic, or us."""
        super().start(props)
        config = mirror_connector_config.parse_checkpoint(props)
        self._config = config
        if not _is_active(config):
            return
        self._begin_anew()
        context, leaving = self.context, self._leaving
        clients = self._make_clients(
            config,
            clock=context.clock,
            gone=lambda: leaving.is_set() or (self._starting and context.wait(0.0)),
        )
        self._complaints = RateLimitedWarnings(_LOG, clock=context.clock)
        self._create_topic(config, clients)
        self._source = clients.source_groups()
        try:
            self._look(config, self._source)
        except errors.RetriableError as error:
            self._complaints.say(FINDING_GROUPS, f"{error}; it is tried again")
        self._starting = False
        self._threads.start(f"groups-{config.common.name}", self._watch)

    def stop(self) -> None:
        self._leaving.set()
        for name in self._threads.stop_all(CLOSE_TIMEOUT_S):
            _LOG.error("thread %s did not stop in time and is left to itself", name)
            return
        if self._source is not None:
            self._source.close()
            self._source = None

    def task_class(self) -> type[Task]:
        return MirrorCheckpointTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Groups stay with their tasks where they can. Raises `RetriableError` before the groups
        of the source are known."""
        assert self._config is not None, "it was not started"
        if not _is_active(self._config):
            return []
        known = self._known
        if known is None:
            raise RetriableError(
                f"connector {self._config.common.name}: the groups of {self._config.common.source} "
                "are not known yet"
            )
        if self._shares is None:
            self._shares = group_selection.assign_groups(known, max_tasks)
        else:
            self._shares = group_selection.reassign_groups(known, self._shares, max_tasks)
        return assignment.build_group_task_configs(self.props, self._shares)

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Nobody reads them: it is enough that they are of the right form."""
        connect_offsets.check_checkpoint_offsets(offsets)
        return True

    def _create_topic(self, config: MirrorCheckpointConfig, clients: CheckpointClients) -> None:
        topic = Mm2InternalTopic(
            name=config.checkpoints_topic,
            replication_factor=config.checkpoints_topic_factor,
            factor_key=keys.CHECKPOINTS_FACTOR,
        )
        admin = clients.target_admin()
        try:
            internal_topics.create_topic(
                topic, admin, timeout_s=config.common.admin_timeout_s, wait=self.context.wait
            )
        finally:
            admin.close()

    def _watch(self, stop: threading.Event) -> None:
        """The thread's body: look again, as often as `refresh.groups.interval.seconds` says."""
        config, source = self._config, self._source
        assert config is not None
        assert source is not None
        while not stop.wait(self._pause_s(config)):
            try:
                changed = self._look(config, source)
            except ConnectError as error:
                if not stop.is_set():
                    self._complaints.say(FINDING_GROUPS, f"{error}; those known are followed on")
                continue
            self._complaints.over(FINDING_GROUPS)
            if changed and not stop.is_set():
                self.context.request_task_reconfiguration()

    def _pause_s(self, config: MirrorCheckpointConfig) -> float | None:
        """None: there is nothing to look for any more."""
        interval_s = config.refresh_groups_interval_s
        if self._known is not None:
            return interval_s
        return (
            GROUP_SCAN_RETRY_DELAY_S
            if interval_s is None
            else min(GROUP_SCAN_RETRY_DELAY_S, interval_s)
        )

    def _look(self, config: MirrorCheckpointConfig, source: ConsumerGroups) -> bool:
        """Whether tasks have to be told of groups. Raises `ConnectError`."""
        clock = self.context.clock
        end = Deadline.after(config.common.admin_timeout_s, now_s=clock.now_s())
        listed = source.list_groups(config.common.admin_timeout_s)
        filtered = group_selection.filter_candidates(config.flow, listed)
        names = filtered.taken
        failed: dict[str, ConnectError] = {}
        for some in consumer_groups.split_into_chunks(names, MAX_GROUPS_PER_SCAN):
            read = source.news(some, end.left_s(clock.now_s()), seen=self._seen)
            failed |= read.failed
            for group, positions in read.done.items():
                self._topics[group] = frozenset(
                    place.topic for place, at in positions.items() if at is not None
                )
        for group in self._topics.keys() - set(names):
            del self._topics[group]
            self._seen.pop(group, None)
        topics = {group: None if group in failed else self._topics[group] for group in names}
        known = self._known
        found = group_selection.select_groups(config.flow, topics, known=known or ())
        change = group_selection.compare_selection(known or (), found)
        self._tell(found, change, failed, filtered.unmatched)
        self._known = found.groups
        return known is None or bool(change)

    def _tell(
        self,
        found: SelectedGroups,
        change: GroupSelectionChange,
        failed: Mapping[str, ConnectError],
        unmatched: Mapping[str, str],
    ) -> None:
        left_out = found.unread | found.unwritable | unmatched.keys()
        for group in sorted(left_out - self._told):
            if group in unmatched:
                _LOG.warning("group %.80s is not followed: %s", group, unmatched[group])
            elif group in failed:
                _LOG.warning("group %s cannot be followed: %s", group, failed[group])
            else:
                _LOG.warning("group %s is not followed: a list cannot hold such a name", group)
        self._told = left_out
        if change:
            _LOG.info(
                "%s followed: %d new, %d gone",
                plurals.format_count(len(found.groups), "group", "are"),
                len(change.new),
                len(change.gone),
            )

    def _ended(self, end: ThreadDied) -> None:
        """The thread broke down: groups that come would not be followed."""
        error = end.error
        self.context.raise_error(
            error if isinstance(error, Exception) else FatalError(f"{end.name} has ended")
        )


def _is_active(config: MirrorCheckpointConfig) -> bool:
    return config.common.enabled and config.emit_interval_s is not None
