"""`Herder`: what the REST API may ask of the herder and of the worker behind it.

Every method may be called from any thread and returns at once, so that an event loop can call it;
what takes time returns a future. REST waits for a future until its own deadline and never cancels
it; a later result is dropped.

Status of a failed future: `ConnectRestError` names its own, `NotFoundError` is 404,
`AlreadyExistsError` 409, `HerderQueueFullError` 503, everything else 500 with its message.
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
    """A future fails with it where the answer is this HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ConnectorType(enum.Enum):
    """UNKNOWN: the class is not installed here, or no connector."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


class PluginType(enum.Enum):
    """In the order in which they are listed."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """An installed plugin; `class_name` as users may write it, `version` None: it states none."""

    class_name: str
    type: PluginType
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderStage:
    """What the herder is doing, or with `completed_ms` did last; for those who wait in vain.

    `description` is a gerund ("reading to the end of the config topic"), times are wall clock.
    """

    description: str
    started_ms: int
    completed_ms: int | None = None

    def __str__(self) -> str:
        """In the words of Java's Stage."""
        began = f"{self.description}, which began at {_format_instant(self.started_ms)}"
        if self.completed_ms is None:
            return f"The worker is currently {began}."
        ended = _format_instant(self.completed_ms)
        return f"The last operation the worker completed was {began} and completed at {ended}."


def _format_instant(wall_ms: int) -> str:
    """As Java prints an Instant."""
    second, millisecond = divmod(wall_ms, 1000)
    text = datetime.datetime.fromtimestamp(second, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{millisecond:03d}Z" if millisecond else f"{text}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOffset:
    """A source partition and its offset as the connector knows them, or a sink's

    `{"kafka_topic": …, "kafka_partition": …}` and `{"kafka_offset": …}`.
    """

    partition: Mapping[str, object]
    offset: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ConnectorOffsets:
    """The answer to `ReadConnectorOffsets`."""

    offsets: tuple[ConnectorOffset, ...]


@dataclass(frozen=True, slots=True)
class ConnectorOffsetsModified:
    """The answer to `ModifyConnectorOffsets`: a sentence that says what was done."""

    message: str


WorkerReply: TypeAlias = HerderReply | ConnectorOffsets | ConnectorOffsetsModified


class Herder(Protocol):
    """The herder of this worker, distributed or standalone."""

    # Known at once

    def ready(self) -> bool:
        """Has it read its stores and, in a group, joined once?"""

    def stage(self) -> HerderStage | None:
        """What it is doing; None: there is nothing to tell."""

    def kafka_cluster_id(self) -> str | None:
        """As asked once at the start."""

    def config(self) -> ClusterConfigState:
        """The newest view."""

    def statuses(self) -> StatusSnapshot:
        """The newest view."""

    def plugins(self) -> Sequence[PluginInfo]:
        """What is installed here, in any order."""

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        """By its `connector.class`; never raises."""

    def signs_internal_requests(self) -> bool:
        """Does every member of the group speak `sessioned`, which signs internal requests?"""

    def verify(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> SignatureCheck:
        """Does this internal request come from a worker of the group?

        Without `must_be_signed` every request is genuine while the group speaks a protocol older
        than `sessioned`, as in Java.
        """

    # Carried out one after the other, on the herder's thread

    def submit(self, request: HerderRequest) -> futures.Future[WorkerReply]:
        """Ask; the reply is what the request's docstring says, `Forward` or `Refused`.

        A `PutConnector` comes with `invalid` None: the configuration is validated before it is
        queued, on another thread, as by `validate`; what it gets then is of
        `core.herder.validation`. Standalone never says `Forward`, and refuses `PutTaskConfigs` and
        `FenceTasks`: no other worker may send them.
        """

    # Carried out elsewhere

    def set_target_state(self, connector: str, state: TargetState) -> futures.Future[None]:
        """Write it: STARTED or PAUSED, of a connector that exists. Any worker may."""

    def reset_topics(self, connector: str) -> futures.Future[None]:
        """Forget which topics the connector used."""

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        """Write it for all workers to read; `level` in Java's words. Standalone: here alone."""

    def validate(self, config: RawConfig) -> futures.Future[ConfigInfos]:
        """All that is wrong with a connector's configuration.

        `ConnectRestError` 400: no `connector.class`, or none that can be used.
        """

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[ConfigKeyInfo]]:
        """The keys of a plugin, by class name or alias; of the newest version when None.

        `NotFoundError`: there is no such plugin; `ConnectRestError` 400: no such version, or it is
        no kind of plugin that has keys."""
