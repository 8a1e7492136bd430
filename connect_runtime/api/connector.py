"""Connectors: what a user configures. A connector plans; its tasks move the records.

Two complete ones are in the package's README. A worker creates an instance, calls `initialize`
and `start` on the connector's own thread, calls `task_configs` whenever it needs them (at start,
after `request_task_reconfiguration`, when `tasks.max` changes), and `stop` at the end. `config`
and `validate` are also called on instances that are never started.
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
    """Runs of neighbours, the first ones longer by one where it does not come out even.

    With more groups than items the last groups are empty. ValueError for less than one group.
    """
    if groups < 1:
        raise ValueError(f"cannot share out to {groups} groups: one is the least")
    size, longer = divmod(len(items), groups)
    result: list[list[Item]] = []
    start = 0
    for number in range(groups):
        end = start + size + (number < longer)
        result.append(list(items[start:end]))
        start = end
    return result


class ExactlyOnceSupport(enum.Enum):
    """Whether a source connector can write exactly once with a configuration (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class TransactionBoundaries(enum.Enum):
    """Whether a source connector can say itself where transactions end."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(abc.ABC):
    """What both kinds share; derive from SourceConnector or SinkConnector."""

    carries_out: ClassVar[frozenset[str]] = frozenset()
    """Keys of every connector that this one acts on itself, where its tasks move their data
    themselves: `transforms`, `predicates`. The worker leaves these to it."""
    context: ConnectorContext
    props: Mapping[str, str]
    """The configuration it was started with."""

    def version(self) -> str:
        """Shown in the list of plugins and in the status."""
        return plugin.UNDEFINED_VERSION

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    def start(self, props: Mapping[str, str]) -> None:
        """Begin, with the connector's configuration: override it to watch the source."""
        self.props = props

    @abc.abstractmethod
    def task_class(self) -> type[Task]:
        """The same for every configuration: those that were never started are asked, too."""

    @abc.abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One configuration for each task, at most `max_tasks` (`grouping.group_partitions` helps).

        The worker's herder waits for it: answer from what is known, in milliseconds.
        """

    def stop(self) -> None:  # noqa: B027  # most connectors have nothing to release
        """End and release everything; called also when `start` has failed."""

    def reconfigure(self, props: Mapping[str, str]) -> None:
        """Go on with another configuration. The worker makes a new instance instead."""
        self.stop()
        self.start(props)

    @abc.abstractmethod
    def config(self) -> ConfigDef:
        """The keys that this connector knows; those that all connectors have are not its."""

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        """What is wrong with a configuration, key by key.

        Override it for what one key alone does not show: call this, then add to the values'
        `error_messages`. An exception is for when it cannot be told.
        """
        definition = self.config()
        if definition is None:
            raise ConnectError(
                f"{type(self).__name__}.config() must return a ConfigDef that is not null."
            )
        return definition.validate(props)


class SourceConnector(Connector):
    """Its tasks are SourceTasks or PipelineTasks."""

    context: SourceConnectorContext
    default_converter: ClassVar[str | None] = None
    """Converts keys and values where the connector's own configuration names no converter: a class.

    None, the default: the worker's converter does. It is for records that others read as the bytes
    that they are, which a worker's JsonConverter would wrap.
    """

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Whether offsets tell where a source goes on, with no record lost or doubled.

        None, the default, counts as no. Called before `start`.
        """
        return None

    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> TransactionBoundaries:
        """Whether the tasks use `context.transaction_context`. Called before `start`."""
        return TransactionBoundaries.UNSUPPORTED

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """A user changes or removes source offsets (KIP-875); the worker stores them afterwards.

        Override it to check them, or to tell a system that keeps its own: True for done. False,
        the default, has the user told that only the worker's offsets changed. Raises
        UnsupportedOperationError if it cannot be done, ConnectError if these are refused. May
        come twice. Called before `start`.
        """
        return False


class SinkConnector(Connector):
    """Its tasks are SinkTasks; which topics they get is `topics` or `topics.regex`."""

    context: SinkConnectorContext

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """As for sources; the offsets are those of the connector's consumer group."""
        return False
