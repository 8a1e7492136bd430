"""Validated settings of a configuration file: `Mm2Settings` and its parts, all immutable."""

from __future__ import annotations

import enum
import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.config import config_errors
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.config.copy_engine_config import EngineSettings
from mm2.topics.flow_config import Flow


class ClientProperties(Mapping[str, str]):
    """Client properties of one cluster, with Java's names and text values.

    `repr` hides secrets. The mapping itself and `dict(properties)` contain them.
    """

    __slots__ = ("_secrets", "_values")

    def __init__(self, values: Mapping[str, str], *, secrets: frozenset[str] = frozenset()) -> None:
        self._values = dict(values)
        self._secrets = secrets

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self.redact_secrets())

    def redact_secrets(self) -> dict[str, str]:
        """Return the properties for display and logs, with secret values hidden."""
        return {
            name: config_errors.HIDDEN_VALUE
            if name in self._secrets
            else config_errors.redact_secrets_in_value(value)
            for name, value in self._values.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Settings with which one client type connects to a cluster."""

    bootstrap_servers: tuple[str, ...]
    """Bootstrap servers, each as `host:port`."""
    security: SecuritySettings
    properties: ClientProperties
    """All client properties, including bootstrap servers and security."""


class ClientType(enum.Enum):
    """Type of a Kafka client. The value is the prefix of the client's properties."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"

    @property
    def prefix(self) -> str:
        return f"{self.value}."


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowClients:
    """Connection settings of one flow's clients."""

    consumer: ClusterSettings
    """Connection settings for reading records from the source."""
    producer: ClusterSettings
    """Connection settings for writing records to the target."""
    source_admin: ClusterSettings
    target_admin: ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsEndpointSettings:
    """HTTP endpoint for metrics, health checks and the status page."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 9464
    """Port to listen on; 0: any free port."""
    required: bool = True
    """Refuse to start if the port is in use."""
    by_partition: bool = False
    """Also export metrics per partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """Health thresholds, and the file for drill results."""

    replicating_within_s: float = 60.0
    """Maximum number of seconds since the last replicated batch for a flow to count as healthy."""
    drill_report: pathlib.Path | None = None
    """File to which `mm2 drill` writes its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCommand:
    """Operator-defined command for a failover step."""

    command: tuple[str, ...] = field(repr=False)
    """Program and arguments, which are run without a shell."""
    timeout_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatProperties:
    """Configuration file converted to flat MirrorMaker 2 properties."""

    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties with placeholders `${…}` unresolved."""
    locations: Mapping[str, tuple[int, str]] = field(default_factory=dict, compare=False)
    """Line and key in the file from which each property originates."""
    defaults: frozenset[str] = field(default=frozenset(), compare=False)
    """Properties that are not set in the file but are mm2's defaults."""
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = field(
        default=dict, compare=False, repr=False
    )
    """Function that resolves placeholders with the file's config providers. It raises
    `ConfigError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Settings:
    """Validated settings of a configuration file."""

    file: str
    clusters: Mapping[str, ClusterSettings]
    flows: tuple[Flow, ...]
    """Enabled flows."""
    spark: EngineSettings
    metrics: MetricsEndpointSettings
    secret_environment: frozenset[str]
    """Environment variables that placeholders refer to."""
    effective: Mapping[str, object]
    """All sections including defaults, with secrets hidden."""
    clients: Mapping[str, FlowClients] = field(default_factory=dict)
    """Connection settings of flows that override those of their clusters, by flow name. A flow
    without an entry uses the settings of its clusters."""
    hooks: Mapping[str, HookCommand] = field(default_factory=dict)
    """Hook commands, by the failover step at which they run."""
    warnings: tuple[ConfigProblem, ...] = field(default=(), compare=False)
    """Warnings to log at startup, in the order of the file."""
    flat: FlatProperties = field(default_factory=FlatProperties, compare=False)
    """Flat properties from which worker and connector configurations are derived."""
    health: HealthSettings = field(default_factory=HealthSettings)

    def get_clients(self, flow: Flow) -> FlowClients:
        """Return the connection settings that are configured for a flow's clients, otherwise those
        of its clusters."""
        found = self.clients.get(flow.name)
        if found is not None:
            return found
        source, target = self.clusters[flow.source], self.clusters[flow.target]
        return FlowClients(
            consumer=source, producer=target, source_admin=source, target_admin=target
        )

    def format_warnings(self) -> list[str]:
        """Format the warnings as lines of text, with their location in the file."""
        return [each.describe(self.file) for each in self.warnings]
