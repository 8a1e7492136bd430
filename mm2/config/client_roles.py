"""Which properties each client of a connector gets (`MirrorConnectorConfig`).

Of several sources of a value the last wins: the cluster's plain security keys, the client's
own, the client's own on that side (`source.cluster.X`, `consumer.X`, `source.consumer.X`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.api import config_def
from mm2.config import client_keys

CLIENT_ID = "client.id"


@dataclass(frozen=True, slots=True)
class ClientRole:
    """A kind of client on one side: `side` is source or target, `client` its prefix's word."""

    side: str
    client: str

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


def resolve_properties(props: Mapping[str, str], role: ClientRole) -> dict[str, str]:
    """Of a consumer: it commits nothing, and starts at the earliest unless told otherwise."""
    plain = config_def.with_prefix(props, role.cluster_prefix)
    found = {name: value for name, value in plain.items() if name in client_keys.CLIENT_KEYS}
    found.update(config_def.with_prefix(props, f"{role.client}."))
    found.update(config_def.with_prefix(props, f"{role.side}.{role.client}."))
    if role.client == "consumer":
        found["enable.auto.commit"] = "false"
        found.setdefault("auto.offset.reset", "earliest")
    return found


def resolve_with_client_id(
    props: Mapping[str, str], role: ClientRole, *, label: str, use: str
) -> dict[str, str]:
    """With the `client.id` that Java gives: what the user says first, `format_client_label`, what
    it is for.

    `use` is such as "replication-consumer" (reference 1.10).
    """
    found = resolve_properties(props, role)
    given = found.get(CLIENT_ID)
    found[CLIENT_ID] = "|".join(part for part in (given, label, use) if part is not None)
    return found


def format_client_label(
    source: str, target: str, connector: str, *, task: int | str | None = None
) -> str:
    """`A->B|name`, of a task `A->B|name-0`; its number is "?" where its configuration has none."""
    return f"{source}->{target}|{connector}" + ("" if task is None else f"-{task}")


def resolve_data_producer(props: Mapping[str, str]) -> dict[str, str]:
    """What a connector says of the producer that writes its records."""
    return config_def.with_prefix(props, "producer.override.")


def resolve_task_producer(props: Mapping[str, str]) -> dict[str, str]:
    """Of a task's records; in dedicated mode what is said of the cluster's producers holds, too."""
    return {**resolve_properties(props, TARGET_PRODUCER), **resolve_data_producer(props)}


CLIENT_PREFIXES = tuple(f"{each}." for each in ("admin", "consumer", "producer"))
SIDE_PREFIXES = tuple(
    f"{each}{word}" for each in ("source.", "target.") for word in CLIENT_PREFIXES
)
CLUSTER_PREFIXES = ("source.cluster.", "target.cluster.")
ALL_PREFIXES = (*SIDE_PREFIXES, *CLIENT_PREFIXES, *CLUSTER_PREFIXES, "producer.override.")
"""Under which a connector's configuration speaks of clients."""
