"""MirrorCheckpointConnector: where consumer groups of a flow's source go on on its target.

Configured with Java's keys. The checkpoints topic is made on `target.cluster.…`; records go where
the worker writes, which has to be that cluster (`producer.override.…` can change it), as in Java.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from connect_runtime.api import config_def, connector, records, task
from connect_runtime.api import errors as api_errors
from connect_runtime.base import amounts, deadline, errors
from connect_runtime.system import threads
from mm2.cluster import group_batches, groups
from mm2.connectors import complaints, internal_topics
from mm2.connectors.checkpoints import checkpoint_clients, checkpoint_task
from mm2.core import connect_offsets
from mm2.core.configs import answers, connector_configs, java_classes
from mm2.core.configs import connector_keys as keys
from mm2.core.groups import relevant
from mm2.core.topics import assigned

AGAIN_S = 10.0
"""What failed is tried again after this time, or sooner if the interval is shorter."""
CLOSE_S = 5.0
GROUPS_AT_ONCE = 250
LOOKING = "looking for groups"
_LOG = logging.getLogger(__name__)


class MirrorCheckpointConnector(connector.SourceConnector):
    """Java's of the same name. A thread of its own looks for groups that come and go."""

    default_converter = answers.BYTES

    def __init__(
        self, make_clients: checkpoint_clients.MakeClients = checkpoint_clients.KafkaClients
    ) -> None:
        self._make_clients = make_clients
        self._config: connector_configs.CheckpointConfig | None = None
        self._begin_anew()
        self._shares: list[list[str]] | None = None
        self._told: frozenset[str] = frozenset()

    def _begin_anew(self) -> None:
        """Workers start the same instance again when it is resumed."""
        self._source: groups.Groups | None = None
        self._leaving = threading.Event()
        self._starting = True
        self._threads = threads.Threads(on_unasked_end=self._ended)
        self._known: frozenset[str] | None = None
        self._seen: groups.Seen = {}
        self._topics: dict[str, frozenset[str]] = {}

    def version(self) -> str:
        return java_classes.VERSION

    def config(self) -> config_def.ConfigDef:
        return connector_configs.CHECKPOINT

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return connector_configs.validate_checkpoint(props)

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where a cluster refuses the topic, or us."""
        super().start(props)
        config = connector_configs.checkpoint(props)
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
        self._complaints = complaints.Complaints(_LOG, clock=context.clock)
        self._create_topic(config, clients)
        self._source = clients.source_groups()
        try:
            self._look(config, self._source)
        except errors.RetriableError as error:
            self._complaints.say(LOOKING, f"{error}; it is tried again")
        self._starting = False
        self._threads.start(f"groups-{config.common.name}", self._watch)

    def stop(self) -> None:
        self._leaving.set()
        for name in self._threads.stop_all(CLOSE_S):
            _LOG.error("thread %s did not stop in time and is left to itself", name)
            return
        if self._source is not None:
            self._source.close()
            self._source = None

    def task_class(self) -> type[task.Task]:
        return checkpoint_task.MirrorCheckpointTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Groups stay with their tasks where they can. Raises `RetriableError` before the groups
        of the source are known."""
        assert self._config is not None, "it was not started"
        if not _is_active(self._config):
            return []
        known = self._known
        if known is None:
            raise api_errors.RetriableError(
                f"connector {self._config.common.name}: the groups of {self._config.common.source} "
                "are not known yet"
            )
        if self._shares is None:
            self._shares = relevant.shares(known, max_tasks)
        else:
            self._shares = relevant.shares_again(known, self._shares, max_tasks)
        return assigned.group_configs(self.props, self._shares)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[records.SourceOffset]
    ) -> bool:
        """Nobody reads them: it is enough that they are of the right form."""
        connect_offsets.check_checkpoints(offsets)
        return True

    def _create_topic(
        self, config: connector_configs.CheckpointConfig, clients: checkpoint_clients.Clients
    ) -> None:
        topic = internal_topics.InternalTopic(
            name=config.checkpoints_topic,
            replication_factor=config.checkpoints_topic_factor,
            factor_key=keys.CHECKPOINTS_FACTOR,
        )
        admin = clients.target_admin()
        try:
            internal_topics.create(
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
            except errors.ConnectError as error:
                if not stop.is_set():
                    self._complaints.say(LOOKING, f"{error}; those known are followed on")
                continue
            self._complaints.over(LOOKING)
            if changed and not stop.is_set():
                self.context.request_task_reconfiguration()

    def _pause_s(self, config: connector_configs.CheckpointConfig) -> float | None:
        """None: there is nothing to look for any more."""
        interval_s = config.refresh_groups_interval_s
        if self._known is not None:
            return interval_s
        return AGAIN_S if interval_s is None else min(AGAIN_S, interval_s)

    def _look(self, config: connector_configs.CheckpointConfig, source: groups.Groups) -> bool:
        """Whether tasks have to be told of groups. Raises `ConnectError`."""
        clock = self.context.clock
        end = deadline.Deadline.after(config.common.admin_timeout_s, now_s=clock.now_s())
        listed = source.list_groups(config.common.admin_timeout_s)
        filtered = relevant.candidates(config.flow, listed)
        names = filtered.taken
        failed: dict[str, errors.ConnectError] = {}
        for some in group_batches.chunked(names, GROUPS_AT_ONCE):
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
        found = relevant.find(config.flow, topics, known=known or ())
        change = relevant.change(known or (), found)
        self._tell(found, change, failed, filtered.unmatched)
        self._known = found.groups
        return known is None or bool(change)

    def _tell(
        self,
        found: relevant.Found,
        change: relevant.Change,
        failed: Mapping[str, errors.ConnectError],
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
                amounts.counted(len(found.groups), "group", "are"),
                len(change.new),
                len(change.gone),
            )

    def _ended(self, end: threads.UnaskedEnd) -> None:
        """The thread broke down: groups that come would not be followed."""
        error = end.error
        self.context.raise_error(
            error if isinstance(error, Exception) else errors.FatalError(f"{end.name} has ended")
        )


def _is_active(config: connector_configs.CheckpointConfig) -> bool:
    return config.common.enabled and config.emit_interval_s is not None
