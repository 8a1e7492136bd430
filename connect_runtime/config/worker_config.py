"""Parsed worker configuration, distributed and standalone, with the checks of Kafka 4.3.

Settings of the REST API, the internal topics and secure connections are checked by the modules that
use them. Java: WorkerConfig, DistributedConfig, StandaloneConfig.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_def
from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.errors import ConfigError
from connect_runtime.config import metrics_settings, worker_config_keys
from connect_runtime.config.metrics_settings import WorkerMetricsSettings

_KNOWN_PREFIXES = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "producer.",
    "consumer.",
    "admin.",
    "listeners.",
    "metrics.context.",
    "mm2.",  # read by MirrorSourceTask
    "sasl.",
    "ssl.",
)


_VERIFICATION_ALGORITHMS = "inter.worker.verification.algorithms"


class ExactlyOnceSourceMode(enum.Enum):
    """Value of `exactly.once.source.support`."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


class ClientOverridePolicy(enum.Enum):
    """Value of `connector.client.config.override.policy`: the client settings that connectors may
    override."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"
    ALLOWLIST = "Allowlist"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Settings common to all workers."""

    raw: Mapping[str, str] = field(repr=False)
    """All properties as given, so that properties can be looked up by prefix; may contain
    secrets."""
    bootstrap_servers: str
    key_converter: str
    value_converter: str
    header_converter: str
    plugin_path: tuple[str, ...]
    graceful_stop_s: float
    flush_interval_s: float
    flush_timeout_s: float
    override_policy: ClientOverridePolicy
    override_allowed: frozenset[str]
    oauth_urls: frozenset[str]
    topic_creation: bool
    topic_tracking: bool
    metrics: WorkerMetricsSettings

    def get_properties_with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the properties whose keys start with a prefix, with the prefix removed."""
        return config_def.with_prefix(self.raw, prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedConfig(WorkerConfig):
    """Settings of distributed workers (workers in a group). Times are in seconds."""

    group_id: str
    protocol: str
    session_timeout_s: float
    heartbeat_interval_s: float
    rebalance_timeout_s: float
    rebalance_delay_s: float
    sync_timeout_s: float
    sync_retry_backoff_s: float
    exactly_once: ExactlyOnceSourceMode
    key_ttl_s: float
    key_algorithm: str
    key_size: int | None
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]
    client_id: str
    creates_topics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig(WorkerConfig):
    """Settings of standalone workers."""

    offset_file: str


def parse_distributed_config(properties: Mapping[str, str]) -> DistributedConfig:
    """Parse a distributed worker's properties. Raises `ConfigError` for the first invalid
    property."""
    found = _parse_properties(properties, worker_config_keys.DISTRIBUTED)
    return DistributedConfig(
        **_parse_common_config(properties, found),
        group_id=found["group.id"],
        protocol=found["connect.protocol"].lower(),
        session_timeout_s=_get_duration_s(found, "session.timeout.ms"),
        heartbeat_interval_s=_get_duration_s(found, "heartbeat.interval.ms"),
        rebalance_timeout_s=_get_duration_s(found, "rebalance.timeout.ms"),
        rebalance_delay_s=_get_duration_s(found, "scheduled.rebalance.max.delay.ms"),
        sync_timeout_s=_get_duration_s(found, "worker.sync.timeout.ms"),
        sync_retry_backoff_s=_get_duration_s(found, "worker.unsync.backoff.ms"),
        exactly_once=ExactlyOnceSourceMode(found["exactly.once.source.support"].lower()),
        key_ttl_s=_get_duration_s(found, "inter.worker.key.ttl.ms"),
        key_algorithm=found["inter.worker.key.generation.algorithm"],
        key_size=found["inter.worker.key.size"],
        signature_algorithm=found["inter.worker.signature.algorithm"],
        verification_algorithms=tuple(found["inter.worker.verification.algorithms"]),
        client_id=found["client.id"],
        creates_topics=found["internal.topics.automatic.creation.enable"],
    )


def parse_standalone_config(properties: Mapping[str, str]) -> StandaloneConfig:
    """Parse a standalone worker's properties. Raises `ConfigError` for the first invalid
    property."""
    found = _parse_properties(properties, worker_config_keys.STANDALONE)
    return StandaloneConfig(
        **_parse_common_config(properties, found), offset_file=found["offset.storage.file.filename"]
    )


def find_unknown_properties(properties: Iterable[str], definition: ConfigDef) -> list[str]:
    """Return properties that no worker uses. Java ignores them silently, so a warning is useful."""
    return sorted(
        each
        for each in properties
        if each not in definition.keys and not each.startswith(_KNOWN_PREFIXES)
    )


def _parse_common_config(properties: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "raw": dict(properties),
        "bootstrap_servers": ",".join(found["bootstrap.servers"]),
        "key_converter": found["key.converter"],
        "value_converter": found["value.converter"],
        "header_converter": found["header.converter"],
        "plugin_path": tuple(found["plugin.path"] or ()),
        "graceful_stop_s": _get_duration_s(found, "task.shutdown.graceful.timeout.ms"),
        "flush_interval_s": _get_duration_s(found, "offset.flush.interval.ms"),
        "flush_timeout_s": _get_duration_s(found, "offset.flush.timeout.ms"),
        "override_policy": _parse_override_policy(found["connector.client.config.override.policy"]),
        "override_allowed": frozenset(found["connector.client.config.override.allowlist"]),
        "oauth_urls": frozenset(found[worker_config_keys.OAUTH_URLS_KEY]),
        "topic_creation": found["topic.creation.enable"],
        "topic_tracking": found["topic.tracking.enable"],
        "metrics": metrics_settings.parse_metrics_settings(found),
    }


def _parse_override_policy(name: str) -> ClientOverridePolicy:
    """Parse the alias or Java class name of a client override policy. Raises ValueError if it is
    unknown."""
    simple = name.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    return ClientOverridePolicy(simple)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyProblem:
    """A problem of one property. `text` continues a sentence that begins with the property's
    key."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def find_property_problems(
    properties: Mapping[str, str], definition: ConfigDef
) -> tuple[PropertyProblem, ...]:
    """Return the problems of a worker's properties, at most one per key."""
    values = definition.validate_all(properties)
    single = [
        PropertyProblem(key=each.name, text=each.error_messages[0])
        for each in values.values()
        if each.error_messages
    ]
    wrong = {each.key for each in single}
    found = {name: each.value for name, each in values.items() if name not in wrong}
    return (*single, *_find_conflicting_values(found))


