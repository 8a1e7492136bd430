"""With which settings the clients of connectors and tasks are made, in Java's words.

Precedence: what a connector overrides goes before the worker's `producer.`, `consumer.`, `admin.`,
and these before what Connect needs; only what it could not live without is never overridden.
Java: Worker.baseProducerConfigs and its like; policies are KIP-458's and KIP-1188's.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import config_def, errors
from connect_runtime.base import ids
from connect_runtime.core.task import worker_config, worker_keys

OverridePolicy = worker_config.OverridePolicy
_ENDPOINTS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url")
_PRINCIPAL = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})

_PRODUCER: Mapping[str, str] = {
    "max.block.ms": str(2**63 - 1),
    "enable.idempotence": "false",
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(2**31 - 1),
}
_CONSUMER: Mapping[str, str] = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}


class ClientKind(enum.Enum):
    """The value is the prefix of the worker's settings for it."""

    PRODUCER = "producer."
    CONSUMER = "consumer."
    ADMIN = "admin."

    @property
    def override_prefix(self) -> str:
        """Of the settings that a connector has for it."""
        return f"{self.value}override."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan:
    """`properties` are whole, secrets included, `client.id` and `bootstrap.servers` among them."""

    client_id: str
    properties: Mapping[str, str] = field(repr=False)


def source_producer(
    worker: worker_config.WorkerConfig,
    config: Mapping[str, str | None],
    task: ids.ConnectorTaskId,
) -> ClientPlan:
    """For a task's records."""
    return _plan(
        worker, config, kind=ClientKind.PRODUCER, base=_PRODUCER, client_id=f"producer-{task}"
    )


def sink_consumer(
    worker: worker_config.WorkerConfig,
    config: Mapping[str, str | None],
    task: ids.ConnectorTaskId,
) -> ClientPlan:
    """For a task's records: its group is the connector's, its offsets are committed by us."""
    plan = _sink_plan(worker, config, task.connector, client_id=f"consumer-{task}")
    return ClientPlan(
        client_id=plan.client_id, properties={**plan.properties, "enable.auto.commit": "false"}
    )


def sink_group(
    worker: worker_config.WorkerConfig, config: Mapping[str, str | None], connector: str
) -> str:
    """The consumer group of a sink connector: of each of its tasks."""
    return _sink_plan(worker, config, connector, client_id="consumer").properties["group.id"]


def admin(
    worker: worker_config.WorkerConfig, config: Mapping[str, str | None], of: str
) -> ClientPlan:
    """`of`: the connector, or the task, it is for. It begins with the worker's own settings."""
    return _admin_plan(worker, config, client_id=f"adminclient-{of}")


def offsets_admin(
    worker: worker_config.WorkerConfig, config: Mapping[str, str | None], connector: str
) -> ClientPlan:
    """For the offsets of a sink connector's group: as `admin`, by the name that Java gives it."""
    return _admin_plan(worker, config, client_id=f"worker-adminclient-{connector}")


def _admin_plan(
    worker: worker_config.WorkerConfig, config: Mapping[str, str | None], *, client_id: str
) -> ClientPlan:
    inherited = {
        name: value
        for name, value in worker.raw.items()
        if not name.startswith(tuple(each.value for each in ClientKind))
    }
    return _plan(
        worker,
        config,
        kind=ClientKind.ADMIN,
        base=inherited,
        client_id=client_id,
    )


def _sink_plan(
    worker: worker_config.WorkerConfig,
    config: Mapping[str, str | None],
    connector: str,
    *,
    client_id: str,
) -> ClientPlan:
    base = {**_CONSUMER, "group.id": f"connect-{connector}"}
    return _plan(worker, config, kind=ClientKind.CONSUMER, base=base, client_id=client_id)


def overridden(config: Iterable[str], kind: ClientKind) -> dict[str, str]:
    """A connector's keys that are for its clients of this kind, with what each overrides."""
    prefix = kind.override_prefix
    return {
        name: name.removeprefix(prefix)
        for name in config
        if name.startswith(prefix) and name != prefix
    }


def refused_overrides(
    worker: worker_config.WorkerConfig, config: Iterable[str], kind: ClientKind
) -> dict[str, str]:
    """Overrides in a connector's configuration that the worker does not allow, with Java's text."""
    return {
        name: f"The '{worker.override_policy.value}' policy does not allow '{key}' to be overridden"
        " in the connector configuration."
        for name, key in overridden(config, kind).items()
        if not _allowed(worker, key)
    }


def refused_endpoints(
    worker: worker_config.WorkerConfig, config: Mapping[str, str | None]
) -> dict[str, str]:
    """Keys of a configuration, a connector's or a task's, that name an issuer of tokens which the
    worker does not allow; with the reason.

    Whatever prefix they have: also connectors with clients of their own would send requests there
    (CVE-2025-27817).
    """
    own = {value for name, value in worker.raw.items() if name.endswith(_ENDPOINTS)}
    return {
        name: f"{name}: this worker does not allow connectors to request tokens from {value}: use a"
        f" URL that {worker_keys.OAUTH_URLS} lists in the worker's properties, or add this one"
        " there"
        for name, value in config.items()
        if name.endswith(_ENDPOINTS) and value and value not in worker.oauth_urls | own
    }


def _allowed(worker: worker_config.WorkerConfig, key: str) -> bool:
    match worker.override_policy:
        case OverridePolicy.ALL:
            return True
        case OverridePolicy.NONE:
            return False
        case OverridePolicy.PRINCIPAL:
            return key in _PRINCIPAL
        case OverridePolicy.ALLOWLIST:
            return key in worker.override_allowed


def _plan(
    worker: worker_config.WorkerConfig,
    config: Mapping[str, str | None],
    *,
    kind: ClientKind,
    base: Mapping[str, str],
    client_id: str,
) -> ClientPlan:
    """Raises `ConfigError` for overrides that are not allowed."""
    refused = refused_overrides(worker, config, kind)
    if refused:
        raise errors.ConfigError(" ".join(refused.values()))
    overrides = {
        name: value
        for name, value in config_def.with_prefix(config, kind.override_prefix).items()
        if value is not None
    }
    properties = {
        **base,
        "client.id": f"connector-{client_id}",
        "bootstrap.servers": worker.bootstrap,
        **worker.under(kind.value),
        **overrides,
    }
    return ClientPlan(client_id=properties["client.id"], properties=properties)
