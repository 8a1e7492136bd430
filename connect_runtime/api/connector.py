"""Connectors: what a user configures. A connector plans the work, and its tasks move the records.

Two complete examples are in the package's README. A worker creates an instance, calls `initialize`
and `start` on the connector's own thread, and `stop` at the end. It calls `task_configs` at start,
after `request_task_reconfiguration` and when `tasks.max` changes. `config` and `validate` are also
called on instances that are never started.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from connect_runtime.api import plugin
from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.errors import ConnectError
from connect_runtime.api.plugin_context import (
    ConnectorContext,
    SinkConnectorContext,
    SourceConnectorContext,
)
from connect_runtime.api.records import SourceOffset
from connect_runtime.api.task import Task
from connect_runtime.base.ids import TopicPartition

Item = TypeVar("Item")


def group_partitions(items: Sequence[Item], groups: int) -> list[list[Item]]:
    """Split items into groups of consecutive items whose sizes differ by at most one.

    The longer groups come first, and with more groups than items the last ones are empty. Raises
    ValueError if `groups` is less than 1.
    """
    if groups < 1:
        raise ValueError(f"cannot split items into {groups} groups: at least 1 is required")
    size, longer = divmod(len(items), groups)
    result: list[list[Item]] = []
    start = 0
    for number in range(groups):
        end = start + size + (number < longer)
        result.append(list(items[start:end]))
        start = end
    return result


class ExactlyOnceSupport(enum.Enum):
    """Whether a source connector supports exactly-once delivery with a configuration (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class TransactionBoundaries(enum.Enum):
    """Whether a source connector can define the transaction boundaries itself."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(abc.ABC):
    """Base class of connectors; derive from SourceConnector or SinkConnector."""

    self_applied_keys: ClassVar[frozenset[str]] = frozenset()
    """Common connector keys that the connector applies itself instead of the worker.

    For connectors whose tasks move the data themselves, for example `transforms` and `predicates`.
    """
    context: ConnectorContext
    props: Mapping[str, str]
    """The configuration that the connector was started with."""

    def version(self) -> str:
        """Return the version that is shown in the list of plugins and in the status."""
        return plugin.UNDEFINED_VERSION

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    def start(self, props: Mapping[str, str]) -> None:
        """Start with the connector's configuration. Override to monitor the source for changes."""
        self.props = props

    @abc.abstractmethod
    def task_class(self) -> type[Task]:
        """Return the task class.

        Also called before `start`, so it must not depend on the configuration.
        """

    @abc.abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return one configuration per task, at most `max_tasks`; see `group_partitions`.

        The worker's herder waits for the result: return within milliseconds, from cached data.
        """

    def stop(self) -> None:  # noqa: B027  # most connectors have nothing to release
        """Stop and release all resources; also called if `start` failed."""

    def reconfigure(self, props: Mapping[str, str]) -> None:
        """Restart with another configuration.

        The worker does not use it: it creates a new instance.
        """
        self.stop()
        self.start(props)

    @abc.abstractmethod
    def config(self) -> ConfigDef:
        """Return the connector's own keys, without the keys common to all connectors."""

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        """Validate a configuration and return the result of each key.

        Override for checks that involve several keys: call this method, then append to
        `error_messages` of the values. Raise only if validation itself is impossible.
        """
        definition = self.config()
        if definition is None:
            raise ConnectError(
                f"{type(self).__name__}.config() must return a ConfigDef that is not null."
            )
        return definition.validate(props)


class SourceConnector(Connector):
    """Base class of source connectors; their tasks are SourceTasks or PipelineTasks."""

    context: SourceConnectorContext
    default_converter: ClassVar[str | None] = None
    """Class that converts keys and values if the connector's configuration names no converter.

    None, the default, selects the worker's converter. Set it if consumers expect the raw bytes,
    which a JsonConverter configured for the worker would wrap.
    """

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return whether offsets let the source resume without lost or duplicate records.

        None, the default, means UNSUPPORTED. Called before `start`.
        """
        return None

    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> TransactionBoundaries:
        """Return whether the tasks use `context.transaction_context`. Called before `start`."""
        return TransactionBoundaries.UNSUPPORTED

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Handle a user's request to alter or reset source offsets (KIP-875).

        Override to validate the offsets, or to apply them to an external system; return True if
        that was done. With False, the default, the response says that only the worker's offsets
        changed. The worker stores the offsets after this call. Raises UnsupportedOperationError if
        offsets cannot be altered, ConnectError if these are rejected. Called before `start`,
        possibly several times for one request.
        """
        return False


class SinkConnector(Connector):
    """Base class of sink connectors; their tasks are SinkTasks that read `topics` or
    `topics.regex`."""

    context: SinkConnectorContext

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Like `SourceConnector.alter_offsets`, for offsets of the connector's consumer group."""
        return False
