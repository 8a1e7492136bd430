"""The config topic as a fold: records in, a view of the configured cluster out.

Connector configurations count at once; task configurations only with the commit record behind
them, together, so that nobody runs half of an old and half of a new set. Compaction may remove
earlier records of a key from the middle of all this: see `_commit`.

As long as it is replaying (from the beginning to the end as of the start), no change is told:
restart requests and logger levels of the past are over.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.state import (
    cluster_config,
    config_records,
    given_configs,
    json_bytes,
    skipped,
)


@dataclass(frozen=True, slots=True)
class ConnectorConfigured:
    """The connector's configuration was written; `created`: there was no such connector."""

    connector: str
    created: bool


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """The connector is gone, with its tasks; `existed` False: it was before."""

    connector: str
    existed: bool


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """An existing connector should be doing something else now."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksCommitted:
    """`tasks` have new configurations: none where the set was incomplete, or is empty."""

    connector: str
    tasks: tuple[ids.ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Everybody restarts what they run of this."""

    request: config_records.RestartRequest


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """Requests between workers are signed with this key from now on."""

    key: cluster_config.SessionKey


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """This worker logs `namespace` at `level` from now on, where there is such a level."""

    namespace: str
    level: str


Change: TypeAlias = (
    ConnectorConfigured
    | ConnectorRemoved
    | TargetStateChanged
    | TasksCommitted
    | RestartRequested
    | SessionKeyChanged
    | LoggerLevelSet
)


