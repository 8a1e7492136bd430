"""Builds `ClusterConfigState` by applying the records of the config topic in order, and reports
changes.

Connector configurations take effect immediately. Task configurations take effect together with the
commit record that follows them, so that no worker runs a mix of an old and a new set. Compaction
may leave an older set incomplete, because it removes task configurations that were written again
later.

While a worker that starts reads the existing records of the topic (the replay), no changes are
reported, because past restart requests and logger levels no longer apply. If the topic was
truncated or recreated, the topic is read again from its beginning, and the differences between the
old and the new snapshot are reported.

`ConfigTopicState` also keeps the most recent configurations of every task. They show which
configuration a task on a Java worker used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.api.plugin_context import PublishedTaskConfig
from connect_runtime.base import ids
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import cluster_config_state, config_records, java_hash_map_json
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    ConnectorConfigEntry,
    RawConfig,
    SessionKey,
    TargetState,
)
from connect_runtime.storage.config_records import ConfigRecordKind, InvalidRecord, RestartRequest
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.java_hash_map_json import Json, MalformedJson

MAX_CONFIGS_PER_TASK = 8
"""Maximum number of configurations kept per task. Older configurations are dropped."""
MAX_IGNORED_NAMES = 1000
"""Maximum number of names of ignored connectors that are kept."""
_SHOWN_KEY_CHARS = 300
"""Maximum number of characters of a skipped record's key in a message."""
_ConfigsByTask = Mapping[int, tuple[PublishedTaskConfig, ...]]
_CONNECTOR_KINDS = frozenset(ConfigRecordKind) - {
    ConfigRecordKind.LOGGER,
    ConfigRecordKind.SESSION_KEY,
}
"""Kinds of records that belong to a connector."""
_NO_CONFIGS: _ConfigsByTask = MappingProxyType({})


@dataclass(slots=True)
class TaskConfigHistory:
    """The most recent configurations of every task.

    Invariant: each task has between 1 and `MAX_CONFIGS_PER_TASK` configurations. The result of
    `get_task_configs` is built when task configurations are committed, because commits are less
    frequent than calls of `get_task_configs`.
    """

    _found: dict[str, _ConfigsByTask] = field(default_factory=dict)

    def add_committed_configs(
        self, connector: str, configs: Mapping[int, RawConfig], *, wall_ms: int
    ) -> None:
        """Add a complete set of task configurations, committed at `wall_ms` by the leader's clock.

        If the time is unknown (-1), the tasks' earlier configurations are dropped.
        """
        found = dict(self.get_task_configs(connector))
        for number, config in configs.items():
            before = found.get(number, ()) if wall_ms >= 0 else ()
            given = PublishedTaskConfig(config=config, published_ms=wall_ms)
            found[number] = (*before[1 - MAX_CONFIGS_PER_TASK :], given)
        self._found[connector] = MappingProxyType(found)

    def remove_connector(self, connector: str) -> None:
        """Drop the history of a deleted connector."""
        self._found.pop(connector, None)

    def get_task_configs(self, connector: str) -> _ConfigsByTask:
        """Return the recent configurations of each task of a connector, by task number, oldest
        first."""
        return self._found.get(connector, _NO_CONFIGS)

    def check_invariants(self) -> None:
        for of in self._found.values():
            assert all(0 < len(given) <= MAX_CONFIGS_PER_TASK for given in of.values())


