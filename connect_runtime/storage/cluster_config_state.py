"""Configuration of a Connect cluster as read from its config topic (ClusterConfigState).

Configurations are raw: `${...}` placeholders are not replaced. The snapshot is complete and
immutable. The fold in `config_topic`, which applies the topic's records one by one, creates a new
snapshot after every change.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId

RawConfig: TypeAlias = Mapping[str, str | None]
"""Configuration as written. Values may be null."""

NO_OFFSET = -1


class TargetState(enum.Enum):
    """Requested state of a connector, regardless of its actual state."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """Key that workers use to sign requests to each other."""

    key: bytes = field(repr=False)
    algorithm: str
    """Algorithm of the key, such as `HmacSHA256`."""
    created_ms: int
    """Creation time in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfigEntry:
    """Complete configuration state of one connector name. If `config` is None, the connector does
    not exist.

    Target state, fencing count and generation are kept after the connector is deleted. A target
    state may even be written before the connector.
    """

    config: RawConfig | None = field(default=None, repr=False)
    target_state: TargetState | None = None
    target_state_ms: int = field(default=-1, compare=False)
    """Time at which the target state record was written, in milliseconds since the epoch; -1 if
    unknown."""
    task_count: int | None = None
    """Task count of the last commit record, even if its task configs are incomplete; None before
    the first commit."""
    task_configs: Mapping[int, RawConfig] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    applied_config: RawConfig | None = field(default=None, repr=False)
    """Connector configuration when its task configs were committed; None if unknown."""
    generation: int | None = None
    """Number of complete sets of task configs that this reader has read for the connector, starting
    at 0. Not comparable with other readers' counters."""
    inconsistent: bool = False
    """True if the last commit lacked task configs, so the connector must generate them again."""
    fencing_pending: bool = False
    """True if task configs were written after the last fencing record, so older producers must be
    fenced before the tasks start."""
    fencing_count: int | None = None
    """Number of producers to fence before a new generation of tasks starts, as stored in the last
    fencing record."""


_NO_ENTRY = ConnectorConfigEntry()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfigState:
    """Configuration of the cluster as of `offset`, the end offset of the records that were read."""

    offset: int = NO_OFFSET
    session_key: SessionKey | None = None
    entries: Mapping[str, ConnectorConfigEntry] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def _get_entry(self, connector: str) -> ConnectorConfigEntry:
        return self.entries.get(connector, _NO_ENTRY)

    def connectors(self) -> list[str]:
        """Names of all connectors, sorted."""
        return sorted(name for name, each in self.entries.items() if each.config is not None)

    def has_connector(self, connector: str) -> bool:
        """Return True if the connector is configured."""
        return self._get_entry(connector).config is not None

    def is_configured(self, item: str | ConnectorTaskId) -> bool:
        """Return True if this connector or task is configured."""
        if isinstance(item, str):
            return self.has_connector(item)
        return 0 <= item.task < self._count_usable_tasks(item.connector)

    def config(self, connector: str) -> RawConfig | None:
        """Return the connector's configuration; None if the connector does not exist."""
        return self._get_entry(connector).config

    def applied_config(self, connector: str) -> RawConfig | None:
        """Return the connector configuration from which the committed task configs were
        generated."""
        return self._get_entry(connector).applied_config

    def target_state(self, connector: str) -> TargetState | None:
        """Return the requested state of the connector."""
        return self._get_entry(connector).target_state

    def target_state_ms(self, connector: str) -> int:
        """Return the time at which the target state was written, in milliseconds since the epoch;
        -1 if unknown."""
        return self._get_entry(connector).target_state_ms

    def task_count(self, connector: str) -> int:
        """Return the committed number of tasks, even if their configs are inconsistent; 0 without a
        commit."""
        return self._get_entry(connector).task_count or 0

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Return the tasks that may run, in order; empty while their configs are inconsistent."""
        count = self._count_usable_tasks(connector)
        return [ConnectorTaskId(connector, number) for number in range(count)]

    def _count_usable_tasks(self, connector: str) -> int:
        entry = self._get_entry(connector)
        usable = entry.config is not None and not entry.inconsistent
        return (entry.task_count or 0) if usable else 0

    def task_config(self, task: ConnectorTaskId) -> RawConfig | None:
        """Return the configuration of a task."""
        return self._get_entry(task.connector).task_configs.get(task.task)

    def inconsistent_connectors(self) -> list[str]:
        """Connectors whose task configs are incomplete, sorted."""
        return [name for name in self.connectors() if self._get_entry(name).inconsistent]

    def generation(self, connector: str) -> int | None:
        """Return the number of complete sets of task configs that were read for the connector,
        starting at 0; None before the first set."""
        return self._get_entry(connector).generation

    def fencing_pending(self, connector: str) -> bool:
        """Return True if producers of earlier tasks must be fenced before the connector's tasks
        start."""
        return self._get_entry(connector).fencing_pending

    def fencing_count(self, connector: str) -> int | None:
        """Return the number of producers of earlier tasks to fence; None without a fencing
        record."""
        return self._get_entry(connector).fencing_count


EMPTY_CONFIG_STATE = ClusterConfigState()
