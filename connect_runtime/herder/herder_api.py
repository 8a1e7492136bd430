"""`Herder`: the operations that the REST API can request from the herder and its worker.

Every method may be called from any thread and returns at once, so that an event loop can call it;
slow operations return a future. REST waits for a future until its own deadline and never cancels
it; a later result is dropped.

HTTP status of a failed future: the one in `ConnectRestError`, 404 for `NotFoundError`, 409 for
`AlreadyExistsError`, 503 for `HerderQueueFullError`, and 500 with the error's message otherwise.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from connect_runtime.api.config_infos import ConfigInfos, ConfigKeyInfo
from connect_runtime.base.errors import FatalError
from connect_runtime.herder.herder_requests import HerderReply, HerderRequest
from connect_runtime.herder.session_keys import SignatureCheck
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState
from connect_runtime.storage.status_topic import StatusSnapshot


class ConnectRestError(FatalError):
    """A request failed; the response has this HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ConnectorType(enum.Enum):
    """Type of a connector; UNKNOWN if the class is not installed on this worker or not a
    connector."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


class PluginType(enum.Enum):
    """Type of a plugin, in the order in which plugins are listed."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """An installed plugin."""

    class_name: str
    """Name that users may write in a configuration."""
    type: PluginType
    version: str | None = None
    """None if the plugin declares no version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderStage:
    """The herder's current operation, or its last one if `completed_ms` is set.

    Explains why a request timed out.
    """

    description: str
    """A gerund, such as "reading to the end of the config topic"."""
    started_ms: int
    """Wall-clock milliseconds."""
    completed_ms: int | None = None
    """Wall-clock milliseconds; None while the operation is in progress."""

    def __str__(self) -> str:
        """Describe the stage with the text of Java's Stage."""
        began = f"{self.description}, which began at {_format_instant(self.started_ms)}"
        if self.completed_ms is None:
            return f"The worker is currently {began}."
        ended = _format_instant(self.completed_ms)
        return f"The last operation the worker completed was {began} and completed at {ended}."


def _format_instant(wall_ms: int) -> str:
    """Format wall-clock milliseconds like Java's Instant."""
    second, millisecond = divmod(wall_ms, 1000)
    text = datetime.datetime.fromtimestamp(second, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{millisecond:03d}Z" if millisecond else f"{text}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOffset:
    """The offset of a source partition, or of a topic partition of a sink.

    A sink uses `{"kafka_topic": …, "kafka_partition": …}` and `{"kafka_offset": …}`.
    """

    partition: Mapping[str, object]
    offset: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ConnectorOffsets:
    """Reply to `ReadConnectorOffsets`."""

    offsets: tuple[ConnectorOffset, ...]


@dataclass(frozen=True, slots=True)
class ConnectorOffsetsModified:
    """Reply to `ModifyConnectorOffsets`; the message is one sentence about what was done."""

    message: str


WorkerReply: TypeAlias = HerderReply | ConnectorOffsets | ConnectorOffsetsModified


class Herder(Protocol):
    """The herder of this worker, distributed or standalone."""

    # Read immediately from memory

    def ready(self) -> bool:
        """Return whether the stores are loaded and the worker has joined its group once."""

    def stage(self) -> HerderStage | None:
        """Return the current or last operation; None if nothing is known."""

    def kafka_cluster_id(self) -> str | None:
        """Return the id of the Kafka cluster, which was read once at startup."""

    def config(self) -> ClusterConfigState:
        """Return the newest state of the config topic."""

    def statuses(self) -> StatusSnapshot:
        """Return the newest statuses of connectors and tasks."""

    def plugins(self) -> Sequence[PluginInfo]:
        """Return the plugins that are installed on this worker, in any order."""

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        """Return the type of the configuration's `connector.class`; never raises."""

    def signs_internal_requests(self) -> bool:
        """Return whether all group members use the `sessioned` protocol or a newer one, which sign
        internal requests."""

    def signs_whole_requests(self) -> bool:
        """Return whether all group members sign requests to other workers as a whole.

        False while a Java worker is in the group, which signs the body only.
        """

    def verify(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> SignatureCheck:
        """Check whether an internal request comes from a worker of the group.

        Without `must_be_signed`, every request is valid while the group uses a protocol older than
        `sessioned`, as in Java.
        """

    # Executed in order on the herder's thread

    def submit(self, request: HerderRequest) -> futures.Future[WorkerReply]:
        """Queue a request; the reply is documented at the request, or `ForwardRequest` or
        `RequestRefused`.

        A `PutConnector` must have `invalid` None: its configuration is first validated on another
        thread. A standalone herder never replies `ForwardRequest`, and refuses `PutTaskConfigs` and
        `FenceZombieTasks`, which only workers of a group send.
        """

    # Executed on other threads

    def set_target_state(self, connector: str, state: TargetState) -> futures.Future[None]:
        """Write STARTED or PAUSED as the target state of an existing connector.

        Any worker may do this.
        """

    def reset_topics(self, connector: str) -> futures.Future[None]:
        """Delete the connector's set of active topics."""

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        """Write a logger level for all workers; standalone, set it in this process only.

        `level` is a Java level name.
        """

    def validate(self, config: RawConfig) -> futures.Future[ConfigInfos]:
        """Validate a connector's configuration and return the errors of all keys.

        Fails with `ConnectRestError` 400 if `connector.class` is missing or unusable.
        """

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[ConfigKeyInfo]]:
        """Return the configuration keys of a plugin, by class name or alias.

        `version` None selects the newest version. Fails with `NotFoundError` for an unknown plugin,
        and with `ConnectRestError` 400 for an unknown version or a plugin type without keys.
        """