@dataclass(frozen=True, slots=True)
class ConnectorConfigured:
    """Change: a connector's configuration was written. `created` is true if the connector is
    new."""

    connector: str
    created: bool


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """Change: a connector and its tasks were deleted. `existed` is true if the connector was
    configured before."""

    connector: str
    existed: bool


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """Change: the target state of an existing connector changed."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsCommitted:
    """Change: a connector's tasks have new configurations. `tasks` is empty if the set of task
    configurations was incomplete or empty."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Change: a restart was requested. Every worker must restart its instances of the connector and
    its tasks."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """Change: workers sign their requests to each other with this key from now on."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """Change: a logger level was written. This worker must set the log level of `namespace` to
    `level`, if that level exists."""

    namespace: str
    level: str


ConfigChange: TypeAlias = (
    ConnectorConfigured
    | ConnectorRemoved
    | TargetStateChanged
    | TaskConfigsCommitted
    | RestartRequested
    | SessionKeyChanged
    | LoggerLevelSet
)


@dataclass(slots=True)
class ConfigTopicState:
    """State of the config topic, built by applying its records in order.

    Invariants: task configs of a connector without a configuration exist only during the replay;
    if a connector is not marked as inconsistent, each of its tasks has a configuration.
    """

    replaying: bool = True
    allowed_connectors: frozenset[str] | None = None
    """Names of the connectors whose records are applied; None for all connectors. Other connectors
    are ignored as if they did not exist."""
    task_config_history: TaskConfigHistory = field(default_factory=TaskConfigHistory)
    """The most recent configurations of all tasks."""
    _offset: int = cluster_config_state.NO_OFFSET
    _session_key: SessionKey | None = None
    _entries: dict[str, ConnectorConfigEntry] = field(default_factory=dict)
    _uncommitted: dict[str, dict[int, RawConfig]] = field(default_factory=dict, repr=False)
    _removed: set[str] = field(default_factory=set)
    """Names of connectors that were deleted and have not been created again."""
    _ignored: set[str] = field(default_factory=set)
    """Names of configured connectors that are not allowed; at most `MAX_IGNORED_NAMES`."""
    _snapshot: ClusterConfigState | None = None

    def apply_record(
        self, key: bytes | None, value: bytes | None, *, offset: int, wall_ms: int = -1
    ) -> ConfigChange | SkippedRecord | None:
        """Apply the record at `offset`, written at `wall_ms`. Return the change to report, if any.

        Records that were already applied are ignored. After the topic was recreated, its offsets
        start at 0 again: create a new `ConfigTopicState`.
        """
        if offset < self._offset:
            return None
        name = "" if key is None else key.decode("utf-8", "replace")
        try:
            decoded = java_hash_map_json.decode_json(value)
        except MalformedJson as error:
            return SkippedRecord(f"'{name[:_SHOWN_KEY_CHARS]}': {error}")
        self._offset = offset + 1
        self._snapshot = None
        try:
            change = self._apply_record_value(name, decoded, wall_ms)
        except InvalidRecord as error:
            return SkippedRecord(f"'{name[:_SHOWN_KEY_CHARS]}': {error}")
        return None if self.replaying else change

    def finish_replay(self) -> None:
        """End the replay of existing records. After this call, `apply_record` returns changes.

        Drops the task configs of connectors that have no configuration, because these connectors
        were deleted. Also drops task configs that were committed before the configuration record of
        a stopped connector, because stopping a connector removes its tasks.
        """
        self.replaying = False
        self._snapshot = None
        stopped = TargetState.STOPPED
        for name, entry in self._entries.items():
            unclaimed = entry.applied_config is None and entry.target_state is stopped
            if entry.config is None or unclaimed:
                self._entries[name] = _remove_tasks(entry)
            if entry.config is None:
                self.task_config_history.remove_connector(name)

    def snapshot(self) -> ClusterConfigState:
        """Return the configuration as of the last applied record."""
        if self._snapshot is None:
            self._snapshot = ClusterConfigState(
                offset=self._offset,
                session_key=self._session_key,
                entries=MappingProxyType(dict(self._entries)),
                ignored_connectors=frozenset(self._ignored),
            )
        return self._snapshot

    def _apply_record_value(self, key: str, value: Json, wall_ms: int) -> ConfigChange | None:
        kind, rest = config_records.split_record_key(key)
        if kind is ConfigRecordKind.TASK:
            task = config_records.parse_task_id(rest)
            _require_allowed_name_length(task.connector)
            if self._is_connector_allowed(task.connector):
                self._add_uncommitted_task(task, value)
            return None
        if kind is not ConfigRecordKind.LOGGER:
            _require_allowed_name_length(rest)
        if kind in _CONNECTOR_KINDS and not self._is_connector_allowed(rest):
            if kind is ConfigRecordKind.CONNECTOR:
                self._record_ignored_connector(rest, exists=value is not None)
            return None
        match kind:
            case ConfigRecordKind.TARGET_STATE:
                return self._apply_target_state(rest, value, wall_ms)
            case ConfigRecordKind.CONNECTOR:
                return self._apply_connector_config(rest, value)
            case ConfigRecordKind.COMMIT:
                return self._apply_task_config_commit(rest, value, wall_ms)
            case ConfigRecordKind.RESTART:
                return RestartRequested(config_records.decode_restart_request(rest, value))
            case ConfigRecordKind.FENCING:
                self._apply_fencing_count(rest, value)
                return None
            case ConfigRecordKind.LOGGER:
                return LoggerLevelSet(rest, config_records.decode_logger_level(value))
            case ConfigRecordKind.SESSION_KEY:
                self._session_key = config_records.decode_session_key(value)
                return SessionKeyChanged(self._session_key)

    def _is_connector_allowed(self, name: str) -> bool:
        return self.allowed_connectors is None or name in self.allowed_connectors

    def _record_ignored_connector(self, name: str, *, exists: bool) -> None:
        if not exists:
            self._ignored.discard(name)
        elif len(self._ignored) < MAX_IGNORED_NAMES:
            self._ignored.add(name)

    def _get_connector_entry(self, name: str) -> ConnectorConfigEntry:
        return self._entries.get(name) or ConnectorConfigEntry()

    def _apply_target_state(self, name: str, value: Json, wall_ms: int) -> ConfigChange | None:
        entry = self._get_connector_entry(name)
        if value is None:  # a connector's deletion is reported for its configuration record
            started = TargetState.STARTED
            state = None if entry.config is None else started
            self._entries[name] = dataclasses.replace(entry, target_state=state)
            return None
        state = config_records.decode_target_state(value)
        self._entries[name] = dataclasses.replace(
            entry, target_state=state, target_state_ms=wall_ms
        )
        if entry.config is None or entry.target_state is state:
            return None
        return TargetStateChanged(name)

    def _apply_connector_config(self, name: str, value: Json) -> ConfigChange | None:
        entry = self._get_connector_entry(name)
        if value is None:
            self._remove_connector(name)
            self._removed.add(name)
            return ConnectorRemoved(name, existed=entry.config is not None)
        config = MappingProxyType(dict(config_records.decode_config_properties(value)))
        self._removed.discard(name)
        self._entries[name] = dataclasses.replace(
            entry,
            config=config,
            target_state=entry.target_state or TargetState.STARTED,
        )
        return ConnectorConfigured(name, created=entry.config is None)

    def _remove_connector(self, name: str) -> None:
        """Delete a connector. As in Java, its target state, generation and fencing state are
        kept."""
        self._uncommitted.pop(name, None)
        self.task_config_history.remove_connector(name)
        if name in self._entries:
            self._entries[name] = dataclasses.replace(
                self._entries[name],
                config=None,
                task_count=None,
                task_configs=MappingProxyType({}),
                applied_config=None,
            )

    def _add_uncommitted_task(self, task: ConnectorTaskId, value: Json) -> None:
        config = MappingProxyType(dict(config_records.decode_config_properties(value)))
        self._uncommitted.setdefault(task.connector, {})[task.task] = config

    def _apply_task_config_commit(
        self, name: str, value: Json, wall_ms: int
    ) -> ConfigChange | None:
        """Apply a commit record: the task configs that were read since the connector's last commit
        take effect if they form a complete set.

        If the set is incomplete, compaction has removed configs that were written again later. The
        tasks then keep their previous configs until a complete set follows.

        During the replay, a commit record may precede the configuration of its connector. Either
        the configuration was written again later (KAFKA-17719), or the connector was deleted and
        its older records were compacted away (KAFKA-16838). `finish_replay` removes the tasks in
        the second case. After the replay, a commit record for a connector without a configuration
        always belongs to a deleted connector.
        """
        entry = self._get_connector_entry(name)
        if entry.config is None and (not self.replaying or name in self._removed):
            self._remove_connector(name)
            return None
        count = config_records.decode_task_count(value, "tasks")
        deferred = self._uncommitted.pop(name, {})
        complete = all(number in deferred for number in range(count)) if count else True
        entry = dataclasses.replace(
            entry, task_count=count, fencing_pending=True, inconsistent=not complete
        )
        if complete:
            self.task_config_history.add_committed_configs(name, deferred, wall_ms=wall_ms)
            entry = dataclasses.replace(
                entry,
                task_configs=MappingProxyType(deferred),
                applied_config=entry.config,
                generation=0 if entry.generation is None else entry.generation + 1,
            )
        self._entries[name] = entry
        applied = sorted(deferred) if complete else []
        return TaskConfigsCommitted(name, tuple(ConnectorTaskId(name, each) for each in applied))

    def _apply_fencing_count(self, name: str, value: Json) -> None:
        count = config_records.decode_task_count(value, "task-count")
        self._entries[name] = dataclasses.replace(
            self._get_connector_entry(name), fencing_count=count, fencing_pending=False
        )

    def check_invariants(self) -> None:
        self.task_config_history.check_invariants()
        for name, entry in self._entries.items():
            if entry.config is None:
                assert self.replaying or (entry.task_count is None and not entry.task_configs), name
            elif not entry.inconsistent:
                for number in range(entry.task_count or 0):
                    assert number in entry.task_configs, (name, number)
            if entry.config is not None:
                assert entry.target_state is not None, name


def _require_allowed_name_length(connector: str) -> None:
    if ids.is_connector_name_too_long(connector):
        raise InvalidRecord(
            "the connector is ignored, because its name has more than "
            f"{ids.MAX_CONNECTOR_NAME_BYTES} bytes in UTF-8: create it with a shorter name"
        )


def _remove_tasks(entry: ConnectorConfigEntry) -> ConnectorConfigEntry:
    return ConnectorConfigEntry(
        config=entry.config, target_state=entry.target_state, fencing_count=entry.fencing_count
    )


def diff_config_states(before: ClusterConfigState, after: ClusterConfigState) -> list[ConfigChange]:
    """Return the changes between two configuration snapshots, except restart requests and logger
    levels."""
    found: list[ConfigChange] = []
    if after.session_key is not None and after.session_key != before.session_key:
        found.append(SessionKeyChanged(after.session_key))
    gone = [name for name in before.connectors() if not after.has_connector(name)]
    found += [ConnectorRemoved(name, existed=True) for name in gone]
    for name in after.connectors():
        found += _diff_connector(name, before, after)
    return found


def _diff_connector(
    name: str, before: ClusterConfigState, after: ClusterConfigState
) -> Iterator[ConfigChange]:
    created = not before.has_connector(name)
    if before.config(name) != after.config(name):
        yield ConnectorConfigured(name, created=created)
    if not created and before.target_state(name) is not after.target_state(name):
        yield TargetStateChanged(name)
    if _list_task_configs(before, name) != _list_task_configs(after, name):
        yield TaskConfigsCommitted(name, tuple(after.tasks(name)))


def _list_task_configs(view: ClusterConfigState, name: str) -> list[RawConfig | None]:
    return [view.task_config(task) for task in view.tasks(name)]
