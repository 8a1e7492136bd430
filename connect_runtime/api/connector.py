"""Base classes of connectors. A connector divides the work of copying data into tasks, and each
task copies its part.

The README of `connect_runtime` contains two complete examples. A worker creates an instance and
calls `initialize`, `start` and finally `stop` on the connector's own thread. It calls
`task_configs` at start, after `request_task_reconfiguration`, and when `tasks.max` changes.
`config` and `validate` are also called on instances that are never started.
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

    Larger groups come first. If there are more groups than items, the last groups are empty. Raises
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
    """Exactly-once support of a source connector for a given configuration (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class TransactionBoundaries(enum.Enum):
    """Whether a source connector can define transaction boundaries itself (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(abc.ABC):
    """Base class of connectors. Derive from SourceConnector or SinkConnector."""

    self_applied_keys: ClassVar[frozenset[str]] = frozenset()
    """Configuration keys common to all connectors, such as `transforms` and `predicates`, that the
    worker must not apply because the connector applies them itself. Set this field if the
    connector's tasks copy data outside the worker."""
    context: ConnectorContext
    props: Mapping[str, str]
    """The configuration with which the connector was started."""

    def version(self) -> str:
        """Return the connector version that is shown in the plugin list and in the status."""
        return plugin.UNDEFINED_VERSION

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    def start(self, props: Mapping[str, str]) -> None:
        """Start the connector with its configuration. Override this method to monitor the source
        for changes."""
        self.props = props

    @abc.abstractmethod
    def task_class(self) -> type[Task]:
        """Return the class of the connector's tasks.

        Also called before `start`, so the class must not depend on the configuration.
        """

    @abc.abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the configurations of at most `max_tasks` tasks. Use `group_partitions` to
        distribute source partitions evenly.

        The worker's herder waits for the result: return within milliseconds, using cached data.
        """

    def stop(self) -> None:  # noqa: B027  # most connectors have nothing to release
        """Stop the connector and release all resources. Also called if `start` failed."""

    def reconfigure(self, props: Mapping[str, str]) -> None:
        """Restart the connector with a new configuration: call `stop`, then `start`. Part of Java's
        `Connector` API.

        The worker does not call this method. It creates a new connector instance instead.
        """
        self.stop()
        self.start(props)

    @abc.abstractmethod
    def config(self) -> ConfigDef:
        """Return the connector's own configuration keys, without the keys common to all
        connectors."""

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        """Validate a configuration and return the result for each key.

        Override this method for checks that involve several keys: call the base method, then append
        to `error_messages` of the returned values. Raise an exception only if validation itself is
        impossible.
        """
        definition = self.config()
        if definition is None:
            raise ConnectError(
                f"{type(self).__name__}.config() must return a ConfigDef that is not null."
            )
        return definition.validate(props)


class SourceConnector(Connector):
    """Base class of source connectors. Their tasks are SourceTasks or PipelineTasks."""

    context: SourceConnectorContext
    default_converter: ClassVar[str | None] = None
    """Class name of the converter for keys and values if the connector's configuration specifies no
    converter. None, the default, selects the worker's converter. Set this field if records contain
    raw bytes that consumers expect unchanged: a JsonConverter configured for the worker would
    encode them as JSON."""

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return SUPPORTED if the source can resume from its offsets without lost or duplicate
        records.

        None, the default, means UNSUPPORTED. Called before `start`.
        """
        return None

    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> TransactionBoundaries:
        """Return SUPPORTED if the tasks use `context.transaction_context`. Called before
        `start`."""
        return TransactionBoundaries.UNSUPPORTED

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Handle a user's request to alter or reset source offsets (KIP-875).

        Override this method to validate the offsets or to apply them to an external system. Return
        True if the offsets were applied to the external system. If False, the default, is returned,
        the REST response states that only the worker's offsets were changed. The worker stores the
        offsets after this call. Raise UnsupportedOperationError if the connector does not support
        altering offsets, ConnectError if the given offsets are rejected. Called before `start`,
        possibly several times for one request.
        """
        return False


class SinkConnector(Connector):
    """Base class of sink connectors. Their tasks are SinkTasks that consume `topics` or
    `topics.regex`."""

    context: SinkConnectorContext

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Handle a request to alter or reset the offsets of the connector's consumer group. See
        `SourceConnector.alter_offsets`."""
        return False
