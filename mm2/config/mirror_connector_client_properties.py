"""Resolves the client properties of each client of a connector (`MirrorConnectorConfig`).

Precedence, weakest first: security keys of the cluster (`source.cluster.X`), keys of the client
type (`consumer.X`), keys of the client type on one side of the flow (`source.consumer.X`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.api import config_def
from mm2.config import client_config_keys

CLIENT_ID = "client.id"


@dataclass(frozen=True, slots=True)
class ClientRole:
    """A client type (consumer, producer or admin) on one side of the flow, such as the consumer on
    the source."""

    side: str
    """Side of the client in the flow: `source` or `target`."""
    client: str
    """Client type: `consumer`, `producer` or `admin`."""

    @property
    def cluster_prefix(self) -> str:
        return f"{self.side}.cluster."


SOURCE_CONSUMER = ClientRole("source", "consumer")
TARGET_CONSUMER = ClientRole("target", "consumer")
SOURCE_PRODUCER = ClientRole("source", "producer")
TARGET_PRODUCER = ClientRole("target", "producer")
SOURCE_ADMIN = ClientRole("source", "admin")
TARGET_ADMIN = ClientRole("target", "admin")
ALL_ROLES = (
    *(SOURCE_CONSUMER, TARGET_CONSUMER),
    *(SOURCE_PRODUCER, TARGET_PRODUCER),
    *(SOURCE_ADMIN, TARGET_ADMIN),
)


def resolve_role_properties(props: Mapping[str, str], role: ClientRole) -> dict[str, str]:
    """Resolve the client properties of a role from a connector's configuration.

    Consumers are configured with `enable.auto.commit=false` and, by default, with
    `auto.offset.reset=earliest`.
    """
    plain = config_def.with_prefix(props, role.cluster_prefix)
    found = {name: value for name, value in plain.items() if name in client_config_keys.CLIENT_KEYS}
    found.update(config_def.with_prefix(props, f"{role.client}."))
    found.update(config_def.with_prefix(props, f"{role.side}.{role.client}."))
    if role.client == "consumer":
        found["enable.auto.commit"] = "false"
        found.setdefault("auto.offset.reset", "earliest")
    return found


def resolve_properties_with_client_id(
    props: Mapping[str, str], role: ClientRole, *, label: str, use: str
) -> dict[str, str]:
    """Resolve the client properties of a role, with a `client.id` in MirrorMaker 2's format.

    The `client.id` consists of the configured `client.id` (if any), the label (see
    `format_client_label`) and the client's purpose, such as "replication-consumer", separated by
    "|".
    """
    found = resolve_role_properties(props, role)
    given = found.get(CLIENT_ID)
    found[CLIENT_ID] = "|".join(part for part in (given, label, use) if part is not None)
    return found


def format_client_label(
    source: str, target: str, connector: str, *, task: int | str | None = None
) -> str:
    """Format the label of a connector's clients, `A->B|connector`, or `A->B|connector-0` for a
    task.

    `task` is the task number, or "?" if the task has none.
    """
    return f"{source}->{target}|{connector}" + ("" if task is None else f"-{task}")


def resolve_data_producer_properties(props: Mapping[str, str]) -> dict[str, str]:
    """Return the `producer.override.` properties of a connector, without the prefix."""
    return config_def.with_prefix(props, "producer.override.")


def resolve_task_producer_properties(props: Mapping[str, str]) -> dict[str, str]:
    """Resolve the properties of the producer that writes a task's records.

    The target cluster's producer properties (dedicated mode) are overridden by `producer.override.`
    properties.
    """
    return {
        **resolve_role_properties(props, TARGET_PRODUCER),
        **resolve_data_producer_properties(props),
    }


CLIENT_PREFIXES = tuple(f"{each}." for each in ("admin", "consumer", "producer"))
SIDE_PREFIXES = tuple(
    f"{each}{word}" for each in ("source.", "target.") for word in CLIENT_PREFIXES
)
CLUSTER_PREFIXES = ("source.cluster.", "target.cluster.")
ALL_PREFIXES = (*SIDE_PREFIXES, *CLIENT_PREFIXES, *CLUSTER_PREFIXES, "producer.override.")
"""All prefixes of client properties in a connector's configuration."""
