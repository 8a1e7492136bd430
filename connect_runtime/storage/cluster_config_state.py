"""Immutable snapshot of all connector and task configurations in the config topic
(ClusterConfigState).

Configurations are raw: they contain unresolved `${...}` placeholders. `config_topic` applies the
topic's records one by one and creates a new `ClusterConfigState` after every change.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId

RawConfig: TypeAlias = Mapping[str, str | None]
"""Configuration as written, with unresolved `${…}` references. Values may be null."""

NO_OFFSET = -1


class TargetState(enum.Enum):
    """State that users requested for a connector. The actual state may differ (`RunState`)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """Key that workers use to sign their requests to each other (KIP-507)."""

    key: bytes = field(repr=False)
    algorithm: str
    """Algorithm of the key, such as `HmacSHA256`."""
    created_ms: int
    """Creation time of the key in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfigEntry:
    """All data about one connector that has been read from the config topic.

    If `config` is None, the connector does not exist. Its target state, fencing count and
    generation are kept after it is deleted, and its target state may be written before it is
    created.
    """

    config: RawConfig | None = field(default=None, repr=False)
    target_state: TargetState | None = None
    target_state_ms: int = field(default=-1, compare=False)
    """Time at which the target state record was written, in milliseconds since the epoch; -1 if
    unknown."""
    task_count: int | None = None
    """Number of tasks in the connector's last commit record, even if some of the task configs are
    missing; None before the first commit record."""
    task_configs: Mapping[int, RawConfig] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    applied_config: RawConfig | None = field(default=None, repr=False)
    """Connector configuration that was in effect when `task_configs` was committed; None if
    unknown."""
    generation: int | None = None
    """Generation of the task configs: 0 for the first complete set that this worker has read for
    the connector, increased by 1 for each later complete set; None before the first set. Other
    workers may count different generations."""
    inconsistent: bool = False
    """True if task configs were missing at the last commit, so the connector must generate them
    again."""
    fencing_pending: bool = False
    """True if task configs were written after the last fencing record, so older producers must be
    fenced before the tasks start."""
    fencing_count: int | None = None
    """Number of producers to fence before a new generation of tasks starts, as stored in the last
    fencing record."""


_NO_ENTRY = ConnectorConfigEntry()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfigState:
    """Configuration of the cluster after all config topic records before `offset` (exclusive) have
    been applied."""

    offset: int = NO_OFFSET
    session_key: SessionKey | None = None
    entries: Mapping[str, ConnectorConfigEntry] = field(
        default_factory=lambda: MappingProxyType({})
    )
    ignored_connectors: frozenset[str] = frozenset()
    """Names of configured connectors that this worker ignores, at most
    `config_topic.MAX_IGNORED_NAMES`."""

    def _get_connector_entry(self, connector: str) -> ConnectorConfigEntry:
        return self.entries.get(connector, _NO_ENTRY)

    def connectors(self) -> list[str]:
        """Return the names of all configured connectors, sorted."""
        return sorted(name for name, each in self.entries.items() if each.config is not None)

    def has_connector(self, connector: str) -> bool:
        """Return True if a connector with this name is configured."""
        return self._get_connector_entry(connector).config is not None

    def has_connector_or_task(self, item: str | ConnectorTaskId) -> bool:
        """Return True if this connector or task is configured."""
        if isinstance(item, str):
            return self.has_connector(item)
        return 0 <= item.task < self._count_usable_tasks(item.connector)

    def config(self, connector: str) -> RawConfig | None:
        """Return the connector's configuration; None if the connector does not exist."""
        return self._get_connector_entry(connector).config

    def applied_config(self, connector: str) -> RawConfig | None:
        """Return the connector configuration from which the committed task configs were
        generated."""
        return self._get_connector_entry(connector).applied_config

    def target_state(self, connector: str) -> TargetState | None:
        """Return the requested state of the connector; None if it was never set."""
        return self._get_connector_entry(connector).target_state

    def target_state_timestamp_ms(self, connector: str) -> int:
        """Return when the target state was written, in milliseconds since the epoch; -1 if
        unknown."""
        return self._get_connector_entry(connector).target_state_ms

    def task_count(self, connector: str) -> int:
        """Return the committed number of tasks, even if their configs are inconsistent; 0 if none
        were committed."""
        return self._get_connector_entry(connector).task_count or 0

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Return the ids of the connector's tasks, in order; empty while their configs are
        inconsistent."""
        count = self._count_usable_tasks(connector)
        return [ConnectorTaskId(connector, number) for number in range(count)]

    def _count_usable_tasks(self, connector: str) -> int:
        entry = self._get_connector_entry(connector)
        usable = entry.config is not None and not entry.inconsistent
        return (entry.task_count or 0) if usable else 0

    def task_config(self, task: ConnectorTaskId) -> RawConfig | None:
        """Return the committed configuration of a task; None if it has none."""
        return self._get_connector_entry(task.connector).task_configs.get(task.task)

    def inconsistent_connectors(self) -> list[str]:
        """Return the names of the connectors whose task configs are incomplete, sorted."""
        return [name for name in self.connectors() if self._get_connector_entry(name).inconsistent]

    def task_config_generation(self, connector: str) -> int | None:
        """Return the generation of the connector's task configs: 0 for the first complete set that
        was read, increased by 1 for each later complete set; None before the first set."""
        return self._get_connector_entry(connector).generation

    def fencing_pending(self, connector: str) -> bool:
        """Return True if the producers of the connector's previous task generation must be fenced
        before its tasks start."""
        return self._get_connector_entry(connector).fencing_pending

    def fencing_count(self, connector: str) -> int | None:
        """Return the number of tasks in the connector's last fencing record; None if the connector
        has no fencing record.

        The producers of that many tasks must be fenced before a new generation of tasks starts.
        """
        return self._get_connector_entry(connector).fencing_count


EMPTY_CONFIG_STATE = ClusterConfigState()
