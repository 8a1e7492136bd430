"""The configured state of a Connect cluster as read from its config topic (ClusterConfigState).

Configurations are raw: `${...}` placeholders are not replaced. The snapshot is complete and
immutable; the fold in `config_topic` creates a new one after every change.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId

RawConfig: TypeAlias = Mapping[str, str | None]
"""A configuration as written; values may be null."""

NO_OFFSET = -1


class TargetState(enum.Enum):
    """The requested state of a connector, whatever its actual state."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """The key with which workers sign requests to each other."""

    key: bytes = field(repr=False)
    algorithm: str
    """The key's algorithm, `HmacSHA256`."""
    created_ms: int
    """Wall-clock time of its creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfigEntry:
    """All state of a connector name; without `config` there is no such connector.

    Target state, fencing count and generation outlive the connector; a target state may even be
    written before it.
    """

    config: RawConfig | None = field(default=None, repr=False)
    target_state: TargetState | None = None
    target_state_ms: int = field(default=-1, compare=False)
    """When its record was written (wall clock); -1 if unknown."""
    task_count: int | None = None
    """From the last commit record, complete or not; None before the first."""
    task_configs: Mapping[int, RawConfig] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    applied_config: RawConfig | None = field(default=None, repr=False)
    """The connector's configuration when its task configs were committed; None if unknown."""
    generation: int | None = None
    """Number of complete sets of task configs seen by this reader (not comparable to others)."""
    inconsistent: bool = False
    """The last commit lacked task configs, so the connector must generate them again."""
    fencing_pending: bool = False
    """Task configs were written after the last fencing record."""
    fencing_count: int | None = None
    """Producers to fence before a new generation of tasks, from the last fencing record."""


_NO_ENTRY = ConnectorConfigEntry()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfigState:
    """The configured cluster as of `offset`, the end offset of what was read."""

    offset: int = NO_OFFSET
    session_key: SessionKey | None = None
    entries: Mapping[str, ConnectorConfigEntry] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def _entry(self, connector: str) -> ConnectorConfigEntry:
        return self.entries.get(connector, _NO_ENTRY)

    def connectors(self) -> list[str]:
        """Names of all connectors, sorted."""
        return sorted(name for name, each in self.entries.items() if each.config is not None)

    def has_connector(self, connector: str) -> bool:
        """Return whether the connector is configured."""
        return self._entry(connector).config is not None

    def is_configured(self, item: str | ConnectorTaskId) -> bool:
        """Return whether this connector or task is configured."""
        if isinstance(item, str):
            return self.has_connector(item)
        return 0 <= item.task < self._usable_tasks(item.connector)

    def config(self, connector: str) -> RawConfig | None:
        """Return the connector's configuration, None if there is none."""
        return self._entry(connector).config

    def applied_config(self, connector: str) -> RawConfig | None:
        """Return the configuration for which the connector's tasks were committed."""
        return self._entry(connector).applied_config

    def target_state(self, connector: str) -> TargetState | None:
        """Return the requested state of the connector."""
        return self._entry(connector).target_state

    def target_state_ms(self, connector: str) -> int:
        """Return when the target state was written (wall clock); -1 if unknown."""
        return self._entry(connector).target_state_ms

    def task_count(self, connector: str) -> int:
        """Return the committed number of tasks, also while inconsistent; 0 without a commit."""
        return self._entry(connector).task_count or 0

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Return the tasks that may run, in order; none while their configs are inconsistent."""
        count = self._usable_tasks(connector)
        return [ConnectorTaskId(connector, number) for number in range(count)]

    def _usable_tasks(self, connector: str) -> int:
        entry = self._entry(connector)
        usable = entry.config is not None and not entry.inconsistent
        return (entry.task_count or 0) if usable else 0

    def task_config(self, task: ConnectorTaskId) -> RawConfig | None:
        """Return the configuration of a task."""
        return self._entry(task.connector).task_configs.get(task.task)

    def inconsistent_connectors(self) -> list[str]:
        """Connectors whose task configs are incomplete, sorted."""
        return [name for name in self.connectors() if self._entry(name).inconsistent]

    def generation(self, connector: str) -> int | None:
        """Return the number of complete sets of task configs that were read."""
        return self._entry(connector).generation

    def fencing_pending(self, connector: str) -> bool:
        """Return whether producers must be fenced before the tasks start."""
        return self._entry(connector).fencing_pending

    def fencing_count(self, connector: str) -> int | None:
        """Return the number of producers to fence."""
        return self._entry(connector).fencing_count


EMPTY_CONFIG_STATE = ClusterConfigState()