@dataclass(slots=True)
class ConfigLog:
    """Invariants: task configs of a connector without configuration exist only while replaying;
    every task below the count of a consistent connector has a configuration.

    `given` is what tasks were configured with lately.
    """

    replaying: bool = True
    given: given_configs.GivenConfigs = field(default_factory=given_configs.GivenConfigs)
    _offset: int = cluster_config.NO_OFFSET
    _session_key: cluster_config.SessionKey | None = None
    _entries: dict[str, cluster_config.ConnectorEntry] = field(default_factory=dict)
    _deferred: dict[str, dict[int, cluster_config.RawConfig]] = field(
        default_factory=dict, repr=False
    )
    _removed: set[str] = field(default_factory=set)
    """Connectors whose removal was read, and nothing after it that made them again."""
    _snapshot: cluster_config.ClusterConfig | None = None

    def apply(
        self, key: bytes | None, value: bytes | None, *, offset: int, wall_ms: int = -1
    ) -> Change | skipped.Skipped | None:
        """Take the record at `offset`, written at `wall_ms`; say what it changed, if anybody wants
        to know.

        A record that was taken before changes nothing. (If the topic was deleted and made again,
        its offsets start again too: so should the fold.)
        """
        if offset < self._offset:
            return None
        name = "" if key is None else key.decode("utf-8", "replace")
        try:
            decoded = json_bytes.decode(value)
        except json_bytes.Malformed as error:
            return skipped.Skipped(f"'{name}': {error}")
        self._offset = offset + 1
        self._snapshot = None
        try:
            change = self._take(name, decoded, wall_ms)
        except config_records.Invalid as error:
            return skipped.Skipped(f"'{name}': {error}")
        return None if self.replaying else change

    def finish_replay(self) -> None:
        """The end of the topic as of the start is reached: from now on changes are told.

        Task configs whose connector has not turned up by now belong to one that was deleted; so do
        those before the record of a stopped connector, for who stops one writes that it has none.
        """
        self.replaying = False
        self._snapshot = None
        stopped = cluster_config.TargetState.STOPPED
        for name, entry in self._entries.items():
            unclaimed = entry.applied_config is None and entry.target_state is stopped
            if entry.config is None or unclaimed:
                self._entries[name] = _without_tasks(entry)
            if entry.config is None:
                self.given.forget(name)

    def snapshot(self) -> cluster_config.ClusterConfig:
        if self._snapshot is None:
            self._snapshot = cluster_config.ClusterConfig(
                offset=self._offset,
                session_key=self._session_key,
                entries=MappingProxyType(dict(self._entries)),
            )
        return self._snapshot

    def _take(self, key: str, value: json_bytes.Json, wall_ms: int) -> Change | None:
        kind, rest = config_records.split_key(key)
        match kind:
            case config_records.Kind.TARGET_STATE:
                return self._set_target_state(rest, value, wall_ms)
            case config_records.Kind.CONNECTOR:
                return self._set_connector(rest, value)
            case config_records.Kind.TASK:
                self._defer_task(config_records.task_id(rest), value)
                return None
            case config_records.Kind.COMMIT:
                return self._commit(rest, value, wall_ms)
            case config_records.Kind.RESTART:
                return RestartRequested(config_records.restart_of(rest, value))
            case config_records.Kind.FENCING:
                self._set_fencing_count(rest, value)
                return None
            case config_records.Kind.LOGGER:
                return LoggerLevelSet(rest, config_records.level_of(value))
            case config_records.Kind.SESSION_KEY:
                self._session_key = config_records.session_key_of(value)
                return SessionKeyChanged(self._session_key)

    def _entry(self, name: str) -> cluster_config.ConnectorEntry:
        return self._entries.get(name) or cluster_config.ConnectorEntry()

    def _set_target_state(self, name: str, value: json_bytes.Json, wall_ms: int) -> Change | None:
        entry = self._entry(name)
        if value is None:  # its connector's removal is told by the connector's own record
            started = cluster_config.TargetState.STARTED
            state = None if entry.config is None else started
            self._entries[name] = dataclasses.replace(entry, target_state=state)
            return None
        state = config_records.state_of(value)
        self._entries[name] = dataclasses.replace(
            entry, target_state=state, target_state_ms=wall_ms
        )
        if entry.config is None or entry.target_state is state:
            return None
        return TargetStateChanged(name)

    def _set_connector(self, name: str, value: json_bytes.Json) -> Change | None:
        entry = self._entry(name)
        if value is None:
            self._remove(name)
            self._removed.add(name)
            return ConnectorRemoved(name, existed=entry.config is not None)
        config = MappingProxyType(dict(config_records.properties(value)))
        self._removed.discard(name)
        self._entries[name] = dataclasses.replace(
            entry,
            config=config,
            target_state=entry.target_state or cluster_config.TargetState.STARTED,
        )
        return ConnectorConfigured(name, created=entry.config is None)

    def _remove(self, name: str) -> None:
        """Target state, generation and fencing outlive a connector, as in Java."""
        self._deferred.pop(name, None)
        self.given.forget(name)
        if name in self._entries:
            self._entries[name] = dataclasses.replace(
                self._entries[name],
                config=None,
                task_count=None,
                task_configs=MappingProxyType({}),
                applied_config=None,
            )

    def _defer_task(self, task: ids.ConnectorTaskId, value: json_bytes.Json) -> None:
        config = MappingProxyType(dict(config_records.properties(value)))
        self._deferred.setdefault(task.connector, {})[task.task] = config

    def _commit(self, name: str, value: json_bytes.Json, wall_ms: int) -> Change | None:
        """Task configs since the last commit count from here on, if there is one for every task.

        If not, compaction took some whose key was written again later: then nothing of it counts
        until a complete set comes. A commit that comes before its connector's record is one whose
        connector was configured again later (KAFKA-17719), or was deleted and compacted away
        (KAFKA-16838): only the end of the replay can tell. After that it is a deleted one's.
        """
        entry = self._entry(name)
        if entry.config is None and (not self.replaying or name in self._removed):
            self._remove(name)
            return None
        count = config_records.count(value, "tasks")
        deferred = self._deferred.pop(name, {})
        complete = all(number in deferred for number in range(count)) if count else True
        entry = dataclasses.replace(
            entry, task_count=count, fencing_pending=True, inconsistent=not complete
        )
        if complete:
            self.given.commit(name, deferred, wall_ms=wall_ms)
            entry = dataclasses.replace(
                entry,
                task_configs=MappingProxyType(deferred),
                applied_config=entry.config,
                generation=0 if entry.generation is None else entry.generation + 1,
            )
        self._entries[name] = entry
        applied = sorted(deferred) if complete else []
        return TasksCommitted(name, tuple(ids.ConnectorTaskId(name, each) for each in applied))

    def _set_fencing_count(self, name: str, value: json_bytes.Json) -> None:
        count = config_records.count(value, "task-count")
        self._entries[name] = dataclasses.replace(
            self._entry(name), fencing_count=count, fencing_pending=False
        )

    def check_invariants(self) -> None:
        self.given.check_invariants()
        for name, entry in self._entries.items():
            if entry.config is None:
                assert self.replaying or (entry.task_count is None and not entry.task_configs), name
            elif not entry.inconsistent:
                for number in range(entry.task_count or 0):
                    assert number in entry.task_configs, (name, number)
            if entry.config is not None:
                assert entry.target_state is not None, name


def _without_tasks(entry: cluster_config.ConnectorEntry) -> cluster_config.ConnectorEntry:
    return cluster_config.ConnectorEntry(
        config=entry.config, target_state=entry.target_state, fencing_count=entry.fencing_count
    )
