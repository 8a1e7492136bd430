"""Configurations of connectors' Kafka clients, and the settings that connectors may override.

Precedence: a connector's override, then the worker's `producer.`, `consumer.` or `admin.` setting,
then Connect's default. The worker's override policy determines which settings a connector may
override (KIP-458, KIP-1188). Java: Worker.baseProducerConfigs and related methods.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import config_def
from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.config import worker_config_keys
from connect_runtime.config.worker_config import ClientOverridePolicy, WorkerConfig

OverridePolicy = ClientOverridePolicy
_TOKEN_ENDPOINT_KEYS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url")
_PRINCIPAL_KEYS = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})

_PRODUCER_DEFAULTS: Mapping[str, str] = {
    "max.block.ms": str(2**63 - 1),
    "enable.idempotence": "false",
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(2**31 - 1),
}
_CONSUMER_DEFAULTS: Mapping[str, str] = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
}


class ClientKind(enum.Enum):
    """Kind of Kafka client. Each member's value is the prefix of the client's settings in the
    worker's configuration."""

    PRODUCER = "producer."
    CONSUMER = "consumer."
    ADMIN = "admin."

    @property
    def override_prefix(self) -> str:
        """Prefix of a connector's overrides for this kind of client."""
        return f"{self.value}override."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """A complete Kafka client configuration. May contain secrets."""

    client_id: str
    properties: Mapping[str, str] = field(repr=False)


def build_source_producer_config(
    worker: WorkerConfig,
    config: Mapping[str, str | None],
    task: ConnectorTaskId,
) -> ClientConfig:
    """Build the configuration of the producer for a source task's records."""
    return _build_client_config(
        worker,
        config,
        kind=ClientKind.PRODUCER,
        base=_PRODUCER_DEFAULTS,
        client_id=f"producer-{task}",
    )


def build_sink_consumer_config(
    worker: WorkerConfig,
    config: Mapping[str, str | None],
    task: ConnectorTaskId,
) -> ClientConfig:
    """Build the configuration of a sink task's consumer, which joins the connector's group and does
    not auto-commit."""
    plan = _build_sink_client_config(worker, config, task.connector, client_id=f"consumer-{task}")
    return ClientConfig(
        client_id=plan.client_id, properties={**plan.properties, "enable.auto.commit": "false"}
    )


def get_sink_group_id(
    worker: WorkerConfig, config: Mapping[str, str | None], connector: str
) -> str:
    """Return the consumer group of a sink connector's tasks."""
    return _build_sink_client_config(worker, config, connector, client_id="consumer").properties[
        "group.id"
    ]


def build_admin_config(
    worker: WorkerConfig, config: Mapping[str, str | None], owner: str
) -> ClientConfig:
    """Build the configuration of an admin client from the worker's top-level client settings, its
    `admin.` settings and the connector's overrides.

    `owner` is the id of the connector or task.
    """
    return _build_admin_config_with_client_id(worker, config, client_id=f"adminclient-{owner}")


def build_offsets_admin_config(
    worker: WorkerConfig, config: Mapping[str, str | None], connector: str
) -> ClientConfig:
    """Build the configuration of the admin client that reads and changes the offsets of a sink
    connector's consumer group. The client id is the same as in Java."""
    return _build_admin_config_with_client_id(
        worker, config, client_id=f"worker-adminclient-{connector}"
    )


def _build_admin_config_with_client_id(
    worker: WorkerConfig, config: Mapping[str, str | None], *, client_id: str
) -> ClientConfig:
    inherited = {
        name: value
        for name, value in worker.raw.items()
        if not name.startswith(tuple(each.value for each in ClientKind))
    }
    return _build_client_config(
        worker,
        config,
        kind=ClientKind.ADMIN,
        base=inherited,
        client_id=client_id,
    )


def _build_sink_client_config(
    worker: WorkerConfig,
    config: Mapping[str, str | None],
    connector: str,
    *,
    client_id: str,
) -> ClientConfig:
    base = {**_CONSUMER_DEFAULTS, "group.id": f"connect-{connector}"}
    return _build_client_config(
        worker, config, kind=ClientKind.CONSUMER, base=base, client_id=client_id
    )


def find_client_overrides(config: Iterable[str], kind: ClientKind) -> dict[str, str]:
    """Return a connector's overrides for a kind of client, as a map from the key in the connector's
    configuration to the key in the client's configuration."""
    prefix = kind.override_prefix
    return {
        name: name.removeprefix(prefix)
        for name in config
        if name.startswith(prefix) and name != prefix
    }


def find_refused_overrides(
    worker: WorkerConfig, config: Iterable[str], kind: ClientKind
) -> dict[str, str]:
    """Return the connector's overrides that the worker's policy does not allow, each with Java's
    error message."""
    return {
        name: f"The '{worker.override_policy.value}' policy does not allow '{key}' to be overridden"
        " in the connector configuration."
        for name, key in find_client_overrides(config, kind).items()
        if not _is_override_allowed(worker, key)
    }


def find_refused_token_endpoints(
    worker: WorkerConfig, config: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the keys in a connector or task configuration that set an OAuth endpoint which the
    worker does not allow, each with an error message.

    Checks keys with any prefix, because a connector may pass them to its own Kafka clients. These
    clients would send requests to the endpoint (CVE-2025-27817).
    """
    own = {value for name, value in worker.raw.items() if name.endswith(_TOKEN_ENDPOINT_KEYS)}
    return {
        name: f"{name}: this worker does not allow connectors to request tokens from {value}: use a"
        f" URL that {worker_config_keys.OAUTH_URLS_KEY} in the worker's properties allows, or "
        "add this URL"
        " to it"
        for name, value in config.items()
        if name.endswith(_TOKEN_ENDPOINT_KEYS) and value and value not in worker.oauth_urls | own
    }


def _is_override_allowed(worker: WorkerConfig, key: str) -> bool:
    match worker.override_policy:
        case OverridePolicy.ALL:
            return True
        case OverridePolicy.NONE:
            return False
        case OverridePolicy.PRINCIPAL:
            return key in _PRINCIPAL_KEYS
        case OverridePolicy.ALLOWLIST:
            return key in worker.override_allowed


def _build_client_config(
    worker: WorkerConfig,
    config: Mapping[str, str | None],
    *,
    kind: ClientKind,
    base: Mapping[str, str],
    client_id: str,
) -> ClientConfig:
    """Merge the client settings in order of precedence. Raises `ConfigError` for overrides that
    are not allowed."""
    refused = find_refused_overrides(worker, config, kind)
    if refused:
        raise ConfigError(" ".join(refused.values()))
    overrides = {
        name: value
        for name, value in config_def.with_prefix(config, kind.override_prefix).items()
        if value is not None
    }
    properties = {
        **base,
        "client.id": f"connector-{client_id}",
        "bootstrap.servers": worker.bootstrap_servers,
        **worker.get_properties_with_prefix(kind.value),
        **overrides,
    }
    return ClientConfig(client_id=properties["client.id"], properties=properties)
