"""The settings of one `mm2 run`, checked, complete and frozen: `Mm2Settings` and its parts."""

from __future__ import annotations

import enum
import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.config import config_errors
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.config.engine_config import EngineSettings
from mm2.topics.flow_config import Flow


class ClientProperties(Mapping[str, str]):
    """Client properties of one cluster, Java's names and text; prints without its secrets.

    Behaves as a plain mapping, so `dict(properties)` holds the secrets.
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
        return repr(self.shown())

    def shown(self) -> dict[str, str]:
        """For people and logs: secret values are replaced."""
        return {
            name: config_errors.HIDDEN_VALUE if name in self._secrets else value
            for name, value in self._values.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """`bootstrap_servers` are `host:port`; `properties` holds them too, and what security says."""

    bootstrap_servers: tuple[str, ...]
    security: SecuritySettings
    properties: ClientProperties


class ClientType(enum.Enum):
    """What a client does on its cluster; the value is Java's word, a prefix of properties."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"

    @property
    def prefix(self) -> str:
        return f"{self.value}."


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowClients:
    """How one flow reaches its clusters.

    `consumer` reads the source's records, `producer` writes the target's, the other two administer.
    """

    consumer: ClusterSettings
    producer: ClusterSettings
    source_admin: ClusterSettings
    target_admin: ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsEndpointSettings:
    """Where Prometheus finds the metrics; port 0 takes any free one. `required`: nothing is started
    when the port is in use. `by_partition`: there are series of single partitions, too."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 9464
    required: bool = True
    by_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """`replicating_within_s`: a flow replicates if something crossed so lately. `drill_report`: the
    file that `mm2 drill` writes what it found into, None for none."""

    replicating_within_s: float = 60.0
    drill_report: pathlib.Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCommand:
    """A command of the operator's: it is run as it is, without a shell, and has `timeout_s`
    seconds."""

    command: tuple[str, ...] = field(repr=False)
    timeout_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatProperties:
    """The file as flat properties of MirrorMaker 2, `${…}` as it stands.

    `places` says where each property comes from: the line, and the key there. `defaults` names the
    properties that the file does not have: they are our defaults. `resolve` fills `${…}` in, of
    this file's providers; it raises `ConfigError`.
    """

    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    places: Mapping[str, tuple[int, str]] = field(default_factory=dict, compare=False)
    defaults: frozenset[str] = field(default=frozenset(), compare=False)
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = field(
        default=dict, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Settings:
    """`flows` holds the enabled ones. `effective` is everything in force, without secrets.

    `clients` are by the flow's name; without an entry they are as their clusters say. `flat` is
    what workers and connectors are made of.

    `hooks` are by the names of the steps that they are run at.

    `secret_environment` names the variables that values were taken from. `warnings` are to be told
    before anything runs, in order of the file.
    """

    file: str
    clusters: Mapping[str, ClusterSettings]
    flows: tuple[Flow, ...]
    spark: EngineSettings
    metrics: MetricsEndpointSettings
    secret_environment: frozenset[str]
    effective: Mapping[str, object]
    clients: Mapping[str, FlowClients] = field(default_factory=dict)
    hooks: Mapping[str, HookCommand] = field(default_factory=dict)
    warnings: tuple[ConfigProblem, ...] = field(default=(), compare=False)
    flat: FlatProperties = field(default_factory=FlatProperties, compare=False)
    watch: HealthSettings = field(default_factory=HealthSettings)

    def clients_of(self, flow: Flow) -> FlowClients:
        found = self.clients.get(flow.name)
        if found is not None:
            return found
        source, target = self.clusters[flow.source], self.clusters[flow.target]
        return FlowClients(
            consumer=source, producer=target, source_admin=source, target_admin=target
        )

    def warning_lines(self) -> list[str]:
        """One for each warning, with its place in the file."""
        return [each.describe(self.file) for each in self.warnings]