def _parse_properties(properties: Mapping[str, str], definition: ConfigDef) -> dict[str, Any]:
    found = definition.parse(properties)
    for each in _find_conflicting_values(found):
        raise ConfigError(str(each))
    return found


def _find_conflicting_values(found: Mapping[str, Any]) -> Iterator[PropertyProblem]:
    """Find problems that the definitions of single keys cannot detect: unknown override policies,
    unusable algorithms, and a heartbeat interval that is not less than the session timeout.

    `found` contains the parsed values, without invalid values.
    """
    policy = "connector.client.config.override.policy"
    if policy in found:
        yield from _build_unknown_policy_problem(policy, found[policy])
    yield from _find_unusable_algorithms(found)
    heartbeat, session = "heartbeat.interval.ms", "session.timeout.ms"
    if {heartbeat, session} <= found.keys() and found[heartbeat] >= found[session]:
        yield PropertyProblem(
            key=heartbeat,
            text=(
                f"is {found[heartbeat]} but must be less than {session} ({found[session]}), "
                "preferably at most a third of it"
            ),
        )


def _build_unknown_policy_problem(key: str, name: str) -> Iterator[PropertyProblem]:
    try:
        _parse_override_policy(name)
    except ValueError:
        allowed = ", ".join(each.value for each in ClientOverridePolicy)
        text = f"'{name}' is not supported: use one of {allowed} (Java classes cannot be loaded)"
        yield PropertyProblem(key=key, text=text)


def _find_unusable_algorithms(found: Mapping[str, Any]) -> Iterator[PropertyProblem]:
    generation = "inter.worker.key.generation.algorithm"
    signature, verification = "inter.worker.signature.algorithm", _VERIFICATION_ALGORITHMS
    for key in (generation, verification):
        given = found.get(key, [])
        unknown_names = set([given] if isinstance(given, str) else given) - set(
            worker_config_keys.SIGNATURE_ALGORITHMS
        )
        if unknown_names:
            text = f"unsupported algorithm {', '.join(sorted(unknown_names))}: use one of"
            yield PropertyProblem(
                key=key, text=f"{text} {', '.join(worker_config_keys.SIGNATURE_ALGORITHMS)}"
            )
    verified = found.get(verification)
    if verified is not None and found.get(signature, verified[0]) not in verified:
        yield PropertyProblem(
            key=signature,
            text=f"'{found[signature]}' must be one of {verification}: {', '.join(verified)}",
        )


def _get_duration_s(found: Mapping[str, Any], key: str) -> float:
    return float(found[key]) / 1000.0
