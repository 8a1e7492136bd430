"""`Herder`: the operations that the REST API can request from the herder and its worker.

Every method may be called from any thread and returns immediately, so that an event loop can call
it. Slow operations return a future. REST waits for a future until its own deadline and never
cancels it; a later result is dropped.

HTTP status of a failed future: the status of a `ConnectRestError`, 404 for `NotFoundError`, 409 for
`AlreadyExistsError`, 503 for `HerderQueueFullError`, and otherwise 500 with the error's message.
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
    """Raised if a request failed. The REST API responds with the error's HTTP status and
    message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ConnectorType(enum.Enum):
    """Type of a connector. UNKNOWN if the class is not a connector or is not installed on this
    worker."""

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
    """Name by which configurations refer to the plugin."""
    type: PluginType
    version: str | None = None
    """Version that the plugin declares; None if it declares no version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderStage:
    """The herder's current operation, or its last operation if `completed_ms` is set.

    Explains why a request timed out.
    """

    description: str
    """The operation as a gerund phrase, such as "reading to the end of the config topic"."""
    started_ms: int
    """Start time in milliseconds since the epoch."""
    completed_ms: int | None = None
    """End time in milliseconds since the epoch; None while the operation is in progress."""

    def __str__(self) -> str:
        """Format the stage with the same text as Java's `Stage`."""
        began = f"{self.description}, which began at {_format_instant(self.started_ms)}"
        if self.completed_ms is None:
            return f"The worker is currently {began}."
        ended = _format_instant(self.completed_ms)
        return f"The last operation the worker completed was {began} and completed at {ended}."


def _format_instant(wall_ms: int) -> str:
    """Format a time in milliseconds since the epoch as Java's `Instant.toString` does."""
    second, millisecond = divmod(wall_ms, 1000)
    text = datetime.datetime.fromtimestamp(second, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{millisecond:03d}Z" if millisecond else f"{text}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOffset:
    """Offset of a source partition, or of a topic partition of a sink.

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
    """Reply to `ModifyConnectorOffsets`. `message` describes the change in one sentence."""

    message: str


WorkerReply: TypeAlias = HerderReply | ConnectorOffsets | ConnectorOffsetsModified


class Herder(Protocol):
    """The herder of this worker, distributed or standalone."""

    # Read immediately from memory

    def is_ready(self) -> bool:
        """Return True if the stores are loaded and the worker has joined its group once."""

    def get_current_stage(self) -> HerderStage | None:
        """Return the current or last operation; None if unknown."""

    def kafka_cluster_id(self) -> str | None:
        """Return the Kafka cluster id, which was read once at startup."""

    def get_config_state(self) -> ClusterConfigState:
        """Return the latest state of the config topic."""

    def get_statuses(self) -> StatusSnapshot:
        """Return the latest statuses of connectors and tasks."""

    def plugins(self) -> Sequence[PluginInfo]:
        """Return the plugins installed on this worker, in any order."""

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        """Return the connector type of the configuration's `connector.class`. Never raises."""

    def signs_internal_requests(self) -> bool:
        """Return True if all group members use the `sessioned` protocol or a newer one, so that
        internal requests are signed."""

    def signs_whole_requests(self) -> bool:
        """Return True if all group members sign entire requests to other workers, not only the
        body.

        False while a Java worker is in the group, because Java workers sign only the body.
        """

    def verify_request_signature(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> SignatureCheck:
        """Check whether an internal request comes from a worker of the group.

        Without `must_be_signed`, every request is valid while the group uses a protocol older than
        `sessioned`, as in Java.
        """

    # Executed in order on the herder's thread

    def submit_request(self, request: HerderRequest) -> futures.Future[WorkerReply]:
        """Queue a request to the herder. The future's result is the reply type that the request's
        class documents, `ForwardRequest` or `RequestRefused`.

        Do not set `PutConnector.invalid`: the configuration is validated on another thread after
        this call. A standalone herder never replies `ForwardRequest`. It refuses `PutTaskConfigs`
        and `FenceZombieTasks`, which only workers of a group send.
        """

    # Executed on other threads

    def set_target_state(self, connector: str, state: TargetState) -> futures.Future[None]:
        """Write STARTED or PAUSED as the target state of an existing connector. Any worker may
        do this, not only the leader."""

    def reset_connector_active_topics(self, connector: str) -> futures.Future[None]:
        """Delete the connector's set of active topics."""

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        """Write a logger level for all workers. A standalone worker sets it only in its own
        process.

        `level` is a Java level name.
        """

    def validate_connector_config(self, config: RawConfig) -> futures.Future[ConfigInfos]:
        """Validate a connector's configuration and return the errors of all keys.

        Fails with `ConnectRestError` 400 if `connector.class` is missing or unusable.
        """

    def connector_plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[ConfigKeyInfo]]:
        """Return the configuration keys of a plugin, which is named by class name or alias.

        `version` None selects the newest version. Fails with `NotFoundError` for an unknown plugin,
        and with `ConnectRestError` 400 for an unknown version or a plugin type that has no
        configuration keys.
        """
