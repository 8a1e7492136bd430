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
from connect_runtime.core.task import worker_config

OverridePolicy = worker_config.OverridePolicy
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
    base = {**_CONSUMER, "group.id": f"connect-{task.connector}"}
    plan = _plan(worker, config, kind=ClientKind.CONSUMER, base=base, client_id=f"consumer-{task}")
    return ClientPlan(
        client_id=plan.client_id, properties={**plan.properties, "enable.auto.commit": "false"}
    )


def admin(
    worker: worker_config.WorkerConfig, config: Mapping[str, str | None], of: str
) -> ClientPlan:
    """`of`: the connector, or the task, it is for. It begins with the worker's own settings."""
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
        client_id=f"adminclient-{of}",
    )


def refused_overrides(worker: worker_config.WorkerConfig, config: Iterable[str]) -> dict[str, str]:
    """Overrides in a connector's configuration that the worker does not allow, with Java's text."""
    found = {}
    for name in config:
        key = _overridden(name)
        if key is not None and not _allowed(worker, key):
            found[name] = (
                f"The '{worker.override_policy.value}' policy does not allow '{key}' to be "
                "overridden in the connector configuration."
            )
    return found


def _overridden(name: str) -> str | None:
    for kind in ClientKind:
        if name.startswith(kind.override_prefix) and len(name) > len(kind.override_prefix):
            return name[len(kind.override_prefix) :]
    return None


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
    refused = refused_overrides(worker, config)
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
